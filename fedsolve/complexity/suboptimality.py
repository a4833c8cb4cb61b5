"""How far a run is above the minimum after each round, (F − F*) / (F(0) − F*), for whatever it is compared with.

F is the objective of all clients, whoever took part in a round, and of the server's samples where the algorithm learns
from them. F* is found beforehand by Newton's method at the same clients. Neither is counted: both set up or measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from fedsolve.algorithms.base import Algorithm, includes_server
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.loop.history import Row
from fedsolve.loop.measure_protocols import Measure
from fedsolve.loop.states import weights_of
from fedsolve.loop.stopping import Verdict
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import factor
from fedsolve.numerics.scalars import positive
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array, Value
from fedsolve.wire.messages import Purpose

MOST_WEIGHTS = 5000  # whose Hessian is formed
STEPS = 100  # of Newton's method, which takes about ten
ROUNDING = 2.220446049250313e-16

Derivatives = Callable[[Array], tuple[float, Array, Symmetric]]


@dataclass(frozen=True)
class Curved:
    """The protocol that asks for what a Newton step needs."""

    loss: LinearLoss

    purpose: ClassVar[Purpose] = "setup"

    @client_step(sends="its loss, gradient and Hessian")
    def derivatives(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        """f_j, ∇f_j and ∇²f_j at w."""
        self.loss.check_weights(client, w=w)
        return self.loss.value(client, w), self.loss.gradient(client, w), self.loss.hessian(client, w)


@dataclass(frozen=True)
class Minimum:
    """F(0), with all weights 0, and F*."""

    first: float
    least: float

    def share(self, value: float) -> float:
        """(F − F*) / (F(0) − F*), where rounding below the minimum counts as the minimum, and NaN as infinity."""
        if math.isnan(value):
            return math.inf
        return max(value - self.least, 0.0) / (self.first - self.least)


def minimum(derivatives: Derivatives, w: Array) -> Minimum:
    """F at w, and its minimum to the accuracy of float64, by Newton's method with a line search.

    Raises ConfigError if w is a minimum already, or if none is found.
    """
    f, g, hessian = derivatives(w)
    first = f
    for _ in range(STEPS):
        step = factor(hessian).solve(g)
        decrement = float((g * step).sum())
        if not math.isfinite(decrement):
            raise ConfigError(
                "Newton's method found no minimum to compare with; standardise the columns ([preprocess])"
            )
        if decrement <= ROUNDING * abs(f):
            break
        length, found = 1.0, derivatives(w - step)
        while not found[0] <= f - 1e-4 * length * decrement:
            if decrement * length <= 8 * ROUNDING * abs(f):  # no step lowers the value: rounding has the last word
                return _checked(first, f)
            length /= 2
            found = derivatives(w - length * step)
        w = w - length * step
        f, g, hessian = found
    else:
        raise ConfigError(f"{STEPS} Newton steps found no minimum to compare with; give the loss an l2")
    return _checked(first, f)


def _checked(first: float, least: float) -> Minimum:
    if not first - least > 8 * ROUNDING * abs(first):
        raise ConfigError("weights of 0 minimise this objective: there is no way to it that could be compared")
    return Minimum(first, least)


@dataclass(frozen=True)
class Suboptimality:
    """A stopping rule that notes how far each round is above the minimum.

    Args:
        loss: The objective; all algorithms that are compared have the same.
        asks: Whether to ask all clients for F after each round, because what the run measures is of some clients, or
            not of every round. One exchange more, counted as measuring. Otherwise it takes what the run measures.
        enough: End the run at this share. None, the default, never does.
        known: The minima that were found already, by whether the server's samples count; filled by the first run.
        shares: What the run has reached, by round; rounds without a value of all clients are not there. A rule serves
            one run.
    """

    loss: LinearLoss
    asks: bool = False
    enough: float | None = None
    known: dict[bool, Minimum] = field(default_factory=dict, compare=False, repr=False)
    shares: dict[int, float] = field(default_factory=dict, compare=False, repr=False)
    curved: Curved = field(init=False)
    measure: Measure = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, LinearLoss) or self.loss.l1:
            raise ConfigError(f"the minimum is known of losses of linear models without l1, got {self.loss!r}")
        if self.enough is not None:
            positive("enough", self.enough)
        object.__setattr__(self, "curved", Curved(self.loss))
        object.__setattr__(self, "measure", Measure(self.loss))

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Noting:
        """Find the minimum, unless an earlier run has. Raises ConfigError for an algorithm without weights."""
        own, w = includes_server(algorithm), weights_of(state)
        if w is None:
            raise ConfigError(f"{type(algorithm).__name__} has no weights of a linear model that could be compared")
        order = self.loss.order(fed.features, fed.outputs)
        if order > MOST_WEIGHTS:
            raise ConfigError(
                f"the minimum is found by Newton's method, whose Hessian would have {order:,} columns; at most "
                f"{MOST_WEIGHTS:,} are formed, so compare on fewer features"
            )
        if own not in self.known:
            self.known[own] = minimum(partial(self._derivatives, fed, own), np.zeros(np.shape(w)))
        return Noting(self, fed, own)

    def _derivatives(self, fed: Federation, own: bool, w: Array) -> tuple[float, Array, Symmetric]:
        call = Mean(self.curved.derivatives, w=w)
        return fed.exchange(call.with_server() if own else call)[0]


class Noting:
    """Notes what one run has reached."""

    def __init__(self, rule: Suboptimality, fed: Federation, own: bool) -> None:
        self._rule, self._fed, self._own = rule, fed, own

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Note how far this row is, and end the run if it is near enough."""
        value = row.value if row.measured_share >= 1 - 1e-12 else None
        if row.round not in self._rule.shares and value is None and self._rule.asks:
            value = self._asked(weights_of(state))
        if value is None:
            return None
        share = self._rule.known[self._own].share(value)
        self._rule.shares.setdefault(row.round, share)
        enough = self._rule.enough
        if enough is None or share > enough:
            return None
        return Verdict("near enough", f"the objective is within {enough:g} of its minimum, relative to where it began")

    def _asked(self, w: Array) -> float | None:
        call = Mean(self._rule.measure.value_alone, w=w)
        found = self._fed.measure(call.with_server() if self._own else call)
        return None if found is None or found[1] < 1 - 1e-12 else float(found[0][0])
