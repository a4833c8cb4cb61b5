"""Tuples of a State that only grow, such as the parts of an ensemble: each save writes what is new of them.

A tuple grows if it is declared as one of any length, `tuple[Part, ...]`, and begins with the very objects it had at the
last save. One that does not (a window of the latest steps, a cohort that changed) is written whole from then on. So are
those of a class with a `__post_init__`, which may reject a State whose tuples were taken out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from operator import is_
from typing import get_args, get_origin

from fedsolve.errors import WireError
from fedsolve.typing import Value
from fedsolve.wire.annotation_checks import checker, field_hints

Parts = list[tuple[str, tuple[Value, ...]]]


@dataclass(frozen=True)
class Split:
    """States without the tuples that grow, how long these are, and what is new of them."""

    rest: dict[str, Value]
    lengths: dict[str, int]
    fresh: Parts
    whole: Mapping[str, tuple[Value, ...]]
    changed: frozenset[str]


class Growing:
    """What is on disk of the tuples that grow."""

    def __init__(self) -> None:
        self._saved: dict[str, tuple[Value, ...]] = {}
        self._changed: frozenset[str] = frozenset()  # those that turned out not to grow

    def split(self, states: Mapping[str, Value]) -> Split:
        """Take the growing tuples out of some States, each under a name."""
        found = {path: items for name, state in states.items() for path, items in _tuples(name, state)}
        changed = {path for path, items in found.items() if not _extends(items, self._saved.get(path, ()))}
        changed |= self._changed
        whole = {path: items for path, items in found.items() if path not in changed}
        fresh = [(path, items[len(self._saved.get(path, ())) :]) for path, items in whole.items()]
        return Split(
            {name: _replaced(name, state, dict.fromkeys(whole, ())) for name, state in states.items()},
            {path: len(items) for path, items in whole.items()},
            [(path, items) for path, items in fresh if items],
            whole,
            frozenset(changed),
        )

    def saved(self, split: Split) -> None:
        """What was split is on disk."""
        self._saved, self._changed = {**self._saved, **split.whole}, split.changed

    def joined(self, rest: Mapping[str, Value], lengths: Mapping[str, int], parts: Parts) -> dict[str, Value]:
        """The States again, from what was saved of them. Raises WireError if something is missing."""
        found: dict[str, list[Value]] = {}
        for path, items in parts:
            found.setdefault(path, []).extend(items)
        whole = {path: tuple(found.get(path, ())) for path in lengths}
        for path, length in lengths.items():
            if len(whole[path]) != length:
                raise WireError(f"it has {len(whole[path])} of {length} parts of {path}")
        self._saved, self._changed = whole, frozenset(found) - frozenset(lengths)
        return {name: _replaced(name, state, whole) for name, state in rest.items()}


def _extends(items: tuple[Value, ...], before: tuple[Value, ...]) -> bool:
    return len(items) >= len(before) and all(map(is_, items, before))


def _tuples(path: str, value: Value) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """The tuples among the fields of a dataclass, and of the dataclasses among its fields, by their paths."""
    if not is_dataclass(value) or isinstance(value, type) or hasattr(value, "__post_init__"):
        return
    for name, hint in field_hints(type(value)).items():
        inner, place = getattr(value, name), f"{path}.{name}"
        if type(inner) is tuple and inner and get_origin(hint) is tuple and get_args(hint)[-1:] == (...,):
            yield place, inner
        else:
            yield from _tuples(place, inner)


def _replaced(path: str, value: Value, tuples: Mapping[str, tuple[Value, ...]]) -> Value:
    """A dataclass with other tuples in these places; as it is if there are none. Raises WireError if they are not what
    it declares."""
    below = {key: items for key, items in tuples.items() if key.startswith(f"{path}.")}
    if not is_dataclass(value) or not below:
        return value
    copy = object.__new__(type(value))
    for name, hint in field_hints(type(value)).items():
        place = f"{path}.{name}"
        items = below.get(place)
        if items is not None and not checker(hint)(items):
            raise WireError(f"what it has of {place} is not the {hint} that is declared")
        object.__setattr__(copy, name, _replaced(place, getattr(value, name), below) if items is None else items)
    return copy
