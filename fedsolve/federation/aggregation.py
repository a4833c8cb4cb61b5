"""Sums of replies: the only thing the server needs to see of most of them.

Terms are always added in the order of the clients: the same replies give the same bits by any transport. They
are added as they come, so that the replies of many clients are never all in memory at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np
from scipy.linalg.blas import daxpy

from fedsolve.errors import TooLarge, WrongType
from fedsolve.numerics.structured_arrays import STRUCTURED, Symmetric, TopK
from fedsolve.typing import Array, Value

BY_BLAS = 4096  # entries from which calling BLAS costs less than a second pass
# Entries that BLAS adds by itself. With more it would wake its threads, which are not those of NumPy's BLAS: the two
# sets would spin beside each other, and clients that compute with one in turn with sums by the other crawl.
# A multiple of WIDE, so that a piece has no remainder.
ALONE = 9_984
# BLAS adds blocks of so many entries at most with fused operations and may round a remainder otherwise: which entries
# are the remainder differs between a triangle and a whole matrix, so it is filled up to a block.
WIDE = 64

_NUMBERS = (float, int)


def weighted_sum(values: Sequence[Value], weights: Sequence[float] | None) -> Value:
    """Σ_j weight_j · value_j (weights None: Σ_j value_j), leaf by leaf through tuples, lists, dicts and dataclasses."""
    total = Total()
    for index, value in enumerate(values):
        total.add(value, None if weights is None else weights[index])
    return total.result()


class Total:
    """A sum that grows: of numbers, arrays, structured arrays, and containers of these, all replies of one shape."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum: _Leaf | None = None

    def add(self, value: Value, weight: float | None = None) -> None:
        """Add weight · value; the value itself is left as it is."""
        so_far = self._sum
        if so_far is None:
            so_far = self._sum = _sum_for(value)
        elif type(value) is not so_far.kind and not (so_far.kind in _NUMBERS and type(value) in _NUMBERS):
            raise WrongType(
                f"replies of different types cannot be added: {so_far.kind.__name__} and {type(value).__name__}"
            )
        so_far.add(value, weight)

    def result(self, scale: float | None = None) -> Value:
        """The sum, or `scale` times it. The last thing asked of it."""
        assert self._sum is not None, "nothing has been added"
        return self._sum.result(scale)


def _sum_for(value: Value) -> _Leaf:
    kind = type(value)
    if kind is np.ndarray:
        return _Arrays(kind)
    if kind in _NUMBERS:
        return _Numbers(kind)
    if kind is Symmetric:
        return _Symmetrics(kind)
    if kind is TopK and value.values.dtype.kind == "f":
        return _Scattered(kind)
    if kind in STRUCTURED:
        return _Dense(kind)
    if kind in (tuple, list, dict) or is_dataclass(value):
        return _Parts(kind)
    if value is None:
        return _Nothing(kind)
    raise WrongType(f"replies of type {kind.__name__} cannot be added; gather them instead")


class _Leaf:
    __slots__ = ("kind", "total")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.total: Value = None

    def add(self, value: Value, weight: float | None) -> None:
        """Add weight · value."""
        raise NotImplementedError

    def result(self, scale: float | None) -> Value:
        """The sum, times the scale if there is one."""
        raise NotImplementedError


class _Nothing(_Leaf):
    def add(self, value: None, weight: float | None) -> None:
        pass

    def result(self, scale: float | None) -> None:
        return None


class _Numbers(_Leaf):
    def add(self, value: float, weight: float | None) -> None:
        term = value if weight is None else weight * value
        self.total = term if self.total is None else self.total + term

    def result(self, scale: float | None) -> float:
        return self.total if scale is None else float(scale * self.total)


def _as_int64(value: Array) -> Array:
    """A copy of whole numbers as int64; rejects those that would wrap."""
    if value.dtype == np.uint64 and value.size and int(value.max()) >= 2**63:
        raise WrongType("a reply has whole numbers of 2⁶³ and more, which cannot be added exactly: reply with floats")
    return value.astype(np.int64, order="C")


def _add_remainder(x: Array, y: Array, weight: float) -> None:
    """y += weight · x for less than a block, with the rounding of a block."""
    padded = np.zeros((2, WIDE))
    padded[0, : x.size], padded[1, : x.size] = x, y
    y[:] = daxpy(padded[0], padded[1], a=weight)[: x.size]


