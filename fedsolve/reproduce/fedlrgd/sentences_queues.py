"""Section II-D of Jadbabaie et al. (2023): Burke's theorem and (22), (23) and footnote 6 for several rates ν."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.remarks_times import departures
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

SHAPE = Check(
    "Section II-D, (22)",
    "S, ν = 1.1, 1.5 and 4, τm = 5, 50 and 200: Kolmogorov's distance from Erlang(τm, 1) over its 1 − 1e-5 point",
    "times",
)
EMPTY = AtLeast(
    "Section II-D, (22)",
    "… queues that start empty, ν = 1.1: the least over τm",
    "times",
    unit="times the 1 − 1e-5 point",
)
MEAN = Check("Section II-D, (23)", "the mean of S less τm, the same queues, in standard errors", "times", 4.5)
GAPS = Check(
    "Section II-D",
    "times between departures, ν = 1.1, 1.5 and 4: Kolmogorov's distance from the exponential one over its 1 − 1e-5 "
    "point",
    "times",
)
ALONE = Check(
    "Section II-D", "… and their correlation with the one, two and five before, in standard errors", "times", 4.5
)
STABLE = Check(
    "Footnote 6",
    "ν = 1.2 to 4, queues that start empty: mean length after 2,000 and 4,000 events over 1/(ν − 1), less 1",
    "off",
    0.15,
)
GROWS = AtLeast(
    "Footnote 6",
    "ν = 0.5 and 0.8: mean length after 4,000 events over (1 − ν) t, its least",
    "times",
    0.9,
    unit="of (1 − ν) t",
)
BETWEEN = AtLeast(
    "Footnote 6", "ν = 1: mean length after 4,000 events over that after 1,000", "times", 1.8, unit="times"
)
CHECKS = (SHAPE, EMPTY, MEAN, GAPS, ALONE, STABLE, GROWS, BETWEEN)
QUEUES, RATES, COUNTS = 2000, (1.1, 1.5, 4.0), (5, 50, 200)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 91])
    return named({**_departures(rng), **_footnote_6(rng)})


def distance(values: Array, shape: int) -> float:
    """Kolmogorov's distance from Erlang(shape, 1) over the point that it exceeds with probability 1e-5."""
    from scipy import stats

    far = float(stats.kstest(values, stats.gamma(shape).cdf).statistic)
    return far * math.sqrt(len(values)) / float(stats.kstwobign.isf(1e-5))


def _departures(rng: np.random.Generator) -> dict[Check, float]:
    found: dict[Check, float] = {SHAPE: 0.0, MEAN: 0.0, GAPS: 0.0, ALONE: 0.0}
    for rate in RATES:
        times = departures(rng, QUEUES, max(COUNTS), rate)
        for k in COUNTS:
            sent = times[:, k - 1]
            found[SHAPE] = max(found[SHAPE], distance(sent, k))
            found[MEAN] = max(found[MEAN], abs(float(sent.mean()) - k) / math.sqrt(k / QUEUES))
        gaps = np.diff(times[:, :20], axis=1, prepend=0.0)
        found[GAPS] = max(found[GAPS], *(distance(gaps[:, k], 1) for k in (0, 9, 19)))
        for lag in (1, 2, 5):
            pairs = float(np.corrcoef(gaps[:, :-lag].ravel(), gaps[:, lag:].ravel())[0, 1])
            found[ALONE] = max(found[ALONE], abs(pairs) * math.sqrt(QUEUES * (20 - lag)))
    empty = departures(rng, QUEUES, max(COUNTS), RATES[0], steady=False)
    return {**found, EMPTY: min(distance(empty[:, k - 1], k) for k in COUNTS)}


def lengths(rng: np.random.Generator, rate: float, at: tuple[int, ...]) -> list[float]:
    """Mean lengths of queues that start empty, after so many events of a Poisson process with the rate 1 + ν.

    An event is an arrival, or the end of a service, which changes nothing if nobody waits.
    """
    waiting, found = np.zeros(QUEUES, dtype=int), []
    for event in range(1, max(at) + 1):
        arrived = rng.random(QUEUES) * (1 + rate) < 1
        waiting = np.maximum(waiting + np.where(arrived, 1, -1), 0)
        if event in at:
            found.append(float(waiting.mean()))
    return found


def _footnote_6(rng: np.random.Generator) -> dict[Check, float]:
    off = [abs(mean * (rate - 1) - 1) for rate in (1.2, 1.5, 2.0, 4.0) for mean in lengths(rng, rate, (2000, 4000))]
    grown = [lengths(rng, rate, (4000,))[0] / ((1 - rate) * 4000 / (1 + rate)) for rate in (0.5, 0.8)]
    early, late = lengths(rng, 1.0, (1000, 4000))
    return {STABLE: max(off), GROWS: min(grown), BETWEEN: late / early}
