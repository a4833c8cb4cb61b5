"""Symmetric matrices that live on few places: the local Hessian of sparse rows, and what is computed from it.

A client of some hundred sparse rows has a Hessian with entries only where two features meet in a row. These places
never change, so a matrix is the numbers there: differences, norms and choices of entries cost what the support has,
not what the triangle has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.spectral_norm import SMALL, spectral_norm
from fedsolve.numerics.structured_arrays import Symmetric, diagonal_places, triangle
from fedsolve.typing import Array


class Support:
    """Places of the packed upper triangle of order n where a matrix may differ from zero."""

    __slots__ = ("_block", "diagonal", "n", "places")

    def __init__(self, n: int, places: Array) -> None:
        self.n, self.places = n, places.astype(np.uint32)  # in increasing order, as they travel
        self.diagonal = np.flatnonzero(np.isin(places, diagonal_places(n)))  # where in `places` it is
        self._block: tuple[int, Array] | None = None

    @property
    def is_everywhere(self) -> bool:
        return bool(self.places.size == self.n * (self.n + 1) // 2)

    def block(self) -> tuple[int, Array]:
        """The rows and columns that have a place: how many, and where each place is in their own packed triangle."""
        if self._block is None:
            rows, columns = np.divmod(triangle(self.n)[0][self.places], self.n)
            present = np.zeros(self.n, dtype=bool)
            present[rows] = present[columns] = True
            order, index = int(present.sum()), np.cumsum(present) - 1
            i, j = index[rows], index[columns]
            self._block = order, i * order - i * (i - 1) // 2 + (j - i)
        return self._block


@lru_cache(maxsize=8)
def everywhere(n: int) -> Support:
    """The whole triangle."""
    return Support(n, np.arange(n * (n + 1) // 2))


@dataclass(frozen=True, slots=True)
class Entries:
    """A symmetric matrix by its values on a support; NumPy, whatever the client computes with."""

    support: Support
    values: Array

    @classmethod
    def of(cls, matrix: Symmetric) -> Entries:
        """A matrix with entries everywhere."""
        if matrix.is_whole and not isinstance(matrix.held(), np.ndarray):
            matrix = Symmetric(to_numpy(matrix.full()))
        return cls(everywhere(matrix.n), matrix.packed())

    @property
    def n(self) -> int:
        return self.support.n

    def minus(self, values: Array) -> Entries:
        """Less another matrix on the same support."""
        return Entries(self.support, self.values - values)

    def less_diagonal(self, diagonal: Array) -> Entries:
        """Less a diagonal matrix; for one that has entries everywhere."""
        values = self.values.copy()
        values[self.support.diagonal] -= diagonal
        return Entries(self.support, values)

    def widened(self) -> Entries:
        """The same matrix on the whole triangle."""
        return self if self.support.is_everywhere else Entries(everywhere(self.n), self.packed())

    def packed(self) -> Array:
        """The upper triangle, row by row."""
        if self.support.is_everywhere:
            return self.values
        packed = np.zeros(self.n * (self.n + 1) // 2)
        packed[self.support.places] = self.values
        return packed

    def symmetric(self) -> Symmetric:
        return Symmetric.from_packed(self.n, self.packed())

    def frobenius(self) -> float:
        """‖A‖_F: entries off the diagonal count twice."""
        v, on = self.values, self.values.take(self.support.diagonal)
        return sqrt(max(2.0 * float(v.dot(v)) - float(on.dot(on)), 0.0))

    def spectral(self, slack: float = 0.0) -> float:
        """‖A‖₂, from above: see `norms.py`."""
        frobenius, whole = self.frobenius(), self.support.is_everywhere
        order, place = (self.n, None) if whole else self.support.block()
        if order > SMALL and frobenius <= slack:  # which is above ‖A‖₂ by no more than the slack: nothing to pack
            return frobenius
        if whole:
            return spectral_norm(self.values, order, frobenius, slack)
        packed = np.zeros(order * (order + 1) // 2)
        packed[place] = self.values
        return spectral_norm(packed, order, frobenius, slack)
