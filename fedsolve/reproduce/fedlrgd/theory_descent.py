"""Gradient descent on a logistic regression in Jadbabaie et al. (2023): section II-C, (13), footnote 11, Lemma 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import L2, posed
from fedsolve.reproduce.fedlrgd.theory_smoothness import sigmoid
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

DESCENT = Check("Section II-C, (13)", "a gradient step 1/L_1 lowers F by at least ‖∇F‖²/(2L_1)")
GAP = Check("Footnote 11", "F(θ⁽⁰⁾) − F* is at most L_1 ‖θ⁽⁰⁾ − θ*‖²")
INHERITED = AtLeast(
    "Section II-C", "the eigenvalues of F's Hessian are at least μ, as many times, at 50 points", "times", unit="μ"
)
BELOW = Check("Section II-C", "… and at most L_1")
INEXACT = Check("Lemma 2", "… and on a logistic regression, errors of norm 0.01 to 1 in random directions")
HALF = Check("Lemma 3", "F(θ) − F* is at most (L_1/2) ‖θ − θ*‖²")
COMPACT = Check("Section II-C", "with errors up to e the iterates stay within ‖θ⁽⁰⁾ − θ*‖ + e/μ of θ*")
BETWEEN = AtLeast(
    "Footnote 11",
    "∇F(θ⁽⁰⁾)ᵀ(θ⁽⁰⁾ − θ*) is at least F(θ⁽⁰⁾) − F*, so that some τ in (0, 1) is between",
    "times",
    unit="times F(θ⁽⁰⁾) − F*",
)
STATISTICAL = Check(
    "After Proposition 1",
    "empirical risk differs from the true one like n^(−½): exponent, n = 100 to 10,000",
    "exponent",
    -0.45,
)
LINDENSTRAUSS = Check(
    "After Proposition 1",
    "200 points in R^2000 mapped to 4 log n/(ε²/2 − ε³/3) dimensions, ε = ½: squared distances change by less than ε",
)
CHECKS = (DESCENT, GAP, INHERITED, BELOW, HALF, COMPACT, INEXACT, BETWEEN, STATISTICAL, LINDENSTRAUSS)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 42])
    return named({**_descent(seed), STATISTICAL: _statistical(rng), LINDENSTRAUSS: _projected(rng)})


def _statistical(rng: np.random.Generator) -> float:
    """The logistic loss at one θ, 300 draws of n samples; the true risk from 10⁶."""
    theta = np.array([2.0, -1.0])

    def losses(count: int) -> Array:
        t = rng.random((count, 2)) @ theta
        labels = rng.random(count) < sigmoid(t)
        return np.asarray(np.logaddexp(0, t) - labels * t)

    risk = float(losses(1_000_000).mean())
    apart = [float(np.mean([abs(losses(n).mean() - risk) for _ in range(300)])) for n in (100, 10_000)]
    return float(np.log10(apart[1] / apart[0])) / 2


def _projected(rng: np.random.Generator) -> float:
    n, far = 200, 0.5
    k = int(np.ceil(4 * np.log(n) / (far**2 / 2 - far**3 / 3)))
    X = rng.standard_normal((n, 2000))
    Y = X @ rng.standard_normal((2000, k)) / np.sqrt(k)
    pairs = np.triu_indices(n, 1)
    squares = [np.square(Z).sum(axis=1)[:, None] + np.square(Z).sum(axis=1) - 2 * Z @ Z.T for Z in (X, Y)]
    return float(np.abs(squares[1][pairs] / squares[0][pairs] - 1).max()) / far


@dataclass(frozen=True, eq=False)
class Pooled:
    """F of a logistic regression, of all samples."""

    X: Array
    y: Array

    @property
    def L_1(self) -> float:
        """Of the loss of single samples."""
        return float(np.square(self.X).sum(axis=1).max()) / 4 + L2

    def value(self, theta: Array) -> float:
        return float(np.mean(np.logaddexp(0, self.X @ theta) - self.y * (self.X @ theta)) + L2 / 2 * theta @ theta)

    def slope(self, theta: Array) -> Array:
        return np.asarray(self.X.T @ (sigmoid(self.X @ theta) - self.y) / len(self.y) + L2 * theta)

    def size(self, theta: Array) -> float:
        """Of the terms that `value` adds up, which its rounding is proportional to; samples are in [0, 1]."""
        return float(np.logaddexp(0, self.X @ theta).mean() + np.abs(theta).sum() + L2 / 2 * theta @ theta)


def pooled(seed: int) -> Pooled:
    """Of clients that differ."""
    dealt = posed("different", seed).dealt
    return Pooled(np.vstack([rows for rows, _ in dealt]), np.concatenate([labels for _, labels in dealt]))


def _descent(seed: int) -> dict[Check, float]:
    F, (best, least) = pooled(seed), posed("different", seed).solved
    X, y, L_1, value, slope = F.X, F.y, F.L_1, F.value, F.slope
    rng = np.random.default_rng([seed, 22])
    drops, gaps, slopes, scales, far, high = [], [], [], [], 0.0, 0.0
    for theta in 5 * rng.standard_normal((50, X.shape[1])):
        g, share = slope(theta), sigmoid(X @ theta)
        drops.append(g @ g / (2 * L_1) / (value(theta) - value(theta - g / L_1)))
        gaps.append((value(theta) - least.least) / (L_1 * np.square(theta - best).sum()))
        slopes.append(g @ (theta - best) / (value(theta) - least.least))
        scales += np.linalg.eigvalsh((X.T * (share * (1 - share))) @ X / len(y) + L2 * np.eye(len(g))).tolist()
        most, size = float(np.linalg.norm(theta - best)), 10 ** rng.uniform(-2, 0)
        bound = value(theta) - least.least  # of Lemma 2
        for _ in range(100):
            error = rng.standard_normal(len(g))
            theta = theta - (slope(theta) + size * error / np.linalg.norm(error)) / L_1
            far = max(far, float(np.linalg.norm(theta - best)) / (most + size / L2))
            bound = (1 - L2 / L_1) * bound + size**2 / (2 * L_1)
            high = max(high, (value(theta) - least.least) / bound)
    return {
        DESCENT: max(drops),
        GAP: max(gaps),
        HALF: 2 * max(gaps),
        INHERITED: min(scales) / L2,
        BELOW: max(scales) / L_1,
        COMPACT: far,
        INEXACT: high,
        BETWEEN: min(slopes),
    }
