"""Section II-C of Jadbabaie et al. (2023): which kernels have positive definite matrices at distinct points.

A kernel in the sense of reproducing kernel Hilbert spaces is positive semidefinite, with a feature space of any
dimension; a strictly positive definite one has invertible matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

VALID = AtLeast(
    "Section II-C",
    "valid kernels (Gaussian, min(x, y) with 0, xy, (1 + xy)²), 2 to 6 distinct points: least eigenvalue over rounding",
    "times",
    unit="times rounding",
)
STRICT = AtLeast(
    "Section II-C",
    "strictly positive definite kernels (Gaussian, Matérn, min(x, y) on (0, 1]): least eigenvalue over rounding",
    "times",
    unit="times rounding",
)
CHECKS = (VALID, STRICT)

Kernel = Callable[[Array, Array], Array]


def gaussian(x: Array, y: Array) -> Array:
    return np.asarray(np.exp(-8 * (x - y) ** 2))


def matern(x: Array, y: Array) -> Array:
    """Of smoothness 3/2."""
    far = math.sqrt(3) * np.abs(x - y) / 0.3
    return np.asarray((1 + far) * np.exp(-far))


def linear(x: Array, y: Array) -> Array:
    return np.asarray(x * y)


def quadratic(x: Array, y: Array) -> Array:
    return np.asarray((1 + x * y) ** 2)


def least(kernel: Kernel, points: Array) -> float:
    """The least eigenvalue of the matrix of these points, over ε_machine r λ_max."""
    scales = np.linalg.eigvalsh(kernel(points[:, None], points))
    return float(scales[0] / (np.finfo(float).eps * len(points) * scales[-1]))


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 73])
    valid, strict = math.inf, math.inf
    for r, _ in product(range(2, 7), range(5)):
        points = (np.arange(r) + rng.uniform(0.2, 0.8, r)) / r
        from_zero = np.append(0.0, points[1:])
        strict = min(strict, *(least(kernel, points) for kernel in (gaussian, matern, np.minimum)))
        valid = min(valid, *(least(kernel, points) for kernel in (gaussian, linear, quadratic)))
        valid = min(valid, least(np.minimum, from_zero))
    return named({VALID: valid, STRICT: strict})
