"""Appendix D of Su, Xu and Yang (2023): what no local estimator can learn. The best estimator for truths uniform on the
sphere is the mean of their posterior distribution; it is computed from points all over the sphere, for any rows."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D
from fedsolve.typing import Array

SLICE = identity(
    "Proof of Theorem 16", "the points V_⊥α + Vβ with ‖α‖² = B² − ‖β‖² are on the sphere, and φ(x_j) maps them to ȳ_j"
)
UNIFORM = Quantity(
    "Proof of Theorem 16",
    "given x_j and ȳ_j the truth is uniform on that slice: of draws from the sphere whose ȳ_j is near, the mean square "
    "of each coefficient of α is (B² − ‖β‖²) over their number, within 5 %",
    "mean square over it",
    0.95,
    1.05,
)
ANGLE = Quantity(
    "Proof of Theorem 16",
    "… and the angle of α, of these draws, is uniform: √n times Kolmogorov's distance is at most 1.95, the 99.9 % "
    "point",
    "largest √n D",
    most=1.95,
)
LEAST = Quantity(
    "Proof of Theorem 16",
    "the least mean squared error of any constant over these draws is B² − ‖β‖²: within 5 %",
    "least error over it",
    0.95,
    1.05,
)
FEW = Quantity(
    "Proof of Theorem 16",
    "the best estimator for truths uniform on the sphere has at least (1 − n_j/d)B², noise included: d = 3, n_j = 1, 2",
    "least risk over it",
    least=0.99,
)
FEW_ELSEWHERE = Quantity(
    "Proof of Theorem 16",
    "… and with d = 2, n_j = 1, and d = 6, n_j = 1, 2 and 3",
    "least risk over it",
    least=0.99,
)
FLAT = Quantity(
    "Proof of Theorem 17",
    "… and at least (1 − r_j/d)B² with 20 rows in r_j = 1, 2 dimensions, d = 3",
    "least risk over it",
    least=0.99,
)
TIGHT = Quantity(
    "Proof of Theorem 17",
    "… which it exceeds by at most a quarter with these 20 rows",
    "least risk over it",
    most=1.25,
)
QUANTITIES = (SLICE, UNIFORM, ANGLE, LEAST, FEW, FEW_ELSEWHERE, FLAT, TIGHT)
NORM, DRAWS, POINTS = 2.0, 1000, 20_000
ELSEWHERE = ((2, 1), (6, 1), (6, 2), (6, 3))  # d and n_j


def measured(seed: int, notes: Notes) -> None:
    """B = 2."""
    rng = np.random.default_rng([seed, 45])
    for n in (3, 8):
        _slice(rng.standard_normal((n, D)), rng, notes)
    _near(rng, notes)
    for n in (1, 2):
        notes.add(FEW, best_risk(rng.standard_normal((n, 3)), rng) / ((1 - n / 3) * NORM**2))
    for d, n in ELSEWHERE:
        notes.add(FEW_ELSEWHERE, best_risk(rng.standard_normal((n, d)), rng) / ((1 - n / d) * NORM**2))
    for r in (1, 2):
        basis = np.linalg.qr(rng.standard_normal((3, r)))[0]
        rows = math.sqrt(3 / r) * rng.standard_normal((20, r)) @ basis.T
        ratio = best_risk(rows, rng) / ((1 - r / 3) * NORM**2)
        notes.add(FLAT, ratio)
        notes.add(TIGHT, ratio)


def _slice(X: Array, rng: np.random.Generator, notes: Notes) -> None:
    truth = rng.standard_normal(D)
    truth *= NORM / np.linalg.norm(truth)
    full = np.linalg.qr(X.T, mode="complete")[0]
    V, rest = full[:, : len(X)], full[:, len(X) :]
    beta = np.linalg.solve(X @ V, X @ truth)
    alpha = rng.standard_normal((D - len(X), 50))
    alpha *= math.sqrt(NORM**2 - beta @ beta) / np.linalg.norm(alpha, axis=0)
    points = rest @ alpha + (V @ beta)[:, None]
    notes.same(SLICE, np.linalg.norm(points, axis=0), np.full(50, NORM))
    notes.same(SLICE, X @ points, np.repeat((X @ truth)[:, None], 50, axis=1))


def _near(rng: np.random.Generator, notes: Notes) -> None:
    """d = 3, one row: of two million draws those whose ȳ is within 0.02 of that of a truth."""
    x, truth = rng.standard_normal(3), rng.standard_normal(3)
    truth *= NORM / np.linalg.norm(truth)
    full = np.linalg.qr(x[:, None], mode="complete")[0]
    level, draws = float(x @ truth) / float(np.linalg.norm(x)), rng.standard_normal((2_000_000, 3))
    draws *= NORM / np.linalg.norm(draws, axis=1)[:, None]
    near = draws[np.abs(draws @ x / np.linalg.norm(x) - level) <= 0.02]
    left = NORM**2 - level**2
    alpha = near @ full[:, 1:]
    notes.add(UNIFORM, np.square(alpha).mean(axis=0) / (left / 2))
    notes.add(ANGLE, uniformity(np.arctan2(alpha[:, 0], alpha[:, 1])))
    notes.add(LEAST, near.var(axis=0).sum() / left)  # the mean of the draws is the best constant


def uniformity(angles: Array) -> float:
    """√n times Kolmogorov's distance from the uniform distribution on [−π, π]."""
    share, n = np.sort(angles) / (2 * math.pi) + 0.5, len(angles)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * float(max((steps[1:] - share).max(), (share - steps[:-1]).max()))


def lattice(points: int) -> Array:
    """Evenly spread points of the unit sphere."""
    index = np.arange(points) + 0.5
    height, angle = 1 - 2 * index / points, math.pi * (1 + math.sqrt(5)) * index
    across = np.sqrt(1 - height**2)
    return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=1)


def spread(points: int, d: int, rng: np.random.Generator) -> Array:
    """Points of the unit sphere: evenly in three dimensions, else the axes of random frames, of which each axis is
    uniform and the mean of their squares is exact."""
    if d == 3:
        found: Array = lattice(points) @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        return found
    frames = np.linalg.qr(rng.standard_normal((-(-points // d), d, d)))[0]
    return frames.reshape(-1, d) * rng.choice([-1.0, 1.0], (len(frames) * d, 1))


def best_risk(X: Array, rng: np.random.Generator) -> float:
    """E‖E[θ* | y] − θ*‖² for θ* uniform on the sphere of radius B: no estimator has less."""
    d = X.shape[1]
    grid, total = NORM * spread(POINTS, d, rng), 0.0
    seen, truths = grid @ X.T, NORM * spread(DRAWS, d, rng)
    for truth in truths:
        y = X @ truth + SIGMA * rng.standard_normal(len(X))
        logs = -np.square(seen - y).sum(axis=1) / (2 * SIGMA**2)
        weights = np.exp(logs - logs.max())
        total += float(np.square(weights @ grid / weights.sum() - truth).sum())
    return total / len(truths)
