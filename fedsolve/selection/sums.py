"""Cross-validation of the squared loss: one exchange of sums, whatever the penalties.

A fold is known by its sums over all clients: G_f = Σ x xᵀ, b_f = Σ x y, c_f = Σ y², n_f = Σ 1. The fit without fold f
is one linear solve from the sums of the others (with an l1 penalty, a coordinate descent), and its error on fold f is
(c_f − 2 wᵀb_f + wᵀG_f w) / n_f. So one exchange, in which the sums of all folds and all feature maps travel together,
gives the exact cross-validation of every penalty there is: penalties cost nothing.
Uses only sums of the clients' replies.

Where the fit is so good that this difference would lose its digits, the clients are asked for it in a second exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.numerics import proximal as prox
from fedsolve.numerics.linalg import factor, like
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.selection.batches import ASKING_LESS, WITHOUT_SUMS, Progress, first_that_fit, triangle
from fedsolve.selection.candidates import Candidate
from fedsolve.selection.folds import check_folds, fold_of_samples, fold_weights, outside
from fedsolve.typing import Array
from fedsolve.wire.arguments import places

# Of the terms of the difference: an error below has lost five of its sixteen digits to them.
CANCELLED = 1e-5


@dataclass(frozen=True)
class Sums:
    """G, b, c and n of a fold."""

    gram: Symmetric
    products: Array
    squares: float
    weight: float


@dataclass(frozen=True)
class FoldSums:
    """The protocol that asks for the sums of folds under designs (feature map and intercept).

    A question is a number, design · folds + fold.
    """

    designs: tuple[LinearLoss, ...]  # without penalties
    folds: int
    seed: int

    asking_less: ClassVar[str] = ASKING_LESS

    @property
    def loss(self) -> LinearLoss:
        """For joining: what the targets must be good for."""
        return self.designs[0]

    @property
    def _questions(self) -> int:
        return len(self.designs) * self.folds

    # ── clients ──

    @client_step(sends="sums over the rows of each fold")
    def sums(self, client: Client, questions: Array) -> tuple[Sums, ...]:
        split = [divmod(question, self.folds) for question in places("questions", questions, self._questions)]
        fold_of = fold_of_samples(client, self.folds, self.seed)
        return tuple(_sums(self.designs[design], client, np.flatnonzero(fold_of == fold)) for design, fold in split)

    @client_step(sends="errors on the rows of each fold")
    def held_out(self, client: Client, questions: Array, at: tuple[Array, ...]) -> tuple[float, ...]:
        errors = []
        # A question comes once for each penalty, of which a client knows nothing; each brings weights of its own.
        asked = places("questions", questions, self._questions, at, once=False)
        for question, w in zip(asked, at, strict=True):
            design, fold = divmod(question, self.folds)
            loss = self.designs[design]
            each = loss.error(client.xp, loss.predictor(client, w), loss.targets(client))
            client.count("losses", client.n_samples)
            errors.append(float(fold_weights(client, fold, self.folds, self.seed)[1] @ each))
        return tuple(errors)

    # ── server ──

    def footprint(self, sizes: Sizes) -> Footprint:
        # The sums of all folds, and those of the others with their factor. Replies are as large as is asked for.
        return Footprint(working=sizes.matrix, server=(self.folds + 2) * sizes.matrix, instead=WITHOUT_SUMS)

    def candidates(
        self, fed: Federation, losses: Sequence[LinearLoss], reply_bytes: int, progress: Progress
    ) -> list[Candidate]:
        """The errors of every loss, in the order of the grid."""
        known: dict[int, list[Sums]] = {}
        errors: dict[tuple[int, int], float] = {}
        doubtful: dict[tuple[int, int], tuple[Array, float]] = {}
        waiting = list(range(len(self.designs) * self.folds))

        def numbers(question: int) -> int:
            loss = self.designs[question // self.folds]
            return triangle(loss.width(fed.features)) + int(np.prod(loss.shape(fed.features, fed.outputs))) + 2

        while waiting:
            asked = first_that_fit(waiting, numbers, reply_bytes)
            waiting = waiting[len(asked) :]
            fed.begin_round(fed.round + 1)
            for question, found in zip(asked, fed.sum(self.sums, questions=np.array(asked)), strict=True):
                known.setdefault(question // self.folds, []).append(found)
            for design in [each for each, sums in known.items() if len(sums) == self.folds]:
                sums = known.pop(design)  # the next design's take its place
                check_folds([one.weight for one in sums])
                chosen = [place for place, loss in enumerate(losses) if unpenalised(loss) == self.designs[design]]
                for fold in range(self.folds):
                    _judge(losses, chosen, fold, sums, errors, doubtful)
                progress(len(errors), len(losses) * self.folds)
        self._ask(fed, losses, doubtful, errors)
        return [
            Candidate(loss, tuple(errors[place, fold] for fold in range(self.folds)))
            for place, loss in enumerate(losses)
        ]

    def _ask(
        self,
        fed: Federation,
        losses: Sequence[LinearLoss],
        doubtful: dict[tuple[int, int], tuple[Array, float]],
        errors: dict[tuple[int, int], float],
    ) -> None:
        """The errors that the sums could not tell, from the rows."""
        if not doubtful:
            return
        number = {design: index for index, design in enumerate(self.designs)}
        questions = np.array([number[unpenalised(losses[place])] * self.folds + fold for place, fold in doubtful])
        fed.begin_round(fed.round + 1)
        found = fed.sum(self.held_out, questions=questions, at=tuple(w for w, _ in doubtful.values()))
        for key, total in zip(doubtful, found, strict=True):
            errors[key] = total / doubtful[key][1]


def unpenalised(loss: LinearLoss) -> LinearLoss:
    """The design of a loss: what its sums depend on."""
    return replace(loss, l2=0.0, l1=0.0)


def _sums(loss: LinearLoss, client: Client, index: Array) -> Sums:
    p, outputs = loss.width(client.design.shape[1]), tuple(client.y.shape[1:])
    if not index.size:  # a small client has no sample in some folds
        zero = Symmetric(like(np.zeros((p, p)), client.y), exact=True)
        return Sums(zero, like(np.zeros((p, *outputs)), client.y), 0.0, 0.0)
    part, xp = client.subset(index), client.xp
    y, s = part.y if part.offset is None else part.y - part.offset, part.sample_weight
    weighted = y if s is None else y * (s if y.ndim == 1 else s[:, None])
    total = float(len(index)) if s is None else float(xp.sum(s))
    client.count("hessians", 1)
    gram, products = loss.design(part).normal(s, weighted)
    for what, amount in part.counts.items():  # rows that it mapped
        client.count(what, amount)
    return Sums(gram, products, float(xp.sum(weighted * y)), total)


def _judge(
    losses: Sequence[LinearLoss],
    chosen: Sequence[int],
    fold: int,
    sums: Sequence[Sums],
    errors: dict[tuple[int, int], float],
    doubtful: dict[tuple[int, int], tuple[Array, float]],
) -> None:
    """The error on a fold of the fits to the others, under every penalty of one design."""
    here, others = sums[fold], [one for index, one in enumerate(sums) if index != fold]
    weight, outputs = outside([one.weight for one in sums], fold), int(np.prod(here.products.shape[1:]))
    H = Symmetric(sum(one.gram.full() for one in others) / weight, exact=True)
    b, G = sum(one.products for one in others) / weight, here.gram.full()
    for place in chosen:
        loss = losses[place]
        w = _minimiser(loss, H.plus_diagonal(loss.penalty_diagonal(H.n)), b)
        linear, quadratic = float((w * here.products).sum()), float((w * (G @ w)).sum())
        squares = here.squares - 2 * linear + quadratic
        errors[place, fold] = squares / (here.weight * outputs)
        if squares < CANCELLED * (here.squares + 2 * abs(linear) + quadratic):
            doubtful[place, fold] = w, here.weight


def _minimiser(loss: LinearLoss, H: Symmetric, b: Array) -> Array:
    """argmin ½ wᵀHw − bᵀw + l1 ‖w‖₁."""
    if not loss.l1:
        return factor(H).solve(b)
    zero = np.zeros(b.shape)
    return -prox.newton_step(H.full(), -b, zero, loss.l1_weights(b.shape))[0]
