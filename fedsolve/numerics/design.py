"""A client's inputs as the losses see them: products with them, never the matrix itself.

`matvec`, `rmatvec`, `squares(weights)`, `gram(weights)`, `normal(weights, r)`, `rows(index)`, `take(part)` and
`blocks()` are all that losses and algorithms use, so that dense and sparse inputs, and feature-mapped ones that are
never whole in memory (`features/mapped.py`), are the same to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from fedsolve.numerics.linalg import namespace, scratch
from fedsolve.numerics.sparse_symmetric import Entries, Support
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array


class Design(Protocol):
    """n rows of p numbers."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def sample(self) -> Array:
        """Some array of the kind this design computes with: says library, dtype and device."""
        ...

    def matvec(self, w: Array) -> Array:
        """X w, for a vector or for columns."""
        ...

    def rmatvec(self, r: Array) -> Array:
        """Xᵀ r, for a vector or for columns."""
        ...

    def squares(self, weights: Array) -> Array:
        """Σ_i s_i x_i ∘ x_i, the diagonal of gram(weights), for a vector of weights or for columns."""
        ...

    def gram(self, weights: Array | None = None) -> Symmetric:
        """Σ_i s_i x_i x_iᵀ."""
        ...

    def normal(self, weights: Array | None, r: Array) -> tuple[Symmetric, Array]:
        """gram(weights) and rmatvec(r), in one pass over the rows."""
        ...

    def take(self, part: slice) -> Array:
        """Some rows as they are held, dense or CSR."""
        ...

    def rows(self, index: Array) -> Design:
        """The design of some rows only."""
        ...

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """The rows, a block at a time."""
        ...


SCRATCH = 2**20  # numbers: 8 MiB