class _Arrays(_Leaf):
    __slots__ = ("_by_blas", "_counts", "_term")

    def __init__(self, kind: type, entries: int | None = None) -> None:
        super().__init__(kind)
        self._term: Array = None  # a place for products, made when first needed
        self._counts = False  # whole numbers stay whole as long as all of them are
        # BLAS rounds otherwise (it fuses products and sums), so the choice must be the same by any transport: it is
        # made on the entries that count, which for a symmetric matrix are those of a triangle, however it is held.
        self._by_blas: bool | None = None if entries is None else entries >= BY_BLAS

    def add(self, value: Array, weight: float | None) -> None:
        total = self.total
        if total is None:
            self._begin(value, weight)
            return
        if value.shape != total.shape:
            raise WrongType(f"replies of different shapes cannot be added: {total.shape} and {value.shape}")
        if self._counts and (weight is not None or value.dtype.kind not in "iu"):
            self.total, self._counts = total.astype(np.float64), False
            total = self.total
        if weight is None and not self._counts:
            total += value
        elif weight is None:
            self._add_whole(value)
        elif self._by_blas and value.dtype == np.float64 and value.flags.c_contiguous:
            x, y = value.reshape(-1), total.reshape(-1)
            whole = x.size - x.size % WIDE
            for start in range(0, whole, ALONE):  # in one pass, in place
                daxpy(x, y, n=min(ALONE, whole - start), a=weight, offx=start, offy=start)
            if whole < x.size:
                _add_remainder(x[whole:], y[whole:], weight)
        else:
            if self._term is None:
                self._term = np.empty(total.shape)
            np.multiply(value, weight, out=self._term, dtype=np.float64)
            total += self._term

    def _add_whole(self, value: Array) -> None:
        total = self.total
        before, term = total.copy(), _as_int64(value)
        total += term
        # Two numbers of one sign have a sum of that sign, or it did not fit.
        if bool((((before ^ total) & (term ^ total)) < 0).any()):
            raise WrongType("a sum of whole numbers does not fit into 64 bits: reply with floats")

    def _begin(self, value: Array, weight: float | None) -> None:
        if self._by_blas is None:
            self._by_blas = value.size >= BY_BLAS
        if weight is None:
            self._counts = value.dtype.kind in "iu"
            self.total = _as_int64(value) if self._counts else value.astype(np.float64, order="C")
            return
        # In float64 from the first product on; `out` because NumPy makes no 0-d arrays otherwise.
        self.total = np.empty(value.shape)
        np.multiply(value, weight, out=self.total, dtype=np.float64)

    def result(self, scale: float | None) -> Array:
        if scale is not None:
            if self._counts:
                self.total = self.total.astype(np.float64)
            self.total *= scale
        return self.total


class _Dense(_Arrays):
    """TopK, LowRank and Quantised are added as what they stand for."""

    def add(self, value: Value, weight: float | None) -> None:
        try:
            dense = value.dense()
        except MemoryError:
            raise TooLarge(f"a reply of type {self.kind.__name__} stands for more than there is memory for") from None
        super().add(dense, weight)


def _zeros(shape: tuple[int, ...]) -> Array:
    """Zeros for a sum of TopK, which claims its shape in a few bytes."""
    try:
        return np.zeros(shape)
    except MemoryError:
        raise TooLarge(f"a reply stands for an array of shape {shape}, for which there is no memory") from None


class _Scattered(_Leaf):
    """TopK of floats: each costs the entries it has, not those of the array it stands for."""

    def add(self, value: TopK, weight: float | None) -> None:
        if self.total is None:
            self.total = _zeros(value.shape)
        if value.shape != self.total.shape:
            raise WrongType(f"replies of different shapes cannot be added: {self.total.shape} and {value.shape}")
        terms = value.values if weight is None else np.multiply(value.values, weight, dtype=np.float64)
        self.total.reshape(-1)[value.indices.astype(np.intp)] += terms

    def result(self, scale: float | None) -> Array:
        if scale is not None:
            self.total *= scale
        return self.total


class _Symmetrics(_Leaf):
    """Whole matrices as long as all are held whole, triangles otherwise: the triangle has the same bits either way."""

    __slots__ = ("_exact", "_order", "_whole")

    def add(self, value: Symmetric, weight: float | None) -> None:
        if self.total is None:
            self._order, self._whole, self._exact = value.n, value.is_whole, True
            self.total = _Arrays(np.ndarray, value.n * (value.n + 1) // 2)
        if value.n != self._order:
            raise WrongType(f"symmetric replies of different orders cannot be added: {self._order} and {value.n}")
        if self._whole and not value.is_whole:
            self._whole = False
            self.total.total = Symmetric(self.total.total).packed()
            self.total._term = None
        self._exact = self._exact and value.is_exact
        self.total.add(value.held() if self._whole else value.packed(), weight)

    def result(self, scale: float | None) -> Symmetric:
        array = self.total.result(scale)
        return Symmetric(array, self._exact) if self._whole else Symmetric.from_packed(self._order, array)


class _Parts(_Leaf):
    """Tuples, lists, dicts and dataclasses: part by part."""

    def add(self, value: Value, weight: float | None) -> None:
        parts = self._parts_of(value)
        if self.total is None:
            self.total = {key: Total() for key in parts}
        if parts.keys() != self.total.keys():
            raise WrongType(f"replies of different {self._difference(parts)}")
        for key, part in parts.items():
            self.total[key].add(part, weight)

    def _difference(self, parts: dict[str | int, Value]) -> str:
        """What keeps two replies from being added."""
        if self.kind is not dict:
            return f"lengths cannot be added: {len(self.total)} and {len(parts)}"
        sides = [
            [key for key in ours if key not in theirs] for ours, theirs in ((self.total, parts), (parts, self.total))
        ]
        return f"keys cannot be added: only the others have {sides[0][:8]}, only this one has {sides[1][:8]}"

    def _parts_of(self, value: Value) -> dict[str | int, Value]:
        if self.kind is dict:
            return value  # type: ignore[no-any-return]
        if self.kind in (tuple, list):
            return dict(enumerate(value))
        return {field.name: getattr(value, field.name) for field in fields(value)}

    def result(self, scale: float | None) -> Value:
        results = {key: part.result(scale) for key, part in self.total.items()}
        if self.kind is dict:
            return results
        return self.kind(results.values()) if self.kind in (tuple, list) else self.kind(**results)
