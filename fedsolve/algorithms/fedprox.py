"""FedProx: each client minimises its own objective with a pull towards the current model, and the server averages.

    w_j = argmin f_j(v) + (pull/2) ‖v − w‖²,     w ← Σ p_j w_j

Federated Optimization in Heterogeneous Networks
    Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar, and Virginia Smith. MLSys 2020.
A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equation 6, with pull = 1/η)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

The local problem is solved exactly for the squared loss (one linear solve, its factor kept), to convergence otherwise;
or as well as a local solver does in its steps. Rounds of one model each way. Where clients differ it ends near the
pooled solution, not at it (Su et al., section 3). The server sees only sums of the clients' models, and each client's
smoothness where a local solver has no step size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import LocalSolver, ProximalSteps, first_step, step_in_round
from fedsolve.local.base import declare_needs
from fedsolve.local.proximal_steps import proximal_footprint
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models import Model
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    w: Array
    step_size: float = 1.0  # of a local solver


@dataclass(frozen=True)
class FedProx:
    """The weighted average of local proximal steps.

    loss   the objective
    pull   the weight of the proximal term (default 1.0); a stronger pull ends nearer to the pooled solution and takes
           longer
    local  how a client solves its problem: None (default) exactly; a local solver such as GradientSteps(steps=10)
           takes any loss; ProximalSteps(epochs=1, batch_size=…) solves it once for each batch
    """

    loss: Loss
    pull: float = 1.0
    local: LocalSolver | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"minimise"})

    def __post_init__(self) -> None:
        positive("pull, the weight of the proximal term,", self.pull)
        declare_needs(self, self.local, pull=True)

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step(sends="its own model, after some steps on its rows")
    def proximal_step(self, client: Client, w: Array) -> Array:
        return ProximalSteps().run(self.loss, client, w, 1.0, pull=self.pull)

    @client_step(together=True, sends="its own model, after some steps on its rows")
    def local_update(self, client: Client, w: Array, step_size: float) -> Array:
        require_positive("step_size", step_size)
        return (self.local or ProximalSteps()).run(self.loss, client, w, step_size, pull=self.pull)

    # ── server ──

    def start(self, fed: Federation) -> State:
        return State(fed.start_point(self.loss), first_step(fed, self.local, self.smoothness))

    def round(self, fed: Federation, state: State) -> State:
        if self.local is None:
            return State(fed.mean(self.proximal_step, w=state.w))
        step_size = step_in_round(fed, self.local, state.step_size, self.pull)
        return State(fed.mean(self.local_update, w=state.w, step_size=step_size), state.step_size)

    def footprint(self, sizes: Sizes) -> Footprint:
        return proximal_footprint(self.loss, self.local, sizes)

    def pace(self, state: State) -> tuple[float, int]:
        """η = 1/pull, and one exact proximal step in a round (Su et al., equation 6)."""
        if self.local is not None:
            raise ConfigError(f"the theory of early stopping is that of exact proximal steps, got {self.local}")
        return 1.0 / self.pull, 1

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)
