"""SHED: Newton's method on Hessians that are shared a few eigenvectors at a time (paper 002, Algorithm 4).

    θ ← θ − η Ĥ⁻¹ g,     Ĥ = Σ p_i [Σ_{j ≤ q_i} (λ_j − ρ_i) v_j v_jᵀ + ρ_i I],     ρ_i = λ_{q_i + 1}

Each client computes its Hessian at a renewal and then sends its next eigenvectors, as many as its link lets through,
beside its gradient: Ĥ ≥ H of the renewal improves in every round, and clients with narrow links, or that can send
nothing but the gradient, take part like all others. The pooled solution, at n + d·n numbers per client and round.

Beyond the paper, as options that keep the optimum: gradients already seen improve Ĥ⁻¹ by L-BFGS at the server; the
gradient at the full step travels with the line search, so that an iteration is one exchange where that step passes
(`pipelined`, the same iterates); vectors travel in half precision; the server factorises only now and then. Uses
each client's eigenpairs by themselves, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from fedsolve.curvature.collected import HowMany, Sharing, check_clients, check_options
from fedsolve.curvature.estimate import Solver, approximate
from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.renewals import Fibonacci, Once, Renewals
from fedsolve.descent import Armijo
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics import lbfgs as quasi_newton
from fedsolve.numerics.lbfgs import Pair
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array  # θ^t
    seen: Array  # where `cohort` said value and gradient: θ^t, or the iterate before it
    value: float
    gradient: Array
    cohort: tuple[str, ...]
    sharing: Sharing
    pairs: tuple[Pair, ...] = ()  # of L-BFGS
    stale: Array = field(default_factory=lambda: np.zeros((0, 0)))  # the factor of an earlier Ĥ
    stuck: bool = False  # no step was short enough
    contraction: float | None = None  # 1 − λ̄_n/ρ̄_t, to which c_{1,t} of (32) tends; None if no step led here


@dataclass(frozen=True)
class SHED:
    """`increment` is the number of eigenvectors a round: one for all, by client, or as many as the link carries."""

    loss: LinearLoss
    renewals: Renewals = field(default_factory=Fibonacci)
    increment: HowMany = 1
    lbfgs: int = 5
    pipelined: bool = True
    precision: Precision = "float16"
    solve: Literal["cg", "factor"] = "cg"
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision, self.renewals)
        if not (is_whole(self.lbfgs) and self.lbfgs >= 0 and self.solve in ("cg", "factor")):
            raise ConfigError(
                f"lbfgs is a number of pairs, solve is 'cg' or 'factor'; got {self.lbfgs}, {self.solve!r}"
            )
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step
    def local_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        client.memory["w"] = w
        return self.loss.value(client, w), self.loss.gradient(client, w)  # 9

    @client_step
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w = client.memory["w"]  # that of the gradient: it travels once
        reserve = self.search.reply_room()  # the line search comes in the same round
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision, reserve)  # 4–8, 10–14

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        w = fed.start_point(self.loss)
        unseen = State(w, w, np.inf, 0.0 * w, (), Sharing())
        return self._visit(fed, unseen, w) if self.pipelined else unseen

    def round(self, fed: Federation, state: State) -> State:
        if not self.pipelined or state.cohort != fed.cohort.clients:
            return self._searched(fed, self._visit(fed, state, state.w))
        if not np.array_equal(state.seen, state.w):  # after a step that was cut short
            return self._visit(fed, state, state.w)
        step, decrease, state = self._newton_step(fed, state)
        trial = self._visit(fed, state, state.w - step)
        fell = norm(trial.gradient) <= norm(state.gradient)
        if trial.cohort == state.cohort and self.search.accepts(state.value, trial.value, decrease, fell):
            return replace(trial, contraction=state.contraction)
        return self._shortened(fed, state, trial, step, decrease)

    def _visit(self, fed: Federation, state: State, w: Array) -> State:
        """Lines 3–14 at w: value, gradient, and the eigenpairs of the iteration that begins there."""
        n = w.shape[0] if self.loss.separable else w.size
        rule = Once() if self.loss.quadratic else self.renewals  # a Hessian that is the same everywhere needs no other
        sharing, ask = state.sharing.asked(fed, self.local_eigenpairs, rule, self.increment, n, renews=state.stuck)
        (value, g), increments = fed.exchange(Mean(self.local_gradient, w=w), ask)
        cohort = fed.cohort.clients
        pairs: tuple[Pair, ...] = ()
        if cohort == state.cohort:  # else the two gradients are of different functions
            pairs = quasi_newton.remember(state.pairs, w - state.seen, g - state.gradient, self.lbfgs)
        return State(w, w, value, g, cohort, sharing.received(increments, norm(g)), pairs, state.stale)

    def _newton_step(self, fed: Federation, state: State) -> tuple[Array, float, State]:
        """Ĥ⁻¹ g (18, 19), improved by the pairs, and the decrease it promises."""
        approximation = approximate(fed, state.sharing, state.cohort, "largest")
        solver = Solver(approximation, state.stale if self.solve == "cg" else np.zeros((0, 0)))
        step = quasi_newton.direction(state.gradient, state.pairs, solver.solve)
        state = replace(state, stale=solver.stale, contraction=approximation.contraction)
        return step, float((step * state.gradient).sum()), state

    def _searched(self, fed: Federation, state: State) -> State:
        """Lines 20 and 21 as the paper has them, in an exchange of their own."""
        step, decrease, state = self._newton_step(fed, state)
        eta = self.search.step(fed, state.w, step, decrease)
        return replace(state, w=state.w - eta * step, stuck=eta == 0)

    def _shortened(self, fed: Federation, state: State, trial: State, step: Array, decrease: float) -> State:
        """After a full step that did not pass. The gradient where the search ends is left to the next round: no client
        sends two in one."""
        together = trial.cohort == state.cohort
        eta = self.search.step(fed, state.w, step, decrease, first=1 if together else 0)
        if eta == 1:
            return replace(trial, contraction=state.contraction)
        sharing = trial.sharing.not_taken(state.sharing)
        cohort, pairs = (state.cohort, state.pairs) if together and eta > 0 else ((), ())
        return replace(state, w=state.w - eta * step, cohort=cohort, sharing=sharing, pairs=pairs, stuck=eta == 0)

    def contraction(self, state: State) -> float | None:
        return state.contraction

    def measured(self, state: State) -> Measurement | None:
        known = state.cohort and np.array_equal(state.seen, state.w)
        return Measurement(state.value, state.gradient) if known else None

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
