"""Kernel ridge regression on pooled data, and on one client's alone: what federated solutions are held against.

    min_f  Σ_i s_i (f(x_i) − y_i)² / (2 Σ s) + (l2/2) ‖f‖²

the objective of `Squared`. These need everybody's rows in one place: simulation and tests only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.features.base import FeatureMap, dense
from fedsolve.features.kernels import Kernel, kernel_matrix
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Squared
from fedsolve.losses.penalised import Intercept
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor, to_numpy
from fedsolve.typing import Array


def feature_ridge(
    features: FeatureMap | None,
    X: Array,
    y: Array,
    l2: float,
    *,
    sample_weight: Array | None = None,
    intercept: Intercept = None,
) -> LinearModel:
    """KRR with features: one linear system of the order of their number, (ΦᵀSΦ/Σs + l2 I) w = ΦᵀSy/Σs."""
    pooled = Client("pooled", X, y, sample_weight)
    return local_model(Squared(l2=l2, intercept=intercept, features=features), pooled)


def local_model(loss: LinearLoss, client: Client) -> LinearModel:
    """The local-only model: what one client learns without the others."""
    return loss.model(to_numpy(loss.minimise(client))).with_inputs(client.design.shape[1])


@dataclass(frozen=True, eq=False)
class KernelModel:
    """x ↦ Σ_i α_i k(x, x_i)."""

    kernel: Kernel
    gamma: float
    X: Array
    alpha: Array

    def predict(self, X: Array) -> Array:
        """Values, a column for each output."""
        return kernel_matrix(self.kernel, self.gamma, dense(X), self.X) @ self.alpha

    def classify(self, X: Array) -> Array:
        """The place of the largest output, for one-hot targets."""
        return self.predict(X).argmax(axis=1)


def kernel_ridge(
    kernel: Kernel, gamma: float, X: Array, y: Array, l2: float, *, sample_weight: Array | None = None
) -> KernelModel:
    """KRR with the exact kernel: one linear system of the order of the samples, α = (K + l2 Σs S⁻¹)⁻¹ y."""
    if not l2 > 0:
        raise ConfigError(f"kernel ridge regression needs l2 > 0, got {l2}")
    X, y = np.asarray(dense(X), dtype=np.float64), np.asarray(y, dtype=np.float64)
    s = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    root = np.sqrt(s)  # symmetric, and right where a weight is zero
    K = kernel_matrix(kernel, gamma, X, X)
    system = factor(root[:, None] * K * root + l2 * s.sum() * np.eye(len(X)))
    columns = root if y.ndim == 1 else root[:, None]
    return KernelModel(kernel, gamma, X, columns * system.solve(columns * y))
