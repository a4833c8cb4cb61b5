"""Plain values put together again, by the annotations of the dataclasses they are for.

A table has the name of its class, where several are possible, and hyper-parameters; parts are tables in it, a name
alone, or objects. What does not fit is a ConfigError that names the key, what came and what was expected.
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from fedsolve.errors import ConfigError, InputError, UnknownName
from fedsolve.plain.annotations import (
    Anything,
    Choice,
    Dense,
    Form,
    Instance,
    Many,
    Places,
    Simple,
    Table,
    Unknown,
    field_forms,
    options,
)
from fedsolve.plain.arrays import Misfit, from_lists
from fedsolve.plain.writing import WRITTEN_AS, tag_of
from fedsolve.text import shortened

T = TypeVar("T")

_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_EXPECTED = {float: "a number", int: "a whole number", str: "text in quotes", bool: "true or false"}


class Catalogue(Protocol):
    """The classes that a table may name: nothing else is ever built."""

    def kind_of(self, value: type) -> str | None:
        """The kind ("loss", "feature map") that a class or abstract base is of; None if it is of none."""

    def names(self, kind: str) -> Mapping[str, type]:
        """Every class of a kind by its name."""


@dataclass(frozen=True)
class Listed:
    """A catalogue of one kind."""

    kind: str
    classes: Mapping[str, type]

    def kind_of(self, value: type) -> str | None:
        return self.kind if any(issubclass(one, value) for one in self.classes.values()) else None

    def names(self, kind: str) -> Mapping[str, type]:
        return self.classes


NOTHING = Listed("", {})


def folded(name: str) -> str:
    """A name as names are compared: case, hyphens, underscores and spaces do not matter."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


