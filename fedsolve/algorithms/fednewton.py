"""FedNewton: local Newton steps along the global gradient.

    w ← w − Σ p_j H_j⁻¹ g,     g = Σ p_j ∇f_j(w)

Efficient Newton-type Federated Learning with Non-IID Data (Algorithm 1)
    Anonymous authors, under double-blind review.

Line 7 of the algorithm prints the local gradient; with it every step lands on DKRR. The proofs use the global one sent
in line 6, and so does this file. Two exchanges and two models each way per round, whatever p.

The error obeys e ← (I − AH) e with A = Σ p_j H_j⁻¹, and the eigenvalues of AH are ≥ 1: it converges if and only if
λ_max(AH) < 2, as for large and similar clients but not for heterogeneous ones. `FedNewtonCG` uses the same two
exchanges and converges wherever there is a minimum. The server sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_solves
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class FedNewton:
    """The mean of local Newton steps.

    loss  the objective, twice differentiable; give it l2 > 0, so that every client has a unique minimum of its own
    """

    loss: LinearLoss

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian", "minimise", "solve"})

    # ── clients ──

    @client_step(sends="the model that fits its own rows best")
    def local_minimiser(self, client: Client) -> Array:
        return self.loss.minimise(client)  # 1, 2

    @client_step(sends="a gradient")
    def local_gradient(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        return self.loss.newton_gradient(client, w)  # 5

    @client_step(sends="a direction by its own Hessian")
    def local_newton_step(self, client: Client, g: Array) -> Array:
        self.loss.check_weights(client, g=g)
        return self.loss.hessian_factor(client, client.memory["w"]).solve(g)  # 7

    # ── server ──

    def start(self, fed: Federation) -> State:
        if fed.warm_start is not None or not self.loss.quadratic:  # Remark 4: zero for other losses
            return State(fed.start_point(self.loss))
        return State(fed.mean(self.local_minimiser))  # 2 ↑ 3

    def round(self, fed: Federation, state: State) -> State:
        g = fed.mean(self.local_gradient, w=state.w)  # ↓ 5 ↑ 6
        step = fed.mean(self.local_newton_step, g=g)  # ↓ 7 ↑
        return State(state.w - step)  # 8

    def footprint(self, sizes: Sizes) -> Footprint:
        return local_solves(sizes, models=2)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
