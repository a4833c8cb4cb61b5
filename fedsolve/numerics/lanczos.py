"""The largest eigenvalue of a matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device

from fedsolve.numerics.linalg import like, namespace
from fedsolve.typing import Array


def largest_eigenvalue_by_products(
    product: Callable[[Array], Array], order: int, sample: Array, accuracy: float = 1e-3, most: int = 300
) -> float:
    """λ_max of a positive semidefinite matrix, or up to `accuracy` of itself more: what Lanczos found plus its
    residual, within which an eigenvalue lies.

    The first vector is drawn from a seed of its own, so that the same matrix gives the same bits. `sample` says of what
    library and on what device vectors are.
    """
    xp: Any = namespace(sample)
    v = like(np.random.default_rng(0).standard_normal(order), sample)
    v = v / xp.sqrt(xp.sum(v * v))
    before = xp.zeros(order, dtype=xp.float64, device=device(sample))
    diagonal: list[float] = []
    beside: list[float] = [0.0]
    largest = 0.0
    for _ in range(min(most, order)):
        q = product(v) - beside[-1] * before
        diagonal.append(float(xp.sum(q * v)))
        q = q - diagonal[-1] * v
        beside.append(float(xp.sqrt(xp.sum(q * q))))
        values, vectors = _tridiagonal(diagonal, beside[1:-1])
        largest, residual = float(values[-1]), beside[-1] * abs(float(vectors[-1, -1]))
        if residual <= accuracy * largest:
            return largest + residual
        before, v = v, q / beside[-1]
    return largest * (1 + accuracy)


def _tridiagonal(diagonal: list[float], beside: list[float]) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    return values, vectors
