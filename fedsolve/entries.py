"""Symmetric matrices that live on few places: the local Hessian of sparse rows, and what is computed from it.

A client of some hundred sparse rows has a Hessian with entries only where two features meet in a row. These places
never change, so a matrix is the numbers there: differences, norms and choices of entries cost what the support has,
not what the triangle has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedsolve.arrays import Symmetric, diagonal_places, triangle
from fedsolve.linalg import spectral_norm, to_numpy
from fedsolve.typing import Array


class Support:
    """Places of the packed upper triangle of order n where a matrix may differ from zero: the diagonal, and others."""

    __slots__ = ("_block", "_lone", "diagonal", "n", "places")

    def __init__(self, n: int, places: Array) -> None:
        self.n, self.places = n, places  # in increasing order
        self.diagonal = np.searchsorted(places, diagonal_places(n))  # where in `places` the diagonal is
        self._block: Array | None = None
        self._lone: Array = None

    @property
    def is_everywhere(self) -> bool:
        return bool(self.places.size == self.n * (self.n + 1) // 2)

    def split(self) -> tuple[Array, Array]:
        """The matrix as a block and single numbers: a feature that meets no other is a block of order one.

        The block is given as positions among the values (one past the last for a zero), the numbers likewise.
        """
        if self._block is None:
            rows, columns = np.divmod(triangle(self.n)[0][self.places], self.n)
            meets = np.zeros(self.n, dtype=bool)
            off = rows != columns
            meets[rows[off]] = meets[columns[off]] = True
            index = np.cumsum(meets) - 1
            inside = meets[rows]
            i, j, position = index[rows[inside]], index[columns[inside]], np.flatnonzero(inside)
            order = int(meets.sum())
            block = np.full((order, order), self.places.size)
            block[i, j] = block[j, i] = position
            self._block, self._lone = block, self.diagonal[~meets]
        return self._block, self._lone


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

    def minus(self, values: Array | None) -> Entries:
        """Less another matrix on the same support; None for zero."""
        return self if values is None else Entries(self.support, self.values - values)

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
        v = self.values
        on = v[self.support.diagonal]
        return float(np.sqrt(2.0 * (v @ v) - on @ on))

    def spectral(self) -> float:
        """‖A‖₂, from above: see `linalg.spectral_norm`."""
        if self.support.is_everywhere:
            return spectral_norm(np.take(self.values, triangle(self.n)[1]))
        block, lone = self.support.split()
        largest = float(np.abs(self.values[lone]).max(initial=0.0))
        return max(largest, spectral_norm(np.take(np.append(self.values, 0.0), block)))
