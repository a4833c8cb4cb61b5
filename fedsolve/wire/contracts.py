"""Annotations as contracts: what a client step takes and gives is checked against what it declares."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError
from fedsolve.typing import Array

Check = Callable[[Any], bool]
CSR = sp.csr_array  # what a step declares where a sparse matrix may travel; `Array` is a dense one


def type_name(kind: type[Any]) -> str:
    """The name a dataclass travels under: last module and class, the same wherever the module was loaded from."""
    module = kind.__module__.rsplit(".", 1)[-1].replace("__mp_main__", "__main__")
    return f"{module}.{kind.__qualname__}"


_HINTS: dict[Any, dict[str, Any]] = {}


def field_hints(kind: Any) -> dict[str, Any]:
    """The declared type of each field of a dataclass, in order."""
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {field.name: hints[field.name] for field in fields(kind)}
    return _HINTS[kind]


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


@cache
def checker(hint: Any) -> Check:
    """A function that says whether a value is what the annotation promises."""
    # `Array` is Any to the type checker and a marker class here: see typing.py.
    if hint is Array:
        return lambda value: isinstance(value, np.ndarray)
    if hint is Any:
        return lambda value: True
    if hint is None or hint is type(None):
        return lambda value: value is None
    if hint is float:
        return _is_number
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [checker(option) for option in arguments]
        return lambda value: any(option(value) for option in options)
    if origin is Literal:
        return lambda value: any(type(value) is type(option) and value == option for option in arguments)
    if origin is tuple:
        return _tuple_checker(arguments)
    if origin is list:
        item = checker(arguments[0])
        return lambda value: isinstance(value, list) and all(map(item, value))
    if origin is dict:
        key, entry = checker(arguments[0]), checker(arguments[1])
        return lambda value: isinstance(value, dict) and all(key(k) and entry(v) for k, v in value.items())
    if isinstance(hint, type):
        return lambda value: isinstance(value, hint)
    raise TypeError(f"the annotation {hint!r} says nothing that can be checked on the wire")


def _tuple_checker(arguments: tuple[Any, ...]) -> Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = checker(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    items = [checker(argument) for argument in arguments]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(items)
        and all(check(one) for check, one in zip(items, value, strict=True))
    )


def dataclasses_in(hint: Any, seen: set[Any] | None = None) -> Iterator[type[Any]]:
    """Every dataclass that a value of this annotation may contain; one may contain itself, as trees do. With them
    `CSR`, which a reader must have listed too."""
    seen = set() if seen is None else seen
    if hint is CSR:
        yield CSR
    if isinstance(hint, type) and is_dataclass(hint) and hint not in seen:
        seen.add(hint)
        yield hint
        for inner in field_hints(hint).values():
            yield from dataclasses_in(inner, seen)
    for argument in get_args(hint):
        yield from dataclasses_in(argument, seen)


def by_name(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """Dataclasses by the name they travel under, which must be theirs alone."""
    named: dict[str, type[Any]] = {}
    for kind in kinds:
        if named.setdefault(type_name(kind), kind) is not kind:
            raise ConfigError(f"two dataclasses travel under the name {type_name(kind)!r}: rename one of them")
    return named
