"""FedLRGD: weights let a few samples of the server stand in for those of the clients, and the server descends alone.

    ∂F/∂θ_i (θ) ≈ (1/n) Σ_k g_i(x⁽⁰ᵏ⁾; θ) (1 + Σ_c v_k⁽ⁱᶜ⁾)                                        (equation 41)

Federated Optimization of Smooth Loss Functions (Algorithm 1)
    Ali Jadbabaie, Anuran Makur, and Devavrat Shah. IEEE Transactions on Information Theory 69, 2023.

A loss that is smooth in the data has gradients of low rank, so those of all samples are combinations of a few. The
objective is that of clients and server together. `FedLRGD.literal` is Algorithm 1 as published; it needs matrices that
can be inverted. The default works in practice: truncated least squares from more probes than weights, the penalty kept
exactly, and exact gradients that correct the result until the run's stopping rule is content. Clients send as much as
for Newton, and receive 4 p (p + 1)² numbers: for p ≤ 50. The server sees only sums of the clients' replies; clients can
work out most of the server's samples from what they receive (docs/reproduce/fedlrgd-claims.md, section I-B).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from fedsolve.algorithms.base import Finished
from fedsolve.federation.calls import Mean, Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.lowrank import at_clients, at_server
from fedsolve.lowrank.corrections import REACH, Corrected, advanced, asked_again
from fedsolve.lowrank.probes import half_widths
from fedsolve.lowrank.steps import SampleSteps
from fedsolve.lowrank.surrogate import by_inverse, by_truncation
from fedsolve.models.base import Model
from fedsolve.typing import Array


@dataclass(frozen=True)
class State(Corrected):
    """θ, and what the server knows of the gradient around it."""


@dataclass(frozen=True)
class FedLRGD(SampleSteps):
    """Federated low rank gradient descent.

    loss         the objective; any loss with `gradient`, and for the server with `sample_gradients`
    rank         r, how many weights a client sends for each coordinate. None (default) is p + 1, for "inverse" all
                 samples of the server; "revealed" is the rank of the server's own gradients, at most p + 1 or 1.5 p
    weights      "truncated" (default) for least squares by a truncated SVD, "inverse" for equation (35)
    probes       at how many points gradients are compared, for each weight (default 4; 1 for "inverse")
    box          half the side of the box around the start that probes are drawn from; None (default) follows the units
                 of the server's samples
    steps        S, the server's gradient steps; None (default) finds the zero of (41) by Newton's steps
    step_size    of these; None (default) is 1/L₁, a bound on the smoothness that comes with the weights
    corrections  how many exact gradients may correct (41); None (default): as many as the run goes on for
    epochs       whether p weights travel per message, as published; False (default) sends all in one
    """

    loss: Loss
    rank: int | Literal["revealed"] | None = None
    weights: Literal["truncated", "inverse"] = "truncated"
    probes: int = 4
    box: float | None = None
    steps: int | None = None
    step_size: float | None = None
    corrections: int | None = None
    epochs: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})
    includes_server: ClassVar[bool] = True

    @classmethod
    def literal(cls, loss: Loss, steps: int, rank: int | None = None, step_size: float | None = None) -> FedLRGD:
        """Algorithm 1: `steps` is S, `rank` is r, probes are uniform in [−1, 1]^p around the start."""
        return cls(loss, rank, "inverse", 1, 1.0, steps, step_size, corrections=0, epochs=True)

    def __post_init__(self) -> None:
        at_server.check_options(self.rank, self.weights, self.probes, self.steps, self.corrections)
        at_server.check_positive(box=self.box, step_size=self.step_size)

    # ── clients ──

    @client_step(sends="sums of weights of its rows")
    def local_weights(self, client: Client, points: Array, bases: Array, rows: int) -> Array:
        client.memory["weights"] = at_clients.weights(self.loss, client, points, bases, self._penalised)  # 7, 8
        return client.memory["weights"][:rows, :]  # 9

    @client_step(sends="sums of weights of its rows")
    def more_weights(self, client: Client, row: int) -> Array:
        return at_clients.row_of(client.memory["weights"], row)  # 10

    # ── server ──

    def start(self, fed: Federation) -> State:
        widths = half_widths(self.loss, fed.server, self.box)
        return State(fed.start_point(self.loss), widths=widths, reach=np.inf if self.loss.quadratic else REACH)  # 11

    def round(self, fed: Federation, state: State) -> State | Finished[State]:
        if state.gradient is not None and state.cohort != fed.cohort.clients:
            state = asked_again(state, self.visit(fed, state.w))
        if state.surrogate is None:
            state = self._learn(fed, state)  # epochs 1 to r + 1
        w = at_server.minimise(partial(self._approximate, fed, state), state, self.steps, self.weights)  # 12, 15 to 17
        if state.corrected == self.corrections:
            return Finished(State(w))
        trial = self.visit(fed, w)  # a correction
        if trial.cohort != state.cohort:  # someone left: two values compare only if the same clients are behind both
            state = asked_again(state, self.visit(fed, state.w))
            if trial.cohort != state.cohort:
                return state
        state, reason = advanced(state, trial)
        return state if reason is None else Finished(state, reason)

    def _learn(self, fed: Federation, state: State) -> State:
        r = at_server.rank_of(self.rank, self.weights, self.loss.order(fed.features, fed.outputs), fed.server)
        centre, widths = state.w.reshape(-1), state.box * np.asarray(state.widths)
        points = fed.here(self.own_probes, centre=centre, widths=widths, count=self.probes * r)  # 1
        partials = fed.here(self.own_partials, points=points, with_penalty=self._penalised)  # 2
        if self.weights == "inverse":
            learning = by_inverse(centre, widths, points, partials, r, fed.feature_names)  # 3, 4
        else:
            learning = by_truncation(centre, widths, points, partials, r, self.rank == "revealed")
        r = learning.bases.rank
        bound = at_server.smoothness_needed(fed, self.loss, self.steps, self.step_size)
        asked = Mean(self.local_smoothness) if bound else Mean(self.local_value, w=state.w)
        weights = Sum(self.local_weights, points=points, bases=learning.bases.sent, rows=1 if self.epochs else r)
        first, number = fed.exchange(weights, asked.with_server())  # ↓ 5, 6 ↑ 9
        answered = fed.cohort.clients
        v = at_server.rows_in_turn(fed, first, lambda row: fed.sum(self.more_weights, row=row), r)  # ↑ 10
        state = at_server.learned(fed, state, learning, v)
        value = number if state.cohort == answered and not bound else state.value
        return replace(state, value=value, step=1.0 / number if bound else self.step_size or 0.0)

    def _approximate(self, fed: Federation, state: State, points: Array) -> Array:
        assert state.surrogate is not None
        partials = fed.here(self.own_partials, points=points, with_penalty=self._penalised)  # 13
        g = state.surrogate.gradient(points, partials)  # 14
        return g if self._penalised else g + at_server.penalties(self.loss, fed, points)

    @property
    def _penalised(self) -> bool:
        return self.weights == "inverse"  # as published the penalty is a part of every sample's f

    def footprint(self, sizes: Sizes) -> Footprint:
        return at_server.footprint(sizes, self.rank, self.probes)

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)
