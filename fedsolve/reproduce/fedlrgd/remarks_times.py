"""Section II-D of Jadbabaie et al. (2023) beside `proofs_times`: fewer clients, queues of several lengths, orders."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_bound
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_times import ABOUT, ACTIVE, KOLMOGOROV, RATE, STEPS, slowest_mean
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

FASTER = Check(
    "Section I-A, 4",
    "the expected time of an epoch with a tenth of 1,000 clients over that with all, b = 1 to 100",
    "times",
)
QUEUE = Check("Section II-D, (23)", "τm = 5, 50 and 200 updates: the mean time over τm, less 1", "off", 0.05)
GAPS = Check(
    "Section II-D", "times between departures are exponential, rate 1: Kolmogorov's distance, 2,000 queues", "times"
)
ALONE = Check(
    "Section II-D", "… and each is uncorrelated with the one before: correlation, in standard errors", "times", 4.0
)
DIGAMMA = Check("Section II-D, (19)", "γ is −Ψ(1), and 0.57721…", "off", 1e-5)
UNEQUAL = Check(
    "After Definition 1",
    "half of the clients compute b = 10 to 100 gradients, the others a tenth: log(τm) + 2b is within 25 %",
    "off",
    ABOUT,
)
PRINTED = Check(
    "Abstract",
    "as printed, (p/ε)^Θ(d/n): the exponent of Γ in 1/ε over d/n, n = 10⁶ over n = 10³, or its inverse",
    "times",
    2.0,
)
CHECKS = (FASTER, QUEUE, GAPS, ALONE, DIGAMMA, UNEQUAL, PRINTED)
QUEUES = 2000


def measured(seed: int) -> dict[str, float]:
    from scipy.special import digamma

    rng = np.random.default_rng([seed, 54])
    gamma = float(-digamma(1.0))
    return named(
        {
            FASTER: max((b + slowest_mean(b, 100)) / (b + slowest_mean(b, 1000)) for b in STEPS),
            **_queues(rng),
            DIGAMMA: max(abs(gamma - float(np.euler_gamma)), abs(gamma - 0.57721)),
            UNEQUAL: max(abs((math.log(k) + 2 * b) / _unequal(b, k) - 1) for b in (10, 30, 100) for k in ACTIVE),
            PRINTED: _exponent_over_data(10**6) / _exponent_over_data(10**3),
        }
    )


def departures(rng: np.random.Generator, queues: int, count: int, rate: float = RATE, *, steady: bool = True) -> Array:
    """When each of so many updates has been sent, in M/M/1 queues that start in the steady state, or empty."""
    waiting, now = np.zeros(queues, dtype=int), np.zeros(queues)
    if steady:
        waiting = rng.geometric(1 - 1 / rate, queues) - 1
    left, found = np.full(queues, count), np.zeros((queues, count))
    while (left > 0).any():
        pace = 1 + rate * (waiting > 0)
        now = now + rng.exponential(size=queues) / pace
        arrived = rng.random(queues) * pace < 1
        sent = np.flatnonzero(~arrived & (left > 0))
        found[sent, count - left[sent]] = now[sent]
        waiting = waiting + np.where(arrived, 1, -1)
        left[~arrived] -= 1
    return found


def _queues(rng: np.random.Generator) -> dict[Check, float]:
    from scipy import stats

    times = departures(rng, QUEUES, 200)
    off = max(abs(float(times[:, k - 1].mean()) / k - 1) for k in (5, 50, 200))
    gaps = np.diff(times[:, :20], axis=1, prepend=0.0)
    far = max(float(stats.kstest(gaps[:, k], "expon").statistic) for k in (0, 9, 19)) * math.sqrt(QUEUES) / KOLMOGOROV
    pairs = float(np.corrcoef(gaps[:, :-1].ravel(), gaps[:, 1:].ravel())[0, 1])
    return {QUEUE: off, GAPS: far, ALONE: abs(pairs) * math.sqrt(QUEUES * 19)}


def _unequal(b: int, k: int) -> float:
    """The expected time of the slowest of k clients, b + Erlang(b) for half of them and b/10 + Erlang(b/10)."""
    from scipy import integrate, stats

    def done(x: float) -> float:
        each = [stats.gamma(steps).cdf(x - steps) for steps in (b, b // 10)]
        return float((each[0] * each[1]) ** (k / 2))

    found, _ = integrate.quad(lambda x: 1 - done(x), b, 4 * b + 60, limit=200)
    return b + float(found)


def _exponent_over_data(n: int) -> float:
    """Of Γ in 1/ε over d/n: d = 1, η = 8 (Theorem 2 with α = 1), m = n/100 clients of 100 samples."""
    one = SmoothProblem(10, 1, 8.0, 1.0, 1.0, 0.5, 10.0)
    costs = [fedlrgd_bound(one, epsilon, s=100, m=n // 100, phi=1e6).total for epsilon in (1e-100, 1e-200)]
    return math.log(costs[1] / costs[0]) / (100 * math.log(10)) * n
