"""Appendices C.2 and D of Su, Xu and Yang (2023): the tail of ‖Δ_f_j*‖² in the proof of Corollary 13, and the
divergences between the responses' distributions in that of Theorem 16."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, bound
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, SIGMA, D
from fedsolve.typing import Array

SUB_GAUSSIAN = Quantity(
    "Proof of Corollary 13",
    "⟨φ(x_ij), θ_i* − θ_j*⟩ is sub-Gaussian with a norm of at most c_2Γ: E exp(⟨·⟩²/(2Γ)²) ≤ 2, c_2 = 2, β = 1, "
    "100,000 Gaussian and uniform rows",
    "mean",
    most=2.0,
)
MEAN = bound("Proof of Corollary 13", "E‖Δ_f_j*‖² ≤ βΓ²N, exactly, for every client j", "mean over it")
TAIL = bound(
    "Proof of Corollary 13",
    "P{‖Δ_f_j*‖² ≥ E + t} ≤ exp(−c_3 min{t²/(Γ⁴N), t/Γ²}) with c_3 = 1/16, 20,000 draws of Gaussian rows, six t",
    "share of draws over it",
)
CONVEX = bound(
    "Proof of Theorem 16",
    "D_KL(P_v‖P_v') ≤ E‖φ(x_j)(θ_v − θ_v')‖²/(2σ²), P_v the distribution of y_j without the rows, which is Gaussian "
    "for Gaussian rows",
)
WITH_ROWS = Quantity(
    "Proof of Theorem 16",
    "… and of (x_j, y_j) together D_KL is equal to that: the mean of 20,000 log-likelihood ratios is within five "
    "standard errors",
    "largest distance in standard errors",
    most=5.0,
)
QUANTITIES = (SUB_GAUSSIAN, MEAN, TAIL, CONVEX, WITH_ROWS)
SIZES = (12, 24, 36, 72, 96)  # N = 20 d
DRAWS = 20_000


def measured(seed: int, notes: Notes) -> None:
    """Clients with covariances of their own between α = 0.1 and β = 1."""
    rng = np.random.default_rng([seed, 46])
    truths = rng.standard_normal(D) + rng.standard_normal((len(SIZES), D))
    bases = [np.linalg.qr(rng.standard_normal((D, D)))[0] for _ in SIZES]
    scales = np.linspace(LOW, 1, D)
    gap = max(float(np.linalg.norm(a - b)) for a, b in product(truths, truths))
    for own in truths:
        seen = [np.sqrt(scales) * (Q.T @ (one - own)) for Q, one in zip(bases, truths, strict=True)]
        _tail(np.array([part @ part for part in seen]), gap, rng, notes)
    for part in seen[:-1]:  # of the last client, which is 0 away from itself
        half = math.sqrt(3)
        for rows in (rng.standard_normal((100_000, D)), rng.uniform(-half, half, (100_000, D))):
            notes.add(SUB_GAUSSIAN, np.exp(np.square(rows @ part) / (2 * gap) ** 2).mean())
    _divergences(rng, scales, notes)


def _tail(variances: Array, gap: float, rng: np.random.Generator, notes: Notes) -> None:
    """‖Δ‖² is a sum of χ² variables, each with the variance of its client's ⟨φ, θ_i* − θ_j*⟩."""
    sizes, total = np.array(SIZES), sum(SIZES)
    mean = float(sizes @ variances)
    notes.add(MEAN, mean / (gap**2 * total))
    drawn = rng.chisquare(sizes, (DRAWS, len(SIZES))) @ variances
    for share in (0.01, 0.03, 0.1, 0.2, 0.3, 0.5):
        t = share * gap**2 * total
        most = math.exp(-min(t**2 / (gap**4 * total), t / gap**2) / 16)
        notes.add(TAIL, (drawn >= mean + t).mean() / most)


def divergence(first: float, second: float, n: int) -> float:
    """D_KL of n independent N(0, first) to N(0, second)."""
    return n / 2 * (first / second - 1 - math.log(first / second))


def _divergences(rng: np.random.Generator, scales: Array, notes: Notes) -> None:
    for n, delta in product((5, 20, 100), (0.01, 0.1, 1.0)):
        for _ in range(20):
            v, w = (one / max(1.0, float(np.linalg.norm(one))) for one in rng.standard_normal((2, D)))
            first, second = (SIGMA**2 + float(scales @ (4 * delta * one) ** 2) for one in (v, w))
            apart = n * float(scales @ (4 * delta * (v - w)) ** 2)
            notes.add(CONVEX, divergence(first, second, n) / (apart / (2 * SIGMA**2)))
        ratios = log_ratios(4 * delta * v, 4 * delta * w, scales, n, rng)
        deviation = float(ratios.std(ddof=1)) / math.sqrt(DRAWS)
        notes.add(WITH_ROWS, abs(float(ratios.mean()) - apart / (2 * SIGMA**2)) / deviation)


def log_ratios(theta: Array, other: Array, scales: Array, n: int, rng: np.random.Generator) -> Array:
    """log dP/dP' at draws of n rows with this diagonal covariance and of their responses under θ."""
    found = np.zeros(DRAWS)
    for _ in range(n):
        rows = rng.standard_normal((DRAWS, len(scales))) * np.sqrt(scales)
        noise, apart = SIGMA * rng.standard_normal(DRAWS), rows @ (theta - other)
        found += (np.square(noise + apart) - np.square(noise)) / (2 * SIGMA**2)
    return found
