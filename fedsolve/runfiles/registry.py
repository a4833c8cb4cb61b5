"""Names for what can be chosen in a file or on a command line, and objects made from plain values.

    find("algorithm", "FedAvg")                                  the class
    build("algorithm", {"name": "FedAvg", "loss": {"name": "Logistic", "l2": 0.01}, "local": {"steps": 5}})

The names come from the rooms themselves: an algorithm exported by `fedsolve.algorithms` is known here, and so
are losses, feature maps, local solvers, line searches, compressors, partition schemes and transports. Case, hyphens and
underscores do not matter: `by_group` is `ByGroup`. Hyper-parameters are checked against the annotations of the class.
"""

from __future__ import annotations

import difflib
import inspect
import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedsolve import algorithms, data, features, losses
from fedsolve import descent as searches
from fedsolve import local as learners
from fedsolve.curvature import compressors, renewals
from fedsolve.errors import ConfigError, InputError, UnknownName
from fedsolve.federation import links, transports

ROOMS: dict[str, Any] = {
    "algorithm": algorithms,
    "loss": losses,
    "feature map": features,
    "local solver": learners,
    "line search": searches,
    "renewal rule": renewals,
    "link": links,
    "compressor": compressors,
    "partition scheme": data,
    "transport": transports,
}


# ── names ──


@cache
def names(kind: str) -> dict[str, type[Any]]:
    """Every class of a kind by its name, in alphabetical order."""
    if kind not in ROOMS:
        raise UnknownName("kind", kind, ROOMS)
    room = ROOMS[kind]
    exported = getattr(room, "__all__", None) or [
        name for name, value in vars(room).items() if getattr(value, "__module__", None) == room.__name__
    ]
    found = {name: getattr(room, name) for name in sorted(exported, key=str.lower)}
    return {name: value for name, value in found.items() if _belongs(kind, value)}


def find(kind: str, name: str) -> type[Any]:
    """The class of that name."""
    for known, value in names(kind).items():
        if _plain(known) == _plain(name):
            return value
    raise UnknownName(kind, name, names(kind))


def kind_of(value: type[Any]) -> str | None:
    """The kind a class (or an abstract base such as `LinearLoss`) is of; None for one of no room."""
    for kind in ROOMS:
        if any(issubclass(one, value) for one in names(kind).values()):
            return kind
    return None


def _belongs(kind: str, value: Any) -> bool:
    if not isinstance(value, type) or inspect.isabstract(value):
        return False
    if kind == "transport":
        return hasattr(value, "deliver") and not getattr(value, "_is_protocol", False)
    if kind == "partition scheme":
        return issubclass(value, data.Scheme)
    return is_dataclass(value)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


# ── building ──


def build(kind: str, plain: str | Mapping[str, Any], where: str | None = None) -> Any:
    """The object that a table of plain values describes: `name`, hyper-parameters, tables for its parts.

    `where` is the path of the table in the user's file, for messages. A part may also be given as an object.
    """
    where = where or kind
    given = {"name": plain} if isinstance(plain, str) else dict(plain)
    if "name" not in given:
        raise ConfigError(f"{where} has no name; known: {', '.join(names(kind))}")
    name = given.pop("name")
    if not isinstance(name, str):
        raise ConfigError(f"{where}.name must be a name in quotes, got {name!r}")
    try:
        value = find(kind, name)
    except UnknownName:
        raise UnknownName(kind if where == kind else f"{kind} in {where}", name, names(kind)) from None
    return _make(value, given, where, None)


def make(value: type[Any], plain: Mapping[str, Any], where: str) -> Any:
    """An instance of a given frozen dataclass from a table of its fields, checked in the same way."""
    return _make(value, plain, where, None)


def describe_fields(value: type[Any], start: Any = None) -> str:
    """The hyper-parameters of a class in one line; defaults are those of `start` where it is given."""
    said = []
    for field in _settable(value):
        default = getattr(start, field.name) if start is not None else _default(field)
        said.append(f"{field.name} (required)" if default is MISSING else f"{field.name} = {_spelled(default)}")
    return ", ".join(said) or "none"


