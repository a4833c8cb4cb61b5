"""Tuples of a State that only grow, such as the parts of an ensemble: each save writes what is new of them.

A tuple grows if it begins with the very objects it had at the last save. One that does not (a window of the latest
steps, a cohort that changed) is written whole from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import is_

from fedsolve.errors import WireError
from fedsolve.typing import Value

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
    if not is_dataclass(value):
        return
    for field in fields(value):
        inner, place = getattr(value, field.name), f"{path}.{field.name}"
        if type(inner) is tuple:
            if inner:
                yield place, inner
        else:
            yield from _tuples(place, inner)


def _replaced(path: str, value: Value, tuples: Mapping[str, tuple[Value, ...]]) -> Value:
    """A dataclass with other tuples in these places; as it is if there are none. It is not initialised again: what
    `__post_init__` has checked or derived stays."""
    below = {key: items for key, items in tuples.items() if key.startswith(f"{path}.")}
    if not is_dataclass(value) or not below:
        return value
    copy = object.__new__(type(value))
    for field in fields(value):
        inner, place = getattr(value, field.name), f"{path}.{field.name}"
        object.__setattr__(copy, field.name, below[place] if place in below else _replaced(place, inner, below))
    return copy
