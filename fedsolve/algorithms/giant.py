"""GIANT: the mean of the clients' Newton directions along the global gradient, with a line search.

    w ← w − η Σ p_j H_j⁻¹ g,     g = Σ p_j ∇f_j(w)

GIANT: Globally Improved Approximate Newton Method for Distributed Optimization
    Shusen Wang, Farbod Roosta-Khorasani, Peng Xu, and Michael W. Mahoney. NeurIPS 2018.
DONE: Distributed Approximate Newton-type Method for Federated Edge Learning (`local=Richardson(…)`)
    Canh T. Dinh, Nguyen H. Tran, Tuan Dung Nguyen, Wei Bao, Amir Rezaei Balef, Bing B. Zhou, and Albert Y. Zomaya.
    IEEE Transactions on Parallel and Distributed Systems 33, 2022.

Three exchanges a round: the directions, the losses along their mean for all step sizes, the gradient at the new point.
Every round goes down, so it reaches the pooled optimum, but only as fast as the clients are alike: on label-skewed data
slowly, where `FedNewtonCG` with the same solves is not slowed down. The server sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from fedsolve.descent import Armijo, Point, Step, asked_again
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

# The eigenvalues of Σ p_j H_j⁻¹ H are ≥ 1, so the full step is never too short, and with Armijo's usual α ≈ 0 it
# overshoots to where hardly anything is gained. With α = 1/4 an accepted η is 1, or 3/4 to 3/2 of the best one of a
# quadratic.
LONG_STEPS = Armijo(alpha=0.25)
# A shorter step than this means that the mean of the inverses is no estimate of the inverse: clients with hardly more
# samples than features know nothing of some directions, and make it many times too long.
TOO_LONG = 1 / 16


@dataclass(frozen=True)
class State(Point):
    """w, and f and g there by the clients in `cohort`."""

    pairs: tuple[Pair, ...] = ()  # of L-BFGS
    corrected: bool = False  # whether they are in use


@dataclass(frozen=True)
class GIANT:
    """Global gradient, local Newton directions, one line search.

    loss    the objective, twice differentiable
    local   how a client solves H_j z = g: None (default) exactly, by the pseudo-inverse where H_j is singular; where p
            is too large to factorise CG(steps), as in GIANT's experiments, or Richardson(steps) for DONE
    search  the line search; None (default) is the exact minimum along the direction for a quadratic loss, and
            Armijo(alpha=0.25) for others
    lbfgs   how many past steps correct the direction at the server, by L-BFGS, once one proved far too long (default
            5); 0 is the method as published
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
            object.__setattr__(self, "search", (self.search or LONG_STEPS).of(self.loss))
        unbounded = not np.isfinite(self.loss.curvature_bound)
        if isinstance(self.local, Richardson) and self.local.step_size is None and unbounded:
            raise ConfigError("this loss has no bound on its smoothness: give Richardson a step_size")

    # ── clients ──

    @client_step(sends="its loss and gradient")
    def local_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        client.memory["w"] = w  # where the Hessian is taken
        return self.loss.value(client, w), self.loss.gradient(client, w)

    @client_step(sends="a direction by its own Hessian")
    def local_direction(self, client: Client, g: Array) -> Array:
        self.loss.check_weights(client, g=g)
        w = client.memory["w"]
        if self.local is None:
            return self.loss.hessian_factor(client, w).solve(g)
        return self.local.solve(self.loss, client, w, g)

    @client_step(sends="the slope and curvature of its loss along a direction")
    def parabola(self, client: Client, p: Array) -> tuple[Array, Array]:
        """pᵀ∇f_j(w) and pᵀH_j p of each output, which determine a quadratic along p. Both come from the same clients,
        whoever has left since the gradient."""
        self.loss.check_weights(client, p=p)
        w, product = client.memory["w"], self.loss.hessian_product if self.local is None else self.loss.row_product

        def dot(q: Array) -> Array:
            return client.xp.sum(client.xp.reshape(p * q, (p.shape[0], -1)), axis=0)

        return dot(self.loss.gradient(client, w)), dot(product(client, w, p))

    # ── server ──

    def start(self, fed: Federation) -> State:
        return self._visit(fed, fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        state = asked_again(fed, state, partial(self._visit, fed))
        pairs = state.pairs if state.corrected else ()
        p = direction(state.gradient, pairs, partial(self._mean_direction, fed))  # ↓ g ↑ H_j⁻¹ g
        eta = np.asarray(self._step_size(fed, state, p))  # ↓ p ↑ losses along it
        if not np.any(eta > 0):
            return state
        reached = self._visit(fed, state.w - eta * p)  # ↓ w ↑ ∇f_j(w)
        if not self.lbfgs or reached.cohort != state.cohort:  # gradients of different clients do not compare
            return reached
        pairs = remember(state.pairs, reached.w - state.w, reached.gradient - state.gradient, self.lbfgs)
        return replace(reached, pairs=pairs, corrected=state.corrected or bool(eta[eta > 0].min() < TOO_LONG))

    def _mean_direction(self, fed: Federation, g: Array) -> Array:
        return fed.mean(self.local_direction, g=g)

    def _visit(self, fed: Federation, w: Array) -> State:
        f, g = fed.mean(self.local_gradient, w=w)
        return State(w, f, g, fed.cohort.clients)

    def _step_size(self, fed: Federation, state: State, p: Array) -> Array | float:
        """How far to go along p; 0 if that leads up for those who answered."""
        if self.search is not None:
            # In a direction in which only the penalty curves some client's objective p can be 10¹⁰ times too long.
            return self.search.backtrack_far(fed, Step.along(state.w, p, state.gradient), state.value)
        slope, curvature = fed.mean(self.parabola, p=p)
        down = (slope > 0) & (curvature > 0)
        return np.where(down, slope / np.where(down, curvature, 1.0), 0.0)

    def measured(self, state: State) -> Measurement:
        return Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        return local_solves(sizes, models=2) if self.local is None else Footprint(sent=2 * sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
