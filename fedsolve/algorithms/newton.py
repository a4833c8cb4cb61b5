"""Exact federated Newton: sums of gradients and Hessians give the pooled Newton step (Proposition 1 of FedNewton).

    w ← w − η H⁻¹ g,   g = Σ p_j ∇f_j(w),  H = Σ p_j ∇²f_j(w)

When p² numbers per client and round are affordable this is the method to use: the pooled solution in a handful of
rounds, however the data is split. The candidate's value, gradient and Hessian travel in one exchange, so a round in
which the unit step passes Armijo's test (nearly all) is one exchange. The server sees only sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.arrays import Symmetric
from fedsolve.client import Client, client_step
from fedsolve.federation import Federation
from fedsolve.linalg import factor
from fedsolve.losses import LinearLoss
from fedsolve.measure import Measurement
from fedsolve.models import LinearModel
from fedsolve.searches import Armijo
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
        step = factor(state.hessian).solve(state.gradient)
        decrease = float((state.gradient * step).sum())
        trial = self._at(fed, state.w - step)
        together = trial.cohort == state.cohort  # else someone left, and the two values do not compare
        if together and self.search.accepts(state.value, trial.value, decrease, _gradient_fell(state, trial)):
            return trial
        eta = self.search.step(fed, state.w, step, decrease, first=1 if together else 0)
        return self._at(fed, state.w - eta * step) if eta > 0 else state

    def _at(self, fed: Federation, w: Array) -> State:
        value, gradient, hessian = fed.mean(self.evaluate, w=w)
        return State(w, value, gradient, hessian, fed.cohort.clients)

    def measured(self, state: State) -> Measurement:
        if self.loss.strong_convexity() > 0:  # then ‖g‖²/2μ is a bound, and the decrement is not asked for
            return Measurement(state.value, state.gradient)
        decrement = float((state.gradient * factor(state.hessian).solve(state.gradient)).sum())
        return Measurement(state.value, state.gradient, decrement)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)


def _gradient_fell(state: State, trial: State) -> bool:
    return float((trial.gradient**2).sum()) <= float((state.gradient**2).sum())
