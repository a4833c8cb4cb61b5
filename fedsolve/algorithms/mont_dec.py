"""Mont-Dec: Newton's method on the first eigenvectors of the current Hessians, the baseline of SHED.

Convergence rates of sub-sampled Newton methods
    Murat A. Erdogdu and Andrea Montanari. Advances in Neural Information Processing Systems 28, 2015.
SHED: A Newton-type algorithm for federated learning based on incremental Hessian eigenvector sharing (section 6.7)
    Nicolò Dal Fabbro, Subhrakanti Dey, Michele Rossi, and Luca Schenato. 2022. https://arxiv.org/abs/2202.05800

SHED with a renewal in every round: each client sends the same few leading eigenvectors of its current Hessian, so that
nothing adds up. It reaches the pooled solution, slowly, and shows what SHED's memory is worth. Two exchanges a round.
The server sees each client's eigenpairs, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.options import HowMany, check_clients, check_options
from fedsolve.curvature.renewals import Always
from fedsolve.curvature.server_state import Curvature
from fedsolve.descent import Armijo, Step
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    curvature: Curvature


@dataclass(frozen=True)
class MontDec:
    """Newton-type steps with the leading eigenvectors of the current Hessians.

    loss       the objective, twice differentiable
    increment  how many eigenvectors a client sends in a round (default 4): a number, one by client name, or "link" for
               as many as its link carries; more mean fewer and larger rounds
    precision  of the eigenvectors sent (default "float64"); "float32" and "float16" are smaller
    search     the line search (default Armijo())
    """

    loss: LinearLoss
    increment: HowMany = 4
    precision: Precision = "float64"
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})
    fits_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision)
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step(sends="a gradient")
    def local_gradient(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        return self.loss.gradient(client, w)

    @client_step(sends="some eigenvectors and eigenvalues of its Hessian")
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w, later = client.memory["w"], self.search.reply_bytes()  # of the gradient; for the search in the same round
        if count is None:
            horizon = client.vectors  # the next round renews: no more are needed than the link lets through
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision, later)

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        return State(fed.start_point(self.loss), Curvature())

    def round(self, fed: Federation, state: State) -> State:
        w, n = state.w, self.loss.order(fed.features, fed.outputs)
        curvature, ask = state.curvature.asked(fed, self.local_eigenpairs, Always(), self.increment, n)
        g, increments = fed.exchange(Mean(self.local_gradient, w=w), ask)
        curvature = curvature.received(increments, g)
        H = curvature.estimate(fed, fed.cohort.clients, "largest")
        step = Step.along(w, factor(H.dense()).solve(g), g)
        return State(step.end(self.search.backtrack(fed, step)), curvature)

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
