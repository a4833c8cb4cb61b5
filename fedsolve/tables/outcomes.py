"""Which values of a target count as 1: `positive = "yes"`, `3`, `"> 0"`, `[1, 2, 3, 4]`, `"1..4"`.

A text that is a label of the target is that label, whatever it looks like: a column with the label "> 65" can be meant.
The condition is part of the names of the two classes ("not > 0", "> 0"), so that new targets can be judged by it too.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.tables.cells import key
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

Positive = str | int | float | Sequence[str | int | float]

_COMPARISONS: dict[str, Callable[[Array, float], Array]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "!=": operator.ne,
    "==": operator.eq,
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMPARISON = re.compile(rf"({'|'.join(map(re.escape, _COMPARISONS))})\s*({_NUMBER})")
_INTERVAL = re.compile(rf"({_NUMBER})?\s*\.\.\s*({_NUMBER})?")
_ONE_OF = "one of "


@dataclass(frozen=True)
class Condition:
    """Values that count as 1. `said` is how it is written in the name of the class."""

    said: str
    low: float = -math.inf
    high: float = math.inf
    comparison: str | None = None
    values: tuple[str | float, ...] | None = None

    @property
    def classes(self) -> Classes:
        """The names of the two classes."""
        return f"not {self.said}", self.said

    def holds(self, y: Array) -> Array:
        """Where the condition holds. A comparison holds of no text."""
        if self.values is not None:
            known = {value: key(value) in self.values for value in set(y.tolist())}
            return np.array([known[value] for value in y.tolist()], dtype=bool)
        numbers = y if y.dtype.kind in "iufb" else _as_numbers(y)
        if self.comparison is not None:
            return np.asarray(_COMPARISONS[self.comparison](numbers, self.low) & ~np.isnan(numbers), dtype=bool)
        return np.asarray((numbers >= self.low) & (numbers <= self.high), dtype=bool)


def _as_numbers(y: Array) -> Array:
    found = [key(value) for value in y.tolist()]
    return np.array([one if isinstance(one, float) else math.nan for one in found])


def condition(positive: object) -> Condition | None:
    """The condition that this value of `positive` is; None if it is a single label.

    Raises ConfigError for an empty list, for an interval whose ends are exchanged, and for text that begins as a
    comparison and is none.
    """
    if isinstance(positive, list | tuple):
        values = tuple(key(one) for one in positive)
        if not values:
            raise ConfigError("positive is an empty list; list the labels that count as 1")
        return Condition(_ONE_OF + ", ".join(_shown(one) for one in positive), values=values)
    if not isinstance(positive, str):
        return None
    text = positive.strip()
    if text.startswith(_ONE_OF):
        return condition([one.strip() for one in text.removeprefix(_ONE_OF).split(",")])
    if found := _COMPARISON.fullmatch(text):
        return Condition(f"{found[1]} {found[2]}", float(found[2]), comparison=found[1])
    if (found := _INTERVAL.fullmatch(text)) and (found[1] or found[2]):
        low, high = (float(found[1] or -math.inf), float(found[2] or math.inf))
        if low > high:
            raise ConfigError(f"positive = {positive!r} is an empty interval: {low:g} is above {high:g}; exchange them")
        return Condition(text, low, high)
    return None


def looks_like_condition(positive: object) -> bool:
    """Whether a text begins as a comparison does, so that a mistake in it can be told from a label."""
    return isinstance(positive, str) and positive.strip().startswith((">", "<", "=", "!"))


def recoded(truth: Array, classes: Classes | None) -> Array:
    """Targets as the two classes that a condition has made of them, where a model's classes are such; else as they are,
    and as they are where some of them are names of these classes already."""
    if classes is None or len(classes) != 2 or classes[0] != f"not {classes[1]}" or truth.ndim != 1:
        return truth
    found = condition(classes[1])
    if found is None or any(value in classes for value in set(truth.tolist())):
        return truth
    return np.where(found.holds(truth), classes[1], classes[0])


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
