"""Checks with a lower limit beside those with an upper one, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedsolve.report.tables import number
from fedsolve.reproduce.checks import ROUNDING, Check, checked
from fedsolve.reproduce.result import Result, Verdict


@dataclass(frozen=True)
class AtLeast(Check):
    """A statement that holds if what is measured is at least `most` in every seed; it is said as it was measured.

    unit  of what, or of which
    """

    unit: str = ""

    def verdict(self, values: Sequence[float]) -> Verdict:
        worst = min(values) if all(one == one for one in values) else float("nan")
        return Verdict(worst >= self.most * (1 - ROUNDING), f"at least {number(worst, 3)} {self.unit}".rstrip())


def judged_by(
    checks: Iterable[Check], found: Sequence[Mapping[str, float]], notes: Sequence[str], quick: bool = False
) -> Result:
    """As `checked`, with the sign of the rule that each check has."""
    checks = tuple(checks)
    result = checked(checks, found, notes, quick)
    rows = [
        (*row[:3], f"≥ {number(check.most, 3)}") if isinstance(check, AtLeast) else row
        for check, row in zip(checks, result.rows, strict=True)
    ]
    return replace(result, rows=rows)


def named(found: Mapping[Check, float]) -> dict[str, float]:
    """What was measured, by claim."""
    return {check.claim: float(value) for check, value in found.items()}
