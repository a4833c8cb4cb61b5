"""What an annotation allows, as a small tree of forms. Everything that reads annotations reads them here.

interpret(int | dict[str, int] | Literal["link"])
OneOf((Simple(int), Table(dict, Simple(str), Simple(int)), Choice(("link",))))
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedsolve.typing import Array


@dataclass(frozen=True)
class Anything:
    """`Any` or `object`: nothing is said."""


@dataclass(frozen=True)
class Unknown:
    """An annotation that says nothing that can be checked, such as a callable or a type variable."""

    hint: object


@dataclass(frozen=True)
class Dense:
    """`Array`: a dense array of numbers."""


@dataclass(frozen=True)
class Simple:
    """None, bool, int, float, str or bytes."""

    kind: type


@dataclass(frozen=True)
class Choice:
    """`Literal`: one of these values."""

    values: tuple[object, ...]


@dataclass(frozen=True)
class OneOf:
    """A union; unions in it are taken apart."""

    options: tuple[Form, ...]


@dataclass(frozen=True)
class Places:
    """A tuple with a form for each of its places."""

    places: tuple[Form, ...]


@dataclass(frozen=True)
class Many:
    """A tuple, list or sequence of any length."""

    kind: type[Sequence[object]]
    each: Form


@dataclass(frozen=True)
class Table:
    """A dict or mapping."""

    kind: type[Mapping[object, object]]
    key: Form
    entry: Form


@dataclass(frozen=True)
class Instance:
    """An instance of a class, which may be a dataclass or the abstract base of several."""

    kind: type


Form: TypeAlias = Anything | Unknown | Dense | Simple | Choice | OneOf | Places | Many | Table | Instance

_SIMPLE = (bool, int, float, str, bytes, type(None))


def interpret(hint: object) -> Form:
    """The form of a type hint, as `typing.get_type_hints` gives them."""
    # `Array` is Any to the type checker and a marker class here: see typing.py.
    if hint is Array or hint is np.ndarray or get_origin(hint) is np.ndarray:
        return Dense()
    if hint is Any or hint is object:
        return Anything()
    if hint is None:
        return Simple(type(None))
    if isinstance(hint, type) and get_origin(hint) is None:
        return Simple(hint) if hint in _SIMPLE else Instance(hint)
    return _interpret_generic(hint, get_origin(hint), get_args(hint))


def _interpret_generic(hint: object, origin: object, arguments: tuple[object, ...]) -> Form:
    if origin in (Union, types.UnionType):
        return OneOf(tuple(form for argument in arguments for form in options(interpret(argument))))
    if origin is Literal:
        return Choice(arguments)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return Places(tuple(map(interpret, arguments)))
    if origin in (tuple, list, Sequence):
        return Many(origin, interpret(arguments[0]))  # type: ignore[type-abstract]
    if origin in (dict, Mapping):
        return Table(origin, *map(interpret, arguments))  # type: ignore[type-abstract]
    return Unknown(hint)


def options(form: Form) -> tuple[Form, ...]:
    """The alternatives of a form; itself if it is no union."""
    return form.options if isinstance(form, OneOf) else (form,)


def inner_forms(form: Form) -> Iterator[Form]:
    """The forms within a form, one level down."""
    match form:
        case OneOf(inner) | Places(inner):
            yield from inner
        case Many(_, each):
            yield each
        case Table(_, key, entry):
            yield from (key, entry)
        case Unknown(hint):
            yield from map(interpret, get_args(hint))


def is_float(form: Form) -> bool:
    """Whether a float is declared, and no int that would be something else."""
    kinds = [one.kind for one in options(form) if isinstance(one, Simple)]
    return float in kinds and int not in kinds


# ── fields of dataclasses ──

_HINTS: dict[type, dict[str, Any]] = {}
_FORMS: dict[type, dict[str, Form]] = {}


def field_hints(kind: type) -> dict[str, Any]:
    """The declared type of each field of a dataclass, in order. Raises NameError for one that cannot be resolved."""
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {field.name: hints[field.name] for field in fields(kind)}
    return _HINTS[kind]


def field_forms(kind: type) -> dict[str, Form]:
    """The form of each field of a dataclass, in order; `Unknown` where an annotation cannot be resolved."""
    if kind not in _FORMS:
        try:
            _FORMS[kind] = {name: interpret(hint) for name, hint in field_hints(kind).items()}
        except NameError:
            _FORMS[kind] = {field.name: Unknown(field.type) for field in fields(kind)}
    return _FORMS[kind]