@dataclass(frozen=True)
class Reader:
    """Makes objects of plain values. Nothing is imported for it, unless it is given `own`.

    catalogue  the classes that tables may name
    own        finds the class at an import path, "package.module:Class", by kind and path: for the run file that a user
               starts on this machine (`fedsolve.runfiles.own_classes`); without it import paths are rejected
    """

    catalogue: Catalogue = NOTHING
    own: Callable[[str, str], type[Any]] | None = None

    # ── objects ──

    def find(self, kind: str, name: str) -> type[Any]:
        """The class of that name. Raises UnknownName, and ConfigError for an import path that leads nowhere."""
        if ":" in name:
            if self.own is None:
                raise ConfigError(
                    "import paths are followed only in a run file that is started on this machine, and not here: use a "
                    f"name of fedsolve's own {kind}s"
                )
            return self.own(kind, name)
        known = self.catalogue.names(kind)
        for one, value in known.items():
            if folded(one) == folded(name):
                return value
        raise UnknownName(kind, name, known)

    def build(self, kind: str, plain: object, where: str | None = None) -> Any:
        """The object that a table describes: `name`, hyper-parameters, tables for its parts; or its name alone.

        `where` is the path of the table in the user's file, for messages.
        """
        where = where or kind
        if not isinstance(plain, str | Mapping):
            raise ConfigError(f"{where} must be {self._expected_part(kind)}, got {shortened(plain)}")
        given = {"name": plain} if isinstance(plain, str) else dict(plain)
        if "name" not in given:
            raise ConfigError(f"{where} has no name; known: {', '.join(self.catalogue.names(kind))}")
        name = given.pop("name")
        if not isinstance(name, str):
            raise ConfigError(f"{where}.name must be a name in quotes, got {shortened(name)}")
        try:
            value = self.find(kind, name)
        except UnknownName:
            said = kind if where == kind else f"{kind} in {where}"
            raise UnknownName(said, name, self.catalogue.names(kind)) from None
        except ConfigError as error:
            raise ConfigError(f"{where}, {shortened(name)}: {error}") from error
        return self._make(value, given, where, None)

    def make(self, value: type[T], plain: object, where: str) -> T:
        """An instance of this dataclass, from a table of its fields, or from one field where it is written as that.

        The table may have the name of the class, as `to_plain` writes it.
        """
        made = self._record((value,), plain, where)
        assert isinstance(made, value)
        return made

    def _make(self, value: type[T], given: Mapping[str, object], where: str, start: T | None) -> T:
        """An instance of a dataclass: what is given, on top of `start` if there is one, else of the defaults."""
        known = {field.name: field for field in settable(value)}
        allowed = f"{value.__name__} takes: {describe_fields(value, start)}"
        _check_keys(known, given, where, start is None, allowed)
        forms = field_forms(value)
        alone = getattr(value, WRITTEN_AS, None)
        made: dict[str, Any] = {}
        for name, plain in given.items():
            inner = where if name == alone else f"{where}.{name}"
            default = _default(known[name]) if start is None else getattr(start, name)
            made[name] = self._value(forms[name], plain, inner, default, allowed)
        try:
            return value(**made) if start is None else replace(start, **made)  # type: ignore[type-var]
        except InputError as error:
            raise ConfigError(f"{where}: {error}") from None

    # ── values ──

    def _value(self, form: Form, plain: object, where: str, default: object, allowed: str) -> object:
        """A plain value as its annotation wants it; rejects what does not fit."""
        if isinstance(plain, np.generic):
            plain = plain.item()
        alternatives = options(form)
        if any(isinstance(one, Anything) for one in alternatives):
            return plain
        records = tuple(one.kind for one in alternatives if isinstance(one, Instance) and self._is_record(one.kind))
        for one in alternatives:
            try:
                if isinstance(one, Instance) and one.kind in records:
                    return self._fit_record(records, plain, where)
                return self._fit(one, plain, where, default, allowed)
            except Misfit:
                continue
        if isinstance(plain, str):
            if Simple(type(None)) in alternatives and plain.lower() == "none":
                return None
            if Simple(float) in alternatives and plain in _INFINITE:
                return _INFINITE[plain]
        expected = " or ".join(dict.fromkeys(self._expectation(one) for one in alternatives))
        raise ConfigError(f"{where} must be {expected}, got {shortened(plain)}. {allowed}")

    def _fit(self, form: Form, plain: object, where: str, default: object, allowed: str) -> object:
        match form:
            case Choice(values):
                return _require(any(type(plain) is type(one) and plain == one for one in values), plain)
            case Simple(kind):
                return _simple(kind, plain)
            case Dense():
                return plain if isinstance(plain, np.ndarray) else from_lists(plain)
            case Instance(kind):
                return self._part(kind, plain, where, default)
            case Many(kind, each):
                named = self._have_names(each)
                paths = [(_path(where, place, one, named), one) for place, one in _listed(plain)]
                items = [self._value(each, one, path, None, allowed) for path, one in paths]
                return tuple(items) if kind is tuple else items
            case Places(places):
                found = _listed(plain)
                _require(len(found) == len(places), plain)
                pairs = zip(places, found, strict=True)
                return tuple(self._value(one, item, f"{where}[{i}]", None, allowed) for one, (i, item) in pairs)
            case Table(_, key, entry):
                made = [
                    (
                        self._value(key, name, f"a key of {where}", None, allowed),
                        self._value(entry, item, f"{where}.{name}", None, allowed),
                    )
                    for name, item in _pairs(plain, key)
                ]
                _require(len(dict(made)) == len(made), plain)
                return dict(made)
        return plain  # Unknown: the class itself says what it allows

    def _part(self, kind: type, plain: object, where: str, default: object) -> object:
        """A part of an object: of a kind that the catalogue knows, or any instance of its class."""
        if isinstance(plain, kind):
            return plain
        known = self.catalogue.kind_of(kind)
        if known is None:
            raise Misfit
        if isinstance(plain, str) and folded(plain) != "none":
            return self.build(known, plain, where)
        if not isinstance(plain, Mapping):
            raise Misfit
        given = dict(plain)
        meant = type(default) if isinstance(default, kind) else kind
        if "name" not in given and not inspect.isabstract(meant) and not getattr(meant, "_is_protocol", False):
            given["name"] = meant.__name__  # the default's class, or the only one that there is
        if isinstance(default, kind) and folded(str(given.get("name", ""))) == folded(type(default).__name__):
            del given["name"]  # what is not said stays as the default has it
            return self._make(type(default), given, where, default)
        return self.build(known, given, where)

    # ── dataclasses that are in no catalogue: their annotation names them ──

    def _is_record(self, kind: type) -> bool:
        return is_dataclass(kind) and self.catalogue.kind_of(kind) is None

    def _have_names(self, form: Form) -> bool:
        """Whether this is a dataclass with a field `name`, such as a column."""
        kinds = [one.kind for one in options(form) if isinstance(one, Instance) and self._is_record(one.kind)]
        return any(tag_of(kind)[0] == "kind" for kind in kinds)

    def _fit_record(self, kinds: tuple[type, ...], plain: object, where: str) -> object:
        as_list = any(hasattr(kind, WRITTEN_AS) for kind in kinds)
        if not isinstance(plain, (*kinds, list, tuple) if as_list else (*kinds, Mapping)):
            raise Misfit
        return self._record(kinds, plain, where)

    def _record(self, kinds: tuple[type, ...], plain: object, where: str) -> object:
        """An instance of one of these dataclasses: of the one that is named, or that the keys are for."""
        if isinstance(plain, kinds):
            return plain
        for kind in kinds:
            if (alone := getattr(kind, WRITTEN_AS, None)) is not None:
                return self._make(kind, {alone: plain}, where, None)
        if not isinstance(plain, Mapping):
            raise ConfigError(f"{where} must be a table, got {shortened(plain)}")
        given = dict(plain)
        tag = tag_of(kinds[0])[0]
        if tag in given:
            said = given.pop(tag)
            words = {folded(kind.__name__): kind for kind in kinds}
            if not isinstance(said, str) or folded(said) not in words:
                known = " or ".join(repr(tag_of(kind)[1]) for kind in kinds)
                raise ConfigError(f"{where}.{tag} must be {known}, got {shortened(said)}")
            return self._make(words[folded(said)], given, where, None)
        return self._make(max(kinds, key=lambda kind: _fitness(kind, given)), given, where, None)

    # ── words ──

    def _expectation(self, form: Form) -> str:
        match form:
            case Choice(values):
                return " or ".join(map(repr, values))
            case Simple(kind):
                return "'none'" if kind is type(None) else _EXPECTED.get(kind) or f"a {kind.__name__}"
            case Dense():
                return "an array (numbers in brackets, rows in brackets of their own)"
            case Table():
                return "a table"
            case Many() | Places():
                return "a list in brackets"
            case Instance(kind):
                if (known := self.catalogue.kind_of(kind)) is not None:
                    return self._expected_part(known)
                if hasattr(kind, WRITTEN_AS):
                    return "a list in brackets"
                return "a table" if is_dataclass(kind) else f"a {kind.__name__}"
            case Unknown(hint):
                return f"a {getattr(hint, '__name__', hint)}"
        return "a value"

    def _expected_part(self, kind: str) -> str:
        article = "an" if kind[0] in "aeio" else "a"
        return f"{article} {kind} (its name, or a table with name and hyper-parameters)"


