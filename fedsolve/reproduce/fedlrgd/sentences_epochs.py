"""Times of an epoch, section II-D and Appendix B of Jadbabaie et al. (2023), for numbers of clients up to 10¹⁰⁰."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise, product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_times import ABOUT, auxiliary
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

FALLS = Check(
    "Section II-D, (17)",
    "the largest of k times and Gumbel's distribution, k = 10² to 10¹²⁸: each distance over the one before",
    "times",
    1 - 1e-9,
)
LAST = Check("Section II-D, (17)", "… and the distance at k = 10¹²⁸", "off", 0.01)
ANY = Check(
    "Section II-D, (19)",
    "log(τm) + 2b, b = 1 to 1,000 and τm = 10⁴ to 10¹⁰⁰, is within 25 % of the expected time",
    "off",
    ABOUT,
)
OCCUR = Check("Section II-D, (19)", "… up to τm = 10⁹, within 25 %", "off", ABOUT)
MOST = Check("Section II-D, (19)", "the expected time over log(τm) + 2b, τm to 10¹⁰⁰, its largest", "times", 1.5)
LEAST = AtLeast("Section II-D, (19)", "… and its least", "times", 0.9, unit="times")
LOWER = AtLeast(
    "Proposition 2",
    "Proposition 2, b to 10⁴ and q to 1e200: the quantile over ½ log(q − 1) + ½ log b, its least",
    "times",
    unit="times the left side",
)
UPPER = Check("Proposition 2", "… and over 2 log(q − 1) + 2b log(2b), its largest")
HALVED = AtLeast("Proposition 2", "… and over half of that, its largest", "times", unit="times")
CHECKS = (FALLS, LAST, ANY, OCCUR, MOST, LEAST, LOWER, UPPER, HALVED)
STEPS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)


def measured(seed: int) -> dict[str, float]:
    """The same in every seed: there are no draws."""
    return named({**_gumbel(), **_times(), **_proposition_2()})


@cache
def apart(b: int, power: int) -> float:
    """The largest difference of Gumbel's distribution from that of the largest of k = 10^power, normalised as (17)."""
    from scipy import stats

    Y, k = stats.gamma(b), 10.0**power
    place = float(Y.isf(1 / k))
    grid = np.linspace(-2, 8, 400)
    largest = np.exp(k * np.log1p(-Y.sf(np.maximum(place + auxiliary(b, place) * grid, 0))))
    return float(np.abs(largest - np.exp(-np.exp(-grid))).max())


def _gumbel() -> dict[Check, float]:
    falls, last = [], []
    for b in (1, 2, 5, 20, 100):
        found = [apart(b, power) for power in (2, 4, 8, 16, 32, 64, 128)]
        falls += [after / before for before, after in pairwise(found) if before > 1e-9]
        last.append(found[-1])
    return {FALLS: max(falls), LAST: max(last)}


@cache
def expected(b: int, k: float) -> float:
    """b and the mean of the largest of k Erlang times, the integral of 1 − F^k, near its quantile for a large k."""
    from scipy import integrate, stats

    Y = stats.gamma(b)
    place = float(Y.isf(1 / k))
    width = auxiliary(b, place) if b < 170 else place / (place - b + 1)  # of the distribution, or more than that
    start = max(place - 12 * width, 0.0)
    found, _ = integrate.quad(
        lambda x: -math.expm1(k * math.log1p(-min(float(Y.sf(x)), 1 - 1e-16))),
        start,
        place + 60 * width,
        points=[place],
        limit=400,
    )
    return b + start + float(found)


def _times() -> dict[Check, float]:
    found = {(b, k): expected(b, k) / (math.log(k) + 2 * b) for b, k in product(STEPS, (1e4, 1e6, 1e9, 1e30, 1e100))}
    off = {at: abs(1 / one - 1) for at, one in found.items()}
    return {
        ANY: max(off.values()),
        OCCUR: max(one for (_, k), one in off.items() if k <= 1e9),
        MOST: max(found.values()),
        LEAST: min(found.values()),
    }


def _proposition_2() -> dict[Check, float]:
    from scipy import stats

    lower, upper = [], []
    for b, q in product(
        (1, 2, 3, 5, 10, 30, 100, 1000, 10_000), (2.0, 3.0, 6.0, 10.0, 56.0, 100.0, 1e3, 1e6, 1e12, 1e50, 1e200)
    ):
        place = float(stats.gamma(b).isf(1 / q))
        upper.append(place / (2 * math.log(q - 1) + 2 * b * math.log(2 * b)))
        if (q - 1) * b >= 55:
            lower.append(place / (0.5 * math.log(q - 1) + 0.5 * math.log(b)))
    return {LOWER: min(lower), UPPER: max(upper), HALVED: 2 * max(upper)}
