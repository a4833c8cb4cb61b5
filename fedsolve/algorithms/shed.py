"""SHED: Newton's method on Hessians that are shared a few eigenvectors at a time.

    θ ← θ − η Ĥ⁻¹ g,     Ĥ = Σ p_i [Σ_{j ≤ q_i} (λ_j − ρ_i) v_j v_jᵀ + ρ_i I],     ρ_i = λ_{q_i + 1}

SHED: A Newton-type algorithm for federated learning based on incremental Hessian eigenvector sharing (Algorithm 4)
    Nicolò Dal Fabbro, Subhrakanti Dey, Michele Rossi, and Luca Schenato. 2022. https://arxiv.org/abs/2202.05800

Each client computes its Hessian at a renewal, and then sends its next eigenvectors with each gradient, as many as its
link lets through: Ĥ ≥ H of the renewal improves in every round, up to the pooled solution, at n + d·n numbers per
client and round. The server sees each client's eigenpairs, and sums of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

from fedsolve.curvature.increments import Increment, Precision, next_increment
from fedsolve.curvature.options import HowMany, check_clients, check_options
from fedsolve.curvature.renewals import Fibonacci, Once, Renewals
from fedsolve.descent import Armijo, Step
from fedsolve.descent.pipelined import Visit, search_ahead
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes, shared_spectrum
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array  # θ^t
    point: Visit  # value, gradient and curvature where they were last asked for: at θ^t, unless a step was shortened
    contraction: float | None = None  # 1 − λ̄_n/ρ̄_t, to which c_{1,t} of (32) tends; None if no step led here


@dataclass(frozen=True)
class SHED:
    """Newton-type steps with incrementally shared eigenvectors.

    loss       the objective, twice differentiable
    renewals   when clients recompute their Hessians (default Fibonacci(), ever more seldom); not for squared losses
    increment  how many eigenvectors a client sends in a round (default 1): a number, one by client name, or "link" for
               as many as its link carries; more mean fewer and larger rounds
    lbfgs      how many past gradients improve Ĥ⁻¹ at the server (default 5); 0 is the paper's method
    pipelined  True (default) asks for gradient and eigenpairs at the end of the full step: one exchange a round if that
               is accepted; False takes two, as in the paper
    precision  of the eigenvectors sent (default "float16"); "float32" or "float64" where half precision is too coarse
    solve      "cg" (default) factorises Ĥ only now and then, "factor" in every round
    search     the line search (default Armijo())
    """

    loss: LinearLoss
    renewals: Renewals = field(default_factory=Fibonacci)
    increment: HowMany = 1
    lbfgs: int = 5
    pipelined: bool = True
    precision: Precision = "float16"
    solve: Literal["cg", "factor"] = "cg"
    search: Armijo = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})
    fits_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.increment, self.precision, self.renewals, self.lbfgs, self.solve)
        object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step(sends="its loss and gradient")
    def local_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        client.memory["w"] = w
        return self.loss.value(client, w), self.loss.gradient(client, w)  # 9

    @client_step(sends="some eigenvectors and eigenvalues of its Hessian")
    def local_eigenpairs(self, client: Client, renewal: int, count: int | None, horizon: int | None) -> Increment:
        w, later = client.memory["w"], self.search.reply_bytes()  # of the gradient; for the search in the same round
        return next_increment(self.loss, client, w, renewal, count, horizon, self.precision, later)  # 4–8, 10–14

    # ── server ──

    def start(self, fed: Federation) -> State:
        check_clients(self.increment, fed.clients)
        w = fed.start_point(self.loss)
        point = Visit.none(w)
        return State(w, self._visit(fed, point, w) if self.pipelined else point)

    def round(self, fed: Federation, state: State) -> State:
        if self.pipelined and state.point.cohort == fed.cohort.clients:
            return self._pipelined(fed, state)
        point = self._visit(fed, state.point, state.w)  # 3–14: renew, gradient, eigenpairs
        point, step, contraction = self._step(fed, point)  # 17, 18: estimate, step
        eta = self.search.backtrack(fed, step)  # 19: search
        return State(step.end(eta), point.after(eta), contraction)  # 20

    def _pipelined(self, fed: Federation, state: State) -> State:
        """An iteration whose lines 3–14 came with the last step."""
        if not state.point.is_at(state.w):  # that step was shortened
            return State(state.w, self._visit(fed, state.point, state.w))
        point, step, contraction = self._step(fed, state.point)
        return State(*search_ahead(fed, self.search, point, step, partial(self._visit, fed, point)), contraction)

    def _visit(self, fed: Federation, last: Visit, w: Array) -> Visit:
        rule, n = Once() if self.loss.quadratic else self.renewals, self.loss.order(fed.features, fed.outputs)
        curvature, ask = last.curvature.asked(fed, self.local_eigenpairs, rule, self.increment, n)
        (f, g), increments = fed.exchange(Mean(self.local_gradient, w=w), ask)
        pair = (w - last.w, g - last.gradient) if fed.cohort.clients == last.cohort else None
        return Visit(w, f, g, fed.cohort.clients, curvature.received(increments, g, pair, self.lbfgs))

    def _step(self, fed: Federation, point: Visit) -> tuple[Visit, Step, float]:
        H = point.curvature.estimate(fed, point.cohort, "largest")  # (26), (30)
        curvature, p = point.curvature.solve(H, point.gradient, reuse=self.solve == "cg")  # Ĥ⁻¹ g
        return replace(point, curvature=curvature), Step.along(point.w, p, point.gradient), H.contraction

    def contraction(self, state: State) -> float | None:
        return state.contraction

    def measured(self, state: State) -> Measurement | None:
        return state.point.measured(state.w)

    def footprint(self, sizes: Sizes) -> Footprint:
        return shared_spectrum(sizes)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
