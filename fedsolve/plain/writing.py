"""Values taken apart: one walk over dataclasses, tuples, mappings, arrays and numbers, and the styles it is written in.

`to_plain` writes what JSON knows and `Reader` reads back; `describe` writes the text that fingerprints and the identity
of a checkpoint are made of. A `Style` of another kind serves reports.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.plain.annotations import Anything, Dense, Form, Many, Places, Table, field_forms, is_float, options
from fedsolve.plain.arrays import Plain, to_lists

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

# A dataclass that is written as one of its fields alone names this field here: a schema is a list of columns.
WRITTEN_AS = "written_as"

_ANYTHING = Anything()


class Style(ABC, Generic[T]):
    """How each kind of value is written. `where` is the path to the value, for messages."""

    by_annotation = True  # whether 1 is written as 1.0 where a float is declared
    to_be_read = False  # whether fields that the constructor does not take are left out

    @abstractmethod
    def leaf(self, value: bool | int | float | str | None, where: str) -> T: ...

    @abstractmethod
    def array(self, value: np.ndarray, where: str) -> T: ...

    @abstractmethod
    def items(self, written: list[T]) -> T: ...

    @abstractmethod
    def table(self, written: list[tuple[object, T]], where: str) -> T: ...

    @abstractmethod
    def record(self, kind: type, written: dict[str, T]) -> T: ...

    @abstractmethod
    def other(self, value: object, where: str) -> T: ...


def write(value: object, style: Style[T], form: Form = _ANYTHING, where: str = "value") -> T:
    """A value in a style; `form` is what its annotation declares."""
    if style.by_annotation:
        value = _as_declared(value, form)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return style.leaf(value, where)
    if is_dataclass(value) and not isinstance(value, type):
        return _write_record(value, style, where)
    if isinstance(value, Mapping):
        inner = next((one for one in options(form) if isinstance(one, Table)), None)
        entry = _ANYTHING if inner is None else inner.entry
        return style.table([(key, write(item, style, entry, f"{where}.{key}")) for key, item in value.items()], where)
    if isinstance(value, tuple | list):
        pairs = zip(value, _item_forms(form, len(value)), strict=True)
        return style.items([write(item, style, one, f"{where}[{place}]") for place, (item, one) in enumerate(pairs)])
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        return style.array(np.asarray(value), where)
    return style.other(value, where)


def _write_record(value: DataclassInstance, style: Style[T], where: str) -> T:
    forms = field_forms(type(value)) if style.by_annotation else {}
    written = {
        field.name: write(getattr(value, field.name), style, forms.get(field.name, _ANYTHING), f"{where}.{field.name}")
        for field in fields(value)
        if field.init or not style.to_be_read
    }
    return style.record(type(value), written)


def _as_declared(value: object, form: Form) -> object:
    """1 as 1.0 where a float is declared, and a list of numbers as an array where an array is."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is int and is_float(form):
        try:
            return float(value)
        except OverflowError:
            return value
    if isinstance(value, list | tuple) and any(isinstance(one, Dense) for one in options(form)):
        if any(isinstance(one, Many | Places) for one in options(form)):
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths: whoever computes with it says what is wrong
            return value
        return array if array.dtype.kind in "fiub" else value
    return value


def _item_forms(form: Form, count: int) -> Sequence[Form]:
    for one in options(form):
        if isinstance(one, Many):
            return [one.each] * count
        if isinstance(one, Places) and len(one.places) == count:
            return one.places
    return [_ANYTHING] * count


# ── JSON ──


class _AsPlain(Style[Plain]):
    to_be_read = True

    def leaf(self, value: bool | int | float | str | None, where: str) -> Plain:
        if isinstance(value, float):
            if math.isnan(value):
                raise ConfigError(f"{where} is NaN, which has no plain form; give it a number")
            return value if math.isfinite(value) else "inf" if value > 0 else "-inf"
        return value

    def array(self, value: np.ndarray, where: str) -> Plain:
        return to_lists(value, where)

    def items(self, written: list[Plain]) -> Plain:
        return written

    def table(self, written: list[tuple[object, Plain]], where: str) -> Plain:
        if all(isinstance(key, str) for key, _ in written):
            return {str(key): item for key, item in written}
        return [[write(key, self, where=f"a key of {where}"), item] for key, item in written]

    def record(self, kind: type, written: dict[str, Plain]) -> Plain:
        alone = getattr(kind, WRITTEN_AS, None)
        if alone is not None:
            return written[alone]
        key, name = tag_of(kind)
        return {key: name, **written}

    def other(self, value: object, where: str) -> Plain:
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise ConfigError(f"{where} is {kind}, which has no plain form; expected numbers, text, arrays and dataclasses")


def tag_of(kind: type) -> tuple[str, str]:
    """The key and the word that say which class a table is of: `name`, or `kind` where the class has a name itself."""
    has_name = any(field.name == "name" for field in fields(kind))
    return ("kind", kind.__name__.lower()) if has_name else ("name", kind.__name__)


def to_plain(value: object) -> Plain:
    """A frozen dataclass, or a value within one, as JSON knows it: `Reader` makes an equal one of it.

    A dataclass is a table with its class under `name`, a tuple a list, an array a list of lists; None is null and an
    infinite number the text "inf". Raises ConfigError for NaN and for what has no plain form, such as a function.
    """
    return write(value, _AsPlain(), where=type(value).__name__)


# ── text ──


class _AsText(Style[str]):
    def leaf(self, value: bool | int | float | str | None, where: str) -> str:
        return repr(value)

    def array(self, value: np.ndarray, where: str) -> str:
        return f"array{value.shape}{hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest()}"

    def items(self, written: list[str]) -> str:
        return f"[{', '.join(written)}]"

    def table(self, written: list[tuple[object, str]], where: str) -> str:
        plain = [(key.item() if isinstance(key, np.generic) else key, item) for key, item in written]
        ordered = sorted(plain, key=lambda pair: (type(pair[0]).__name__, pair[0]))
        return "{" + ", ".join(f"{key!r}: {item}" for key, item in ordered) + "}"

    def record(self, kind: type, written: dict[str, str]) -> str:
        return f"{kind.__qualname__}({', '.join(f'{name}={item}' for name, item in written.items())})"

    def other(self, value: object, where: str) -> str:
        return repr(value)


def describe(value: object) -> str:
    """Class and hyper-parameters in one line of text; of an array only its shape and a hash."""
    return write(value, _AsText())


def fingerprint(protocol: object) -> str:
    """A short hash of the class and of every hyper-parameter: equal on both sides, or the run does not start."""
    return hashlib.blake2b(describe(protocol).encode(errors="surrogatepass"), digest_size=8).hexdigest()
