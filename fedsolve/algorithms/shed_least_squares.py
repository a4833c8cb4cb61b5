"""SHED-LS: SHED for least squares, one exchange a round and no line search.

    θ ← θ − Ĥ⁻¹ g,     ρ_i = (λ_{q_i + 1} + λ_n) / 2

SHED: A Newton-type algorithm for federated learning based on incremental Hessian eigenvector sharing (Algorithms 1, 3)
    Nicolò Dal Fabbro, Subhrakanti Dey, Michele Rossi, and Luca Schenato. 2022. https://arxiv.org/abs/2202.05800

The Hessian is constant, so eigenvectors stay valid once they are sent: the error falls at least by c_t = 1 − λ̄_n/ρ̄_t
(Theorem 3), which itself falls, and after n − 1 increments the next step is exact. The server sees each client's
eigenpairs, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.curvature.estimate import Shift
from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.options import HowMany, check_clients, check_options
from fedsolve.curvature.renewals import Once, Renewals
from fedsolve.curvature.server_state import Curvature
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array  # θ^t
    curvature: Curvature
    contraction: float  # c_t of the step that led here


@dataclass(frozen=True)
class SHEDLeastSquares:
    """SHED for a quadratic loss.

    loss       the objective, a squared loss
    renewals   when clients start again with their first eigenvectors (default Once(): never, Algorithm 1); Periodic(T)
               is Algorithm 3, of theoretical interest (Lemma 7) and never better
    increment  how many eigenvectors a client sends in a round (default 1): a number, one by client name, or "link" for
               as many as its link carries; more mean fewer and larger rounds
    precision  of the eigenvectors sent (default "float64"); "float32" or "float16" are smaller, and no step is exact
    shift      ρ_i: "middle" (default) as above; "largest" is λ_{q_i + 1} with the step of (11), which has the same c_t
               and is never better for one client alone (Corollary 2)
    """

    loss: LinearLoss
    renewals: Renewals = field(default_factory=Once)
    increment: HowMany = 1
    precision: Precision = "float64"
    shift: Shift = "middle"

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "quadratic"})
    fits_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision, self.renewals)
        if self.shift not in ("middle", "largest"):
            raise ConfigError(f"shift is 'middle' or 'largest', got {self.shift!r}")

    # ── clients ──

    @client_step(sends="a gradient")
    def local_gradient(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        return self.loss.gradient(client, w)  # 8

    @client_step(sends="some eigenvectors and eigenvalues of its Hessian")
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w = client.memory["w"]  # that of the gradient: it travels once
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision)  # 4–7, 9–13

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        return State(fed.start_point(self.loss), Curvature(), 1.0)

    def round(self, fed: Federation, state: State) -> State:
        w, n = state.w, state.w.shape[0]
        curvature, ask = state.curvature.asked(fed, self.local_eigenpairs, self.renewals, self.increment, n)
        g, increments = fed.exchange(Mean(self.local_gradient, w=w), ask)  # 3–13
        curvature = curvature.received(increments, g)
        H = curvature.estimate(fed, fed.cohort.clients, self.shift)  # 16, 17: (12), (13)
        curvature, p = curvature.solve(H, g)
        c = H.contraction
        if self.shift == "largest":  # (11), with λ̄_n/ρ̄ = 1 − c
            return State(w - 2 / (2 - c) * p, curvature, c / (2 - c))
        return State(w - p, curvature, c)  # 18

    def contraction(self, state: State) -> float:
        return state.contraction

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
