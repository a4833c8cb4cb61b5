"""Exact kernels, on the Array API.

gaussian    exp(−γ ‖x − z‖²)
laplace     exp(−γ ‖x − z‖₁)
cauchy      Π_i 1 / (1 + γ (x_i − z_i)²)
"""

from __future__ import annotations

from typing import Literal

from fedsolve.errors import ConfigError
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array

Kernel = Literal["gaussian", "laplace", "cauchy"]
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplace", "cauchy")


def kernel_matrix(kernel: Kernel, gamma: float, X: Array, Z: Array) -> Array:
    """k(x, z) for every row x of X and z of Z, both dense."""
    xp = namespace(X)
    if kernel == "gaussian":
        squares = xp.sum(X * X, axis=1)[:, None] + xp.sum(Z * Z, axis=1)[None, :] - 2.0 * (X @ Z.T)
        return xp.exp(-gamma * xp.clip(squares, 0.0, None))
    if kernel not in KERNELS:
        raise ConfigError(f"a kernel is one of {', '.join(KERNELS)}, got {kernel!r}")
    total = 0.0 * (X[:, :1] @ Z[:, :1].T)
    for i in range(X.shape[1]):  # a column at a time: never n · m · d numbers at once
        gap = X[:, i][:, None] - Z[:, i][None, :]
        total += xp.abs(gap) * gamma if kernel == "laplace" else xp.log1p(gamma * gap * gap)
    return xp.exp(-total)
