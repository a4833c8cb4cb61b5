"""Eigenpairs of a client's Hessian, largest first, by the fastest of three methods.

Lanczos      the few that will be sent before the next renewal, without forming the Hessian
Gram         where a client has fewer samples than unknowns, and the penalty is a multiple of the identity: the
             N × N matrix BBᵀ has the eigenvalues of BᵀB, without the penalty
eigh         otherwise
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import namespace, to_numpy
from fedsolve.typing import Array

_EPS = float(np.finfo(np.float64).eps)
# Where eigenvalues are tied, ARPACK draws new vectors. Only SciPy that lets it draw from a seed gives the same bits.
SEEDED = "rng" in inspect.signature(eigsh).parameters


@dataclass(frozen=True)
class Eigenpairs:
    """The largest eigenvalues of a matrix of order n in falling order, with their vectors as columns.

    rest   the eigenvalue that all vectors not listed have in common; None if they have none
    least  a lower bound on all eigenvalues
    """

    values: Array
    vectors: Array
    rest: float | None
    least: float

    @property
    def order(self) -> int:
        return int(self.vectors.shape[0])

    def after(self, q: int) -> float:
        """λ_{q+1}."""
        if q < self.values.shape[0]:
            return float(self.values[q])
        return self.least if self.rest is None else self.rest

    @property
    def worth_sending(self) -> int:
        """How many pairs carry information: those whose value differs from the least by more than rounding. Never all
        n, because n − 1 determine the matrix. With Lanczos the last pair only provides ρ."""
        most = self.order - 1 if self.rest is not None else min(self.order, self.values.shape[0]) - 1
        if self.values.shape[0] == 0:
            return 0
        rounding = self.order * _EPS * max(float(self.values[0]), 0.0)
        return min(most, int((self.values - self.least > rounding).sum()))


def eigenpairs(loss: LinearLoss, client: Client, w: Array, few: int | None = None) -> Eigenpairs:
    """The eigenpairs of ∇²f_j(w): at least `few` and one more for ρ, or all of them."""
    rows = weighted_rows(loss, client, w)
    if rows is None:
        return by_eigh(loss, client, w)
    samples, n = rows.shape
    client.count("hessians", 1)
    if few is not None and SEEDED and isinstance(rows, np.ndarray) and lanczos_pays(few + 1, samples, n):
        found = by_lanczos(rows, loss.l2, few + 1)
        if found is not None:
            return found
    if samples < n:
        return by_gram(rows, loss.l2)
    return _all(_hessian(rows, loss.l2))


def weighted_rows(loss: LinearLoss, client: Client, w: Array) -> Array | None:
    """B with ∇²f_j(w) = BᵀB + l2 I; None where there is no such B, or it would be too large to hold."""
    design = loss.design(client)
    uniform = loss.l2 == 0 or loss.strong_convexity() > 0
    if not (uniform and loss.separable and design.shape[0] <= 4 * design.shape[1]):
        return None
    xp = client.xp
    c, s = loss.curvature(xp, loss.predictor(client, w), loss.targets(client)), client.sample_weight
    if c is None:
        c = xp.ones(client.n_samples, dtype=xp.float64, device=device(client.y))
    rows = design.take(slice(None))
    scale = xp.sqrt((c if s is None else c * s) / client.weight)
    return rows.multiply(scale[:, None]).toarray() if sp.issparse(rows) else rows * scale[:, None]


def _hessian(rows: Array, l2: float) -> Array:
    xp = namespace(rows)
    return rows.T @ rows + l2 * xp.eye(rows.shape[1], dtype=rows.dtype, device=device(rows))


def by_eigh(loss: LinearLoss, client: Client, w: Array) -> Eigenpairs:
    return _all(loss.hessian(client, w).full())


def _all(full: Array) -> Eigenpairs:
    _check_finite(full)
    values, vectors = namespace(full).linalg.eigh(full)
    return _sorted(values, vectors, rest=None)


def _check_finite(matrix: Array) -> Array:
    """The matrix, if it is finite: of others LAPACK and ARPACK find no eigenvalues, or do not end."""
    if not np.isfinite(to_numpy(matrix)).all():
        raise DataError(
            "the Hessian is not finite at these weights, so it has no eigenpairs: the run has diverged, or some "
            "columns should be rescaled"
        )
    return matrix


def by_gram(rows: Array, l2: float) -> Eigenpairs:
    xp, n = namespace(rows), rows.shape[1]
    squares, left = xp.linalg.eigh(_check_finite(rows @ rows.T))
    # What rounding has made of the zeros: a vector from these would be noise, and its part in Ĥ no larger than that.
    noise = int(xp.sum(xp.astype(squares <= n * _EPS * max(float(squares[-1]), 0.0), xp.int64)))
    squares, left = squares[noise:], left[:, noise:]  # they rise
    vectors = (rows.T @ left) / xp.sqrt(squares)
    return _sorted(squares + l2, vectors, rest=l2)


def by_lanczos(rows: Array, l2: float, count: int) -> Eigenpairs | None:
    """A few, by products with the rows alone; None where that does not succeed (as with rows of zeros)."""
    n = rows.shape[1]
    _check_finite(rows)
    product = LinearOperator((n, n), matvec=lambda v: rows.T @ (rows @ v), dtype=np.float64)
    found = _arpack(product, count, "LA")
    if found is None:
        return None
    values, vectors = found
    pairs = _sorted(values + l2, vectors, rest=None)
    return Eigenpairs(pairs.values, pairs.vectors, None, l2)  # λ_n ≥ l2 is all that is known of the least


def by_lanczos_of(full: Array, count: int) -> tuple[Array, Array] | None:
    """The `count` eigenpairs of largest magnitude of a finite symmetric matrix; None where that does not succeed (as
    with zeros), or would not give the same bits again."""
    return _arpack(full, count, "LM") if SEEDED else None


def _arpack(matrix: Array | LinearOperator, count: int, which: str) -> tuple[Array, Array] | None:
    chance = np.random.default_rng(0)  # its own, so that the same matrix gives the same bits
    v0 = chance.standard_normal(matrix.shape[0])
    try:
        values, vectors = eigsh(matrix, k=count, which=which, v0=v0, tol=0.0, rng=chance)
    except ArpackError:
        return None
    return values, vectors


def lanczos_pays(count: int, samples: int, n: int) -> bool:
    """By measurement: benchmarks/bench_eigen.py."""
    order = min(samples, n)
    return order >= 250 and 12 * count <= order


def _sorted(values: Array, vectors: Array, rest: float | None) -> Eigenpairs:
    xp = namespace(values)
    values, vectors = xp.flip(values, axis=0), xp.flip(vectors, axis=1)
    least = float(values[-1]) if rest is None else rest
    return Eigenpairs(to_numpy(values), to_numpy(vectors), rest, least)
