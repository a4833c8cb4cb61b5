"""Functions known by their values at a few points: which combinations of some stand for others.

A family of functions, one set for each coordinate i, is given by matrices `table[i]`: a row for each function, a column
for each point. A function that is a combination of these has the values b = vᵀ table[i], so v is found from b: by the
inverse where there are as many points as functions, and by truncated least squares otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from fedsolve.typing import Array


@dataclass(frozen=True)
class Bases:
    """What turns values at points into weights of functions, in two parts: b ↦ b @ sent[i] ↦ (b @ sent[i]) @ back[i].

    sent  (coordinates, points, r): who has b computes r numbers with it
    back  (coordinates, r, functions): whoever knows the functions makes their weights of these numbers
    """

    sent: Array
    back: Array

    @property
    def rank(self) -> int:
        """r, how many numbers stand for a function."""
        return int(self.sent.shape[2])

    def weights(self, coefficients: Array) -> Array:
        """(functions, coordinates): the weights, from coefficients of shape (r, coordinates)."""
        return np.einsum("ri,irf->fi", coefficients, self.back)


def conditions(table: Array) -> Array:
    """The condition number of each coordinate's matrix, infinite where it is singular."""
    singular = np.linalg.svd(table, compute_uv=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(singular[:, -1] > 0, singular[:, 0] / singular[:, -1], np.inf)


def inverses(table: Array) -> Bases:
    """(G⁽ⁱ⁾)⁻¹ of square matrices; the coefficients are the weights themselves."""
    order = table.shape[1]
    return Bases(np.linalg.inv(table), np.broadcast_to(np.eye(order), (table.shape[0], order, order)))


def truncated(table: Array, most: int, cutoff: float) -> Bases:
    """The leading singular directions of each matrix, at most `most` of them, without those whose singular value is at
    most `cutoff` of the largest: least squares over the points, of least norm among the functions' weights.

    What is sent are coefficients of an orthonormal basis, which are of the size of b. Weights can be larger by the
    condition number; they exist at the server only.
    """
    left, singular, right = np.linalg.svd(table, full_matrices=False)  # table = left · singular · right
    kept = singular > cutoff * np.maximum(singular[:, :1], np.finfo(np.float64).tiny)
    rank = max(1, min(most, int(kept.sum(axis=1).max())))
    kept, singular = kept[:, :rank], singular[:, :rank]
    inverse = np.where(kept, 1.0 / np.where(kept, singular, 1.0), 0.0)
    sent = np.where(kept[:, None, :], np.swapaxes(right, 1, 2)[:, :, :rank], 0.0)
    return Bases(np.ascontiguousarray(sent), inverse[:, :, None] * np.swapaxes(left, 1, 2)[:, :rank, :])


def leading_functions(table: Array, count: int) -> Array:
    """The places of `count` functions that stand for the others best, in order: QR with pivoting, each coordinate in
    units of its own."""
    sizes = np.sqrt(np.mean(table * table, axis=(1, 2), keepdims=True))
    scaled = table / np.where(sizes > 0, sizes, 1.0)
    stacked = np.swapaxes(scaled, 1, 2).reshape(-1, table.shape[1])  # a column for each function
    pivots: Array = sla.qr(stacked, mode="r", pivoting=True)[1]
    return np.sort(pivots[:count])
