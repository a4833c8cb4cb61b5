"""Exact federated Newton: sums of gradients and Hessians give the pooled Newton step (Proposition 1 of FedNewton).

    w ← w − η H⁻¹ g,   g = Σ p_j ∇f_j(w),  H = Σ p_j ∇²f_j(w)

When p² numbers per client and round are affordable this is the method to use: the pooled solution in a handful of
rounds, however the data is split. The candidate's value, gradient and Hessian travel in one exchange, so a round in
which the unit step passes Armijo's test (nearly all) is one exchange. With an l1 penalty the step is a proximal Newton
step, taken at the server (Lee, Sun and Saunders 2014); clients send what they always send.
Uses only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsolve.descent import Armijo
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.losses.measurement import Measurement, NewtonStep
from fedsolve.models.linear import LinearModel
from fedsolve.numerics import proximal as prox
from fedsolve.numerics.linalg import factor
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    value: float
    gradient: Array
    hessian: Symmetric
    cohort: tuple[str, ...]  # who said so


@dataclass(frozen=True)
class Newton:
    """Newton's method on the pooled objective; `search` shortens steps that do not lower it enough."""

    loss: LinearLoss
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})
    supports: ClassVar[frozenset[str]] = frozenset({"l1"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        return self.loss.value(client, w), self.loss.gradient(client, w), self.loss.hessian(client, w)

    # ── server ──

    def start(self, fed: Federation) -> State:
        return self._at(fed, fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:  # f, g and H are those of others: ask who is here now
            state = self._at(fed, state.w)
        step, decrease = self.step(state)
        trial = self._at(fed, state.w - step)
        together = trial.cohort == state.cohort  # else someone left, and the two values do not compare
        fell = self.steepness(trial) <= self.steepness(state)
        if together and self.search.accepts(self.total(state), self.total(trial), decrease, fell):
            return trial
        first, extra = (1 if together else 0), self.l1_along(state.w, step)
        eta = self.search.step(fed, state.w, step, decrease, first, extra)
        return self._at(fed, state.w - eta * step) if eta > 0 else state

    def _at(self, fed: Federation, w: Array) -> State:
        value, gradient, hessian = fed.mean(self.evaluate, w=w)
        return State(w, value, gradient, hessian, fed.cohort.clients)

    def step(self, state: State) -> tuple[Array, float]:
        """The step, and the decrease of the objective that its first-order model promises."""
        g, w = state.gradient, state.w
        if self.loss.l1:
            return prox.newton_step(state.hessian.full(), g, w, self.loss.l1_weights(w.shape))
        step = factor(state.hessian).solve(g)
        return step, float((g * step).sum())

    def l1_along(self, w: Array, step: Array) -> Array | None:
        """Σ c |w − ηp| for each η, as the search asks for it; None without a penalty."""
        if not self.loss.l1:
            return None
        c = self.loss.l1_weights(w.shape)
        return np.array([(c * np.abs(w - eta * step)).sum() for eta in self.search.grid()])

    def total(self, state: State) -> float:
        """The objective: the clients' smooth part and the l1 penalty."""
        return state.value + float((self.loss.l1_weights(state.w.shape) * np.abs(state.w)).sum())

    def slope(self, state: State) -> Array:
        """The gradient, or with an l1 penalty the subgradient of least norm."""
        if not self.loss.l1:
            return state.gradient
        return prox.subgradient(state.gradient, state.w, self.loss.l1_weights(state.w.shape))

    def steepness(self, state: State) -> float:
        """The squared norm of the gradient in units of its own: each entry by the root of its curvature."""
        curvature = np.diagonal(state.hessian.full())
        slope = self.slope(state).reshape(len(curvature), -1)
        return float((slope**2 / np.where(curvature > 0, curvature, 1.0)[:, None]).sum())

    def measured(self, state: State) -> Measurement:
        if self.loss.strong_convexity() > 0 or self.loss.l1:  # then ‖g‖²/2μ is a bound, or no decrement is known
            return Measurement(self.total(state), self.slope(state))
        return Measurement(state.value, state.gradient, NewtonStep.by(factor(state.hessian), state.gradient, state.w))

    def footprint(self, sizes: Sizes) -> Footprint:
        # The Hessian, that of the trial and the factor at the server; a quadratic's is kept by its clients.
        held, working = (sizes.matrix, 0) if self.loss.quadratic else (0, sizes.matrix)
        return Footprint(held, working, 3 * sizes.matrix, sizes.triangle + sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
