"""Appendix B of Jadbabaie et al. (2023): all five sets of (74), and the implications of the lower bound for every y."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import named

SETS = Check(
    "Appendix B, (74)",
    "each of the five sets has the y above the quantile and not those below, by 1e-3: share of cases that differ",
    "failures",
    0.0,
)
IMPLIED = Check(
    "Appendix B, lower bound",
    "the implications, y = 0.01 to 1,000: share of cases in which a line holds and the next does not",
    "failures",
    0.0,
)
CHECKS = (SETS, IMPLIED)
GRID = tuple(product((1, 2, 3, 5, 10, 30, 100), (2, 3, 6, 10, 56, 1000, 10**6)))


def measured(seed: int) -> dict[str, float]:
    """Nothing is drawn: every seed finds the same."""
    return named({SETS: _sets(), IMPLIED: _implied()})


def members(b: int, q: int, y: float) -> list[bool]:
    """Whether y is in each of the five sets of (74); sums are added in logarithms."""
    from scipy import stats

    log_y, below, above = math.log(y), np.arange(b), np.arange(b, b + 3000)
    head = _total([k * log_y - math.lgamma(k + 1) for k in below])
    tail = _total([k * log_y - math.lgamma(k + 1) for k in above])
    more = np.arange(3000)
    chosen = [math.lgamma(k + b + 1) - math.lgamma(k + 1) - math.lgamma(b + 1) for k in more]  # log (k+b choose b)
    right = _total([k * log_y - math.lgamma(k + 1) - c for k, c in zip(more, chosen, strict=True)])
    last = math.lgamma(b + 1) + _total([(k - b) * log_y - math.lgamma(k + 1) for k in below])
    odds = math.log(q - 1)
    return [
        float(stats.gamma(b).sf(y)) <= 1 / q,
        head <= y - math.log(q),
        odds + head <= tail,
        odds + head <= b * log_y - math.lgamma(b + 1) + right,
        odds + last <= right,
    ]


def lower_lines(b: int, q: int, y: float) -> list[bool]:
    """Whether each line of the lower bound holds at y."""
    log_y, below = math.log(y), np.arange(b)
    left = math.lgamma(b + 1) + math.log(q - 1) + _total([(k - b) * log_y - math.lgamma(k + 1) for k in below])
    both = math.log(b) + math.log(q - 1)
    return [members(b, q, y)[-1], left <= y, both <= log_y + y, both / 2 <= y]


def _total(logs: list[float]) -> float:
    return float(np.logaddexp.reduce(logs))


@cache
def _sets() -> float:
    from scipy import stats

    wrong = []
    for b, q in GRID:
        place = float(stats.gamma(b).isf(1 / q))
        wrong += [one for one in members(b, q, place * 0.999)]
        wrong += [not one for one in members(b, q, place * 1.001)]
    return float(np.mean(wrong))


@cache
def _implied() -> float:
    broken = []
    for (b, q), y in product(GRID, np.geomspace(0.01, 1000, 26)):
        lines = lower_lines(b, q, float(y))
        broken += [one and not other for one, other in pairwise(lines)]
    return float(np.mean(broken))
