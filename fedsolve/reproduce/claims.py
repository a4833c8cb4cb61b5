"""Rules that several experiments judge their claims by. Rules that were changed when a result was known say so where
the claim is: in the register of its paper."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedsolve.report.tables import number
from fedsolve.reproduce.result import Measured, Verdict

REFERENCE = "Reference values come from an independent NumPy implementation."
RULE = (
    "A reference value marked ≈ is confirmed if it lies between the smallest and the largest value of our seeds, give "
    "or take half a unit of its last digit. With fewer than five seeds there is no verdict."
)
ENOUGH = 5  # seeds for a verdict on medians or ranges


def judged(holds: bool, said: str, seeds: int) -> Verdict:
    """A verdict on medians or ranges; open if there are fewer than five seeds."""
    return Verdict(holds if seeds >= ENOUGH else None, said)


def among_seeds(ours: Measured, reference: float, digit: float) -> Verdict:
    """Whether a reference value lies within the range of our seeds (`RULE`); `digit` is a unit of its last digit."""
    low, high = min(ours.values), max(ours.values)
    said = f"{number(ours.median, 3)} ({number(low, 3)} to {number(high, 3)})"
    return judged(low - digit / 2 <= reference <= high + digit / 2, said, len(ours.values))


def all_smaller(pairs: Mapping[str, tuple[Measured, Measured]]) -> Verdict:
    """Whether the first of every pair has the smaller median. The text says in how many seeds it is smaller."""
    holds = all(one.median < two.median for one, two in pairs.values())
    said = [
        f"{name}: {number(one.median, 5)} against {number(two.median, 5)} "
        f"({sum(a < b for a, b in zip(one.values, two.values, strict=True))} of {len(one.values)} seeds)"
        for name, (one, two) in pairs.items()
    ]
    return judged(holds, "; ".join(said), min(len(one.values) for one, _ in pairs.values()))


def stated(holds: bool, said: str, quick: bool) -> Verdict:
    """A verdict; open in the quick form of an experiment."""
    return Verdict(None if quick else holds, said)


class Claims:
    """Claims with their verdicts, in order; all open in the quick form of an experiment."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.found: list[tuple[str, Verdict]] = []

    def add(self, claim: str, holds: bool, said: str) -> None:
        self.found.append((claim, stated(holds, said, self.quick)))


def spread(ours: Measured, digits: int = 4) -> str:
    """The median, with the smallest and largest value where they differ."""
    low, high = min(ours.values), max(ours.values)
    text = number(ours.median, digits)
    return text if low == high else f"{text} ({number(low, digits)} to {number(high, digits)})"


NOTHING_TO_COMPARE = Verdict(None, "the method it is compared with did not get there either")


def at_least(ratio: Measured, bound: float, quick: bool) -> Verdict:
    """Whether the median of a ratio of two counts is at least `bound`.

    The ratio is infinite where only the first count was not reached, and NaN where the second was not; a NaN leaves the
    verdict open.
    """
    if any(map(math.isnan, ratio.values)):
        return NOTHING_TO_COMPARE
    return stated(ratio.median >= bound, times(ratio), quick)


def at_most(ratio: Measured, bound: float, quick: bool) -> Verdict:
    """Whether the median of a ratio is at most `bound`; see `at_least`."""
    if any(map(math.isnan, ratio.values)):
        return NOTHING_TO_COMPARE
    return stated(ratio.median <= bound, times(ratio), quick)


def times(ratio: Measured) -> str:
    """A ratio in words: "1.5 (1.2 to 1.7) times", or that it is infinite."""
    return (
        f"{spread(ratio, 3)} times" if math.isfinite(ratio.median) else "did not get there within its limit of rounds"
    )


def within(ours: Measured, reference: float, share: float, quick: bool = False) -> Verdict:
    """Whether our median differs from the reference value by at most `share` of it."""
    if any(map(math.isnan, ours.values)):
        return NOTHING_TO_COMPARE
    holds = abs(ours.median - reference) <= share * reference
    return stated(holds, f"{spread(ours)} against {number(reference, 4)}", quick)
