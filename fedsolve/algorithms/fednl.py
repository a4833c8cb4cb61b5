"""FedNL: Newton's method with Hessians that are learned, by a compressed correction in every round.

    S_i = C(∇²f_i(x) − H_i),     H_i ← H_i + S_i,       H ← H + Σ p_i S_i
    x ← x − [H + l I]⁻¹ ∇f(x),   l = Σ p_i ‖∇²f_i(x) − H_i‖                            option 2
    x ← x − [H]_μ⁻¹ ∇f(x),       [·]_μ the nearest matrix with eigenvalues ≥ μ = l2    option 1

with H and H_i as they were before the corrections at x.

FedNL: Making Newton-Type Methods Applicable to Federated Learning (Algorithm 1, and with a line search Algorithm 3)
    Mher Safaryan, Rustem Islamov, Xun Qian, and Peter Richtárik. ICML 2022. https://arxiv.org/abs/2106.02969

As H_i → ∇²f_i(x*) it becomes Newton's method, for a part of the numbers; where p² of them are affordable `Newton`
needs fewer rounds. A round is one exchange, and two more when the search rejects the full step. H is the sum over all
clients, absent ones too: each that answers moves its own part of it. The part of the l2 penalty is known, and added by
the server, which sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from fedsolve.curvature.compressors import Compressor, TopKPairs, correct
from fedsolve.descent import Armijo, Attempt, Point, Step, asked_again, descend
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor, floored
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, Symmetric, TopK
from fedsolve.typing import Array


@dataclass(frozen=True)
class State(Point):
    """x with f and ∇f, and what has been learned of the Hessian."""

    shift: float  # l by the clients in `cohort`
    hessian: Symmetric  # H before the corrections at x: for the step from x
    learned: Symmetric  # H with them: for the next one


@dataclass(frozen=True)
class FedNL:
    """Newton's method on learned Hessians.

    loss        the objective, twice differentiable
    compressor  C, what a client sends of a correction (default TopKPairs(): 8 entries per row); RankR suits Hessians of
                low rank, more entries mean fewer and larger rounds
    option      2 (default) adds the distance l to H; 1 lifts the eigenvalues of H to l2, which must be positive
    shift       the norm in l: "spectral" (default) needs fewer rounds, "frobenius" is the paper's and costs less
    initial     "hessian" (default): each H_i starts as ∇²f_i at the first point, sent in full once; "zero": as zero
    search      the line search (default Armijo()); None takes every step in full, as in Algorithm 1
    """

    loss: LinearLoss
    compressor: Compressor = field(default_factory=TopKPairs)
    option: Literal[1, 2] = 2
    shift: Literal["spectral", "frobenius"] = "spectral"
    initial: Literal["hessian", "zero"] = "hessian"
    search: Armijo | None = field(default_factory=Armijo)

    needs: ClassVar[frozenset[str]] = frozenset({"gradient", "hessian"})

    def __post_init__(self) -> None:
        if self.option == 1 and not self.loss.l2:
            raise ConfigError("option 1 lifts eigenvalues to l2, which must be > 0; use option 2, or give the loss l2")
        if self.search is not None:
            object.__setattr__(self, "search", self.search.of(self.loss))

    # ── clients ──

    @client_step(sends="its loss, gradient and Hessian")
    def begin(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        hessian = self._hessian(client, w)
        client.memory["H"] = hessian.values.copy()
        return self.loss.value(client, w), self.loss.gradient(client, w), hessian.symmetric()

    @client_step(sends="its loss, gradient and a part of its Hessian")
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array, float, TopK | LowRank]:
        difference, S_i = correct(client, self._hessian(client, w), self.compressor, whole=self.initial == "hessian")
        return self.loss.value(client, w), self.loss.gradient(client, w), self._norm(difference), S_i

    def _hessian(self, client: Client, w: Array) -> Entries:
        hessian = self.loss.data_hessian(client, w)
        return hessian if self.compressor.keeps_support else hessian.widened()

    def _norm(self, difference: Entries) -> float:
        if self.option == 1:
            return 0.0
        if self.shift == "frobenius":
            return difference.frobenius()
        # The eigenvalues of H + l I are at least μ, so an error of a twentieth of it in l does no harm.
        return difference.spectral(slack=0.05 * self.loss.strong_convexity())

    # ── server ──

    def start(self, fed: Federation) -> State:
        w = fed.start_point(self.loss)
        if self.initial == "zero":
            order = w.shape[0] if self.loss.separable else w.size
            return self._visit(fed, Symmetric.from_packed(order, np.zeros(order * (order + 1) // 2)), w)
        f, g, hessian = fed.mean(self.begin, w=w)
        H = hessian.map(lambda array: fed.cohort.share * array)
        return State(w, f, g, fed.cohort.clients, 0.0, H, H)

    def round(self, fed: Federation, state: State) -> State:
        state = asked_again(fed, state, partial(self._visit, fed, state.learned))
        visit, step = partial(self._visit, fed, state.learned), self._step(state)
        if self.search is None:
            return visit(step.end())
        # Nothing is learned at a rejected point, which may be anywhere: the clients forget it.
        return descend(fed, Attempt.at(state, step, self.search), visit, forget=True) or visit(step.end(0.0))

    def _visit(self, fed: Federation, H: Symmetric, w: Array) -> State:
        f, g, l, S = fed.mean(self.evaluate, w=w)  # ↓ x ↑ f_i, ∇f_i, l_i, S_i
        learned = H.packed() + fed.cohort.share * self.compressor.triangle_of(S)
        return State(w, f, g, fed.cohort.clients, l, H, Symmetric.from_packed(H.n, learned))

    def _step(self, state: State) -> Step:
        H = state.hessian.plus_diagonal(self.loss.penalty_diagonal(state.hessian.n) + state.shift)
        inverse = floored(H, self.loss.l2) if self.option == 1 else factor(H)
        return Step.along(state.w, inverse.solve(state.gradient), state.gradient)

    def measured(self, state: State) -> Measurement:
        return Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        # H before and with the corrections, as triangles; for a step H in full, and its factor.
        sent = sizes.weights + (sizes.triangle if self.initial == "hessian" else 0)
        return Footprint(working=sizes.triangle, server=3 * sizes.matrix, sent=sent)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
