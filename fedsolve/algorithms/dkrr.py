"""DKRR: every client fits its own data, and the server averages the fits, once.

    w̄ = Σ p_j argmin f_j

Divide and conquer kernel ridge regression: A distributed algorithm with minimax optimal rates
    Yuchen Zhang, John Duchi, and Martin Wainwright. Journal of Machine Learning Research 16, 2015.
Efficient Newton-type Federated Learning with Non-IID Data (Algorithm 1 with T = 0)
    Anonymous authors, under double-blind review.

One exchange and one model per client. Right when the clients are alike and large; otherwise biased, and more rounds
would not help. Written for kernel ridge regression; with another loss it is one-shot averaging. The server sees only
the sum of the clients' models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.algorithms.base import Finished
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
class DKRR:
    """The weighted average of the local minimisers.

    loss  the objective; give it l2 > 0, so that every client has a unique minimum of its own
    """

    loss: LinearLoss

    needs: ClassVar[frozenset[str]] = frozenset({"minimise", "solve"})

    # ── clients ──

    @client_step(sends="the model that fits its own rows best")
    def local_minimiser(self, client: Client) -> Array:
        return self.loss.minimise(client)

    # ── server ──

    def start(self, fed: Federation) -> Finished[State]:
        if fed.warm_start is not None:
            raise ConfigError("DKRR averages exact local fits, which begin nowhere: leave warm_start out")
        return Finished(State(fed.mean(self.local_minimiser)))

    def round(self, fed: Federation, state: State) -> Finished[State]:
        return Finished(state)

    def footprint(self, sizes: Sizes) -> Footprint:
        return local_fit(self.loss, sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
