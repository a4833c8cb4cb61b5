"""How long an epoch takes: section II-D and Appendix B of Jadbabaie et al. (2023), against exact times and a queue."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from fedsolve.complexity.epoch_times import communication_time, computation_time
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

ABOUT = 0.25  # what "≈" means
STEPS, ACTIVE = (*range(1, 11), *range(20, 101, 10)), (20, 100, 1000)
RATE = 1.5  # ν of the queue
KOLMOGOROV = 1.95  # 99.9 % point of √n times the distance

AUXILIARY = Check("Section II-D, (16)", "a(x) is (1 − F_Y(x))/F_Y'(x) of the Erlang distribution", "off", 1e-8)
GUMBEL = Check(
    "Section II-D, (17)",
    "the largest of k times comes near to Gumbel's distribution: from k = 10² to 10⁸ the distance at least halves",
    "times",
    0.5,
)
QUANTILE = Check(
    "Section II-D, (18)", "the quantile is ≈ log k + b, within 25 %, for b = 1 to 100 and k = 20 to 1,000", "off", ABOUT
)
SLOWEST = Check("Section II-D, (19)", "the slowest of τm clients takes ≈ log(τm) + 2b, within 25 %", "off", ABOUT)
SERVER = Check("Section II-D, (20)", "b gradients take the server 2b on average", "times", 1.0)
QUEUE = Check(
    "Section II-D, (23)",
    "what τm clients send takes τm to arrive through an M/M/1 queue in steady state, within 5 %",
    "off",
    0.05,
)
ERLANG = Check(
    "Section II-D, (22)", "S has an Erlang distribution (τm, 1): Kolmogorov's distance over its 99.9 % point", "times"
)
LOWER = AtLeast(
    "Proposition 2",
    "½ log(q − 1) + ½ log b is at most the quantile, for (q − 1) b ≥ 55: the quantile over it",
    "times",
    unit="times the left side",
)
UPPER = Check("Proposition 2", "… and that at most 2 log(q − 1) + 2b log(2b)")
CHECKS = (AUXILIARY, GUMBEL, QUANTILE, SLOWEST, SERVER, QUEUE, ERLANG, LOWER, UPPER)


def measured(seed: int, quick: bool) -> dict[str, float]:
    found = {**_erlang(), **_times(), **_proposition_2(), **_queue(seed, 200 if quick else 4000)}
    return named(found)


def auxiliary(b: int, x: float) -> float:
    return math.fsum(math.exp(math.lgamma(b) - math.lgamma(b - k) - k * math.log(x)) for k in range(b))


def _erlang() -> dict[Check, float]:
    from scipy import stats  # slow to import, and the command line imports this module

    off, ratio = 0.0, 0.0
    for b in range(1, 21):
        Y = stats.gamma(b)
        for x in (0.5, 2.0, 10.0, 40.0):
            off = max(off, abs(auxiliary(b, x) * Y.pdf(x) / Y.sf(x) - 1))
    for b in (2, 5, 20):  # of b = 1 it is as near as rounding lets it
        Y = stats.gamma(b)
        apart = []
        for k in (1e2, 1e8):
            place = Y.isf(1 / k)
            grid = np.linspace(-2, 8, 400)
            largest = np.exp(k * np.log1p(-Y.sf(np.maximum(place + auxiliary(b, place) * grid, 0))))
            apart.append(float(np.abs(largest - np.exp(-np.exp(-grid))).max()))
        ratio = max(ratio, apart[1] / apart[0])
    return {AUXILIARY: off, GUMBEL: ratio}


def _times() -> dict[Check, float]:
    from scipy import stats

    quantile, slowest = 0.0, 0.0
    for b in STEPS:
        Y = stats.gamma(b)
        for k in ACTIVE:
            quantile = max(quantile, abs((math.log(k) + b) / float(Y.isf(1 / k)) - 1))
            slowest = max(slowest, abs(computation_time(b, k) / (b + slowest_mean(b, k)) - 1))
    ratios = [computation_time(b, None) / (b + slowest_mean(b, 1)) for b in STEPS]
    return {QUANTILE: quantile, SLOWEST: slowest, SERVER: max(max(one, 1 / one) for one in ratios)}


@cache
def slowest_mean(b: int, k: int) -> float:
    """E max of k Erlang times, the integral of 1 − F^k."""
    from scipy import integrate, stats

    Y = stats.gamma(b)
    place = float(Y.isf(1 / k)) if k > 1 else float(b)
    found, _ = integrate.quad(
        lambda x: -math.expm1(k * math.log1p(-min(Y.sf(x), 1 - 1e-16))), 0, place * 4 + 60, points=[place], limit=200
    )
    return float(found)


def _proposition_2() -> dict[Check, float]:
    from scipy import stats

    lower, upper = math.inf, 0.0
    for b in (1, 2, 3, 5, 10, 30, 100):
        for q in (2, 3, 6, 10, 56, 100, 1000, 10**6):
            if (q - 1) * b >= 55:
                place = float(stats.gamma(b).isf(1 / q))
                lower = min(lower, place / (0.5 * math.log(q - 1) + 0.5 * math.log(b)))
                upper = max(upper, place / (2 * math.log(q - 1) + 2 * b * math.log(2 * b)))
    return {LOWER: lower, UPPER: upper}


def _queue(seed: int, runs: int) -> dict[Check, float]:
    """Until so many departures, from the steady state: how many wait has a geometric distribution."""
    rng, active = np.random.default_rng([seed, 23]), 20
    times = []
    for _ in range(runs):
        waiting, now, left = int(rng.geometric(1 - 1 / RATE)) - 1, 0.0, active
        while left:
            pace = 1 + RATE * (waiting > 0)
            now += rng.exponential(1 / pace)
            if rng.random() * pace < 1:
                waiting += 1
            else:
                waiting, left = waiting - 1, left - 1
        times.append(now)
    mean = float(np.mean(times)) / communication_time(active, 1.0)
    return {QUEUE: abs(mean - 1), ERLANG: distance(np.array(times), active)}


def distance(values: Array, shape: int) -> float:
    """Kolmogorov's distance from Erlang(shape, 1), over its 99.9 % point."""
    from scipy import stats

    return float(stats.kstest(values, stats.gamma(shape).cdf).statistic) * math.sqrt(len(values)) / KOLMOGOROV