def _check_keys(
    known: Mapping[str, Field[Any]], given: Mapping[str, object], where: str, whole: bool, allowed: str
) -> None:
    """Reject keys that are not known and, of a whole table, those that are missing."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f", did you mean {close[0]!r}?" if close else "."
            raise ConfigError(f"{where}.{name} is not known{hint} {allowed}")
    required = [name for name, field in known.items() if whole and _default(field) is MISSING]
    if missing := [name for name in required if name not in given]:
        raise ConfigError(f"{where} has no {' and no '.join(missing)}. {allowed}")


def _path(where: str, place: int, plain: object, named: bool) -> str:
    """The path of an item of a list: by its name where it has one, else by its place."""
    name = plain.get("name") if named and isinstance(plain, Mapping) else None
    return f"{where}[{name!r}]" if isinstance(name, str) else f"{where}[{place}]"


def _require(fits: bool, plain: object) -> object:
    if not fits:
        raise Misfit
    return plain


def _simple(kind: type, plain: object) -> object:
    """None, a text, a number: of this type exactly, but for a whole number where a float is declared."""
    if kind is float:
        if not isinstance(plain, int | float) or isinstance(plain, bool) or plain != plain:
            raise Misfit
        try:
            return float(plain)
        except OverflowError:
            raise Misfit from None
    if kind is int:
        return _require(isinstance(plain, int) and not isinstance(plain, bool), plain)
    return _require(isinstance(plain, kind), plain)


def _listed(plain: object) -> list[tuple[int, object]]:
    if not isinstance(plain, list | tuple):
        raise Misfit
    return list(enumerate(plain))


def _pairs(plain: object, key: Form) -> list[tuple[object, object]]:
    """The entries of a table; where its keys are no texts, a list of pairs may stand for it."""
    if isinstance(plain, Mapping):
        return list(plain.items())
    if key == Simple(str) or not isinstance(plain, list):
        raise Misfit
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in plain):
        raise Misfit
    return [(tuple(name) if isinstance(name, list) else name, item) for name, item in plain]


def _fitness(kind: type, given: Mapping[str, object]) -> tuple[bool, int]:
    """How well the keys of a table are those of a class."""
    known = {field.name: field for field in settable(kind)}
    required = [name for name, field in known.items() if _default(field) is MISSING]
    return all(name in given for name in required), sum(name in known for name in given)


# ── fields ──


def settable(value: type) -> list[Field[Any]]:
    """The fields of a dataclass that its constructor takes; none for another class."""
    return [field for field in fields(value) if field.init] if is_dataclass(value) else []


def describe_fields(value: type, start: object = None) -> str:
    """The hyper-parameters of a class in one line, as TOML; defaults are those of `start` where it is given."""
    said = []
    for field in settable(value):
        default = getattr(start, field.name) if start is not None else _default(field)
        said.append(f"{field.name} (required)" if default is MISSING else f"{field.name} = {_spelled(default)}")
    return ", ".join(said) or "none"


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _spelled(value: object) -> str:
    """A default as TOML has it, but for a part, which is shown by its class."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f for f in fields(value) if f.repr and getattr(value, f.name) != _default(f))
        return f"{type(value).__name__}({', '.join(f'{f.name}={getattr(value, f.name)!r}' for f in shown)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return '"none"' if value is None else repr(value)
