"""Choosing a penalty and a feature map by cross-validation, without pooling.

For the squared loss a fold is known by its sums over all clients: G_f = Σ x xᵀ, b_f = Σ x y, c_f = Σ y², n_f = Σ 1. The
fit without fold f is one linear solve from the sums of the others, and its error on fold f is
(c_f − 2 wᵀb_f + wᵀG_f w) / n_f. So one exchange, in which the sums of all folds and all feature maps travel together,
gives the exact cross-validation of every penalty there is: penalties cost nothing. The server sees only sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.arrays import Symmetric
from fedsolve.client import Client, client_step
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation import Federation
from fedsolve.ledger import Ledger
from fedsolve.linalg import factor, like
from fedsolve.losses import LinearLoss
from fedsolve.preflight import as_transport, checked_seed
from fedsolve.transports import Transport
from fedsolve.typing import Array

FoldSums = tuple[Symmetric, Array, float, float]  # G, b, c, n


@dataclass(frozen=True)
class FoldedSums:
    """The protocol that asks for the sums of every fold under every design (feature map and intercept)."""

    designs: tuple[LinearLoss, ...]
    folds: int
    seed: int

    @client_step
    def sums(self, client: Client) -> tuple[tuple[tuple[Symmetric, Array, float, float], ...], ...]:
        places = fold_of_samples(client, self.folds, self.seed)
        return tuple(
            tuple(_sums(design, client, np.flatnonzero(places == fold)) for fold in range(self.folds))
            for design in self.designs
        )


def fold_of_samples(client: Client, folds: int, seed: int) -> Array:
    """The fold of each of a client's samples: as equal as can be, by chance, a function of seed and client alone.

    Which folds get a sample more is drawn too, so that the folds of all clients together are as equal as can be hoped.
    """
    rng = np.random.default_rng([seed, client.key])
    return rng.permutation((np.arange(client.n_samples) + rng.integers(folds)) % folds)


def _sums(loss: LinearLoss, client: Client, index: Array) -> FoldSums:
    design, xp = loss.design(client), client.xp
    p, outputs = design.shape[1], tuple(client.y.shape[1:])
    if not index.size:  # a small client has no sample in some folds
        zero = like(np.zeros((p, p)), client.y)
        return Symmetric(zero, exact=True), like(np.zeros((p, *outputs)), client.y), 0.0, 0.0
    part = client.subset(index)
    rows, y, s = loss.design(part), part.y, part.sample_weight
    weighted = y if s is None else y * (s if y.ndim == 1 else s[:, None])
    total = float(len(index)) if s is None else float(xp.sum(s))
    client.count("hessians", 1)
    return rows.gram(s), rows.rmatvec(weighted), float(xp.sum(weighted * y)), total


@dataclass(frozen=True)
class Candidate:
    """One point of the grid, and the mean squared error of each fold."""

    loss: LinearLoss
    errors: tuple[float, ...]

    @property
    def error(self) -> float:
        """The mean over the folds."""
        return float(np.mean(self.errors))


@dataclass(frozen=True)
class Selection:
    """What cross-validation found, best first, and what it cost."""

    candidates: tuple[Candidate, ...]
    ledger: Ledger

    @property
    def best(self) -> LinearLoss:
        return self.candidates[0].loss


def cross_validate(
    losses: Sequence[LinearLoss],
    clients: Sequence[Client] | Transport,
    *,
    folds: int = 5,
    seed: int = 0,
    transport: str = "in_process",
) -> Selection:
    """The cross-validated error of every loss of a grid (penalties, feature maps), in one exchange."""
    if not losses or not all(loss.quadratic and not loss.l1 for loss in losses):
        raise ConfigError("cross_validate takes a grid of Squared losses without l1; other losses have no fold sums")
    if folds < 2:
        raise ConfigError(f"at least two folds are needed, got {folds}")
    designs = tuple(dict.fromkeys(replace(loss, l2=0.0) for loss in losses))
    protocol = FoldedSums(designs, folds, checked_seed(seed))
    road = as_transport(clients, transport)
    road.open({"folds": protocol})
    try:
        fed = Federation(road, {"folds": protocol}, seed=seed)
        fed.join()
        found = fed.sum(protocol.sums)
    finally:
        road.close()
    if min(sums[3] for sums in found[0]) <= 0:
        raise DataError(f"some of {folds} folds have no samples: use fewer folds")
    sums_of = dict(zip(designs, found, strict=True))
    candidates = [Candidate(loss, _errors(loss, sums_of[replace(loss, l2=0.0)])) for loss in losses]
    return Selection(tuple(sorted(candidates, key=lambda each: each.error)), fed.ledger)


def _errors(loss: LinearLoss, sums: tuple[FoldSums, ...]) -> tuple[float, ...]:
    """The error on each fold of the fit to the others."""
    errors = []
    for left_out, (G, b, c, n) in enumerate(sums):
        others = [one for fold, one in enumerate(sums) if fold != left_out]
        weight = sum(one[3] for one in others)
        H = Symmetric(sum(one[0].full() for one in others) / weight, exact=True)
        w = factor(H.add_diagonal(loss.penalty_diagonal(H.n))).solve(sum(one[1] for one in others) / weight)
        squares = c - 2 * float((w * b).sum()) + float((w * (G.full() @ w)).sum())
        errors.append(squares / (n * (w.shape[1] if w.ndim == 2 else 1)))
    return tuple(errors)
