"""FedNewtonCG: Newton's method by preconditioned conjugate gradients on the pooled system, one iteration a round.

    H p = −g,   H = Σ p_j H_j,   preconditioner A ≈ H⁻¹

    "local inverse"  A = Σ p_j H_j⁻¹: the two exchanges of FedNewton's round (A r and H d, two models each way), used so
                     that they always converge, under any heterogeneity, and in fewer rounds than any fixed damping.
                     Each client forms and factorises its Hessian.
    "diagonal"       A = diag(H)⁻¹, and "none" A = I: no Hessian is formed. H d comes from the rows, one model each way
                     in a round; the diagonal travels with each gradient. For models of many weights.

Conjugate gradients are the inner loop of an inexact Newton method (Dembo, Eisenstat and Steihaug 1982): when p is
accurate enough the step is taken with Armijo's search, which costs one exchange more. For the squared loss there is
only one system, and the model moves in every round.

Separable outputs are one conjugate gradient each, in the same exchanges. A recurrence is only as good as the clients
behind it: when the cohort changes it is begun again from a fresh gradient. Uses only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from fedsolve.descent import Armijo
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_solves
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.conjugate_gradients import Recurrence, forcing
from fedsolve.typing import Array

Preconditioner = Literal["local inverse", "diagonal", "none"]
# The order of a Hessian above which clients are not asked to form and factorise theirs unless told to.
LARGE = 2048


@dataclass(frozen=True)
class State:
    w: Array
    value: float  # f(w) and ∇f(w) by those in `cohort`
    gradient: Array
    diagonal: Array  # of H at w, where that is the preconditioner; else empty
    inner: Recurrence
    before: float  # gᵀAg at the iterate before w
    preconditioner: str
    cohort: tuple[str, ...]


@dataclass(frozen=True)
class FedNewtonCG:
    """Newton's method by preconditioned conjugate gradients, one iteration a round.

    loss            the objective
    search          shortens Newton steps that do not lower the objective enough
    preconditioner  "local inverse" takes the fewest rounds and p² memory at every client; "diagonal" and "none" take
                    no more than some vectors. None: "local inverse" up to a Hessian of order 2048, then "diagonal"
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
    def local_diagonal(self, client: Client) -> Array:
        return self.loss.data_diagonal(client, client.memory["w"])

    @client_step
    def local_solve(self, client: Client, r: Array) -> Array:
        self.loss.check_weights(client, r=r)
        return self.loss.hessian_factor(client, client.memory["w"]).solve(r)

    @client_step
    def local_product(self, client: Client, d: Array) -> Array:
        self.loss.check_weights(client, d=d)
        return self.loss.hessian_product(client, client.memory["w"], d)

    @client_step
    def local_row_product(self, client: Client, d: Array) -> Array:
        self.loss.check_weights(client, d=d)
        return self.loss.data_product(client, client.memory["w"], d)

    # ── server ──

    def start(self, fed: Federation) -> State:
        chosen = self.preconditioner or self._by_size(self.loss.order(fed.features, fed.outputs))
        if chosen != "local inverse":
            return self._begin(fed, fed.start_point(self.loss), chosen)
        from_local_fits = self.loss.quadratic and fed.warm_start is None
        w = fed.mean(self.local_minimiser) if from_local_fits else fed.start_point(self.loss)
        return self._begin(fed, w, chosen, first=True)

    def _by_size(self, order: int) -> Preconditioner:
        return "local inverse" if order <= LARGE else "diagonal"

    def _begin(
        self,
        fed: Federation,
        w: Array,
        preconditioner: str,
        before: float = 0.0,
        first: bool = False,
        steepest: Array | None = None,
    ) -> State:
        """A fresh gradient at w, and no recurrence yet."""
        ask, diagonal = Mean(self.local_gradient, w=w, first=first), np.zeros(0)
        if preconditioner == "diagonal":
            (value, g), data = fed.exchange(ask, Mean(self.local_diagonal))
            diagonal = data + self.loss.penalty_curvature(data.shape)
        else:
            ((value, g),) = fed.exchange(ask)
        inner = Recurrence.begun(g, self.loss.separable, steepest)
        return State(w, value, g, diagonal, inner, before, preconditioner, fed.cohort.clients)

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:
            known = state.inner.steepest if self.loss.quadratic else None
            state = self._begin(fed, self._salvaged(fed, state), state.preconditioner, steepest=known)
        d, rz = state.inner.direction(self._preconditioned(fed, state))
        q = self._product(fed, state, d)
        if fed.cohort.clients != state.cohort:  # A and H, or g and H, were of different clients: begin again
            return replace(state, cohort=())
        inner, step = state.inner.advanced(d, rz, q)
        state = replace(state, inner=inner)
        if self.loss.quadratic:
            return replace(state, w=state.w + step, cohort=() if inner.exhausted else state.cohort)
        if inner.within(forcing(float(inner.first), state.before)) or inner.exhausted:
            return self._step(fed, state)
        return state

    def _preconditioned(self, fed: Federation, state: State) -> Array:
        r = state.inner.r
        if state.preconditioner == "local inverse":
            return fed.mean(self.local_solve, r=r)
        if state.preconditioner == "none":
            return r
        D = state.diagonal if state.diagonal.ndim == r.ndim else state.diagonal[:, None]
        return np.divide(r, D, out=np.zeros(r.shape), where=D > 0)  # a column of zeros without l2: nothing to find

    def _product(self, fed: Federation, state: State, d: Array) -> Array:
        if state.preconditioner == "local inverse":
            return fed.mean(self.local_product, d=d)
        return fed.mean(self.local_row_product, d=d) + self.loss.penalty_product(d)

    def _salvaged(self, fed: Federation, state: State) -> Array:
        """What the interrupted inner loop found is a descent direction still: as much of it as those here accept."""
        p = state.inner.p
        if self.loss.quadratic or not p.any():
            return state.w  # a quadratic's model has moved along already
        decrease = -float((state.gradient * p).sum())
        return state.w + self.search.step(fed, state.w, -p, decrease) * p

    def _step(self, fed: Federation, state: State) -> State:
        p, before = state.inner.p, float(state.inner.first)
        decrease = -float((state.gradient * p).sum())
        trial = self._begin(fed, state.w + p, state.preconditioner, before)
        together = trial.cohort == state.cohort
        # Where values cannot tell a step of Newton's from none it is taken: norms of gradients would depend on units.
        if together and self.search.accepts(state.value, trial.value, decrease, gradient_fell=True):
            return trial
        eta = self.search.step(fed, state.w, -p, decrease, first=1 if together else 0)
        return self._begin(fed, state.w + eta * p, state.preconditioner, before)

    def measured(self, state: State) -> Measurement | None:
        # For a quadratic the model moves on with the recurrence, and its gradient is not known afresh.
        return None if self.loss.quadratic else Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        """A Newton step's round sends its gradient too."""
        chosen = self.preconditioner or self._by_size(sizes.order)
        gradient = 0 if self.loss.quadratic else 1
        if chosen == "local inverse":
            return local_solves(sizes, models=2 + gradient)
        return Footprint(sent=(1 + gradient * (2 if chosen == "diagonal" else 1)) * sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
