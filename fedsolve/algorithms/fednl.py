"""FedNL: Newton's method with Hessians that are learned, a compressed correction of each in every round.

Safaryan, Islamov, Qian and Richtárik 2021: Algorithm 1, and with a line search FedNL-LS (Algorithm 3).

    S_i = C(∇²f_i(x) − H_i),     H_i ← H_i + S_i,       H ← H + Σ p_i S_i
    x ← x − [H + l I]⁻¹ ∇f(x),   l = Σ p_i ‖∇²f_i(x) − H_i‖                            option 2
    x ← x − [H]_μ⁻¹ ∇f(x),       [·]_μ the nearest matrix with eigenvalues ≥ μ = l2    option 1

with H and H_i as they were before this round's corrections. As H_i → ∇²f_i(x*) it becomes Newton's method, for a part
of the numbers; where p² of them are affordable `Newton` needs fewer rounds. A round is one exchange: the corrections
at x travel with value, gradient and l at the next point. H is the sum over all clients, absent ones too: each that
answers moves its own part. The server sees only sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedsolve.arrays import LowRank, Symmetric, TopK
from fedsolve.calls import Mean
from fedsolve.client import Client, client_step
from fedsolve.compressors import Compressor, TopKPairs
from fedsolve.entries import Entries
from fedsolve.errors import ConfigError
from fedsolve.federation import Federation
from fedsolve.linalg import factor, floored, norm, to_numpy
from fedsolve.losses import LinearLoss
from fedsolve.measure import Measurement
from fedsolve.models import LinearModel
from fedsolve.searches import Armijo
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    value: float  # f(w), ∇f(w) and l by those in `cohort`
    gradient: Array
    shift: float
    hessian: Symmetric  # H, of all clients
    cohort: tuple[str, ...]


@dataclass(frozen=True)
class FedNL:
    """Newton's method on learned Hessians; `search=None` takes every step whole.

    initial   "hessian": H_i begins as ∇²f_i at the start, sent whole, once; "zero": as nothing
    shift     the norm of option 2; "frobenius" is the paper's and costs less, "spectral" needs fewer rounds
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
    def begin(self, client: Client, w: Array) -> Symmetric:
        hessian = self._hessian(client, w)
        client.memory["H"] = hessian.values.copy()
        return hessian.symmetric()

    @client_step
    def learn(self, client: Client, w: Array) -> TopK | LowRank:
        difference, H_i = self._difference(client, w)
        if H_i is None and self.initial == "hessian":  # was not there at the start: now it is its turn to begin
            client.memory["H"] = difference.values.copy()
            return self.compressor.whole(difference)
        S_i, kept = self.compressor.compress(difference, client)
        client.memory["H"] = kept if H_i is None else H_i + kept
        return S_i

    @client_step
    def evaluate(self, client: Client, w: Array) -> tuple[float, Array, float]:
        l_i = 0.0
        if self.option == 2:
            difference, _ = self._difference(client, w)
            l_i = difference.spectral() if self.shift == "spectral" else difference.frobenius()
        return self.loss.value(client, w), self.loss.gradient(client, w), l_i

    def _difference(self, client: Client, w: Array) -> tuple[Entries, Array | None]:
        """∇²f_i(w) − H_i, and H_i (None for zero)."""
        H_i = client.memory.get("H")
        H_i = None if H_i is None else to_numpy(H_i)
        return self._hessian(client, w).minus(H_i), H_i

    def _hessian(self, client: Client, w: Array) -> Entries:
        hessian = self.loss.hessian_entries(client, w)
        return hessian if self.compressor.keeps_support else hessian.widened()

    # ── server ──

    def start(self, fed: Federation) -> State:
        w = fed.start_point(self.loss)
        if self.initial == "hessian":
            H, here = fed.exchange(Mean(self.begin, w=w), Mean(self.evaluate, w=w))
            H = H.map(lambda array: fed.cohort.share * array)
            return self._state(fed, w, here, H)
        order = w.shape[0] if self.loss.separable else w.size
        H = Symmetric.from_packed(order, np.zeros(order * (order + 1) // 2))
        return self._at(fed, w, H)

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:  # f, g and l are those of others: ask who is here now
            state = self._at(fed, state.w, state.hessian)
        step = self._step(state)
        S, there = fed.exchange(Mean(self.learn, w=state.w), Mean(self.evaluate, w=state.w - step))
        S = fed.cohort.share * self.compressor.triangle_of(S)
        H = Symmetric.from_packed(state.hessian.n, state.hessian.packed() + S)
        trial = self._state(fed, state.w - step, there, H)
        if self.search is None:
            return trial
        together = trial.cohort == state.cohort  # else someone left, and the two values do not compare
        decrease = float((state.gradient * step).sum())
        fell = norm(trial.gradient) <= norm(state.gradient)
        if together and self.search.accepts(state.value, trial.value, decrease, fell):
            return trial
        eta = self.search.step(fed, state.w, step, decrease, first=1 if together else 0)
        return self._at(fed, state.w - eta * step, H)

    def _at(self, fed: Federation, w: Array, H: Symmetric) -> State:
        return self._state(fed, w, fed.mean(self.evaluate, w=w), H)

    def _state(self, fed: Federation, w: Array, said: tuple[float, Array, float], H: Symmetric) -> State:
        value, gradient, shift = said
        return State(w, value, gradient, shift, H, fed.cohort.clients)

    def _step(self, state: State) -> Array:
        H = state.hessian
        if self.option == 1:
            return floored(H, self.loss.l2).solve(state.gradient)
        return factor(H.plus_diagonal(np.full(H.n, state.shift))).solve(state.gradient)

    def measured(self, state: State) -> Measurement:
        return Measurement(state.value, state.gradient)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
