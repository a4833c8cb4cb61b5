"""Mont-Dec: Newton's method on the first eigenvectors of the current Hessians (paper 002, section 6.7).

Erdogdu and Montanari 2015, distributed: SHED with a renewal in every round. Each client decomposes its Hessian anew and
sends the same few leading eigenvectors of it, so that nothing adds up; a baseline that shows what SHED's memory is
worth. It ends at the pooled solution, slowly. Two exchanges a round. Uses each client's eigenpairs by
themselves, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.curvature.collected import HowMany, Sharing, check_clients, check_options
from fedsolve.curvature.estimate import approximate
from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.renewals import Always
from fedsolve.descent import Armijo
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor, norm
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    sharing: Sharing


@dataclass(frozen=True)
class MontDec:
    """`increment` is the number of eigenvectors a round: one for all, by client, or as many as the link carries."""

    loss: LinearLoss
    increment: HowMany = 4
    precision: Precision = "float64"
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision)
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step
    def local_gradient(self, client: Client, w: Array) -> Array:
        client.memory["w"] = w
        return self.loss.gradient(client, w)

    @client_step
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w = client.memory["w"]  # that of the gradient: it travels once
        reserve = self.search.reply_room()  # the line search comes in the same round
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision, reserve)

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        return State(fed.start_point(self.loss), Sharing())

    def round(self, fed: Federation, state: State) -> State:
        w = state.w
        n = w.shape[0] if self.loss.separable else w.size
        sharing, ask = state.sharing.asked(fed, self.local_eigenpairs, Always(), self.increment, n)
        g, increments = fed.exchange(Mean(self.local_gradient, w=w), ask)
        sharing = sharing.received(increments, norm(g))
        approximation = approximate(fed, sharing, fed.cohort.clients, "largest")
        step = factor(approximation.dense()).solve(g)
        eta = self.search.step(fed, w, step, float((step * g).sum()))
        return State(w - eta * step, sharing)

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
