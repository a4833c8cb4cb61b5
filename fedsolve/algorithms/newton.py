"""Exact federated Newton: sums of gradients and Hessians give the Newton step of the pooled data.

    w ← w − η H⁻¹ g,   g = Σ p_j ∇f_j(w),  H = Σ p_j ∇²f_j(w)

Efficient Newton-type Federated Learning with Non-IID Data (Proposition 1, here for every twice differentiable loss)
    Anonymous authors, under double-blind review.

When p² numbers per client and round are affordable this is the method to use: the pooled solution in a handful of
rounds, however the data is split. Value, gradient and Hessian of the next point travel in one exchange, so a round is
one exchange if the full step passes Armijo's test, as nearly all do. The server sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from fedsolve.descent import Armijo, Attempt, asked_again, descend
from fedsolve.descent.newton_steps import CurvedPoint, newton_step, steepness, subgradient
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.losses.measurement import Measurement, NewtonStep
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array


@dataclass(frozen=True)
class State(CurvedPoint):
    """w, and f, g and H there by the clients in `cohort`."""


@dataclass(frozen=True)
class Newton:
    """Newton's method on the pooled objective.

    loss    the objective, twice differentiable; with l1 > 0 the server takes proximal Newton steps
    search  the line search that shortens steps which do not lower the objective enough (default Armijo()); a change
            seldom helps
    """

    loss: LinearLoss
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})
    supports: ClassVar[frozenset[str]] = frozenset({"l1"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step(sends="its loss, gradient and Hessian")
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        return self.loss.value(client, w), self.loss.gradient(client, w), self.loss.hessian(client, w)

    # ── server ──

    def start(self, fed: Federation) -> State:
        return self._visit(fed, fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        visit = partial(self._visit, fed)
        state = asked_again(fed, state, visit)
        step = newton_step(self.loss, state)  # H⁻¹ g
        attempt = Attempt.at(state, step, self.search, partial(steepness, self.loss))
        return descend(fed, attempt, visit) or state  # w − η H⁻¹ g

    def _visit(self, fed: Federation, w: Array) -> State:
        f, g, H = fed.mean(self.evaluate, w=w)  # ↓ w ↑ f_j, g_j, H_j
        return State(w, f, g, fed.cohort.clients, H)

    def measured(self, state: State) -> Measurement:
        f, g = self.search.total(state.value, state.w), subgradient(self.loss, state)
        if self.loss.strong_convexity() > 0 or self.loss.l1:  # then ‖g‖²/2μ is a bound, or no decrement is known
            return Measurement(f, g)
        return Measurement(f, g, NewtonStep.by(factor(state.hessian), g, state.w))

    def footprint(self, sizes: Sizes) -> Footprint:
        # The server has H, that of the trial and a factor. Clients keep the Hessian of a quadratic.
        held, working = (sizes.matrix, 0) if self.loss.quadratic else (0, sizes.matrix)
        return Footprint(held, working, 3 * sizes.matrix, sizes.triangle + sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