def _make(value: type[Any], given: Mapping[str, Any], where: str, start: Any) -> Any:
    """An instance of a dataclass: what is given, on top of `start` if there is one, else of the defaults."""
    known = {field.name: field for field in _settable(value)}
    allowed = f"{value.__name__} takes: {describe_fields(value, start)}"
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f", did you mean {close[0]!r}?" if close else "."
            raise ConfigError(f"{where}.{name} is not known{hint} {allowed}")
    required = [name for name, field in known.items() if start is None and _default(field) is MISSING]
    if missing := [name for name in required if name not in given]:
        raise ConfigError(f"{where} has no {' and no '.join(missing)}. {allowed}")
    hints = get_type_hints(value)
    made = {
        name: _convert(hints[name], plain, f"{where}.{name}", _part(start, known[name]), allowed)
        for name, plain in given.items()
    }
    try:
        return value(**made) if start is None else replace(start, **made)
    except InputError as error:
        raise ConfigError(f"{where}: {error}") from None


def _part(start: Any, field: Field[Any]) -> Any:
    return getattr(start, field.name) if start is not None else _default(field)


def _settable(value: type[Any]) -> list[Field[Any]]:
    return [field for field in fields(value) if field.init] if is_dataclass(value) else []


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _spelled(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f for f in fields(value) if f.repr and getattr(value, f.name) != _default(f))
        return f"{type(value).__name__}({', '.join(f'{f.name}={getattr(value, f.name)!r}' for f in shown)})"
    return "none" if value is None else repr(value)


# ── one value ──

_EXPECTED = {float: "a number", int: "a whole number", str: "text in quotes", bool: "true or false"}


def _convert(hint: Any, plain: Any, where: str, default: Any, allowed: str) -> Any:
    """A plain value as the annotation wants it; refuses what does not fit."""
    options = list(_options(hint))
    if Any in options:
        return plain
    for option in options:
        fits, made = _fit(option, plain, where, default)
        if fits:
            return made
    if type(None) in options and isinstance(plain, str) and plain.lower() == "none":
        return None
    expected = " or ".join(dict.fromkeys(_expectation(option) for option in options))
    raise ConfigError(f"{where} must be {expected}, got {plain!r}. {allowed}")


def _options(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        for option in get_args(hint):
            yield from _options(option)
    else:
        yield hint


def _fit(option: Any, plain: Any, where: str, default: Any) -> tuple[bool, Any]:
    origin, arguments = get_origin(option), get_args(option)
    if origin is Literal:
        return plain in arguments, plain
    if option in (bool, str, type(None)):
        return isinstance(plain, option), plain
    if option is int:
        return isinstance(plain, int) and not isinstance(plain, bool), plain
    if option is float:
        number = isinstance(plain, int | float) and not isinstance(plain, bool)
        return number and not math.isnan(plain), float(plain) if number else plain
    if isinstance(option, type) and (kind := kind_of(option)) is not None:
        return _fit_part(option, kind, plain, where, default)
    if isinstance(origin, type) and origin is tuple and isinstance(plain, list):
        return True, tuple(plain)
    if isinstance(origin, type):
        return isinstance(plain, origin) and not isinstance(plain, str), plain
    return not isinstance(option, type) or isinstance(plain, option), plain


def _fit_part(option: type[Any], kind: str, plain: Any, where: str, default: Any) -> tuple[bool, Any]:
    if isinstance(plain, option):
        return True, plain
    if isinstance(plain, str) and _plain(plain) != "none":
        return True, build(kind, plain, where)
    if not isinstance(plain, Mapping):
        return False, plain
    given = dict(plain)
    if "name" not in given and not inspect.isabstract(option):  # only one class can be meant
        given["name"] = option.__name__
    same = isinstance(default, option) and _plain(str(given.get("name", ""))) == _plain(type(default).__name__)
    if same:  # what is not said stays as the algorithm has it
        del given["name"]
        return True, _make(type(default), given, where, default)
    return True, build(kind, given, where)


def _expectation(option: Any) -> str:
    if get_origin(option) is Literal:
        return " or ".join(repr(one) for one in get_args(option))
    if option is type(None):
        return "'none'"
    kind_of_many = get_origin(option) or option
    if isinstance(kind_of_many, type) and issubclass(kind_of_many, Mapping):
        return "a table"
    if kind_of_many in (list, tuple):
        return "a list in brackets"
    if isinstance(option, type) and (kind := kind_of(option)) is not None:
        return f"a {kind} (its name, or a table with name and hyper-parameters)"
    return _EXPECTED.get(option) or f"a {getattr(option, '__name__', option)}"
