"""The dense and sparse linear algebra everything stands on.

A client's arrays may be NumPy, SciPy CSR or any Array API array (torch, array-api-strict); the server's are NumPy.
What differs between them is decided here and in `design.py`, and nowhere else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import array_api_compat as api
import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.linalg.blas import dgemm, dgemv
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from fedsolve.errors import WrongType
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)


def namespace(array: Array) -> Any:
    """The Array API namespace of an array (NumPy itself for NumPy and CSR, which spares the compatibility layer)."""
    if isinstance(array, np.ndarray) or sp.issparse(array):
        return np
    return api.array_namespace(array)


def to_numpy(array: Array) -> Array:
    """An array as NumPy, wherever it lives."""
    if isinstance(array, np.ndarray):
        return array
    if api.is_torch_array(array):
        return array.detach().cpu().numpy()
    home = namespace(array).__array_namespace_info__().default_device() if api.is_array_api_obj(array) else None
    return np.asarray(array if home is None else api.to_device(array, home))


def is_float64(array: Array) -> bool:
    """Whether an array of whatever library has float64 entries."""
    if isinstance(array, np.ndarray):
        return bool(array.dtype == np.float64)
    return str(array.dtype).endswith("float64")


def like(array: Array, model: Array) -> Array:
    """An array of the library and on the device of `model`, with float64 values."""
    if isinstance(model, np.ndarray):
        return array
    xp = namespace(model)
    # A copy, because what comes from the wire is read-only and torch has no read-only tensors.
    return xp.asarray(np.array(array), device=api.device(model))


def as_kind_of(array: Array, model: Array) -> Array:
    """An array of the library and on the device of `model`, with the numbers that it has."""
    if isinstance(model, np.ndarray):
        return to_numpy(array)
    place = api.device(model)
    if type(array) is not type(model):
        return namespace(model).asarray(np.array(to_numpy(array)), device=place)
    return array if api.device(array) == place else api.to_device(array, place)


_workspace = threading.local()


def scratch(shape: tuple[int, int]) -> Array:
    """A matrix to compute in and forget, of this thread: fresh memory for each would cost more than the computation."""
    size = shape[0] * shape[1]
    buffer = getattr(_workspace, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _workspace.buffer = np.empty(size)
    return buffer[:size].reshape(shape)


@dataclass(frozen=True)
class Factor:
    """A factorised symmetric positive (semi)definite matrix, ready to solve with."""

    inverse: Callable[[Array], Array]
    order: int
    definite: bool
    lower: Array | None = None  # the Cholesky factor of a NumPy matrix, for whoever wants to keep it
    # The part of a right-hand side that the matrix, to rounding, does not reach, and that of a solution that makes no
    # difference to it; None where there is none.
    beyond: Callable[[Array], Array] | None = None
    unseen: Callable[[Array], Array] | None = None

    def solve(self, b: Array) -> Array:
        """The solution for a vector or for columns; a matrix with as many entries as rows here counts as one vector."""
        check_columns("a right-hand side", b, self.order)
        if b.shape[0] == self.order:
            return self.inverse(b)
        xp = namespace(b)
        return xp.reshape(self.inverse(xp.reshape(b, (-1,))), b.shape)

    def unresolved(self, b: Array) -> float:
        """The norm of the part of b that no solution accounts for, with b in the units of the matrix (b_i / √H_ii).

        Where b is a gradient and the matrix its Hessian, rounding level means that collinear columns are exactly so;
        more means that there is something to gain along directions whose curvature is lost in rounding.
        """
        if self.beyond is None:
            return 0.0
        xp = namespace(b)
        left = self.beyond(b if b.shape[0] == self.order else xp.reshape(b, (-1,)))
        return float(np.sqrt(float(xp.sum(left * left))))

    def idle(self, x: Array) -> Array | None:
        """The part of x that makes no difference to the matrix times x, to rounding; None where there is none."""
        if self.unseen is None:
            return None
        if x.shape[0] == self.order:
            return self.unseen(x)
        xp = namespace(x)
        return xp.reshape(self.unseen(xp.reshape(x, (-1,))), x.shape)


def check_columns(name: str, b: Array, order: int) -> None:
    """Raise WrongType for what is neither a vector nor columns of this length, nor a matrix of as many entries."""
    shape = b.shape
    if len(shape) not in (1, 2) or (shape[0] != order and prod(shape) != order) or not is_float64(b):
        raise WrongType(
            f"{name} has {b.dtype} entries and shape {tuple(shape)}, expected float64 and ({order},), or columns of "
            "that length"
        )


def factor(matrix: Symmetric | Array, least: float = 0.0, units: Array | None = None) -> Factor:
    """Cholesky where the matrix is positive definite, otherwise the pseudo-inverse by eigenvectors.

    Rank is judged, and the pseudo-inverse taken, of the matrix scaled to a unit diagonal: a solution among many is
    the one with the least norm in which each coordinate counts by the root of its diagonal entry. So the units of the
    columns change neither the rank nor what a solution predicts. `units` take the place of the roots of the diagonal
    where a matrix of few samples stands for many, and others' are better known. `least` is a bound on the eigenvalues
    from below, where one is known (a penalty): often it spares the estimate of a condition number.
    """
    full = matrix.full() if isinstance(matrix, Symmetric) else matrix
    xp = namespace(full)
    if xp is np:
        return _factor_numpy(full, least, units)
    if api.is_torch_array(full):
        return _factor_torch(full, xp, least, units)
    return _spectral_factor(xp, full, units)


def _factor_numpy(full: Array, least: float, units: Array | None) -> Factor:
    if not np.isfinite(full.sum()):  # a run that diverges: say so in the solution, where it will be seen
        return Factor(lambda b: np.full(b.shape, np.nan), full.shape[0], False)
    lower = cholesky(full)
    diagonal = np.diagonal(full)
    # A Cholesky that succeeds on a numerically singular matrix divides by rounding errors.
    if lower is None or not (_bounded(diagonal, least) or _well_posed(lower, diagonal)):
        return _spectral_factor(np, full, units)
    return Factor(lambda b: cholesky_solve(lower, b), full.shape[0], True, lower)


def cholesky(full: Array) -> Array | None:
    """L with LLᵀ the matrix, in the order LAPACK wants it; None where it is not positive definite.

    Only the upper triangle is read, so that a matrix that travelled packed gives the same bits.
    """
    lower, info = dpotrf(full.T, lower=1, clean=0)
    return lower if info == 0 else None


def cholesky_solve(lower: Array, b: Array) -> Array:
    """The solution for a vector or for columns."""
    solution = dpotrs(lower, b, lower=1)[0]
    return np.ascontiguousarray(solution)


def _rounding(n: int) -> float:
    """What sums over samples leave in a matrix with unit diagonal, some n·eps; 64 for samples far more than n."""
    return 64 * n * _EPS


def _bounded(diagonal: Array, least: float) -> bool:
    """Whether a bound on the eigenvalues says that the matrix, scaled to a unit diagonal, is far from singular."""
    return bool(least > _rounding(diagonal.size) * diagonal.max())


def _well_posed(lower: Array, diagonal: Array) -> bool:
    """Whether LLᵀ is further from singular than rounding reaches. The condition number is that of the matrix scaled to
    a unit diagonal: features on scales far apart do no harm, features that (nearly) repeat each other do."""
    rounding = _rounding(diagonal.size)
    # The eigenvalues of a unit-diagonal matrix other than the least have a product below e (their mean is about 1), so
    # its determinant, the product of the scaled pivots, bounds the least from below: often that settles it.
    with np.errstate(under="ignore"):
        if np.prod(np.diagonal(lower) ** 2 / diagonal) > np.e * rounding:
            return True
    # 1 / ‖(LLᵀ)⁻¹‖₁ of the scaled matrix; reads the lower triangle only.
    reciprocal, info = dpocon(lower / np.sqrt(diagonal)[:, None], 1.0, uplo="L")
    return info == 0 and bool(reciprocal > rounding)


def _factor_torch(full: Array, xp: Any, least: float, units: Array | None) -> Factor:
    import torch

    lower, info = torch.linalg.cholesky_ex(full)
    diagonal = to_numpy(torch.diagonal(full))
    # With a bound the factor need not leave the device.
    if int(info) != 0 or not (_bounded(diagonal, least) or _well_posed(to_numpy(lower), diagonal)):
        return _spectral_factor(xp, full, units)

    def solve(b: Array) -> Array:
        column = b if b.ndim == 2 else b[:, None]
        solution = torch.cholesky_solve(column, lower)
        return solution if b.ndim == 2 else solution[:, 0]

    return Factor(solve, full.shape[0], True)


def _spectral_factor(xp: Any, full: Array, units: Array | None) -> Factor:
    """S (S H S)⁺ S with S H S of unit diagonal, its eigenvalues below rounding taken for zero."""
    order = full.shape[0]
    own = xp.sqrt(xp.abs(xp.linalg.diagonal(full))) if units is None else units
    one = xp.ones_like(own)
    scale = one / xp.where(own > 0, own, one)  # a column of zeros has none
    unit = full * scale[:, None] * scale[None, :]
    values, vectors = np.linalg.eigh(unit, UPLO="U") if xp is np else xp.linalg.eigh(unit)
    kept = values > _rounding(order) * float(xp.max(xp.abs(values)))
    inverse = xp.where(kept, one / xp.where(kept, values, one), 0 * one)
    dropped = xp.where(kept, 0 * one, one)

    def between(middle: Array, b: Array) -> Array:
        if b.ndim == 1:
            return vectors @ (middle * (vectors.T @ (scale * b)))
        return vectors @ (middle[:, None] * (vectors.T @ (scale[:, None] * b)))

    def solve(b: Array) -> Array:
        return (scale if b.ndim == 1 else scale[:, None]) * between(inverse, b)

    def beyond(b: Array) -> Array:
        return between(dropped, b)

    def unseen(x: Array) -> Array:
        column = scale if x.ndim == 1 else scale[:, None]
        return column * between(dropped, x / column**2)  # between() scales by the inverse units: x takes them itself

    if bool(xp.all(kept)):
        return Factor(solve, order, True)
    return Factor(solve, order, False, beyond=beyond, unseen=unseen)


BY_SCIPY = 512  # the order from which BLAS has threads to wake


def symmetric_product(full: Array, v: Array) -> Array:
    """A symmetric matrix (both triangles equal) times a vector or columns.

    Large ones by SciPy's BLAS, which also solves with factors: NumPy has another with threads of its own, and methods
    that multiply and solve in turn would have the two sets spin beside each other.
    """
    if not isinstance(full, np.ndarray) or full.shape[0] < BY_SCIPY or not full.flags.c_contiguous:
        return full @ v
    if v.ndim == 1:
        return dgemv(1.0, full.T, v)
    return np.ascontiguousarray(dgemm(1.0, full.T, v))


def floored(matrix: Symmetric, least: float) -> Factor:
    """The nearest symmetric NumPy matrix whose eigenvalues are at least `least` > 0, ready to solve with."""
    full = matrix.full()
    if not np.isfinite(full.sum()):  # as in `factor`
        return Factor(lambda b: np.full(b.shape, np.nan), full.shape[0], False)
    values, vectors = np.linalg.eigh(full, UPLO="U")
    values = np.maximum(values, least)

    def solve(b: Array) -> Array:
        return vectors @ ((vectors.T @ b) / (values if b.ndim == 1 else values[:, None]))

    return Factor(solve, full.shape[0], True)


def largest_eigenvalue(matrix: Symmetric | Array) -> float:
    """λ_max of a symmetric matrix."""
    full = matrix.full() if isinstance(matrix, Symmetric) else matrix
    if isinstance(full, np.ndarray):
        if not np.isfinite(full.sum()):  # LAPACK need not end on such a matrix
            return float("inf")
        order = full.shape[0]
        last = (order - 1, order - 1)
        return float(sla.eigh(full, lower=False, eigvals_only=True, subset_by_index=last, check_finite=False)[0])
    xp = namespace(full)
    return float(xp.max(xp.linalg.eigvalsh(full)))


def norm(array: Array) -> float:
    """The Euclidean norm of all entries."""
    return float(np.linalg.norm(array))


def rms(values: Array) -> float:
    """The root mean square of all entries; none of them overflows on the way."""
    found = to_numpy(values)
    largest = float(np.abs(found).max(initial=0.0))
    return largest and largest * float(np.sqrt(np.mean((found / largest) ** 2)))
