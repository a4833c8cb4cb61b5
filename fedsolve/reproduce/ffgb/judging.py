"""Checks whose text shows the quantity itself: identities, inequalities between sums, lower limits, printed slips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.report.tables import number
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.typing import Array

EQUAL = 1e-12  # by which both sides of an identity or inequality may differ, relative to the size of their terms


@dataclass(frozen=True)
class Same(Check):
    """Two sides that are equal up to rounding; measured is |left − right| over the size of their terms."""

    most: float = EQUAL

    def verdict(self, values: Sequence[float]) -> Verdict:
        worst = _worst(values)
        said = f"at most {number(worst, 2)} of" if worst else "0, to the last bit, of"
        return Verdict(worst <= self.most, f"the two sides differ by {said} their size")


@dataclass(frozen=True)
class Below(Check):
    """left ≤ right; measured is the largest left − right over the size of their terms (`gap`)."""

    most: float = EQUAL

    def verdict(self, values: Sequence[float]) -> Verdict:
        worst = _worst(values)
        if abs(worst) <= self.most:
            return Verdict(True, f"never larger, and equal in places (to {number(EQUAL, 1)} of their size)")
        return Verdict(worst <= self.most, f"left less right is at most {number(worst, 2)} of their size")


@dataclass(frozen=True)
class Zero(Check):
    """A number that is 0 up to `most`; the text tells an exact 0 from a small number."""

    most: float = 1e-15

    def verdict(self, values: Sequence[float]) -> Verdict:
        worst = _worst(values)
        return Verdict(worst <= self.most, f"at most {number(worst, 2)}" if worst else "exactly 0")


@dataclass(frozen=True)
class AtLeast(Check):
    """A number that is at least `most` in every seed."""

    unit: str = ""

    def verdict(self, values: Sequence[float]) -> Verdict:
        least = min(values) if all(one == one for one in values) else float("nan")
        return Verdict(least >= self.most, f"at least {number(least, 3)}{self.unit}")

    @property
    def limit(self) -> str:
        return f"≥ {number(self.most, 3)}"


@dataclass(frozen=True)
class Within(Check):
    """A number that differs from `most` by at most `give` in every seed; `words` are around it."""

    give: float = 0.05
    words: str = "{}"

    def verdict(self, values: Sequence[float]) -> Verdict:
        low, high = min(values), max(values)
        text = f"{number(low, 3)}" if low == high else f"{number(low, 3)} to {number(high, 3)}"
        return Verdict(bool(np.all(np.abs(np.array(values) - self.most) <= self.give)), self.words.format(text))

    @property
    def limit(self) -> str:
        return f"{number(self.most, 3)} ± {number(self.give, 2)}"


class Found:
    """The worst of each check over the steps of a seed's runs."""

    def __init__(self) -> None:
        self.worst: dict[str, float] = {}

    def note(self, check: Check, value: float | Array) -> None:
        """Keep the largest value; of `AtLeast` the smallest."""
        new = float(np.min(value) if isinstance(check, AtLeast) else np.max(value))
        old = self.worst.get(check.claim, new)
        self.worst[check.claim] = min(old, new) if isinstance(check, AtLeast) else max(old, new)

    def same(self, check: Same, left: float | Array, right: float | Array, *terms: float | Array) -> None:
        """Note by how much two sides differ."""
        self.note(check, np.abs(gap(left, right, *terms)))

    def below(self, check: Below, left: float | Array, right: float | Array, *terms: float | Array) -> None:
        """Note by how much the left side exceeds the right one."""
        self.note(check, gap(left, right, *terms))


def gap(left: float | Array, right: float | Array, *terms: float | Array) -> Array:
    """left − right over the size of both and of the terms they are made of."""
    size = np.abs(left) + np.abs(right) + sum(float(np.max(np.abs(one))) for one in terms)
    return np.asarray((np.asarray(left) - right) / np.where(size > 0, size, 1.0))


def table(
    checks: Iterable[Check], found: Sequence[Mapping[str, float]], notes: Sequence[str], quick: bool = False
) -> Result:
    """Like `checks.checked`, for these checks too."""
    rows, claims = [], []
    for check in checks:
        values = tuple(one[check.claim] for one in found)
        verdict = check.verdict(values)
        limit = check.limit if isinstance(check, AtLeast | Within) else f"≤ {number(check.most, 3)}"
        rows.append((check.place, check.claim, Measured(values), limit))
        claims.append((check.claim, Verdict(None if quick and not verdict.holds else verdict.holds, verdict.said)))
    columns = (Column("place"), Column("claim"), Column("found", lambda value: number(value, 2)), Column("rule"))
    return Result(columns, rows, notes=notes, claims=claims)


def _worst(values: Sequence[float]) -> float:
    return max(values) if all(one == one for one in values) else float("nan")
