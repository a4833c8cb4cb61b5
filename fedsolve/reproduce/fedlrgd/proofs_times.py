"""Section II-D of Jadbabaie et al. (2023), step by step: the times of an epoch."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.theory_times import ABOUT, ACTIVE, RATE, STEPS, auxiliary, distance, slowest_mean
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

TAIL = Check(
    "(16)", "a(x) − 1 − (b − 1)/x is at most 1.2 (b − 1)(b − 2)/x², x ≥ 20b (the rest is O(1/x²))", "times", 1.2
)
BEYOND = AtLeast(
    "(16)",
    "“x ≫ b (as will be the case for us)”: the quantile over b, b = 1 to 100, k = 20 to 1,000",
    "times",
    3.0,
    unit="b",
)
MEAN = Check("(19)", "the mean of Gumbel's distribution is γ = 0.57721", "off", 1e-5)
GUMBEL = Check("(19), line 1", "γ a(F⁻¹) + F⁻¹ + b is within 25 % of the expected time", "off", ABOUT)
SECOND = Check("(19), line 2", "γ + γ(b − 1)/F⁻¹ + F⁻¹ + b is within 25 % of the expected time", "off", ABOUT)
THIRD = Check("(19), line 3", "log(τm) + 2b + γ + γb/(log(τm) + b) is within 25 % of the expected time", "off", ABOUT)
CONSTANT = Check("(19), line 3", "γ + γb/(log(τm) + b) is Θ(1): at most 2γ")
POSITIVE = AtLeast("(19), line 3", "… and at least γ, as many times", "times", unit="γ")
CLIENT = Check(
    "Section II-D",
    "b gradients of 1 + exponential time each take b + Erlang(b, 1): Kolmogorov's distance, 4,000 draws",
    "times",
)
STABLE = Check(
    "Footnote 6", "ν = 1.5: the queue's mean length is that of the steady state, 1/(ν − 1), within 20 %", "off", 0.2
)
UNSTABLE = AtLeast(
    "Footnote 6",
    "ν = 0.8: the queue grows by 1 − ν in a unit of time: its length at t = 4,000 over 800",
    "times",
    0.7,
    unit="of (1 − ν) t",
)
ORDER = Check("(26)", "2b + log(τm) + φτm is at most 3 times b + φτm, φ ≥ 1", "times", 3.0)
LOWER = AtLeast("(26)", "… and at least as much as b + φτm", "times", unit="times b + φτm")
STRAGGLERS = Check(
    "After Definition 1", "log(τm) over 2b + φτm is at τm = 10⁶ at most a hundredth of that at 20", "times", 0.01
)
CHECKS = (
    *(TAIL, BEYOND, MEAN, GUMBEL, SECOND, THIRD, CONSTANT, POSITIVE, CLIENT, STABLE, UNSTABLE, ORDER, LOWER),
    STRAGGLERS,
)  # fmt: skip


def measured(seed: int, quick: bool) -> dict[str, float]:
    rng = np.random.default_rng([seed, 35])
    return named({**_times(), **_clients(rng), **_queues(rng, 1 if quick else 20), **_orders()})


def _times() -> dict[Check, float]:
    from scipy import integrate, stats

    tail = [
        (auxiliary(b, x) - 1 - (b - 1) / x) * x**2 / ((b - 1) * (b - 2)) for b in (3, 5, 20) for x in (20.0 * b, 1e4)
    ]
    mean, _ = integrate.quad(lambda x: x * math.exp(-x - math.exp(-x)), -6, 60)
    gamma = float(np.euler_gamma)
    off = {GUMBEL: 0.0, SECOND: 0.0, THIRD: 0.0}
    beyond, extras = math.inf, []
    for b, k in product(STEPS, ACTIVE):
        place, exact = float(stats.gamma(b).isf(1 / k)), b + slowest_mean(b, k)
        extras.append(gamma + gamma * b / (math.log(k) + b))
        lines = {
            GUMBEL: gamma * auxiliary(b, place) + place + b,
            SECOND: gamma + gamma * (b - 1) / place + place + b,
            THIRD: math.log(k) + 2 * b + extras[-1],
        }
        for check, value in lines.items():
            off[check] = max(off[check], abs(value / exact - 1))
        beyond = min(beyond, place / b)
    return {
        TAIL: max(tail),
        BEYOND: beyond,
        MEAN: abs(mean - 0.57721),
        **off,
        CONSTANT: max(extras) / (2 * gamma),
        POSITIVE: min(extras) / gamma,
    }


def _clients(rng: np.random.Generator) -> dict[Check, float]:
    return {CLIENT: max(distance((1 + rng.exponential(size=(4000, b))).sum(axis=1) - b, b) for b in (1, 5, 30))}


def _queues(rng: np.random.Generator, runs: int) -> dict[Check, float]:
    """M/M/1: how many wait, over time."""
    mean: list[float] = []
    grown: list[float] = []
    for _ in range(runs):
        for rate, kept in ((RATE, mean), (0.8, grown)):
            waiting, now, area = 0, 0.0, 0.0
            draws = iter(rng.exponential(size=20_000))
            coins = iter(rng.random(20_000))
            while now < 4000:
                pace = 1 + rate * (waiting > 0)
                wait = next(draws) / pace
                area, now = area + wait * waiting, now + wait
                waiting += 1 if next(coins) * pace < 1 else -1
            kept.append(area / now if rate > 1 else waiting / 800)
    return {STABLE: abs(float(np.mean(mean)) * (RATE - 1) - 1), UNSTABLE: float(np.mean(grown))}


def _orders() -> dict[Check, float]:
    shares = [
        (2 * b + math.log(k) + phi * k) / (b + phi * k)
        for b, k, phi in product((1, 10, 1000), (20, 10**3, 10**6), (1.0, 100.0))
    ]
    falls = []
    for b, phi in product((1, 10, 100), (1.0, 100.0)):
        first, last = (math.log(k) / (2 * b + phi * k) for k in (20, 10**6))
        falls.append(last / first)
    return {ORDER: max(shares), LOWER: min(shares), STRAGGLERS: max(falls)}
