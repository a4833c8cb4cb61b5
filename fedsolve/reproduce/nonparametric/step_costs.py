"""Errors and rounds of FedAvg and FedProx in a small federation, for any number of local steps (Su, Xu and Yang 2023).

Everything is exact: a round is θ ← Aθ + Cy with A = I − η Σ w_i p(H_i)H_i, which needs no loop over the s local steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.closed_forms.methods import Method
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA
from fedsolve.typing import Array

DIMENSION = 10


@dataclass(frozen=True)
class Federation:
    """Rows of the clients."""

    X: Sequence[Array]

    @property
    def samples(self) -> int:
        return sum(map(len, self.X))

    @property
    def steepest(self) -> float:
        """max ‖K_x_i‖."""
        return max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in self.X)

    def round(self, method: Method) -> tuple[Array, Array]:
        """A and C."""
        A, C = np.eye(DIMENSION), []
        for rows in self.X:
            values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
            p = (vectors * method.filter(np.maximum(values, 0.0))) @ vectors.T
            C.append(method.step_size / self.samples * p @ rows.T)
            A = A - C[-1] @ rows
        return (A + A.T) / 2, np.hstack(C)

    def prediction_error(self, method: Method, t: int | None, truth: Array) -> float:
        """E‖f_t − f̄‖²_N from θ_0 = 0 for one truth, θ̄ = θ*; of f_∞ if t is None."""
        A, C = self.round(method)
        values, vectors = np.linalg.eigh(A)
        left = 1 - values
        decay = np.zeros(DIMENSION) if t is None else values**t
        summed = (vectors * ((1 - decay) / left)) @ vectors.T
        pooled = np.vstack(self.X)
        bias = pooled @ (vectors * decay) @ vectors.T @ truth
        noise = pooled @ summed @ C
        return float(np.square(bias).sum() + SIGMA**2 * np.square(noise).sum()) / self.samples

    def coefficient_error(self, method: Method) -> float:
        """E‖θ_∞ − θ̄‖²."""
        A, C = self.round(method)
        return float(SIGMA**2 * np.square(np.linalg.solve(np.eye(DIMENSION) - A, C)).sum())

    def rounds(self, method: Method) -> float:
        """Until the slowest direction of the bias is 1 % of its start."""
        return math.log(0.01) / math.log(float(np.linalg.eigvalsh(self.round(method)[0])[-1]))


def drawn(rng: np.random.Generator, sizes: Sequence[int]) -> Federation:
    """Clients with covariances of their own, whose eigenvalues are between 0.3 and 1."""
    X = []
    for n in sizes:
        basis = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
        X.append(rng.standard_normal((n, DIMENSION)) * np.sqrt(np.linspace(0.3, 1, DIMENSION)) @ basis.T)
    return Federation(X)
