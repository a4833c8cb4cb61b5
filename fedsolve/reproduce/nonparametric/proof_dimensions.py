"""Theorem 12 of Su, Xu and Yang (2023) for other d, N, σ, starts and methods, and with which probability.

The start is the worst, along the direction that is learned most slowly. Clients have covariances of their own, with
eigenvalues of 0.3 to 1 before the rows are drawn.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.stopped_features import clients_of
from fedsolve.reproduce.nonparametric.theory_coefficients import Rounds, methods
from fedsolve.typing import Array

GRID = bound(
    "Theorem 12, (25)",
    "d = 6 to 48, N = 10 d and 80 d, σ = 0.1, 0.5 and 2, ‖θ_0 − θ̄‖ = 1 and 10 in the slowest direction: E‖θ_t − θ̄‖² "
    "is at most (25), t = 1 to 1,000, four methods",
    "largest error over bound",
)
SLOWEST = Quantity(
    "Theorem 12, (25)",
    "… its first term is the bias for s = 1: ‖𝓛‖^(2t) over (1 − ηρ_N)^(2t), t = 1 and 10",
    "ratio",
    1 - 1e-6,
    1 + 1e-6,
)
SPEED = Quantity(
    "Theorem 12, (25)",
    "… with s = 5 and 10 and FedProx −log‖𝓛‖ is between 1 and 1.25 κ times −log(1 − sηρ_N/κ)",
    "largest of its inverse, and of it over 1.25 κ",
    most=1.0,
)
LEVEL = Quantity(
    "Theorem 12, (25)",
    "… and the variance at the end is between 0.2/κ and 1 times σ²κd/(Nρ_N), for every d, N and method",
    "largest of the ratio, and of 0.2/κ over it",
    most=1.0,
)
IN_D = Quantity(
    "Section 6.2",
    "the share of draws whose noise in θ_t is above 1.5 times its mean square falls exponentially with d: −log of it "
    "from d = 12 to 24 and from 24 to 48 grows by at least 0.03 with d, t = 10 and 1,000, Gaussian and uniform noise",
    "slope in d",
    least=0.03,
)
SCALED = Quantity(
    "Section 6.2",
    "… and −log of it is at least 0.05 d, d = 6 to 48, N = 10 d and 80 d",
    "−log of the share over d",
    least=0.05,
)
QUANTITIES = (GRID, SLOWEST, SPEED, LEVEL, IN_D, SCALED)
DIMENSIONS, TIMES, NOISES, ROUNDS, END = (6, 12, 24, 48), (10, 80), (0.1, 0.5, 2.0), (1, 3, 10, 100, 1000), 2**16
DRAWS = 3000


def measured(seed: int, notes: Notes) -> None:
    """Exact expectations, then draws."""
    rng = np.random.default_rng([seed, 143])
    shares: dict[tuple[int, int, int, int], list[float]] = {}
    for times, d in product(TIMES, DIMENSIONS):
        X = rows(rng, times * d, d)
        for place, method in enumerate(methods(X)):
            made = Rounds.of(X, method)
            _expected(made, notes)
            for t in (10, 1000):
                moved = made.summed(t) @ made.C
                for law, some in enumerate(above(moved, rng)):
                    notes.add(SCALED, -math.log(some) / d)
                    shares.setdefault((times, place, t, law), []).append(-math.log(some))
    for logs in shares.values():
        notes.add(IN_D, np.diff(logs)[1:] / np.diff(DIMENSIONS)[1:])


def rows(rng: np.random.Generator, total: int, d: int) -> list[Array]:
    """Four clients of unequal sizes, each with a covariance of its own."""
    scales = np.sqrt(np.linspace(0.3, 1, d))
    found = []
    for n in clients_of(total):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        found.append(rng.standard_normal((n, d)) * scales @ basis.T)
    return found


def above(moved: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The share of Gaussian and of uniform noise with ‖moved ξ‖² above 1.5 times its mean; at least half a draw."""
    mean, shape = float(np.square(moved).sum()), (moved.shape[1], DRAWS)
    half = math.sqrt(3)
    found = []
    for noise in (rng.standard_normal(shape), rng.uniform(-half, half, shape)):
        count = int((np.square(moved @ noise).sum(axis=0) > 1.5 * mean).sum())
        found.append(max(count, 0.5) / DRAWS)
    return found[0], found[1]


def _expected(made: Rounds, notes: Notes) -> None:
    d, s, eta = len(made.A), made.method.steps, made.method.step_size
    slowest = float(np.linalg.norm(made.A, 2))
    pace = s * eta * made.rho / made.kappa
    noise = made.kappa * d / (made.samples * made.rho)  # over σ²
    for t in ROUNDS:
        variance = float(np.square(made.summed(t) @ made.C).sum())
        for sigma, start in product(NOISES, (1.0, 10.0)):
            error = start**2 * slowest ** (2 * t) + sigma**2 * variance
            notes.add(GRID, error / (start**2 * (1 - pace) ** (2 * t) + sigma**2 * noise))
    if s == 1 and made.kappa == 1:
        notes.add(SLOWEST, *((slowest / (1 - pace)) ** (2 * t) for t in (1, 10)))
    else:
        faster = math.log(slowest) / math.log(1 - pace)
        notes.add(SPEED, 1 / faster, faster / (1.25 * made.kappa))
    level = float(np.square(made.summed(END) @ made.C).sum()) / noise
    notes.add(LEVEL, 0.2 / (made.kappa * level), level)
