"""FedProx: each client minimises its own objective with a pull towards the current model, the server averages.

Li et al. 2020; paper 003, equation (6), with pull = 1/η; in FedNewton's experiments λ_prox:

    w_j = argmin f_j(v) + (pull/2) ‖v − w‖²,     w ← Σ p_j w_j

The local problem is solved exactly for the squared loss (one linear solve, its factor kept), to convergence otherwise.
Rounds of one model each way. It ends beside the pooled solution when clients differ (paper 003, section 3); a stronger
pull ends nearer and takes longer. Uses only sums of the clients' replies.
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
    """The weighted average of local proximal steps."""

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

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
