"""Rows and targets of each client, and how FedAvg and FedProx weigh them in the limit.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (section 7.1)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

With A_i = X_i/√n_i the limit solves Σ w_i A_iᵀ P_i (A_i θ − c_i) = 0, P_i = p(A_i A_iᵀ): the least squares of
√w_i P_i^½ (A_i θ − c_i). Computed from the rows, this keeps the digits that the Gram matrices A_iᵀA_i, whose condition
number is squared, lose where columns have different units or hardly vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from fedsolve.closed_forms.methods import Method
from fedsolve.errors import ConfigError, DataError
from fedsolve.typing import Array

# Of the largest eigenvalue or singular value, for each dimension: a smaller one cannot be told from zero.
ROUNDING = 64 * float(np.finfo(np.float64).eps)


def checked_rows(X: Sequence[Array], y: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Rows and targets of each client as float64. Raises DataError if they do not fit together."""
    if len(X) != len(y) or not len(X):
        raise DataError(f"rows and targets of the same clients are needed, got {len(X)} and {len(y)}")
    rows = [_finite(f"client {place} (from 0): the rows", one) for place, one in enumerate(X)]
    targets = [_finite(f"client {place} (from 0): the targets", one) for place, one in enumerate(y)]
    for place, (mine, answers) in enumerate(zip(rows, targets, strict=True)):
        if mine.ndim != 2 or not mine.size or answers.ndim not in (1, 2) or len(mine) != len(answers):
            raise DataError(
                f"client {place} (from 0) has rows of shape {mine.shape} and targets of shape {answers.shape}; "
                "expected a matrix with at least one row and one column, and a target for each row"
            )
        if mine.shape[1] != rows[0].shape[1] or answers.shape[1:] != targets[0].shape[1:]:
            raise DataError(
                f"client {place} (from 0) has {mine.shape[1]} columns and targets of shape {answers.shape}, client 0 "
                f"has {rows[0].shape[1]} columns and targets of shape {targets[0].shape}; they should agree"
            )
    return rows, targets


def numbers(name: str, given: Array) -> Array:
    """An array as float64. Raises DataError for what is none."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} are not an array of numbers, got {type(given).__name__}") from None


def _finite(name: str, given: Array) -> Array:
    array = numbers(name, given)
    if not np.isfinite(array).all():
        raise DataError(f"{name} are finite numbers; some are missing or infinite")
    return array


@dataclass(frozen=True, eq=False)
class Weighing:
    """P_i = p(A_i A_iᵀ) of one client, as p(0) I + U diag(p − p(0)) Uᵀ.

    In this form directions in which A_i is small are weighed by p(0) whether or not their singular vectors are known.

    Attributes:
        left: U, the left singular vectors of A_i.
        filters: p at its squared singular values.
        base: p(0).
    """

    left: Array
    filters: Array
    base: float

    @classmethod
    def of(cls, A: Array, method: Method) -> Weighing:
        """Raises ConfigError if p leaves the range of numbers."""
        U, scales, _ = np.linalg.svd(A, full_matrices=False)
        filters = method.filter(scales**2)
        if not np.isfinite(filters).all():
            raise ConfigError(f"{method} diverges here beyond all numbers; shorten the step size")
        return cls(U, filters, float(method.filter(np.zeros(1))[0]))

    @property
    def positive(self) -> bool:
        """Whether P_i is positive semidefinite: unless an even number of steps is each longer than 2/‖A_i‖²."""
        return bool((self.filters >= 0).all())

    def root(self, Z: Array) -> Array:
        """P_i^½ Z."""
        change = np.sqrt(self.filters) - np.sqrt(self.base)
        return np.sqrt(self.base) * Z + self.left @ (change[:, None] * (self.left.T @ Z))


def weighed_rows(A: Sequence[Array], shares: Array, method: Method) -> tuple[Array, list[Weighing]] | None:
    """√w_i P_i^½ A_i of all clients, one under the other; None where some P_i is not positive semidefinite.

    Raises ConfigError where a run would diverge.
    """
    weighings = [Weighing.of(one, method) for one in A]
    if not all(one.positive for one in weighings):
        return None
    M = np.concatenate([np.sqrt(w) * one.root(a) for w, one, a in zip(shares, weighings, A, strict=True)])
    speed = method.step_size * float(np.linalg.norm(M, 2)) ** 2
    if speed >= 2:
        raise diverging(method, speed - 1)
    return M, weighings


def diverging(method: Method, factor: float) -> ConfigError:
    """The error for a step size that is too long."""
    return ConfigError(
        f"{method} diverges here: a round multiplies an error by {factor:.3g}; shorten the step size to below 1 / the "
        "largest eigenvalue of the clients' Hessians"
    )


def least_squares(M: Array) -> Callable[[Array], Array]:
    """right ↦ argmin ‖M θ − right‖, of least norm where it is not unique.

    Whether it is unique is judged with all columns in like units, so that it does not depend on those they have.
    """
    units, width = _units(M), M.shape[1]
    U, scales, V = np.linalg.svd(M / units, full_matrices=False)
    seen = scales > ROUNDING * width * scales[0]
    U, scales, V = U[:, seen], scales[seen, None], V[seen]
    unseen = np.zeros((width, 0))
    if 0 < len(V) < width:
        unseen, _ = np.linalg.qr(null_space(V) / units[:, None])

    def solve(right: Array) -> Array:
        found = V.T @ ((U.T @ right) / scales) / units[:, None]
        return np.asarray(found - unseen @ (unseen.T @ found))

    return solve


def directions(M: Array) -> tuple[Array, Array, Array]:
    """U, S, Vᵀ of M without the directions that no row sees.

    Raises DataError where rounding hides directions that the rows do see in other units.
    """
    U, scales, V = np.linalg.svd(M, full_matrices=False)
    seen = scales > ROUNDING * M.shape[1] * scales[0]
    others = np.linalg.svd(M / _units(M), compute_uv=False)
    if seen.sum() < (others > ROUNDING * M.shape[1] * others[0]).sum():
        raise differing_scales()
    return U[:, seen], scales[seen], V[seen]


def differing_scales() -> DataError:
    """The error for columns in units so different that rounding hides some of them."""
    return DataError("the columns differ too much in scale for sums in double precision; standardise them")


def _units(M: Array) -> Array:
    largest = np.abs(M).max(axis=0)
    return np.where(largest > 0, largest, 1.0)
