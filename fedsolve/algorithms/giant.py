"""GIANT: the mean of the clients' Newton directions along the global gradient, with a line search.

    w ← w − η Σ p_j H_j⁻¹ g,     g = Σ p_j ∇f_j(w)

Wang, Roosta-Khorasani, Xu and Mahoney 2018; paper 002, section 6.7. Three exchanges a round: the directions, the losses
along their mean for all steps η at once, the gradient at the new model. With local=Richardson(…) it is DONE (Dinh et
al. 2022), with local=CG(…) what GIANT's authors ran; exact solves, the default, are both at their best.

The mean of the inverses is positive definite, so each round goes down and the pooled optimum is reached, but as fast as
the clients are alike: on label-skewed data slowly, where `FedNewtonCG` uses the same solves better. Uses only sums of
the clients' replies.

Clients with fewer samples than features, or hardly more, are sure of directions they know nothing of, and make the mean
of the inverses many times too long. When a step had to be cut to less than 1/16, the gradients already seen correct the
mean at the server, by L-BFGS on top of it; clients send what they always send. `lbfgs=0` is the method as published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsolve.descent import Armijo
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import CG, Richardson
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_solves
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.lbfgs import Pair, direction, remember
from fedsolve.typing import Array

# Eigenvalues of Σ p_j H_j⁻¹ H are ≥ 1, so the unit step is never too short, and Armijo's usual α ≈ 0 lets it overshoot
# to where hardly anything is gained. With α = 1/4 and halvings an η accepted is 3/4 to 3/2 of the best one (of a
# quadratic; or it is 1), and at least 3/4 of what the direction has to give is taken.
OF_A_LONG_DIRECTION = Armijo(alpha=0.25)
TOO_LONG = 1 / 16  # a step shorter than this says that the mean of the inverses is no estimate of the inverse


@dataclass(frozen=True)
class State:
    w: Array
    value: float  # f(w) and ∇f(w) by those in `cohort`
    gradient: Array
    cohort: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()  # of L-BFGS
    corrected: bool = False  # whether they are in use


@dataclass(frozen=True)
class GIANT:
    """Global gradient, local Newton directions, one line search.

    local   how a client solves H_j z = g: None exactly (by the pseudo-inverse where H_j is singular), or so many steps
    lbfgs   how many pairs of steps and gradients correct a direction that proved far too long; 0: never
    search  None: the exact minimum along the direction for a quadratic loss, for others `OF_A_LONG_DIRECTION`
    """

    loss: LinearLoss
    local: CG | Richardson | None = None
    search: Armijo | None = None
    lbfgs: int = 5

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "solve"})

    def __post_init__(self) -> None:
        if not (type(self.lbfgs) is int and self.lbfgs >= 0):
            raise ConfigError(f"lbfgs is a number of pairs, at least 0, got {self.lbfgs}")
        if self.search is not None or not self.loss.quadratic:
            object.__setattr__(self, "search", (self.search or OF_A_LONG_DIRECTION).of(self.loss))
        unbounded = not np.isfinite(self.loss.curvature_bound)
        if isinstance(self.local, Richardson) and self.local.step_size is None and unbounded:
            raise ConfigError("this loss has no bound on its smoothness: give Richardson a step_size")

    # ── clients ──

    @client_step
    def local_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        client.memory["w"] = w  # where the Hessian is taken
        return self.loss.value(client, w), self.loss.gradient(client, w)

    @client_step
    def local_direction(self, client: Client, g: Array) -> Array:
        self.loss.check_weights(client, g=g)
        w = client.memory["w"]
        if self.local is None:
            return self.loss.hessian_factor(client, w).solve(g)
        return self.local.solve(self.loss, client, w, g)

    @client_step
    def parabola(self, client: Client, p: Array) -> tuple[Array, Array]:
        """pᵀ∇f_j(w) and pᵀH_j p of each output: all there is to know of a quadratic along p. Both by the same clients,
        so that it holds whoever has left since the gradient."""
        self.loss.check_weights(client, p=p)
        w, product = client.memory["w"], self.loss.hessian_product if self.local is None else self.loss.row_product

        def dot(q: Array) -> Array:
            return client.xp.sum(client.xp.reshape(p * q, (p.shape[0], -1)), axis=0)

        return dot(self.loss.gradient(client, w)), dot(product(client, w, p))

    # ── server ──

    def start(self, fed: Federation) -> State:
        return self._at(fed, fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:  # f and g are those of others, and who is new does not know w
            state = self._at(fed, state.w)
        pairs = state.pairs if state.corrected else ()
        p = direction(state.gradient, pairs, lambda g: fed.mean(self.local_direction, g=g))  # ↓ g ↑ H_j⁻¹ g
        eta = np.asarray(self._step_size(fed, state, p))  # ↓ p ↑ losses along it
        if not np.any(eta > 0):
            return state
        reached = self._at(fed, state.w - eta * p)  # ↓ w ↑ ∇f_j(w)
        if not self.lbfgs or reached.cohort != state.cohort:  # gradients of others do not compare
            return reached
        pairs = remember(state.pairs, reached.w - state.w, reached.gradient - state.gradient, self.lbfgs)
        return replace(reached, pairs=pairs, corrected=state.corrected or bool(eta[eta > 0].min() < TOO_LONG))

    def _at(self, fed: Federation, w: Array) -> State:
        value, gradient = fed.mean(self.local_gradient, w=w)
        return State(w, value, gradient, fed.cohort.clients)

    def _step_size(self, fed: Federation, state: State, p: Array) -> Array | float:
        """How far to go along p, as a rule in one exchange; 0 if those here would not go down."""
        if self.search is None:
            slope, curvature = fed.mean(self.parabola, p=p)
            down = (slope > 0) & (curvature > 0)
            return np.where(down, slope / np.where(down, curvature, 1.0), 0.0)
        decrease, reach = float((state.gradient * p).sum()), 1.0
        # A client with fewer samples than features has directions in which only the penalty curves its objective, and
        # is sure of itself there: p can be 10¹⁰ times too long. So the search goes on below its grid.
        while self.search.sees(state.value, reach * decrease):
            eta = self.search.step(fed, state.w, reach * p, reach * decrease)
            if eta > 0:
                return reach * eta
            reach *= self.search.grid()[-1]
        return reach * self.search.step_by_slopes(fed, state.w, reach * p)

    def measured(self, state: State) -> Measurement:
        return Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        return local_solves(sizes, models=2) if self.local is None else Footprint(sent=2 * sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
