"""FedDyn: each client minimises its own objective, less its own gradient and with a pull towards the current model.

    w_i = argmin f_i(v) − ⟨g_i, v⟩ + (pull/2) ‖v − w‖²,     g_i ← g_i − pull (w_i − w)     (so that g_i = ∇f_i(w_i))
    h ← h − share · pull · Σ p_i (w_i − w),                 w ← Σ p_i w_i − h/pull

Federated Learning Based on Dynamic Regularization (Algorithm 1 with α = pull, for clients of any weight)
    Durmus Alp Emre Acar, Yue Zhao, Ramon Matas Navarro, Matthew Mattina, Paul N. Whatmough, and Venkatesh Saligrama.
    ICLR 2021.

Each client remembers g_i between rounds, and h = Σ p_i g_i over all clients, whoever answers. At the fixed point all
w_i are w, so g_i = ∇f_i(w), and h = 0: w is the pooled solution, for every pull, also if clients only take some
gradient steps. Where all answer and solve exactly this is Douglas-Rachford splitting, which converges for convex
objectives, also of clients with fewer samples than features. Linear convergence: 1 − 1/√κ a round, if the pull suits.
Rounds of one model each way. The server sees only sums of the clients' replies, and each client's smoothness where a
local solver has no step size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import LocalSolver, ProximalSteps, first_step, step_in_round
from fedsolve.local.base import declare_needs
from fedsolve.local.proximal_steps import proximal_footprint
from fedsolve.local.pulls import begun, check_pull, is_exact, own_pull, renewed
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models import Model
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    w: Array
    h: Array
    pull: float
    step_size: float
    objective: float  # the share of the weight whose objective is minimised
    epoch: int = 0  # how often that has changed, and all g_i began anew
    tuned: bool = False  # whether the pull was found in the course of the run


@dataclass(frozen=True)
class FedDyn:
    """Local minima whose regularisation changes with the client's own gradient.

    loss   the objective
    pull   the weight of the proximal term; None (default) begins with the mean curvature and finds it from the
           curvature that the clients meet, anew after rounds 2, 4, 8, …; with a local solver it stays as it begins. It
           changes how many rounds it takes, not where they end
    local  how a client solves its problem: None (default) exactly; a local solver such as GradientSteps(steps=10)
           takes any loss, and ends at the same solution. Momentum and Adam overshoot: it may diverge or stall with
           them, and Adam on a loss without Hessians needs a pull
    """

    loss: Loss
    pull: float | None = None
    local: LocalSolver | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"minimise"})

    def __post_init__(self) -> None:
        declare_needs(self, self.local, pull=True)
        check_pull("FedDyn", self.loss, self.pull, self.local)

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step(sends="how strongly its own model is pulled")
    def first_pull(self, client: Client, w: Array, step_size: float) -> float:
        return own_pull(self.loss, self.local, client, w, step_size)

    @client_step(together=True, sends="the change of its own model, and how far it moved")
    def local_update(
        self, client: Client, w: Array, pull: float, step_size: float, epoch: int
    ) -> tuple[Array, float, float]:
        """w_i − w, and the squares of how far w_i and g_i went since this client's last round."""
        known = client.memory.get("epoch") == epoch
        g = client.memory["g"] if known else 0.0 * w
        require_positive("pull", pull)
        require_positive("step_size", step_size)
        self.loss.check_weights(client, w=w, g=g)
        w_i = (self.local or ProximalSteps()).run(self.loss, client, w, step_size, correction=-g, pull=pull)
        turn = -pull * (w_i - w)
        moved, turned = _squares(client, w_i - client.memory["w"], turn) if known else (0.0, 0.0)
        client.memory["g"], client.memory["w"], client.memory["epoch"] = g + turn, w_i, epoch
        return w_i - w, moved, turned

    # ── server ──

    def start(self, fed: Federation) -> State:
        w, step_size = fed.start_point(self.loss), first_step(fed, self.local, self.smoothness)
        pull = self.pull or begun(fed.mean(self.first_pull, w=w, step_size=step_size))
        return State(w, np.zeros(w.shape), pull, step_size, fed.objective)

    def round(self, fed: Federation, state: State) -> State:
        if fed.objective != state.objective:  # a client is lost, or back: h must not count who does not count
            state = replace(state, h=np.zeros(state.w.shape), objective=fed.objective, epoch=state.epoch + 1)
        w, pull, epoch, tuned = state.w, state.pull, state.epoch, state.tuned
        step_size = step_in_round(fed, self.local, state.step_size, pull)
        move, moved, turned = fed.mean(self.local_update, w=w, pull=pull, step_size=step_size, epoch=epoch)
        h = state.h - fed.cohort.share / state.objective * pull * move
        if self.pull is None and is_exact(self.local):
            pull, tuned = renewed(fed, pull, tuned, moved, turned)
        return replace(state, w=w + move - h / pull, h=h, pull=pull, tuned=tuned)

    def footprint(self, sizes: Sizes) -> Footprint:
        return proximal_footprint(self.loss, self.local, sizes, held=2)

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)


def _squares(client: Client, *arrays: Array) -> tuple[float, ...]:
    return tuple(client.number(client.xp.sum(array * array)) for array in arrays)
