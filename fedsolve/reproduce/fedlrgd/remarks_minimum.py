"""The minimum of F in Jadbabaie et al. (2023): that there is one, and footnote 11 line by line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import L2, CostProblem, posed
from fedsolve.reproduce.fedlrgd.theory_smoothness import sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

UNIQUE = Check("(10)", "gradient descent from 20 starts ends in one θ*: the largest distance", "off", 1e-6)
LINES = Check("Footnote 11", "with the τ of the mean value theorem: its lines two to five, each at most the next")
VANISHES = Check("Footnote 11", "… and ∇F(θ*) = 0", "off", 1e-9)
CHECKS = (UNIQUE, LINES, VANISHES)
Field = Callable[[Array], Array]


def measured(seed: int) -> dict[str, float]:
    return named(_logistic(np.random.default_rng([seed, 60]), posed("different", seed)))


def gradient_of(problem: CostProblem) -> tuple[Field, float]:
    """∇F of the samples of all, and L_1."""
    X, y = np.vstack([rows for rows, _ in problem.dealt]), np.concatenate([labels for _, labels in problem.dealt])

    def slope(theta: Array) -> Array:
        return np.asarray(X.T @ (sigmoid(X @ theta) - y) / len(y) + L2 * theta)

    return slope, float(np.square(X).sum(axis=1).max()) / 4 + L2


def _logistic(rng: np.random.Generator, problem: CostProblem) -> dict[Check, float]:
    slope, L_1 = gradient_of(problem)
    best, _ = problem.solved
    far, lines = 0.0, 0.0
    for theta in 5 * rng.standard_normal((20, len(best))):
        ends = np.polynomial.legendre.leggauss(40)
        parts = [
            (slope(best + (t + 1) / 2 * (theta - best)) @ (theta - best)) * w / 2 for t, w in zip(*ends, strict=True)
        ]
        gap = float(np.sum(parts))  # F(θ⁽⁰⁾) − F*, the integral of the slope
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            value = float(slope(best + middle * (theta - best)) @ (theta - best))
            low, high = (middle, high) if value < gap else (low, middle)
        between = slope(best + low * (theta - best))
        apart = float(np.linalg.norm(theta - best))
        each = [
            gap,
            float((between - slope(best)) @ (theta - best)),
            float(np.linalg.norm(between - slope(best))) * apart,
        ]
        each.append(L_1 * apart**2)
        lines = max(lines, *(one / other for one, other in pairwise(each)))
        point = theta
        for _ in range(4000):
            point = point - slope(point) / L_1
        far = max(far, float(np.linalg.norm(point - best)))
    return {UNIQUE: far, LINES: lines, VANISHES: float(np.linalg.norm(slope(best)))}
