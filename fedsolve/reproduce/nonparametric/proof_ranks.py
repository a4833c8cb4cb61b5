"""Theorem 11 of Su, Xu and Yang (2023) for other ranks, N, σ and spectra: the f of norm 1 learned most slowly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.stopped_features import clients_of
from fedsolve.reproduce.nonparametric.theory_decay import worst
from fedsolve.typing import Array

CASES = "d = 2, 6 and 20, N = 50 and 200, λ_d = λ_1/2 and λ_1/50, γ = 0.3 and 0.9, four methods"
GRID = bound(
    "Theorem 11",
    "the error of the worst f of norm 1 is at most 3κ/(ηs) exp(−2ηsλ_d t/κ) + 3κσ²d/N, σ = 0.1, 0.5 and 2, t = 1 to "
    "10⁶, " + CASES,
    "largest error over bound",
)
END = Quantity(
    "Theorem 11",
    "… and after 10⁶ rounds the error, σ = 1, is at least σ²d/N, the same cases",
    "least error over σ²d/N",
    least=1 - 1e-6,
)
END_KAPPA = bound("Theorem 11", "… and at most κσ²d/N", "largest error over κσ²d/N")
RATE = Quantity(
    "Theorem 11",
    "… and without noise −log of it grows by 1 to 1.5 κ times 2ηsλ_d/κ in a round, where it is e⁻⁵ of its start or "
    "less, the same cases",
    "largest of its inverse, and of it over 1.5 κ",
    most=1.0,
)
QUANTITIES = (GRID, END, END_KAPPA, RATE)
NOISES, ROUNDS = (0.1, 0.5, 2.0), (1, 10, 100, 1000, 10_000, 10**6)


def measured(seed: int, notes: Notes) -> None:
    """Exact expectations."""
    rng = np.random.default_rng([seed, 144])
    for K, found, d in cases(rng):
        N, s, eta, kappa = len(K), found.method.steps, found.method.step_size, found.kappa
        low = float(found.kernel_eigenvalues[d - 1])
        for t in ROUNDS:
            bias, variance = worst(found, K, t, 0.0), worst(found, K, t, 1.0) - worst(found, K, t, 0.0)
            first = 3 * kappa / (eta * s) * math.exp(-2 * eta * s * low * t / kappa)
            for sigma in NOISES:
                notes.add(GRID, (bias + sigma**2 * variance) / (first + 3 * kappa * sigma**2 * d / N))
        last = worst(found, K, ROUNDS[-1], 1.0) / (d / N)
        notes.add(END, last)
        notes.add(END_KAPPA, last / kappa)
        t = math.ceil(5 / -math.log(found.decay[d - 1]))
        pace = math.log(worst(found, K, t, 0.0) / worst(found, K, 2 * t, 0.0)) / t
        faster = pace / (2 * eta * s * low / kappa)
        notes.add(RATE, 1 / faster, faster / (1.5 * kappa))


def cases(rng: np.random.Generator) -> Iterator[tuple[Array, Decomposition, int]]:
    """K of rank d with drawn eigenvectors, and methods on four clients of unequal sizes."""
    for d, total, low in product((2, 6, 20), (50, 200), (0.5, 0.02)):
        U = np.linalg.qr(rng.standard_normal((total, d)))[0]
        K = total * (U * np.geomspace(1, low, d)) @ U.T
        sizes = clients_of(total)
        for share in (0.3, 0.9):
            eta = share / gamma(K, sizes, 1.0)
            chosen: tuple[Method, ...] = (*(LocalSteps(eta, s) for s in (1, 5, 10)), ProximalStep(eta))
            for method in chosen:
                yield K, Decomposition.of(K, sizes, method), d
