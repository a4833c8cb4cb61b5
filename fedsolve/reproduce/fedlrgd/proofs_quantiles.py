"""Appendix B of Jadbabaie et al. (2023), line by line: bounds on quantiles of the Erlang distribution."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

SAME = Check(
    "Appendix B, (74)", "the last set of (74) begins at the quantile: its two sides are equal there", "off", 1e-6
)
DOWN = Check(
    "Appendix B", "the four implications of the lower bound at the quantile: each left side is at most its right"
)
TWO = AtLeast("Appendix B", "(q − 1) b ≥ 55 ≥ e⁴ makes the quantile at least 2", "times", 2.0)
UP = Check("Appendix B", "the steps of the upper bound, y from 2 to 500: each line follows from the next")
REACHED = Check("Appendix B", "at y = 2b log(2b) + 2 log(q − 1) all six lines hold: largest left side over right side")
CDF = Check(
    "Appendix B, (73)",
    "1 − e^(−y) Σ y^k/k!, k < b, is the distribution function of a sum of b exponential times",
    "off",
    0.02,
)
CHECKS = (CDF, SAME, DOWN, TWO, UP, REACHED)
GRID = tuple(
    (b, q) for b, q in product((1, 2, 3, 5, 10, 30, 100), (2, 3, 6, 10, 56, 100, 1000, 10**6)) if (q - 1) * b >= 55
)


def measured(seed: int) -> dict[str, float]:
    return named({CDF: _erlang(np.random.default_rng([seed, 41])), **_lower(), **_upper()})


def _erlang(rng: np.random.Generator) -> float:
    """The largest difference from the share of 40,000 sums that are at most y."""
    off = 0.0
    for b in (1, 2, 5, 20):
        sums = rng.exponential(size=(40_000, b)).sum(axis=1)
        for y in (0.5 * b, b, 1.5 * b, 2.5 * b):
            printed = 1 - math.exp(-y) * math.fsum(y**k / math.factorial(k) for k in range(b))
            off = max(off, abs(float(np.mean(sums <= y)) - printed))
    return off


def _sides(b: int, q: int, y: float) -> tuple[float, float]:
    """Logarithms of both sides of the last line of (74); terms added in logarithms."""
    k = np.arange(b)
    left = np.logaddexp.reduce((k - b) * math.log(y) - [math.lgamma(one + 1) for one in k])
    more = np.arange(0, 4000)
    logs = np.array([math.lgamma(one + b + 1) for one in more])  # k! (k+b choose b) = (k + b)!/b!
    right = np.logaddexp.reduce(more * math.log(y) - logs) + math.lgamma(b + 1)
    return math.lgamma(b + 1) + math.log(q - 1) + float(left), float(right)


def _lower() -> dict[Check, float]:
    from scipy import stats

    same, down, two = 0.0, 0.0, math.inf
    for b, q in GRID:
        y = float(stats.gamma(b).isf(1 / q))
        left, right = _sides(b, q, y)
        lines = ((left, y), (math.log(b * (q - 1)), math.log(y) + y), (0.5 * math.log(b * (q - 1)), y))
        same, two = max(same, abs(left - right)), min(two, y)
        down = max(down, math.exp(right - y), *(math.exp(one - other) for one, other in lines))
    return {SAME: same, DOWN: down, TWO: two if math.exp(4) <= 55 else math.nan}


def _upper() -> dict[Check, float]:
    """Logarithms of left over right side of the six lines; a line follows from the next if its own is no larger."""
    follows, reached = 0.0, 0.0
    for b, q in GRID:
        bound = 2 * b * math.log(2 * b) + 2 * math.log(q - 1)
        for y in (2.0, 3.0, 10.0, 100.0, 500.0, bound):
            left, right = _sides(b, q, y)
            head = b * math.log(2) + math.lgamma(b + 1) + math.log(q - 1)
            geometric = math.log(math.fsum(y**-k for k in range(b)))
            lines = [left - right, left + b * math.log(2) - y / 2, head - math.log(y) + geometric - y / 2]
            lines += [head - math.log(y - 1) - y / 2, head - math.log(y - 1) - y / 2, (bound - y) / 2]
            follows = max(follows, *(math.exp(min(a - c, 9)) for a, c in pairwise(lines)))
            if y == bound:
                reached = max(reached, *(math.exp(one) for one in lines))
    return {UP: follows, REACHED: reached}
