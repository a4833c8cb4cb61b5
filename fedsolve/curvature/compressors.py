"""What a client sends of a symmetric matrix A: a few of its entries, or a few eigenpairs (FedNL, section 3).

    ‖C(A) − A‖_F² ≤ (1 − δ) ‖A‖_F²,   δ = `contraction(order)`;  in expectation where C is random

This is all that FedNL needs of C: with every correction C(A − H) the matrix H that both sides remember comes nearer to
A. Entries are those of the upper triangle: the pair (i, j), (j, i) counts once and travels once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.curvature.eigenpairs import by_lanczos_of, lanczos_pays
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, Symmetric, TopK, largest
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape

__all__ = ["Compressor", "RandomKPairs", "RankR", "TopKPairs", "correct"]


class Compressor(ABC):
    """C, as both sides know it. What is sent sums to an array that `triangle_of` makes a packed triangle again."""

    keeps_support: ClassVar[bool]  # whether C(A) is zero wherever A is

    @abstractmethod
    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        """C(A): as it is sent, and as values on the support of A."""

    @abstractmethod
    def whole(self, A: Entries) -> TopK | LowRank:
        """All of A in the form of C(A)."""

    @abstractmethod
    def triangle_of(self, total: Array) -> Array:
        """A sum of what was sent, as a packed triangle."""

    @abstractmethod
    def contraction(self, order: int) -> float:
        """δ for matrices of an order."""


def correct(client: Client, A: Entries, compressor: Compressor, whole: bool) -> tuple[Entries, TopK | LowRank]:
    """The difference between A and what the client remembers of it, and C(difference), by which both sides correct it.

    A client that remembers nothing starts from zero; with `whole` it sends all of A instead.
    """
    remembered = client.memory.get("H")
    if remembered is None:
        sent, kept = (compressor.whole(A), A.values) if whole else compressor.compress(A, client)
        client.memory["H"] = kept.copy()
        return A, sent
    remembered = to_numpy(remembered)
    require_shape("the Hessian that this client remembers", remembered, *A.values.shape)
    difference = A.minus(remembered)
    sent, kept = compressor.compress(difference, client)
    client.memory["H"] = remembered + kept
    return difference, sent


@dataclass(frozen=True)
class _Pairs(Compressor):
    """k = multiple · order entries of the upper triangle (all, if there are fewer)."""

    multiple: int = 8
    keeps_support: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.multiple < 1:
            raise ConfigError(f"at least one entry per row is kept, multiple ≥ 1; got {self.multiple}")

    @abstractmethod
    def choose(self, values: Array, k: int, client: Client) -> Array:
        """Where the k entries to keep are, in increasing order."""

    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        chosen = self.choose(A.values, min(self.multiple * A.n, A.values.size), client)
        kept = np.zeros(A.values.size)
        kept[chosen] = values = A.values.take(chosen)
        return _sent(A, A.support.places.take(chosen), values), kept

    def whole(self, A: Entries) -> TopK | LowRank:
        return _sent(A, A.support.places, A.values)

    def triangle_of(self, total: Array) -> Array:
        return total


def _sent(A: Entries, places: Array, values: Array) -> TopK:
    return TopK((A.n * (A.n + 1) // 2,), places, values)


@dataclass(frozen=True)
class TopKPairs(_Pairs):
    """Top-k: the k = multiple · order entries of largest magnitude; of equals, the earlier ones."""

    def choose(self, values: Array, k: int, client: Client) -> Array:
        return largest(values, k)

    def contraction(self, order: int) -> float:
        # Of N entries of equal size the worst choice is k on the diagonal, which count once in the norm where others
        # count twice: 2(N − k) of 2(N − k) + k are lost.
        entries = order * (order + 1) // 2
        k = min(self.multiple * order, entries)
        return k / (2 * entries - k)


@dataclass(frozen=True)
class RandomKPairs(_Pairs):
    """Random-k: k = multiple · order entries, each as likely as any other, as they are.

    Scaled by N/k the choice would be unbiased, with variance ω = N/k − 1, and FedNL's step for such a C is
    1/(1 + ω) = k/N: the same matrix is learned.
    """

    def choose(self, values: Array, k: int, client: Client) -> Array:
        return np.sort(client.rng.choice(values.size, k, replace=False, shuffle=False))

    def contraction(self, order: int) -> float:
        entries = order * (order + 1) // 2
        return min(self.multiple * order, entries) / entries


@dataclass(frozen=True)
class RankR(Compressor):
    """Rank-r: the r eigenpairs of largest magnitude."""

    rank: int = 1
    keeps_support: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"at least one eigenpair is kept, rank ≥ 1; got {self.rank}")

    def compress(self, A: Entries, client: Client) -> tuple[TopK | LowRank, Array]:
        sent = _eigenpairs(A, min(self.rank, A.n))
        return sent, Symmetric(sent.dense()).packed()

    def whole(self, A: Entries) -> TopK | LowRank:
        return _eigenpairs(A, A.n)

    def triangle_of(self, total: Array) -> Array:
        return Symmetric(total).packed()

    def contraction(self, order: int) -> float:
        return min(self.rank, order) / order


def _eigenpairs(A: Entries, rank: int) -> LowRank:
    full = A.symmetric().full()
    if not np.isfinite(full).all():  # a run that diverges: say so, where it will be seen
        return LowRank(np.full((A.n, rank), np.nan), np.full(rank, np.nan))
    found = by_lanczos_of(full, rank) if lanczos_pays(rank, A.n, A.n) else None
    values, vectors = np.linalg.eigh(full) if found is None else found
    largest = np.argsort(-np.abs(values), kind="stable")[:rank]
    return LowRank(np.ascontiguousarray(vectors[:, largest]), values[largest])
