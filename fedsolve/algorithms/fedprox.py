"""FedProx: each client minimises its own objective with a pull towards the current model, and the server averages.

    w_j = argmin f_j(v) + (pull/2) ‖v − w‖²,     w ← Σ p_j w_j

Federated Optimization in Heterogeneous Networks
    Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar, and Virginia Smith. MLSys 2020.
A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equation 6, with pull = 1/η)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

The local problem is solved exactly for the squared loss (one linear solve, its factor kept), to convergence otherwise.
Rounds of one model each way. Where clients differ it ends near the pooled solution, not at it (Su et al., section 3).
The server sees only sums of the clients' models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, local_fit
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class FedProx:
    """The weighted average of local proximal steps.

    loss  the objective
    pull  the weight of the proximal term (default 1.0); a stronger pull ends nearer to the pooled solution and takes
          longer
    """

    loss: LinearLoss
    pull: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"minimise"})

    def __post_init__(self) -> None:
        if not 0 < self.pull < float("inf"):
            raise ConfigError(f"pull is the positive weight of the proximal term, got {self.pull}")

    # ── clients ──

    @client_step
    def proximal_step(self, client: Client, w: Array) -> Array:
        return self.loss.minimise(client, w, self.pull)

    # ── server ──

    def start(self, fed: Federation) -> State:
        return State(fed.start_point(self.loss))

    def round(self, fed: Federation, state: State) -> State:
        return State(fed.mean(self.proximal_step, w=state.w))

    def footprint(self, sizes: Sizes) -> Footprint:
        return local_fit(self.loss, sizes)

    def pace(self, state: State) -> tuple[float, int]:
        """η = 1/pull, and one step in a round (Su et al., equation 6)."""
        return 1.0 / self.pull, 1

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
