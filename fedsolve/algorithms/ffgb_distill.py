"""FFGB-Distill: functional gradient boosting whose ensemble is distilled into one network after every round.

    h_i ≈ ∇R_i[f] on the client's own rows,     f ← the network nearest to f − η mean_i h_i on public rows

Federated Functional Gradient Boosting (Algorithms 1 and 2 with K = 1, equation 17, sections 5 and 6)
    Zebang Shen, Hamed Hassani, Satyen Kale, and Amin Karbasi. AISTATS 2022. https://arxiv.org/abs/2103.06972

Each client fits a network to the derivatives of the loss in the outputs of f; their outputs are averaged, not their
weights, so that clients with different labels do not undo each other. Its first rounds are often far better than those
of FedAvg, and then the start of another algorithm (`warm_start=`): where clients differ it does not reach the pooled
solution (Theorem 4.2).
Rounds of one network each way. The server needs unlabelled rows of its own that are like the clients' (`server=`), and
sees every client's network.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from fedsolve.distillation.distil import Distil, adam_epochs, check_steps
from fedsolve.distillation.network_checks import check_classes, check_network, check_weights_sent
from fedsolve.distillation.rows import (
    fresh_weights,
    functional_gradient,
    mean_outputs,
    outputs,
    public_rows,
    with_targets,
)
from fedsolve.federation.calls import Gather
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import step_in_round
from fedsolve.local.gradient_steps import Steps
from fedsolve.losses import Squared
from fedsolve.losses.network import Network
from fedsolve.models import Model
from fedsolve.numerics.linalg import as_kind_of
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class FFGBDistill:
    """Local functional gradients, averaged as functions and distilled into one network.

    loss       the objective: a `Network`; its l2, which is of weights and not of functions, has no part in the steps
    step_size  the functional learning rate η (default 10, the paper's): smaller is slower, much larger collapses
    local      how a client fits its network (default Adam(epochs=100, batch_size=64), the paper's)
    distil     how the server does (default Distil(): the same, by equation 17)
    """

    loss: Network
    step_size: float = 10.0
    local: Steps = field(default_factory=adam_epochs)
    distil: Distil = field(default_factory=Distil)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    def __post_init__(self) -> None:
        check_network("FFGBDistill", self.loss)
        positive("step_size", self.step_size)
        check_steps("FFGBDistill", self.local)
        check_classes("FFGBDistill", self.loss, self.distil)

    # ── clients ──

    @client_step(together=True, sends="a network that it fitted to its rows")
    def local_direction(self, client: Client, w: Array, step_size: float) -> Array:
        """h_i ∈ argmin ‖h − ∇R_i[f]‖² over networks (Algorithm 2, line 4 with the oracle of equation 6)."""
        self.loss.check_weights(client, w=w)
        own = self.loss.computing(client)
        target = functional_gradient(self.loss, own, w if own is client else own.localise(w))
        begin = fresh_weights(self.loss, own, w.shape[0])  # not f's own: an h that begins as f ends as a copy of it
        squares = replace(self.loss, loss=Squared(), l2=0.0)
        return as_kind_of(self.local.run(squares, with_targets(own, target), begin, step_size), w)

    @client_step(server_only=True)
    def aggregate(self, client: Client, w: Array, directions: tuple[Array, ...], round: int) -> Array:
        """The network nearest to f − η mean_i h_i on the server's rows (equation 17), which begins as f."""
        own = public_rows(self.loss, client)
        f = own.localise(w)
        functions = [own.localise(h) for h in directions]
        teacher = outputs(self.loss, own, f) - self.step_size * mean_outputs(self.loss, own, functions)
        return as_kind_of(self.distil.fit(self.loss, own, teacher, f, round), w)

    # ── server ──

    def start(self, fed: Federation) -> State:
        _ = fed.server  # raises if the server has no rows
        return State(fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        step_size = step_in_round(fed, self.local, self.local.step_size or 1.0)
        # Gathers functions: their outputs are averaged, which no sum of their weights says.
        ask = Gather(self.local_direction, w=state.w, step_size=step_size)  # Algorithm 1, lines 3 and 4
        (h,) = fed.exchange(ask.checked(partial(check_weights_sent, state.w.shape)))
        w = fed.here(self.aggregate, w=state.w, directions=tuple(h.values()), round=fed.round)
        return State(np.asarray(w, dtype=np.float64))

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)
