"""FedNewtonCG: conjugate gradients on the pooled Newton system, preconditioned by the mean of local inverse Hessians.

    H p = −g,   H = Σ p_j H_j,   preconditioner A = Σ p_j H_j⁻¹

The two exchanges of FedNewton's round (A r and H d, two models each way), used so that they always converge, under any
heterogeneity, and in fewer rounds than any fixed damping. For the squared loss that is all: one system, from DKRR. For
other losses it is the inner loop of Newton's method (inexact Newton, Dembo, Eisenstat and Steihaug 1982) from zero:
when the residual is small enough a step is taken with Armijo's search, which costs one exchange more.

Separable outputs are one conjugate gradient each, in the same exchanges. A recurrence is only as good as the clients
behind it: when the cohort changes it is begun again from a fresh gradient. Uses only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fedsolve.client import Client, client_step
from fedsolve.federation import Federation
from fedsolve.linalg import norm
from fedsolve.losses import LinearLoss
from fedsolve.measure import Measurement
from fedsolve.models import LinearModel
from fedsolve.searches import Armijo
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    value: float  # f(w) and ∇f(w) by those in `cohort`
    gradient: Array
    p: Array  # the Newton step found so far (other losses than the squared)
    r: Array  # −g − H p
    d: Array  # the last direction
    rz: Array  # rᵀ A r before it
    done: int  # iterations since the recurrence began
    cohort: tuple[str, ...]


@dataclass(frozen=True)
class FedNewtonCG:
    """Newton's method by preconditioned conjugate gradients, one iteration a round."""

    loss: LinearLoss
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step
    def local_minimiser(self, client: Client) -> Array:
        return self.loss.minimise(client)

    @client_step
    def local_gradient(self, client: Client, w: Array, first: bool) -> tuple[float, Array]:
        client.memory["w"] = w  # where the Hessian is taken until the next gradient is asked for
        if self.loss.quadratic:  # its value is not needed, and would cost a pass over the data
            # A restart is worth a pass for the gradient: from the rows it has no cancellation.
            gradient = self.loss.newton_gradient if first else self.loss.gradient
            return 0.0, gradient(client, w)
        return self.loss.value(client, w), self.loss.gradient(client, w)

    @client_step
    def local_solve(self, client: Client, r: Array) -> Array:
        return self.loss.hessian_factor(client, client.memory["w"]).solve(r)

    @client_step
    def local_product(self, client: Client, d: Array) -> Array:
        return self.loss.hessian_product(client, client.memory["w"], d)

    # ── server ──

    def start(self, fed: Federation) -> State:
        if fed.warm_start is not None or not self.loss.quadratic:
            return self._begin(fed, fed.start_point(self.loss), first=True)
        return self._begin(fed, fed.mean(self.local_minimiser), first=True)

    def _begin(self, fed: Federation, w: Array, first: bool = False) -> State:
        """A fresh gradient at w, and no recurrence yet."""
        value, g = fed.mean(self.local_gradient, w=w, first=first)
        zero = np.zeros(w.shape)
        return State(w, value, g, zero, -g, zero, np.zeros(self._dot(g, g).shape), 0, fed.cohort.clients)

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:
            state = self._begin(fed, self._salvaged(fed, state))
        r = state.r
        z = fed.mean(self.local_solve, r=r)
        rz = self._dot(r, z)
        d = z + _ratio(rz, state.rz) * state.d
        q = fed.mean(self.local_product, d=d)
        if fed.cohort.clients != state.cohort:  # A and H were of different clients: begin again
            return replace(state, cohort=())
        alpha = _ratio(rz, self._dot(d, q))
        state = replace(state, p=state.p + alpha * d, r=r - alpha * q, d=d, rz=rz, done=state.done + 1)
        if self.loss.quadratic:
            # What rounding has left of a residual this small, or after three times the iterations that exact arithmetic
            # would need, says nothing: begin again from a true one.
            lost = norm(state.r) <= 1e-13 * norm(state.gradient) or state.done >= 3 * state.w.shape[0]
            return replace(state, w=state.w + alpha * d, cohort=() if lost else state.cohort)
        return self._step(fed, state) if self._solved(state) else state

    def _salvaged(self, fed: Federation, state: State) -> Array:
        """What the interrupted inner loop found is a descent direction still: as much of it as those here accept."""
        if self.loss.quadratic or not state.p.any():
            return state.w  # a quadratic's model has moved along already
        decrease = -float((state.gradient * state.p).sum())
        return state.w + self.search.step(fed, state.w, -state.p, decrease) * state.p

    def _solved(self, state: State) -> bool:
        """Whether the Newton system is solved as well as the distance to the optimum deserves: superlinear outside."""
        g = norm(state.gradient)
        return bool(norm(state.r) <= min(0.1, g**0.5) * g)

    def _step(self, fed: Federation, state: State) -> State:
        decrease = -float((state.gradient * state.p).sum())
        trial = self._begin(fed, state.w + state.p)
        together = trial.cohort == state.cohort
        if together and self.search.accepts(
            state.value, trial.value, decrease, norm(trial.gradient) <= norm(state.gradient)
        ):
            return trial
        eta = self.search.step(fed, state.w, -state.p, decrease, first=1 if together else 0)
        return self._begin(fed, state.w + eta * state.p)

    def _dot(self, a: Array, b: Array) -> Array:
        """The inner product: of each column where columns are problems of their own, else of the whole."""
        return np.asarray((a * b).sum(axis=0 if self.loss.separable else None))

    def measured(self, state: State) -> Measurement | None:
        # For a quadratic the model moves on with the recurrence, and its gradient is not known afresh.
        return None if self.loss.quadratic else Measurement(state.value, state.gradient)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is 0: a column that is solved stays."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)
