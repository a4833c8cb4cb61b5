"""Checks that print what they measure: a quantity with its smallest and largest value over cases and seeds.

`fedsolve.reproduce.checks.Check` has one number, the largest. A lower bound, a range or an equality with a number shows
more if the quantity itself is printed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsolve.report.tables import number
from fedsolve.reproduce.checks import ROUNDING
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.typing import Array


@dataclass(frozen=True)
class Quantity:
    """A statement that holds if every value of a quantity is within limits. The limits stand before the run.

    place  where in the paper
    claim  in words; the register names it
    what   the quantity, as the verdict names it; of a "largest …" or "least …" it prints that end only
    least  the smallest value allowed
    most   the largest
    """

    place: str
    claim: str
    what: str
    least: float = -math.inf
    most: float = math.inf

    def verdict(self, low: float, high: float) -> Verdict:
        """Of the smallest and the largest value. A NaN holds nowhere."""
        holds = low >= _wider(self.least, -1) and high <= _wider(self.most, 1)
        ends = {"largest": (high,), "least": (low,)}.get(self.what.split()[0], (low, high))
        return Verdict(holds, f"{self.what}: {' to '.join(dict.fromkeys(number(end, 3) for end in ends))}")

    @property
    def rule(self) -> str:
        if math.isinf(self.least):
            return f"≤ {number(self.most, 3)}"
        return f"≥ {number(self.least, 3)}" if math.isinf(self.most) else f"{self.least:g} to {self.most:g}"


def _wider(limit: float, side: int) -> float:
    """A limit, and the rounding by which equality may be missed."""
    return limit + side * ROUNDING * abs(limit) if math.isfinite(limit) else limit


def identity(place: str, claim: str) -> Quantity:
    """An equality, to 1e-10 of its terms."""
    return Quantity(place, claim, "largest difference", most=1e-10)


def bound(place: str, claim: str, what: str = "left over right side") -> Quantity:
    """An inequality between positive numbers, as a ratio."""
    return Quantity(place, claim, what, most=1.0)


@dataclass
class Notes:
    """The smallest and largest value of each quantity."""

    ends: dict[Quantity, tuple[float, float]] = field(
        default_factory=lambda: defaultdict(lambda: (math.inf, -math.inf))
    )

    def add(self, quantity: Quantity, *values: float | Array) -> None:
        """Values of a quantity; a NaN stays one."""
        some = np.concatenate([np.ravel(np.asarray(one, dtype=np.float64)) for one in values])
        low, high = self.ends[quantity]
        self.ends[quantity] = float(np.min([low, some.min()])), float(np.max([high, some.max()]))

    def same(self, quantity: Quantity, left: Array, right: Array) -> None:
        """The largest difference of two arrays, as a share of the largest entry."""
        left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
        self.add(quantity, np.abs(left - right).max() / np.abs(right).max())


def judged_quantities(
    quantities: Iterable[Quantity], found: Sequence[Mapping[Quantity, tuple[float, float]]], quick: bool
) -> tuple[list[tuple[str, str, Measured, Measured, str]], list[tuple[str, Verdict]]]:
    """Rows of a table and claims, from what each seed found. In the quick form what does not hold is open."""
    rows, claims = [], []
    for one in quantities:
        lows, highs = (tuple(seed[one][end] for seed in found) for end in (0, 1))
        verdict = one.verdict(float(np.min(lows)), float(np.max(highs)))
        rows.append((one.place, one.claim, Measured(lows), Measured(highs), one.rule))
        claims.append((one.claim, Verdict(None if quick and not verdict.holds else verdict.holds, verdict.said)))
    return rows, claims


def quantities_result(
    quantities: Iterable[Quantity],
    found: Sequence[Mapping[Quantity, tuple[float, float]]],
    notes: Sequence[str],
    quick: bool,
) -> Result:
    """The result of an experiment that has nothing but quantities."""
    rows, claims = judged_quantities(quantities, found, quick)

    def write(value: float) -> str:
        return number(value, 2)

    columns = (Column("place"), Column("claim"), Column("least", write), Column("most", write), Column("rule"))
    return Result(columns, rows, notes=notes, claims=claims)
