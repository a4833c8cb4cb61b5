"""Arrays with structure that is worth sending: each says less than the dense array it stands for.

    Symmetric   the upper triangle                      n(n+1)/2 numbers
    TopK        the k entries largest in magnitude      k numbers and k indices
    LowRank     eigenvectors and eigenvalues            r(n+1) numbers
    Quantised   integer codes on an even grid           n codes and 2 numbers

Each lists its fields in `wire_fields` and checks itself when it is built, so that a damaged message
ends in an error and not in an index out of range later. What came over the wire is checked once more by `from_wire`:
the type of every field first, because arithmetic with a field of another type may allocate what it claims
(`"x" * 2**31`), then the size of what it stands for.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod, sqrt
from typing import Any

import array_api_compat as api
import numpy as np

from fedsolve.errors import WrongType
from fedsolve.text import shortened
from fedsolve.typing import Array

MAX_DENSE = 2**29  # entries of an array that a sparse message may stand for: 4 GiB of float64


@lru_cache(maxsize=8)
def triangle(n: int) -> tuple[Array, Array]:
    """Flat positions of the upper triangle of an n × n matrix, and for each entry its place in the packing."""
    rows, columns = np.triu_indices(n)
    place = np.empty((n, n), dtype=np.intp)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return rows * n + columns, place


@lru_cache(maxsize=8)
def diagonal_places(n: int) -> Array:
    """Places of the diagonal in the packing: row i begins after n + (n−1) + … + (n−i+1) entries."""
    i = np.arange(n)
    return i * n - i * (i - 1) // 2


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise WrongType(what)


def _require_vector(field: str, value: Any, kinds: str = "fiub") -> None:
    """Reject a field from the wire that is not a NumPy vector with entries of one of these kinds."""
    if not (isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in kinds):
        what = f"shape {value.shape} and {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise WrongType(f"{field} should be a vector of {'whole ' if kinds == 'iu' else ''}numbers, got {what}")


class Symmetric:
    """A symmetric matrix that travels as its upper triangle, row by row.

    It is held in whichever form it was made in, because packing costs more than adding: in one process
    full matrices are summed as they are, while their size on the wire is that of the triangle. The triangle is the
    matrix: `exact` says that the lower one is known to equal it to the bit, else it is mirrored when asked for.
    """

    __slots__ = ("_exact", "_full", "_packed", "n")

    def __init__(self, full: Array, exact: bool = False) -> None:
        self._exact = exact
        _require(full.ndim == 2 and full.shape[0] == full.shape[1], f"Symmetric is a square matrix, got {full.shape}")
        self.n: int = full.shape[0]
        self._full: Array | None = full
        self._packed: Array | None = None

    @classmethod
    def from_packed(cls, n: int, packed: Array) -> Symmetric:
        """The matrix whose upper triangle, row by row, is `packed`."""
        _require(
            type(n) is int and n >= 0 and packed.shape == (n * (n + 1) // 2,),
            f"a packed symmetric matrix of order {n} has {n}·({n}+1)/2 entries, got shape {packed.shape}",
        )
        made = cls.__new__(cls)
        made.n, made._full, made._packed, made._exact = n, None, packed, True
        return made

    def full(self) -> Array:
        """The whole matrix."""
        if self._full is None or (not self._exact and isinstance(self._full, np.ndarray)):
            frozen = self._full is not None and not self._full.flags.writeable
            self._full = np.take(self.packed(), triangle(self.n)[1])
            self._full.flags.writeable = not frozen
            self._exact = True
        return self._full

    @property
    def is_whole(self) -> bool:
        """Whether it is held as a whole matrix."""
        return self._full is not None

    @property
    def is_exact(self) -> bool:
        """Whether both triangles of a matrix held whole are known to be equal to the bit."""
        return self._exact

    def held(self) -> Array:
        """The whole matrix as it is held; its upper triangle is what counts."""
        assert self._full is not None
        return self._full

    def packed(self) -> Array:
        """The upper triangle, row by row."""
        if self._packed is None:
            assert self._full is not None
            self._packed = np.take(self._full.reshape(-1), triangle(self.n)[0])
        return self._packed

    def map(self, function: Any, *others: Symmetric) -> Symmetric:
        """Apply an entrywise function in the form that all have without packing or unpacking."""
        family = (self, *others)
        if all(one._full is not None for one in family):
            return Symmetric(function(*(one._full for one in family)), all(one._exact for one in family))
        return Symmetric.from_packed(self.n, function(*(one.packed() for one in family)))

    def add_diagonal(self, diagonal: Array) -> Symmetric:
        """Add `diagonal` (of this matrix's own kind of array) in place, and return the matrix."""
        if self._full is None:
            assert self._packed is not None
            self._packed[diagonal_places(self.n)] += diagonal
        elif isinstance(self._full, np.ndarray):
            np.einsum("ii->i", self._full)[...] += diagonal  # a view in any memory order
            self._packed = None
        else:
            xp, device = api.array_namespace(self._full), api.device(self._full)
            self._full = self._full + xp.eye(self.n, dtype=self._full.dtype, device=device) * diagonal
            self._packed = None
        return self

    def divided(self, by: float) -> Symmetric:
        """Divide in place, where the array can be changed, and return the matrix."""
        for name in ("_full", "_packed"):
            held = getattr(self, name)
            if held is not None:
                held /= by
                setattr(self, name, held)
        return self

    def plus_diagonal(self, diagonal: Array) -> Symmetric:
        """The matrix with `diagonal` added; this one stays as it is."""
        return self.map(lambda array: array + 0.0).add_diagonal(diagonal)

    def freeze(self) -> None:
        """Refuse changes from now on: what has been sent is what was said."""
        for held in (self._full, self._packed):
            if isinstance(held, np.ndarray):
                held.flags.writeable = False

    wire_fields = ("n", "packed")

    def to_wire(self) -> tuple[Any, ...]:
        return self.n, self.packed()

    def wire_shape(self) -> tuple[Any, ...]:
        """As `to_wire`, but an array only as (dtype, shape): enough to know the size without packing."""
        held = self._packed if self._packed is not None else self._full
        assert held is not None
        return self.n, (held.dtype, (self.n * (self.n + 1) // 2,))

    @classmethod
    def from_wire(cls, n: int, packed: Array) -> Symmetric:
        _require_vector("Symmetric.packed", packed)
        return cls.from_packed(n, packed)


SAMPLE = 256  # entries that say about where the k-th largest is


def largest(flat: Array, k: int) -> Array:
    """Where the k entries of largest magnitude are, in increasing order; of equals, the earlier ones. NaN is largest.

    Linear in the size, and quick: a partition is needed only among the entries between two guesses at the k-th largest,
    one above it and one below. Where a guess is wrong there are more of them, and no other result.
    """
    k = min(k, flat.size)
    if k <= 0:
        return np.zeros(0, dtype=np.intp)
    if k == flat.size:
        return np.arange(k)
    # Floats that are not negative are in the order of their bits, where NaN comes last and compares like any other.
    # In float64, because the most negative integer has no absolute value of its kind.
    magnitude = np.abs(flat, dtype=np.float64).view(np.int64)
    low, high = _around(magnitude, k)
    keep = magnitude > high
    missing = k - int(np.count_nonzero(keep))
    if missing < 0:  # there are more than k above both
        low, keep, missing = high, np.zeros(flat.size, dtype=bool), k
    inside = ((magnitude >= low) ^ keep).nonzero()[0]
    if inside.size < missing:  # there are fewer than k above both
        inside = (~keep).nonzero()[0]
    if missing:
        keep[inside] = _first_largest(magnitude.take(inside), missing)
    return keep.nonzero()[0]


def _around(magnitude: Array, k: int) -> tuple[int, int]:
    """Guesses below and above the k-th largest, from entries at even distances: two standard deviations to each side of
    where it would be in a random sample."""
    sample = magnitude[:: 1 + magnitude.size // SAMPLE].copy()
    sample.sort()
    n, part = sample.size, k / magnitude.size
    middle, margin = n * (1.0 - part), 1.0 + 2.0 * sqrt(n * part * (1.0 - part))
    low, high = int(middle - margin), int(middle + margin)
    return sample.item(max(low, 0)), sample.item(min(high, n - 1))


def _first_largest(magnitude: Array, k: int) -> Array:
    """A mask of the k ≥ 1 largest; of equals, the earlier ones."""
    cut = magnitude.size - k
    threshold = np.partition(magnitude, cut)[cut]
    chosen: Array = magnitude >= threshold
    surplus = int(np.count_nonzero(chosen)) - k
    if surplus:
        ties = (magnitude == threshold).nonzero()[0]
        chosen[ties[ties.size - surplus :]] = False
    return chosen


class TopK:
    """The k entries of largest magnitude of an array; the rest are zero."""

    __slots__ = ("indices", "shape", "values")

    def __init__(self, shape: tuple[int, ...], indices: Array, values: Array) -> None:
        # What is wrong is put into words only then: this is made for every client in every round.
        if not all([type(s) is int and s >= 0 for s in shape]):
            raise WrongType(f"a TopK of sides that are not whole numbers of at least 0: {shortened(shape)}")
        size, kind = prod(shape), indices.dtype.kind  # only now: a text times 2³¹ would be as long
        if indices.ndim != 1 or indices.shape != values.shape or kind not in "iu":
            raise WrongType(
                f"TopK needs as many indices as values, got {indices.shape} {indices.dtype} and {values.shape}"
            )
        if indices.size and (indices.max() >= size or (kind == "i" and indices.min() < 0)):
            raise WrongType(f"TopK index outside an array of {size} entries")
        self.shape, self.indices, self.values = tuple(shape), indices, values

    @classmethod
    def of(cls, array: Array, k: int) -> TopK:
        """Keep exactly the k largest in magnitude (all, if there are fewer); of equals, the earlier ones."""
        flat = np.asarray(array).reshape(-1)
        keep = largest(flat, k)
        dtype = np.uint32 if flat.size <= 2**32 else np.uint64
        return cls(np.shape(array), keep.astype(dtype), flat[keep])

    def dense(self) -> Array:
        """The array with zeros where nothing was kept."""
        flat = np.zeros(prod(self.shape), dtype=self.values.dtype)
        flat[self.indices] = self.values
        return flat.reshape(self.shape)

    wire_fields = ("shape", "indices", "values")

    def to_wire(self) -> tuple[Any, ...]:
        return self.shape, self.indices, self.values

    @classmethod
    def from_wire(cls, shape: tuple[int, ...], indices: Array, values: Array) -> TopK:
        _require(isinstance(shape, tuple) and len(shape) <= 32, f"TopK.shape should be a tuple, got {shortened(shape)}")
        _require_vector("TopK.indices", indices, "iu")
        _require_vector("TopK.values", values)
        made = cls(shape, indices, values)
        # A few bytes may not claim more than a dense message could hold: they would be allocated when it is summed. A
        # side of 0 does not make up for the others: NumPy multiplies them all the same.
        claimed = prod(side for side in shape if side)
        _require(claimed <= MAX_DENSE, f"TopK of shape {shortened(shape)}, at most {MAX_DENSE} entries may be claimed")
        if indices.size > 1 and not (indices[1:] > indices[:-1]).all():  # as a rule they rise
            _require(np.unique(indices).size == indices.size, "a TopK with an index twice has no one value there")
        return made


class LowRank:
    """The symmetric matrix V diag(λ) Vᵀ, by its r columns and values."""

    __slots__ = ("values", "vectors")

    def __init__(self, vectors: Array, values: Array) -> None:
        _require(
            vectors.ndim == 2 and values.shape == (vectors.shape[1],),
            f"LowRank needs r columns and r values, got {vectors.shape} and {values.shape}",
        )
        self.vectors, self.values = vectors, values

    def dense(self) -> Array:
        """The whole n × n matrix."""
        vectors = self.vectors.astype(np.float64, copy=False)
        return (vectors * self.values) @ vectors.T

    wire_fields = ("vectors", "values")

    def to_wire(self) -> tuple[Any, ...]:
        return self.vectors, self.values

    @classmethod
    def from_wire(cls, vectors: Array, values: Array) -> LowRank:
        _require(
            isinstance(vectors, np.ndarray) and vectors.ndim == 2,
            f"LowRank.vectors should be a matrix, got {type(vectors).__name__}",
        )
        _require_vector("LowRank.values", values)
        made = cls(vectors, values)
        _require(vectors.shape[0] ** 2 <= MAX_DENSE, f"LowRank of order {vectors.shape[0]} claims too large a matrix")
        return made


class Quantised:
    """Numbers rounded to an even grid: value = offset + step · code."""

    __slots__ = ("codes", "offset", "step")

    def __init__(self, codes: Array, offset: float, step: float) -> None:
        _require(
            isinstance(codes, np.ndarray) and codes.dtype in (np.uint8, np.uint16),
            f"Quantised codes are an array of uint8 or uint16, got {type(codes).__name__}",
        )
        _require(
            all(isinstance(number, float | int) and not isinstance(number, bool) for number in (offset, step)),
            f"Quantised has an offset and a step that are numbers, got {shortened(offset)} and {shortened(step)}",
        )
        self.codes, self.offset, self.step = codes, float(offset), float(step)

    @classmethod
    def of(cls, array: Array, bits: int = 8, rng: np.random.Generator | None = None) -> Quantised:
        """Round to one of 2**bits levels between minimum and maximum: to the nearest, off by at most half a step. With
        a generator by chance, up or down, so that the mean is the number itself; off by less than a step."""
        _require(bits in (8, 16), f"Quantised has 8 or 16 bits, got {bits}")
        array = np.asarray(array, dtype=np.float64)
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        _require(np.isfinite(high - low).item(), f"Quantised needs a finite range, got {low:g} … {high:g}")
        levels = 2**bits - 1
        step = (high - low) / levels
        if step * levels < high - low:  # rounded down: by much, where numbers are subnormal
            step = float(np.nextafter(step, np.inf))
        codes = np.zeros(array.shape)
        if step > 0:
            places = (array - low) / step
            codes = np.rint(places) if rng is None else np.floor(places) + (rng.random(array.shape) < places % 1.0)
            codes = np.minimum(codes, levels)  # the division may round up past the last
        return cls(codes.astype(np.uint8 if bits == 8 else np.uint16), low, step)

    def dense(self) -> Array:
        """The values on the grid."""
        return self.offset + self.step * self.codes.astype(np.float64)

    wire_fields = ("codes", "offset", "step")

    def to_wire(self) -> tuple[Any, ...]:
        return self.codes, self.offset, self.step

    @classmethod
    def from_wire(cls, codes: Array, offset: float, step: float) -> Quantised:
        return cls(codes, offset, step)


STRUCTURED: tuple[type[Any], ...] = (Symmetric, TopK, LowRank, Quantised)
