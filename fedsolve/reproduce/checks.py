"""Checks of theorems: a number that each seed measures, and the most it may be. The limits stand before the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedsolve.report.tables import number
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

Kind = Literal["of the bound", "off", "failures", "exponent", "times"]
ROUNDING = 1e-9  # by which equality may be missed
SAID = {
    "of the bound": "at most {} of the bound",
    "off": "at most {} off",
    "failures": "in a share of at most {}",
    "exponent": "exponent at most {}",
    "times": "at most {} times",
}


@dataclass(frozen=True)
class Check:
    """A statement that holds if what is measured is at most `most` in every seed.

    place  where in the paper
    claim  in words; the register names it
    kind   what the number is: its share of a bound, a difference, a share of failures, a power, a ratio
    """

    place: str
    claim: str
    kind: Kind = "of the bound"
    most: float = 1.0

    def verdict(self, values: Sequence[float]) -> Verdict:
        """Over the seeds. A NaN holds nowhere."""
        worst = max(values) if all(one == one for one in values) else float("nan")
        return Verdict(worst <= self.most * (1 + ROUNDING), SAID[self.kind].format(number(worst, 2)))


def checked(
    checks: Iterable[Check], found: Sequence[Mapping[str, float]], notes: Sequence[str], quick: bool = False
) -> Result:
    """The table and the claims, from what each seed found by claim. In the quick form what does not hold is open."""
    rows, claims = [], []
    for check in checks:
        values = tuple(one[check.claim] for one in found)
        verdict = check.verdict(values)
        rows.append((check.place, check.claim, Measured(values), f"≤ {number(check.most, 3)}"))
        claims.append((check.claim, Verdict(None if quick and not verdict.holds else verdict.holds, verdict.said)))
    columns = (Column("place"), Column("claim"), Column("found", lambda value: number(value, 2)), Column("rule"))
    return Result(columns, rows, notes=notes, claims=claims)
