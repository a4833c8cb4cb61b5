"""Scaffold: FedAvg with control variates that cancel what makes the clients drift apart.

    y_i ← y_i − η (∇f_i(y_i) − c_i + c)   K times,    c_i⁺ = c_i − c + (x − y_i)/(Kη)
    x ← x + Σ p_i (y_i − x),                          c ← c + share · Σ p_i (c_i⁺ − c_i)

SCAFFOLD: Stochastic Controlled Averaging for Federated Learning (Algorithm 1, option II, for clients of any weight)
    Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich, and Ananda Theertha
    Suresh. ICML 2020.

Each client remembers c_i between rounds; at the fixed point c_i = ∇f_i(x) and Σ p_i c_i = 0, so x is the pooled
solution, which FedAvg misses. Linear convergence: many cheap rounds. The server sees only sums of the clients' replies,
and each client's smoothness where no step size is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import GradientSteps, safe_step
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

    @property
    def w(self) -> Array:
        return self.x


@dataclass(frozen=True)
class Scaffold:
    """Local steps with the gradient corrected by c − c_i.

    loss   the objective, differentiable
    local  the steps between two averages (default GradientSteps(steps=5)); more steps need fewer rounds, and a smaller
           step size. Without a step size it is 1/L of the steepest client
    """

    loss: Loss
    local: GradientSteps = field(default_factory=lambda: GradientSteps(steps=5))

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    # ── clients ──

    @client_step
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step
    def local_update(self, client: Client, x: Array, c: Array, step_size: float) -> tuple[Array, Array]:
        c_i = client.memory.get("c_i")
        if c_i is None:
            c_i = 0.0 * x
        require_positive("step_size", step_size)
        self.loss.check_weights(client, x=x, c=c, c_i=c_i)
        y_i = self.local.run(self.loss, client, x, step_size, correction=c - c_i)
        c_i_new = c_i - c + (x - y_i) / (self.local.count(client) * step_size)  # option II
        client.memory["c_i"] = c_i_new
        return y_i - x, c_i_new - c_i

    # ── server ──

    def start(self, fed: Federation) -> State:
        step_size = self.local.step_size
        if step_size is None:
            # Gathers one bound per client, because a step must suit the steepest of them and a maximum is no sum.
            step_size = safe_step(fed.gather(self.smoothness).values())
        x = fed.start_point(self.loss)
        return State(x, np.zeros(x.shape), step_size)

    def round(self, fed: Federation, state: State) -> State:
        dx, dc = fed.mean(self.local_update, x=state.x, c=state.c, step_size=state.step_size)
        return State(state.x + dx, state.c + fed.cohort.share * dc, state.step_size)

    def footprint(self, sizes: Sizes) -> Footprint:
        return Footprint(held=sizes.weights, sent=2 * sizes.weights)

    def model(self, state: State) -> Model:
        return self.loss.model(state.x)
