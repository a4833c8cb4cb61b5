"""Corollary 14 of Su, Xu and Yang (2023) for clients that differ in n_i, r_i and F_i, as it is stated."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.nonparametric.theory_coefficients import PLENTY, D, Rounds, methods
from fedsolve.typing import Array

UNLIKE = Check(
    "Corollary 14, (30)",
    "clients with r_i = 1 to 9 dimensions and r_i to 3 r_i rows, N = 8 ν d log d: E‖θ_t − θ̄‖² is at most the bound, in "
    "every of 3 draws",
)
UNLIKE_APART = Check("Corollary 14, (31)", "… and ‖θ̄ − θ_j*‖ at most Γ √(2κβνMd/(αN)), for every client and draw")
CHECKS = (UNLIKE, UNLIKE_APART)
MOST_ROWS, DRAWS = 3, 3  # rows of a client over r_i, that is ν


def measured(seed: int) -> dict[str, float]:
    """The largest shares of the two bounds; α and β are those of the draw."""
    worst: dict[str, float] = defaultdict(lambda: -math.inf)
    rng = np.random.default_rng([seed, 7])
    for _ in range(DRAWS):
        X, nu, low, high = unlike(rng)
        truths = rng.standard_normal(D) + 0.3 * rng.standard_normal((len(X), D))
        gap = max(float(np.linalg.norm(a - b)) for a, b in product(truths, truths))
        for made in (Rounds.of(X, one) for one in methods(X)):
            theta, rate = made.centre(truths), made.method.step_size * made.method.steps * low / (2 * made.kappa)
            most = gap * math.sqrt(2 * made.kappa * high * nu * len(X) * D / (low * made.samples))
            away = max(float(np.linalg.norm(theta - own)) for own in truths)
            for check, value in ((UNLIKE, made.share(theta, rate, low)), (UNLIKE_APART, away / most)):
                worst[check.claim] = max(worst[check.claim], value)
    return dict(worst)


def unlike(rng: np.random.Generator) -> tuple[list[Array], float, float, float]:
    """Rows of clients until N ≥ 8 ν d log d, with ν, α and β; F_iᵀF_i/n_i has eigenvalues of 0.64 to 1.44."""
    X: list[Array] = []
    nu, low, high = 0.0, math.inf, 0.0
    while sum(map(len, X)) < PLENTY * MOST_ROWS * D * math.log(D):
        r = int(rng.integers(1, 10))
        n = r * int(rng.integers(1, MOST_ROWS + 1))
        U = np.linalg.qr(rng.standard_normal((D, r)))[0]
        F = math.sqrt(n) * np.linalg.qr(rng.standard_normal((n, r)))[0] * rng.uniform(0.8, 1.2, r)
        values = np.linalg.eigvalsh(F.T @ F / n)
        nu, low, high = max(nu, n / r), min(low, float(values[0])), max(high, float(values[-1]))
        X.append(math.sqrt(D / r) * F @ U.T)
    return X, nu, low, high
