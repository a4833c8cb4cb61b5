"""Kernel ridge regression on pooled data, and on one client's alone: what federated solutions are held against.

    min_f  Σ_i s_i (f(x_i) − y_i)² / (2 Σ s) + (l2/2) ‖f‖²

the objective of `Squared`. These need everybody's rows in one place: simulation and tests only.
"""

from __future__ import annotations

import numpy as np

from fedsolve.closed_forms.client_rows import numbers
from fedsolve.errors import ConfigError, DataError
from fedsolve.features.base import FeatureMap, dense, one_of, positive
from fedsolve.features.exact_kernels import Cauchy, ExactKernel, Gaussian, Laplace
from fedsolve.features.kernels import KERNELS, Kernel
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Squared
from fedsolve.losses.penalised import Intercept
from fedsolve.models import KernelExpansion
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


def kernel_ridge(
    kernel: Kernel | ExactKernel,
    gamma: float | None,
    X: Array,
    y: Array,
    l2: float,
    *,
    sample_weight: Array | None = None,
) -> KernelExpansion:
    """KRR with the exact kernel: one linear system of the order of the samples, α = (K + l2 Σs S⁻¹)⁻¹ y.

    Args:
        kernel: A kernel object, or "gaussian", "laplace" or "cauchy".
        gamma: Of a kernel given by name; None for an object.
        X: All rows.
        y: Their targets, a column for each output.
        l2: The penalty, positive.
        sample_weight: The weight of each row.
    """
    if not l2 > 0:
        raise ConfigError(f"kernel ridge regression needs l2 > 0, got {l2}")
    of = _named(kernel, gamma)
    X, y = numbers("rows", dense(X)), numbers("targets", y)
    s = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if X.ndim != 2 or y.ndim not in (1, 2) or len(y) != len(X) or not np.isfinite(y).all():
        raise DataError(f"a finite target for each row is needed, got rows of shape {X.shape}, targets {y.shape}")
    if s.shape != (len(X),) or not np.isfinite(s).all() or (s < 0).any() or not s.any():
        raise DataError(f"sample_weight has a number of at least 0 for each of {len(X)} rows, and some are positive")
    root = np.sqrt(s)  # symmetric, and right where a weight is zero
    system = factor(root[:, None] * of(X) * root + l2 * s.sum() * np.eye(len(X)))
    columns = root if y.ndim == 1 else root[:, None]
    return KernelExpansion(X, columns * system.solve(columns * y), of)


def _named(kernel: Kernel | ExactKernel, gamma: float | None) -> ExactKernel:
    if isinstance(kernel, ExactKernel):
        if gamma is not None:
            raise ConfigError(f"{kernel!r} has its own hyper-parameters; give None for gamma, got {gamma!r}")
        return kernel
    one_of("kernel", kernel, KERNELS)
    positive("gamma", gamma)
    assert gamma is not None
    if kernel == "gaussian":
        return Gaussian(gamma)
    return Laplace(gamma) if kernel == "laplace" else Cauchy(gamma)
