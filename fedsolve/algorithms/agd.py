"""AGD: Nesterov's accelerated gradient descent on the pooled objective, a first-order baseline.

    w⁺ = y − ∇f(y)/L,     y⁺ = w⁺ + β (w⁺ − w)

Introductory Lectures on Convex Optimization
    Yurii Nesterov. Kluwer, 2004.
Adaptive Restart for Accelerated Gradient Schemes
    Brendan O'Donoghue and Emmanuel Candès. Foundations of Computational Mathematics 15, 2015.
Some Methods of Speeding Up the Convergence of Iteration Methods
    Boris Polyak. USSR Computational Mathematics and Mathematical Physics 4, 1964.

One exchange a round, a model each way. L is the mean of the clients' smoothness bounds, which bounds that of the mean.
Where the penalty makes f strongly convex, μ = l2, β = (√L − √μ)/(√L + √μ) is constant and

    f(w_t) − f* ≤ (1 − √(μ/L))^t (f(w_0) − f* + (μ/2) ‖w_0 − w*‖²)          (Nesterov, Theorem 2.2.3)

otherwise β = k/(k + 3), restarted whenever the momentum points uphill, ∇f(y)ᵀ(w⁺ − w) > 0 (O'Donoghue and Candès). It
also restarts when the cohort changes. With `heavy_ball=β` it is Polyak's method, the "AGD" of GIANT's experiments:

    p ← βp + ∇f(w),     w ← w − ηp;     the same as  w⁺ = y − η∇f(w),  y⁺ = w⁺ + β (w⁺ − w)

The server sees only sums of the clients' replies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array


@dataclass(frozen=True)
class State:
    w: Array
    y: Array  # where the next step begins; also where its gradient is taken, but for the heavy ball
    done: int  # steps since the momentum began
    cohort: tuple[str, ...]  # whose gradients it is made of


@dataclass(frozen=True)
class AGD:
    """Nesterov's method with sums of gradients.

    loss        the objective, differentiable
    step_size   None (default) is 1/L; give one for a loss without a bound on its smoothness (Poisson)
    momentum    "strong convexity" for the constant β, "restart" for the other; None (default) is the first where l2
                reaches every coordinate, else the second. Try "restart" where l2 is tiny
    heavy_ball  None (default), or β of Polyak's method, from 0 to below 1; then tune it together with step_size
    """

    loss: LinearLoss
    step_size: float | None = None
    momentum: Literal["strong convexity", "restart"] | None = None
    heavy_ball: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise ConfigError(f"step_size is positive, got {self.step_size}")
        if self.step_size is None and not np.isfinite(self.loss.curvature_bound):
            raise ConfigError("this loss has no bound on its smoothness: give AGD a step_size")
        known = ("strong convexity", "restart", None)
        if self.momentum not in known:
            raise ConfigError(f"momentum is 'strong convexity', 'restart' or None, got {self.momentum!r}")
        if self.momentum == "strong convexity" and not self.loss.strong_convexity() > 0:
            raise ConfigError("momentum by strong convexity needs l2 > 0 and no free intercept; use 'restart'")
        if self.heavy_ball is not None and (self.momentum is not None or not 0 <= self.heavy_ball < 1):
            raise ConfigError(f"heavy_ball is from 0 to below 1, and instead of momentum; got {self.heavy_ball}")

    # ── clients ──

    @client_step(sends="a bound on its curvature, and a gradient")
    def local_gradient(self, client: Client, y: Array) -> tuple[float, Array]:
        # The bound travels with every gradient, so that the two are always of the same clients.
        bound = self.loss.smoothness(client) if self.step_size is None else 0.0
        return bound, self.loss.gradient(client, y)

    # ── server ──

    def start(self, fed: Federation) -> State:
        w = fed.start_point(self.loss)
        return State(w, w, 0, ())

    def round(self, fed: Federation, state: State) -> State:
        if state.cohort != fed.cohort.clients:
            state = State(state.w, state.w, 0, fed.cohort.clients)
        y = state.y if self.heavy_ball is None else state.w
        bound, g = fed.mean(self.local_gradient, y=y)  # ↓ y ↑ ∇f_j(y)
        step = self.step_size or (1.0 / bound if bound > 0 else 0.0)  # no curvature anywhere: features of zeros
        w = state.y - step * g
        together = state.cohort == fed.cohort.clients
        uphill = self._restarts and float((g * (w - state.w)).sum()) > 0
        if not together or uphill:
            return State(w, w, 0, fed.cohort.clients)
        return State(w, w + self._beta(step, state.done) * (w - state.w), state.done + 1, state.cohort)

    @property
    def _restarts(self) -> bool:
        return self.heavy_ball is None and (self.momentum == "restart" or not self.loss.strong_convexity() > 0)

    def _beta(self, step: float, done: int) -> float:
        if self.heavy_ball is not None:
            return self.heavy_ball
        if self._restarts:
            return done / (done + 3)
        q = float(np.sqrt(min(1.0, self.loss.strong_convexity() * step)))  # √(μ/L)
        return (1 - q) / (1 + q)

    def footprint(self, sizes: Sizes) -> Footprint:
        return Footprint(sent=sizes.weights)

    def model(self, state: State) -> LinearModel:
        return self.loss.model(state.w)
