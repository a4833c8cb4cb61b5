"""Annotations as contracts: what a client step takes and gives is checked against what it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import ConfigError
from fedsolve.plain.annotations import (
    Anything,
    Choice,
    Dense,
    Form,
    Instance,
    Many,
    OneOf,
    Places,
    Simple,
    Table,
    Unknown,
    field_hints,
    inner_forms,
    interpret,
)
from fedsolve.typing import Value

__all__ = ["CSR", "Check", "by_name", "checker", "dataclasses_in", "field_hints", "type_name"]

Check = Callable[[Value], bool]
CSR = sp.csr_array  # what a step declares where a sparse matrix may travel; `Array` is a dense one


def type_name(kind: type) -> str:
    """The name a dataclass travels under: last module and class, the same wherever the module was loaded from."""
    module = kind.__module__.rsplit(".", 1)[-1].replace("__mp_main__", "__main__")
    return f"{module}.{kind.__qualname__}"


@cache
def checker(hint: object) -> Check:
    """A function that says whether a value is what the annotation promises."""
    return _check(interpret(hint))


def _check(form: Form) -> Check:
    match form:
        case Dense():
            return lambda value: isinstance(value, np.ndarray)
        case Anything():
            return lambda value: True
        case Simple(kind):
            return _check_simple(kind)
        case Instance(kind):
            return lambda value: isinstance(value, kind)
        case OneOf(forms):
            alternatives = [_check(one) for one in forms]
            return lambda value: any(check(value) for check in alternatives)
        case Choice(values):
            return lambda value: any(type(value) is type(one) and value == one for one in values)
        case Places(forms):
            return _check_places([_check(one) for one in forms])
        case Many(sort, each):
            item = _check(each)
            return lambda value: isinstance(value, sort) and all(map(item, value))
        case Table(sort, key_form, entry_form):
            key, entry = _check(key_form), _check(entry_form)
            return lambda value: isinstance(value, sort) and all(key(k) and entry(v) for k, v in value.items())
        case Unknown(hint):
            raise TypeError(f"the annotation {hint!r} says nothing that can be checked on the wire")


def _check_simple(kind: type) -> Check:
    if kind is type(None):
        return lambda value: value is None
    if kind is float:
        return lambda value: isinstance(value, float | int) and not isinstance(value, bool)
    if kind is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    return lambda value: isinstance(value, kind)


def _check_places(items: list[Check]) -> Check:
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(items)
        and all(check(one) for check, one in zip(items, value, strict=True))
    )


def dataclasses_in(hint: object) -> Iterator[type]:
    """Every dataclass that a value of this annotation may contain; one may contain itself, as trees do. With them
    `CSR`, which a reader must have listed too."""
    yield from _found(interpret(hint), set())


def _found(form: Form, seen: set[type]) -> Iterator[type]:
    if isinstance(form, Instance):
        if form.kind is CSR:
            yield CSR
        elif is_dataclass(form.kind) and form.kind not in seen:
            seen.add(form.kind)
            yield form.kind
            for inner in field_hints(form.kind).values():
                yield from _found(interpret(inner), seen)
    for inner_form in inner_forms(form):
        yield from _found(inner_form, seen)


def by_name(kinds: Iterable[type]) -> dict[str, type]:
    """Dataclasses by the name they travel under, which must be theirs alone."""
    named: dict[str, type] = {}
    for kind in kinds:
        if named.setdefault(type_name(kind), kind) is not kind:
            raise ConfigError(f"two dataclasses travel under the name {type_name(kind)!r}: rename one of them")
    return named
