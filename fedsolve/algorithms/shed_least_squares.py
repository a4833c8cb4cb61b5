"""SHED-LS: SHED for least squares, one exchange a round and no line search (paper 002, Algorithms 1 and 3).

    θ ← θ − Ĥ⁻¹ g,     ρ_i = (λ_{q_i + 1} + λ_n) / 2

The Hessian is constant, so eigenvectors sent once are good for ever: the error falls at least by c_t = 1 − λ̄_n/ρ̄_t
(Theorem 3), which itself falls, and after n − 1 increments the next step is exact. `renewals=Periodic(T)` is Algorithm
3, which begins again every T iterations: of theoretical interest (Lemma 7), and never better. Uses each
client's eigenpairs by themselves, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedsolve.curvature.collected import HowMany, Sharing, check_clients, check_options
from fedsolve.curvature.estimate import Solver, approximate
from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.renewals import Once, Renewals
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import norm
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array  # θ^t
    sharing: Sharing
    stale: Array  # the factor of an earlier Ĥ
    contraction: float  # c_t of the step that led here


@dataclass(frozen=True)
class SHEDLeastSquares:
    """`increment` is the number of eigenvectors a round: one for all, by client, or as many as the link carries.

    `shift="largest"` is ρ_i = λ_{q_i + 1} with the step of (11): the same c_t, and for one client alone never better
    (Corollary 2).
    """

    loss: LinearLoss
    renewals: Renewals = field(default_factory=Once)
    increment: HowMany = 1
    precision: Precision = "float64"
    shift: Literal["middle", "largest"] = "middle"

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "quadratic"})

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision, self.renewals)
        if self.shift not in ("middle", "largest"):
            raise ConfigError(f"shift is 'middle' or 'largest', got {self.shift!r}")

    # ── clients ──

    @client_step
    def local_gradient(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        return self.loss.gradient(client, w)  # 8

    @client_step
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w = client.memory["w"]  # that of the gradient: it travels once
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision)  # 4–7, 9–13

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        return State(fed.start_point(self.loss), Sharing(), np.zeros((0, 0)), 1.0)

    def round(self, fed: Federation, state: State) -> State:
        sharing, ask = state.sharing.asked(fed, self.local_eigenpairs, self.renewals, self.increment, state.w.shape[0])
        g, increments = fed.exchange(Mean(self.local_gradient, w=state.w), ask)
        sharing = sharing.received(increments, norm(g))
        approximation = approximate(fed, sharing, fed.cohort.clients, self.shift)  # 17, 18
        solver, eta, c = Solver(approximation, state.stale), 1.0, approximation.contraction
        if self.shift == "largest":
            eta = 2 / (2 - c)  # (11), for λ̄_n/ρ̄ = 1 − c here
            c = c / (2 - c)
        return State(state.w - eta * solver.solve(g), sharing, solver.stale, c)  # 19

    def contraction(self, state: State) -> float:
        return state.contraction

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