class DenseDesign:
    """A matrix in memory, NumPy or any Array API array."""

    __slots__ = ("X", "xp")

    def __init__(self, X: Array) -> None:
        self.X = X
        self.xp: Any = namespace(X)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape  # type: ignore[no-any-return]

    @property
    def sample(self) -> Array:
        return self.X

    def matvec(self, w: Array) -> Array:
        return self.X @ w

    def rmatvec(self, r: Array) -> Array:
        return self.X.T @ r

    def squares(self, weights: Array) -> Array:
        if self.xp is not np:
            return (self.X * self.X).T @ weights
        n, p = self.X.shape
        rows, total = max(1, SCRATCH // p), np.zeros((p, *weights.shape[1:]))
        for start in range(0, n, rows):  # never a second copy of all the data
            block = self.X[start : start + rows]
            total += np.multiply(block, block, out=scratch(block.shape)).T @ weights[start : start + rows]
        return total

    def gram(self, weights: Array | None = None) -> Symmetric:
        # S.T @ S with one and the same S: BLAS sees the symmetry and does half the work.
        if weights is None:
            return Symmetric(self.X.T @ self.X, exact=self.xp is np)
        root = self.xp.sqrt(weights)[:, None]
        if self.xp is not np:
            S = self.X * root
            return Symmetric(S.T @ S)
        n, p = self.X.shape
        rows = max(1, SCRATCH // p)  # never a second copy of all the data
        total: Array | None = None
        for start in range(0, n, rows):
            block = self.X[start : start + rows]
            S = np.multiply(block, root[start : start + rows], out=scratch(block.shape))
            total = S.T @ S if total is None else total + S.T @ S
        return Symmetric(total, exact=True)

    def normal(self, weights: Array | None, r: Array) -> tuple[Symmetric, Array]:
        return self.gram(weights), self.rmatvec(r)

    def take(self, part: slice) -> Array:
        return self.X[part, :]

    def rows(self, index: Array) -> DenseDesign:
        if self.xp is np:
            return DenseDesign(self.X[index])
        return DenseDesign(self.xp.take(self.X, self.xp.asarray(index, device=device(self.X)), axis=0))

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        yield slice(0, self.X.shape[0]), self.X


class SparseDesign:
    """A SciPy CSR matrix."""

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self._transposed = X.T
        self._pairs: sp.csc_array | None = None
        self._paired: bool | None = None
        self._supported: tuple[Support, sp.csc_array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape  # type: ignore[no-any-return]

    @property
    def sample(self) -> Array:
        return self.X.data

    def matvec(self, w: Array) -> Array:
        return self.X @ w

    def rmatvec(self, r: Array) -> Array:
        return self._transposed @ r

    def squares(self, weights: Array) -> Array:
        X = self.X
        return sp.csr_array((X.data * X.data, X.indices, X.indptr), shape=X.shape).T @ weights

    def gram(self, weights: Array | None = None) -> Symmetric:
        n, p = self.X.shape
        s = np.ones(n) if weights is None else weights
        if self.paired:
            # Σ s_i x_i x_iᵀ is linear in s: one sparse product gives its upper triangle.
            if self._pairs is None:
                self._pairs = _pair_products(self.X)
            return Symmetric.from_packed(p, self._pairs @ s)
        root, full = np.sqrt(s), np.zeros((p, p))
        for part, block in self.blocks():
            S = block * root[part, None]
            full += S.T @ S
        return Symmetric(full, exact=True)

    def gram_entries(self, weights: Array) -> Entries:
        """gram(weights) where pairs of features meet in a row."""
        if self._supported is None:
            self._supported = _supported(_pair_products(self.X) if self._pairs is None else self._pairs, self.shape[1])
        support, products = self._supported
        return Entries(support, products @ weights)

    def normal(self, weights: Array | None, r: Array) -> tuple[Symmetric, Array]:
        return self.gram(weights), self.rmatvec(r)

    def take(self, part: slice) -> Array:
        return self.X[part]

    @property
    def paired(self) -> bool:
        """Whether Gram matrices are made from products of pairs."""
        if self._paired is None:
            self._paired = self._pays_to_pair()
        return self._paired

    def _pays_to_pair(self) -> bool:
        """Whether the products of pairs are few enough: they cost about 60 flops of dense BLAS each, and 12 bytes."""
        n, p = self.X.shape
        lengths = np.diff(self.X.indptr).astype(np.int64)
        pairs = int((lengths * (lengths + 1) // 2).sum())
        return pairs * 60 <= n * p * p and pairs * 12 <= 2**30

    def rows(self, index: Array) -> SparseDesign:
        return SparseDesign(self.X[index])

    def blocks(self, size: int = 4096) -> Iterator[tuple[slice, Array]]:
        for start in range(0, self.X.shape[0], size):
            part = slice(start, min(start + size, self.X.shape[0]))
            yield part, self.X[part].toarray()


def _pair_products(X: sp.csr_array) -> sp.csc_array:
    """A matrix with a column per sample i that holds the upper triangle of x_i x_iᵀ, packed row by row.

    The entry at place a of a row meets those at a, a+1, … to its end: `first` and `second` list these pairs.
    """
    n, p = X.shape
    ends = np.repeat(X.indptr[1:], np.diff(X.indptr))
    partners = ends - np.arange(X.indices.size)
    first = np.repeat(np.arange(X.indices.size, dtype=X.indices.dtype), partners)
    starts = np.cumsum(partners) - partners
    second = first + (np.arange(first.size) - np.repeat(starts, partners)).astype(first.dtype)
    i, j = X.indices[first].astype(np.int64), X.indices[second]
    places = i * p - i * (i - 1) // 2 + (j - i)
    pointers = np.concatenate([[0], np.cumsum(partners)])[X.indptr]
    order = p * (p + 1) // 2
    index = np.int32 if max(order, first.size) < 2**31 else np.int64
    return sp.csc_array(
        (X.data[first] * X.data[second], places.astype(index), pointers.astype(index)), shape=(order, n)
    )


def _supported(pairs: sp.csc_array, p: int) -> tuple[Support, sp.csc_array]:
    """The products of pairs with only the rows that have any."""
    present = np.zeros(pairs.shape[0], dtype=bool)
    present[pairs.indices] = True
    row = np.cumsum(present, dtype=pairs.indices.dtype) - 1
    places = np.flatnonzero(present)
    thin = sp.csc_array((pairs.data, row[pairs.indices], pairs.indptr), shape=(places.size, pairs.shape[1]))
    return Support(p, places), thin


class WithIntercept:
    """Another design with a last column of ones that is never stored."""

    def __init__(self, inner: Design) -> None:
        self.inner = inner
        self.xp: Any = namespace(inner.sample)

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.inner.shape
        return n, p + 1

    @property
    def sample(self) -> Array:
        return self.inner.sample

    def matvec(self, w: Array) -> Array:
        return self.inner.matvec(w[:-1, ...]) + w[-1, ...]

    def rmatvec(self, r: Array) -> Array:
        last = self.xp.sum(r, axis=0)
        return self._join(self.inner.rmatvec(r), last[None, ...])

    def squares(self, weights: Array) -> Array:
        return self._join(self.inner.squares(weights), self.xp.sum(weights, axis=0)[None, ...])

    def gram(self, weights: Array | None = None) -> Symmetric:
        s = self._ones() if weights is None else weights
        inner, column = self.inner.normal(weights, s)
        return self._bordered(inner.full(), column, s)

    def normal(self, weights: Array | None, r: Array) -> tuple[Symmetric, Array]:
        s = self._ones() if weights is None else weights
        columns = r if r.ndim == 2 else r[:, None]
        inner, products = self.inner.normal(weights, self._join(s[:, None], columns, axis=1))
        product = products[:, 1:] if r.ndim == 2 else products[:, 1]
        last = self.xp.sum(r, axis=0)
        return self._bordered(inner.full(), products[:, 0], s), self._join(product, last[None, ...])

    def _ones(self) -> Array:
        return self.xp.ones(self.inner.shape[0], dtype=self.xp.float64, device=device(self.sample))

    def _bordered(self, inner: Array, column: Array, s: Array) -> Symmetric:
        """The Gram matrix with the row and column of the ones."""
        xp, p = self.xp, self.inner.shape[1]
        if xp is np:
            full = np.empty((p + 1, p + 1))
            full[:p, :p] = inner
            full[:p, p] = full[p, :p] = column
            full[p, p] = s.sum()
            return Symmetric(full, exact=True)
        upper = xp.concat([inner, column[:, None]], axis=1)
        lower = xp.concat([column, xp.sum(s)[None]])[None, :]
        return Symmetric(xp.concat([upper, lower], axis=0))

    def take(self, part: slice) -> Array:
        block = self.inner.take(part)
        if sp.issparse(block):
            return sp.csr_array(sp.hstack([block, np.ones((block.shape[0], 1))], format="csr"))
        return self._join(block, self.xp.ones((block.shape[0], 1), dtype=block.dtype, device=device(block)), axis=1)

    def rows(self, index: Array) -> WithIntercept:
        return WithIntercept(self.inner.rows(index))

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        for part, block in self.inner.blocks():
            ones = self.xp.ones((block.shape[0], 1), dtype=block.dtype, device=device(block))
            yield part, self._join(block, ones, axis=1)

    def _join(self, *arrays: Array, axis: int = 0) -> Array:
        return np.concatenate(arrays, axis=axis) if self.xp is np else self.xp.concat(arrays, axis=axis)


def with_intercept(design: Design) -> Design:
    """A design with a last column of ones: stored where that costs nearly nothing, otherwise not."""
    if isinstance(design, SparseDesign):
        ones = np.ones((design.shape[0], 1))
        return SparseDesign(sp.csr_array(sp.hstack([design.X, ones], format="csr")))
    return WithIntercept(design)


def gram_entries(design: Design, weights: Array) -> Entries:
    """Σ_i s_i x_i x_iᵀ on the places where it may differ from zero."""
    if isinstance(design, SparseDesign) and design.paired:
        return design.gram_entries(weights)
    return Entries.of(design.gram(weights))


def as_design(X: Array) -> Design:
    """The design of a matrix."""
    if sp.issparse(X):
        return SparseDesign(X)
    return DenseDesign(X)
