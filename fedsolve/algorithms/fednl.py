"""FedNL: Newton's method with Hessians that are learned, a compressed correction of each in every round.

Safaryan, Islamov, Qian and Richtárik 2021: Algorithm 1, and with a line search FedNL-LS (Algorithm 3).

    S_i = C(∇²f_i(x) − H_i),     H_i ← H_i + S_i,       H ← H + Σ p_i S_i
    x ← x − [H + l I]⁻¹ ∇f(x),   l = Σ p_i ‖∇²f_i(x) − H_i‖                            option 2
    x ← x − [H]_μ⁻¹ ∇f(x),       [·]_μ the nearest matrix with eigenvalues ≥ μ = l2    option 1

with H and H_i as they were before the corrections at x. As H_i → ∇²f_i(x*) it becomes Newton's method, for a part of
the numbers; where p² of them are affordable `Newton` needs fewer rounds. A round is one exchange, and two more when the
search refuses the whole step. H is the sum over all clients, absent ones too: each that answers moves its own part of
it. The l2 penalty's part of the Hessian is known, and not learned: the server adds it.
Uses only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedsolve.curvature.compressors import Compressor, TopKPairs
from fedsolve.descent import Armijo
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.losses.measurement import Measurement
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import factor, floored, norm, to_numpy
from fedsolve.numerics.sparse_symmetric import Entries
from fedsolve.numerics.structured_arrays import LowRank, Symmetric, TopK
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape


@dataclass(frozen=True)
class State:
    w: Array
    value: float  # f(w), ∇f(w) and l by those in `cohort`
    gradient: Array
    shift: float
    hessian: Symmetric  # H before the corrections at w: the step's
    learned: Symmetric  # H with them: the next step's
    cohort: tuple[str, ...]


@dataclass(frozen=True)
class FedNL:
    """Newton's method on learned Hessians; `search=None` takes every step whole.

    initial   "hessian": H_i begins as ∇²f_i at the start, sent whole, once; "zero": as the penalty's part of it
    shift     the norm of option 2: "frobenius" is the paper's and costs less, "spectral" needs fewer rounds
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

    @client_step
    def begin(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        hessian = self._hessian(client, w)
        client.memory["H"] = hessian.values.copy()
        return self.loss.value(client, w), self.loss.gradient(client, w), hessian.symmetric()

    @client_step
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array, float, TopK | LowRank]:
        H_i = client.memory.get("H")
        difference = self._hessian(client, w)
        if H_i is not None:
            H_i = to_numpy(H_i)
            require_shape("the Hessian that this client remembers", H_i, *difference.values.shape)
            difference = difference.minus(H_i)
        l_i = self._norm(difference)
        if H_i is None and self.initial == "hessian":  # was not there at the start, and begins now
            S_i, kept = self.compressor.whole(difference), difference.values
        else:
            S_i, kept = self.compressor.compress(difference, client)
        client.memory["H"] = kept.copy() if H_i is None else H_i + kept
        return self.loss.value(client, w), self.loss.gradient(client, w), l_i, S_i

    def _hessian(self, client: Client, w: Array) -> Entries:
        hessian = self.loss.data_hessian(client, w)
        return hessian if self.compressor.keeps_support else hessian.widened()

    def _norm(self, difference: Entries) -> float:
        if self.option == 1:
            return 0.0
        if self.shift == "frobenius":
            return difference.frobenius()
        # Every eigenvalue of a Hessian is at least μ: what is little beside it need not be known better.
        return difference.spectral(slack=0.05 * self.loss.strong_convexity())

    # ── server ──

    def start(self, fed: Federation) -> State:
        w = fed.start_point(self.loss)
        if self.initial == "zero":
            order = w.shape[0] if self.loss.separable else w.size
            return self._at(fed, w, Symmetric.from_packed(order, np.zeros(order * (order + 1) // 2)))
        value, gradient, hessian = fed.mean(self.begin, w=w)
        H = hessian.map(lambda array: fed.cohort.share * array)
        return State(w, value, gradient, 0.0, H, H, fed.cohort.clients)

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:  # f, g and l are those of others: ask who is here now
            state = self._at(fed, state.w, state.learned)
        step = self._step(state)
        trial = self._at(fed, state.w - step, state.learned)
        if self.search is None:
            return trial
        together = trial.cohort == state.cohort  # else someone left, and the two values do not compare
        decrease, fell = float((state.gradient * step).sum()), norm(trial.gradient) <= norm(state.gradient)
        if together and self.search.accepts(state.value, trial.value, decrease, fell):
            return trial
        fed.take_back()  # nothing is learned at a point that is refused: it may be anywhere
        eta = self.search.step(fed, state.w, step, decrease, first=1 if together else 0)
        return self._at(fed, state.w - eta * step, state.learned)

    def _at(self, fed: Federation, w: Array, H: Symmetric) -> State:
        value, gradient, shift, S = fed.mean(self.evaluate, w=w)
        learned = H.packed() + fed.cohort.share * self.compressor.triangle_of(S)
        return State(w, value, gradient, shift, H, Symmetric.from_packed(H.n, learned), fed.cohort.clients)

    def _step(self, state: State) -> Array:
        H = state.hessian.plus_diagonal(self.loss.penalty_diagonal(state.hessian.n) + state.shift)
        inverse = floored(H, self.loss.l2) if self.option == 1 else factor(H)
        return inverse.solve(state.gradient)

    def measured(self, state: State) -> Measurement:
        return Measurement(state.value, state.gradient)

    def footprint(self, sizes: Sizes) -> Footprint:
        # H before and with the corrections, as triangles, and on the way to a step in full and with its factor.
        sent = sizes.weights + (sizes.triangle if self.initial == "hessian" else 0)
        return Footprint(working=sizes.triangle, server=3 * sizes.matrix, sent=sent)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
