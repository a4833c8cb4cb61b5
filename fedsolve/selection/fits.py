"""Cross-validation by Newton's method: the fits of all grid points and folds travel together.

In each exchange every client is sent the weights of all fits that are not done, and answers with its sums for all of
them in one message: value, gradient and Hessian of the samples outside the fold, error on those inside. The server
takes each fit's step; what is done drops out. So the whole grid takes as many exchanges as its slowest fit.

A client's samples outside fold f weigh W_jf, and it sends W_jf times its part of the objective: the sum, divided by
Σ_j W_jf, is that of the pooled samples outside the fold. Uses only sums of the clients' replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsolve.descent import Armijo
from fedsolve.federation.calls import Call, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.numerics.linalg import like
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.selection.batches import ASKING_LESS, WITHOUT_SUMS, Progress, first_that_fit
from fedsolve.selection.candidates import Candidate
from fedsolve.selection.descent import Fit
from fedsolve.selection.folds import check_folds, fold_weights, outside
from fedsolve.typing import Array
from fedsolve.wire.arguments import places


@dataclass(frozen=True)
class Evaluation:
    """Sums over a client's samples outside a fold, and of errors and hits over those inside."""

    value: float
    gradient: Array
    hessian: Symmetric
    error: float
    hits: float


@dataclass(frozen=True)
class FoldFits:
    """The protocol of the fits. A fit is a number, place in the grid · folds + fold."""

    losses: tuple[LinearLoss, ...]
    folds: int
    seed: int

    asking_less: ClassVar[str] = ASKING_LESS

    @property
    def loss(self) -> LinearLoss:
        """For joining: what the targets must be good for."""
        return self.losses[0]

    # ── clients ──

    @client_step(sends="the weight of the rows of each fold")
    def held_weights(self, client: Client) -> Array:
        """The weight of each fold."""
        return np.array([float(client.xp.sum(self._held(client, fold))) for fold in range(self.folds)])

    @client_step(sends="losses, gradients and Hessians of each fold")
    def evaluate(self, client: Client, fits: Array, at: tuple[Array, ...]) -> tuple[Evaluation, ...]:
        asked = places("fits", fits, self.folds * len(self.losses), at)
        return tuple(self._evaluate(client, fit, w) for fit, w in zip(asked, at, strict=True))

    @client_step(sends="losses of each fold at trial points")
    def values_along(
        self, client: Client, fits: Array, at: tuple[Array, ...], steps: tuple[Array, ...], grid: Array
    ) -> tuple[Array, ...]:
        asked = places("fits", fits, self.folds * len(self.losses), at, steps)
        self._search.check_steps(grid)
        found = []
        for fit, w, step in zip(asked, at, steps, strict=True):
            loss, part, _ = self._part(client, fit)
            loss.check_weights(part, w=w, step=step)
            found.append(0.0 * grid if not part.weight else part.weight * loss.along(part, w, step, grid))
        return tuple(found)

    @property
    def _search(self) -> Armijo:
        return Armijo().of(self.loss)

    def _held(self, client: Client, fold: int) -> Array:
        return fold_weights(client, fold, self.folds, self.seed)[1]

    def _part(self, client: Client, fit: int) -> tuple[LinearLoss, Client, Array]:
        """The loss, the client without the fold's samples, and the weights of these."""
        place, fold = divmod(fit, self.folds)
        loss = self.losses[place]
        _ = loss.design(client), loss.targets(client)  # computed once, for all folds
        inside, held = fold_weights(client, fold, self.folds, self.seed)
        return loss, client.reweighted(inside), held

    def _evaluate(self, client: Client, fit: int, w: Array) -> Evaluation:
        loss, part, held = self._part(client, fit)
        eta, y = loss.predictor(part, w), loss.targets(part)
        hits = loss.hits(client.xp, eta, y)
        judged = float(held @ loss.error(client.xp, eta, y)), 0.0 if hits is None else float(held @ hits)
        weight = part.weight
        if not weight:  # all samples of this client are in the fold
            order = w.shape[0] if loss.separable else int(np.prod(w.shape))
            nothing = Symmetric(like(np.zeros((order, order)), client.y), exact=True)
            return Evaluation(0.0, 0.0 * w, nothing, *judged)
        return Evaluation(
            weight * loss.value(part, w),
            weight * loss.gradient(part, w),
            loss.hessian(part, w).map(lambda array: weight * array),
            *judged,
        )

    # ── server ──

    def footprint(self, sizes: Sizes) -> Footprint:
        # One fit at the least: its Hessian, that of the trial and the factor. Replies are as large as is asked for.
        return Footprint(working=sizes.matrix, server=3 * sizes.matrix, instead=WITHOUT_SUMS)

    def candidates(
        self, fed: Federation, losses: Sequence[LinearLoss], reply_bytes: int, progress: Progress
    ) -> list[Candidate]:
        """The errors of every loss, in the order of the grid."""
        shapes = [loss.shape(fed.features, fed.outputs) for loss in losses]
        fits = [Fit(loss, i, fold, shapes[i]) for i, loss in enumerate(losses) for fold in range(self.folds)]
        weights: list[float] | None = None
        waiting = fits
        while waiting:
            fed.begin_round(fed.round + 1)
            asked = first_that_fit(waiting, Fit.answer_numbers, reply_bytes)
            weights = self._ask(fed, asked, weights)
            waiting = [fit for fit in waiting if not fit.done]
            progress(len(fits) - len(waiting), len(fits))
        return [self._candidate(fits[i * self.folds : (i + 1) * self.folds]) for i in range(len(losses))]

    def _ask(self, fed: Federation, asked: Sequence[Fit], weights: list[float] | None) -> list[float]:
        """One exchange: every fit that is asked for gets on by one answer."""
        looking, searching = [one for one in asked if not one.searching], [one for one in asked if one.searching]
        calls: list[Call[Any]] = [Sum(self.held_weights)] if weights is None else []
        if looking:
            calls.append(Sum(self.evaluate, fits=self._numbered(looking), at=tuple(one.asks for one in looking)))
        if searching:
            tried = [one.here.attempt.step for one in searching if one.here is not None]
            at, steps = tuple(step.w for step in tried), tuple(step.p for step in tried)
            grid = searching[0].search.grid()
            calls.append(Sum(self.values_along, fits=self._numbered(searching), at=at, steps=steps, grid=grid))
        answers = iter(fed.exchange(*calls))
        if weights is None:
            weights = next(answers).tolist()
            check_folds(weights)
        for one, found in zip(looking, next(answers) if looking else (), strict=True):
            held, rest = weights[one.fold], outside(weights, one.fold)
            one.evaluated(
                found.value / rest,
                found.gradient / rest,
                found.hessian.map(lambda array, rest=rest: array / rest),
                found.error / held,
                found.hits / held,
            )
        for one, values in zip(searching, next(answers) if searching else (), strict=True):
            one.searched(values / outside(weights, one.fold))
        return weights

    def _numbered(self, fits: Sequence[Fit]) -> Array:
        return np.array([one.place * self.folds + one.fold for one in fits])

    def _candidate(self, fits: Sequence[Fit]) -> Candidate:
        points = [fit.here for fit in fits if fit.here is not None]
        errors = tuple(float("inf") if fit.trouble else point.error for fit, point in zip(fits, points, strict=True))
        accuracies = tuple(point.accuracy for point in points) if fits[0].loss.classifies else None
        return Candidate(fits[0].loss, errors, accuracies, next((fit.trouble for fit in fits if fit.trouble), None))
