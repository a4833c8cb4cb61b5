"""Verdicts on claims about numbers, by rules that are fixed before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedsolve.report.tables import number
from fedsolve.reproduce.result import Measured, Verdict

RULE = (
    "A value that the notes give with ≈ holds if it lies between the smallest and the largest of our seeds, to half a "
    "unit of its last digit. Fewer than five seeds cannot say."
)
ENOUGH = 5  # seeds, for their median and range to say something


def judged(holds: bool, said: str, seeds: int) -> Verdict:
    """A verdict on medians or ranges, where there are seeds enough for one."""
    return Verdict(holds if seeds >= ENOUGH else None, said)


def among_seeds(ours: Measured, noted: float, digit: float) -> Verdict:
    """Whether a noted value is one that our seeds could have given, by `RULE`; `digit` is a unit of its last digit."""
    low, high = min(ours.values), max(ours.values)
    said = f"{number(ours.median, 3)} ({number(low, 3)} to {number(high, 3)})"
    return judged(low - digit / 2 <= noted <= high + digit / 2, said, len(ours.values))


def all_smaller(pairs: Mapping[str, tuple[Measured, Measured]]) -> Verdict:
    """Whether the first of every pair has the smaller median; in how many seeds it is smaller is said beside it."""
    holds = all(one.median < two.median for one, two in pairs.values())
    said = [
        f"{name}: {number(one.median, 5)} against {number(two.median, 5)} "
        f"({sum(a < b for a, b in zip(one.values, two.values, strict=True))} of {len(one.values)} seeds)"
        for name, (one, two) in pairs.items()
    ]
    return judged(holds, "; ".join(said), min(len(one.values) for one, _ in pairs.values()))


def stated(holds: bool, said: str, quick: bool) -> Verdict:
    """A verdict that the quick form of an experiment cannot give."""
    return Verdict(None if quick else holds, said)


def spread(ours: Measured, digits: int = 4) -> str:
    """The median, and the smallest and largest where they differ."""
    low, high = min(ours.values), max(ours.values)
    text = number(ours.median, digits)
    return text if low == high else f"{text} ({number(low, digits)} to {number(high, digits)})"


NOTHING_TO_COMPARE = Verdict(None, "what it is compared with was not there either")


def at_least(ratio: Measured, bound: float, quick: bool) -> Verdict:
    """Whether the median of a ratio of two counts is so large: infinite where only the first was not reached, NaN where
    the second was not, and then nothing can be said."""
    if any(map(math.isnan, ratio.values)):
        return NOTHING_TO_COMPARE
    return stated(ratio.median >= bound, _times(ratio), quick)


def at_most(ratio: Measured, bound: float, quick: bool) -> Verdict:
    """The same of a ratio that must be small."""
    if any(map(math.isnan, ratio.values)):
        return NOTHING_TO_COMPARE
    return stated(ratio.median <= bound, _times(ratio), quick)


def _times(ratio: Measured) -> str:
    return f"{spread(ratio, 3)} times" if math.isfinite(ratio.median) else "not there in the rounds it was given"


def within(ours: Measured, noted: float, share: float, quick: bool = False) -> Verdict:
    """Whether our median is the noted value but for a share of it."""
    if any(map(math.isnan, ours.values)):
        return NOTHING_TO_COMPARE
    holds = abs(ours.median - noted) <= share * noted
    return stated(holds, f"{spread(ours)} against {number(noted, 4)}", quick)
