"""Exact kernels, on the Array API.

gaussian    exp(−γ ‖x − z‖²)
laplace     exp(−γ ‖x − z‖₁)
cauchy      Π_i 1 / (1 + γ (x_i − z_i)²)
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from array_api_compat import device

from fedsolve.errors import ConfigError
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array

Kernel = Literal["gaussian", "laplace", "cauchy"]
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplace", "cauchy")

# The largest error in γ‖x − z‖² that products of the rows may leave; where it could be larger, differences are taken.
CANCELLED = 1e-12
_EPS = float(np.finfo(np.float64).eps)


def kernel_matrix(kernel: Kernel, gamma: float, X: Array, Z: Array) -> Array:
    """k(x, z) for every row x of X and z of Z, both dense."""
    xp = namespace(X)
    if kernel == "gaussian":
        return xp.exp(-gamma * _squares_by_products(gamma, X, Z))
    if kernel not in KERNELS:
        raise ConfigError(f"a kernel is one of {', '.join(KERNELS)}, got {kernel!r}")
    total = zeros(X, Z)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the range of numbers k is 0
        for i in range(X.shape[1]):  # a column at a time: never n · m · d numbers at once
            gap = X[:, i][:, None] - Z[:, i][None, :]
            total += xp.abs(gap) * gamma if kernel == "laplace" else xp.log1p(gamma * gap * gap)
    return xp.exp(-total)


def squared_distances(X: Array, Z: Array) -> Array:
    """‖x − z‖², from differences: roots of it keep their digits where points are near each other."""
    total = zeros(X, Z)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(X.shape[1]):
            gap = X[:, i][:, None] - Z[:, i][None, :]
            total = total + gap * gap
    return total


def zeros(X: Array, Z: Array) -> Array:
    """A matrix for k(x, z), of the library and on the device of X."""
    xp = namespace(X)
    shape = (X.shape[0], Z.shape[0])
    return np.zeros(shape) if xp is np else xp.zeros(shape, dtype=X.dtype, device=device(X))


def _squares_by_products(gamma: float, X: Array, Z: Array) -> Array:
    """‖x − z‖² = ‖x‖² + ‖z‖² − 2xᵀz, which is faster than differences.

    Where the rows are far from 0 this loses the digits of the distance. So the mean of Z is subtracted from all rows,
    and where single rows are still too far off, differences are taken.
    """
    xp = namespace(X)
    if not X.shape[0] or not Z.shape[0]:
        return zeros(X, Z)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = xp.mean(Z, axis=0)
        left, right = X - middle, Z - middle
        own, other = xp.sum(left * left, axis=1), xp.sum(right * right, axis=1)
    if not gamma * max(float(xp.max(own)), float(xp.max(other))) * _EPS <= CANCELLED:
        return squared_distances(X, Z)
    return xp.clip(own[:, None] + other[None, :] - 2.0 * (left @ right.T), 0.0, None)
