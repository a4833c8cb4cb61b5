"""FedNewtonCG: Newton's method by preconditioned conjugate gradients on the pooled system, one iteration a round.

    H p = −g,   H = Σ p_j H_j,   preconditioner A ≈ H⁻¹

Efficient Newton-type Federated Learning with Non-IID Data (the exchanges)
    Anonymous authors, under double-blind review.
Inexact Newton Methods (the inner loop)
    Ron S. Dembo, Stanley C. Eisenstat, and Trond Steihaug. SIAM Journal on Numerical Analysis 19, 1982.

With A = Σ p_j H_j⁻¹ a round has the two exchanges of FedNewton (A r and H d), used so that they converge however much
the clients differ. With A = diag(H)⁻¹ or A = I no Hessian is formed: one
exchange a round, for models of many weights. When p is accurate enough the step is taken with Armijo's search. The
squared loss has only one system, and its model moves in every round; separable outputs are one recurrence each, in the
same exchanges. When the cohort changes the recurrence starts again. The server sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, get_args

import numpy as np

from fedsolve.curvature.products import HessianProducts, Preconditioner, chosen, products_footprint
from fedsolve.descent import Armijo, Attempt, Point, Step, asked_again, descend
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.conjugate_gradients import Recurrence, forcing
from fedsolve.typing import Array


@dataclass(frozen=True)
class State(Point):
    """w with f and g, and how far the recurrence is there."""

    diagonal: Array  # of H at w, where that is the preconditioner; else empty
    inner: Recurrence
    before: float  # gᵀAg at the iterate before w
    preconditioner: str


@dataclass(frozen=True)
class FedNewtonCG(HessianProducts):
    """Newton's method by preconditioned conjugate gradients, one iteration a round.

    loss            the objective, twice differentiable
    search          the line search that shortens Newton steps (default Armijo()); unused by the squared loss
    preconditioner  "local inverse" takes the fewest rounds, and p² memory at every client; "diagonal" and "none" take
                    that of some vectors. None (default): the first up to a Hessian of order 2048, then "diagonal"
    """

    loss: LinearLoss
    search: Armijo = field(default_factory=Armijo)
    preconditioner: Preconditioner | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise", "solve"})

    def __post_init__(self) -> None:
        if self.preconditioner is not None and self.preconditioner not in get_args(Preconditioner):
            known = ", ".join(map(repr, get_args(Preconditioner)))
            raise ConfigError(f"preconditioner is one of {known}, or None; got {self.preconditioner!r}")
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step(sends="the model that fits its own rows best")
    def local_minimiser(self, client: Client) -> Array:
        return self.loss.minimise(client)

    @client_step(sends="its loss and gradient")
    def local_gradient(self, client: Client, w: Array, first: bool) -> tuple[float, Array]:
        client.memory["w"] = w  # where the Hessian is taken until the next gradient is asked for
        if not self.loss.quadratic:
            return self.loss.value(client, w), self.loss.gradient(client, w)
        # The value of a quadratic is not needed. A restart computes the gradient from the rows, without cancellation.
        return 0.0, (self.loss.newton_gradient if first else self.loss.gradient)(client, w)

    # local_diagonal, local_solve, local_product and local_row_product are in curvature/products.py.

    # ── server ──

    def start(self, fed: Federation) -> State:
        A = chosen(self.preconditioner, self.loss.order(fed.features, fed.outputs))
        from_local_fits = A == "local inverse" and self.loss.quadratic and fed.warm_start is None
        w = fed.mean(self.local_minimiser) if from_local_fits else fed.start_point(self.loss)
        return self._visit(fed, A, w, first=A == "local inverse")

    def round(self, fed: Federation, state: State) -> State:
        state = asked_again(fed, state, lambda _: self._restarted(fed, state))
        z = self.preconditioned(fed, state.preconditioner, state.diagonal, state.inner.r)  # A r
        d, rz = state.inner.direction(z)
        q = self.product(fed, state.preconditioner, d)  # H d
        if fed.cohort.clients != state.cohort:  # these products are of different clients: restart in the next round
            return replace(state, cohort=())
        inner, step = state.inner.advanced(d, rz, q)
        if self.loss.quadratic:
            return replace(state, w=state.w + step, inner=inner, cohort=() if inner.exhausted else state.cohort)
        state = replace(state, inner=inner)
        accurate = inner.within(forcing(float(inner.first), state.before))
        return self._newton_step(fed, state) if accurate or inner.exhausted else state

    def _visit(
        self, fed: Federation, A: str, w: Array, before: float = 0.0, first: bool = False, steepest: Array | None = None
    ) -> State:
        """A fresh gradient at w, and a recurrence that starts there."""
        ask, diagonal = Mean(self.local_gradient, w=w, first=first), np.zeros(0)
        if A == "diagonal":
            (f, g), data = fed.exchange(ask, Mean(self.local_diagonal))
            diagonal = data + self.loss.penalty_curvature(data.shape)
        else:
            ((f, g),) = fed.exchange(ask)
        inner = Recurrence.begun(g, self.loss.separable, steepest)
        return State(w, f, g, fed.cohort.clients, diagonal, inner, before, A)

    def _restarted(self, fed: Federation, state: State) -> State:
        w, step = state.w, self._step(state)
        if not self.loss.quadratic and step.p.any():  # what the interrupted loop has found still leads down
            w = step.end(self.search.backtrack(fed, step))
        return self._visit(fed, state.preconditioner, w, steepest=state.inner.steepest if self.loss.quadratic else None)

    def _step(self, state: State) -> Step:
        return Step.along(state.w, -state.inner.p, state.gradient)

    def _newton_step(self, fed: Federation, state: State) -> State:
        visit = partial(self._visit, fed, state.preconditioner, before=float(state.inner.first))
        # Where values are equal to rounding the step is taken: norms of gradients would depend on the data's units.
        attempt = Attempt.at(state, self._step(state), self.search, steepness=lambda _: 0.0)
        return descend(fed, attempt, visit) or visit(attempt.step.end(0.0))

    def measured(self, state: State) -> Measurement | None:
        # The model of a quadratic moves with the recurrence, and its gradient is not known afresh.
        return None if self.loss.quadratic else Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        gradients = 0 if self.loss.quadratic else 1  # in the round of a Newton step
        return products_footprint(sizes, chosen(self.preconditioner, sizes.order), gradients)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
