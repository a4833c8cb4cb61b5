"""Scaffold: FedAvg with control variates that cancel what makes the clients drift apart.

    y_i ← y_i − η (∇f_i(y_i) − c_i + c)   K times,    c_i⁺ = c_i − c + (x − y_i)/(Kη)
    x ← x + Σ p_i (y_i − x),                          c ← c + share · Σ p_i (c_i⁺ − c_i)

SCAFFOLD: Stochastic Controlled Averaging for Federated Learning (Algorithm 1, for clients of any weight)
    Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich, and Ananda Theertha
    Suresh. ICML 2020.

Each client remembers c_i between rounds; at the fixed point c_i = ∇f_i(x) and Σ p_i c_i = 0, so x is the pooled
solution, which FedAvg misses. Linear convergence: many cheap rounds. With minibatches the steps differ by more than c_i
corrects, and a constant step size ends about as far away as it is long. The server sees only sums of the clients'
replies, and each client's smoothness where no step size is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import GradientSteps, LocalSolver, first_step, step_in_round
from fedsolve.local.base import declare_needs, reach_of
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models import Model
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    x: Array
    c: Array
    step_size: float
    objective: float = 1.0  # the share of the weight whose objective is minimised
    epoch: int = 0  # how often that has changed, and all c_i began anew

    @property
    def w(self) -> Array:
        return self.x


@dataclass(frozen=True)
class Scaffold:
    """Local steps with the gradient corrected by c − c_i.

    loss    the objective, differentiable
    local   the steps between two averages (default GradientSteps(steps=5)), or another local solver; more steps need
            fewer rounds, and a smaller step size. Without a step size it is 1/L of the steepest client
    option  what c_i becomes, as the paper numbers it: "II" the mean of the gradients on the way, which is free; "I" the
            gradient at x, one more over all samples. None (default) is "II" where the way is a sum of gradients (plain
            steps and momentum), else "I" (Adam, CG)
    """

    loss: Loss
    local: LocalSolver = field(default_factory=lambda: GradientSteps(steps=5))
    option: Literal["I", "II"] | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    def __post_init__(self) -> None:
        if self.option not in ("I", "II", None):
            raise ConfigError(f"option is 'I', 'II' or None, got {self.option!r}")
        declare_needs(self, self.local, pull=False)
        if self.option == "II" and not hasattr(self.local, "reach"):
            raise ConfigError(f"the way of {self.local!r} is no sum of gradients; take option 'I' or None")

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step(together=True, sends="the changes of its own model and of its correction")
    def local_update(self, client: Client, x: Array, c: Array, step_size: float) -> tuple[Array, Array]:
        return self._update(client, x, c, step_size, 0)

    @client_step(together=True, sends="the changes of its own model and of its correction")
    def update_in_epoch(self, client: Client, x: Array, c: Array, step_size: float, epoch: int) -> tuple[Array, Array]:
        """As `local_update`, after clients were lost or came back: a c_i of an earlier epoch does not count. A step of
        its own, so that a run in which nobody is lost need not send the epoch."""
        return self._update(client, x, c, step_size, epoch)

    def _update(self, client: Client, x: Array, c: Array, step_size: float, epoch: int) -> tuple[Array, Array]:
        known = client.memory.get("epoch", 0) == epoch
        c_i = client.memory.get("c_i") if known else None
        if c_i is None:
            c_i = 0.0 * x
        require_positive("step_size", step_size)
        self.loss.check_weights(client, x=x, c=c, c_i=c_i)
        y_i = self.local.run(self.loss, client, x, step_size, correction=c - c_i)
        c_i_new = self._control(client, x, y_i, c_i - c, step_size)
        client.memory["c_i"] = c_i_new
        if not known:
            client.memory["epoch"] = epoch
        return y_i - x, c_i_new - c_i

    def _control(self, client: Client, x: Array, y_i: Array, from_c: Array, step_size: float) -> Array:
        reach = None if self.option == "I" else reach_of(self.local, client)
        if reach is not None:
            return from_c + (x - y_i) / (reach * step_size)  # option II
        if self.option == "II":
            raise ConfigError(f"the way of {self.local!r} is no fixed sum of gradients; take option 'I' or None")
        return self.loss.gradient(client, x)  # option I

    # ── server ──

    def start(self, fed: Federation) -> State:
        step_size = first_step(fed, self.local, self.smoothness)
        x = fed.start_point(self.loss)
        return State(x, np.zeros(x.shape), step_size, fed.objective)

    def round(self, fed: Federation, state: State) -> State:
        if fed.objective != state.objective:  # a client is lost, or back: c must not count who does not count
            state = replace(state, c=np.zeros(state.x.shape), objective=fed.objective, epoch=state.epoch + 1)
        x, c, epoch = state.x, state.c, state.epoch
        step_size = step_in_round(fed, self.local, state.step_size)
        if epoch:
            dx, dc = fed.mean(self.update_in_epoch, x=x, c=c, step_size=step_size, epoch=epoch)
        else:
            dx, dc = fed.mean(self.local_update, x=x, c=c, step_size=step_size)
        return replace(state, x=x + dx, c=c + fed.cohort.share / state.objective * dc)

    def footprint(self, sizes: Sizes) -> Footprint:
        return Footprint(held=sizes.weights, sent=2 * sizes.weights)

    def model(self, state: State) -> Model:
        return self.loss.model(state.x)
