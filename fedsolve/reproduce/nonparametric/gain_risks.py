"""The two risks of Definition 15 (Su, Xu and Yang, 2023) for linear regression: of the best local estimator, with what
no estimator can beat, and of the limit of FedAvg and FedProx."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric.theory_coefficients import LOW, SIGMA
from fedsolve.typing import Array


def bayes_risk(X: Array, norm: float, sigma: float = SIGMA) -> float:
    """The least mean squared error for truths N(0, B²/d I), that of ridge regression with the right penalty."""
    d = X.shape[1]
    return sigma**2 * float(np.trace(np.linalg.inv(X.T @ X + sigma**2 * d / norm**2 * np.eye(d))))


def least_risk(drawn: Sequence[Array], norm: float, sigma: float = SIGMA) -> float:
    """A bound from below on the largest error over ‖θ‖ ≤ B, in the mean over these draws of the rows, for any estimator
    that knows the rows.

    The larger of two Bayes risks' bounds. For independent coefficients with the density of a squared cosine on
    [−B/√d, B/√d], whose information is π²d/B², by van Trees' inequality; for θ uniform on the sphere the part of it
    that the rows do not see, (1 − rank/d) B².
    """
    unseen = float(np.mean([1 - np.linalg.matrix_rank(X) / X.shape[1] for X in drawn]))
    return max(float(np.mean([bayes_risk(X, norm / math.pi, sigma) for X in drawn])), unseen * norm**2)


@dataclass(frozen=True)
class Federated:
    """The limit's risk, in parts: (largest bias for truths 1 apart)² and E‖θ_∞ − θ̄‖²."""

    bias: float
    variance: float

    @classmethod
    def of(cls, X: list[Array], method: Method, sigma: float = SIGMA) -> Federated:
        """Of the first client, where the others' common truth is elsewhere."""
        total, d = sum(map(len, X)), X[0].shape[1]
        A, others, noise = (np.zeros((d, d)) for _ in range(3))
        for place, rows in enumerate(X):
            H = rows.T @ rows / len(rows)
            values, vectors = np.linalg.eigh(H)
            p = (vectors * method.filter(np.maximum(values, 0.0))) @ vectors.T
            own = len(rows) / total * p @ H
            A, noise = A + own, noise + own @ p / total
            others = others + own if place else others
        inverse = np.linalg.inv(A)
        return cls(
            float(np.linalg.norm(inverse @ others, 2)) ** 2, sigma**2 * float(np.trace(inverse @ noise @ inverse.T))
        )

    def risk(self, gap: float) -> float:
        return gap**2 * self.bias + self.variance


def unlike_rows(rng: np.random.Generator, n: int, d: int) -> Array:
    """Gaussian rows with a covariance of their own, whose eigenvalues are between α = 0.1 and 1."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return rng.standard_normal((n, d)) * np.sqrt(np.linspace(LOW, 1, d)) @ basis.T


def methods(X: list[Array]) -> tuple[Method, ...]:
    """FedAvg with 1, 5, 10 and 100 steps and FedProx, γ = 0.9."""
    eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    return (*(LocalSteps(eta, s) for s in (1, 5, 10, 100)), ProximalStep(eta))
