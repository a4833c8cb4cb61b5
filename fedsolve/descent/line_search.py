"""Line searches over a federation, as protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.numerics import proximal
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape
from fedsolve.wire.encoding import PREAMBLE_SIZE

_EPS = float(np.finfo(np.float64).eps)


def rounding(*values: float) -> float:
    """The rounding error of an objective's values: a smaller difference between them means nothing."""
    return 16 * _EPS * max(map(abs, values))


@dataclass(frozen=True)
class Step:
    """A step from w to w − p.

    decrease  by how much the model behind the step (a quadratic, or the gradient alone) says that the objective falls
    """

    w: Array
    p: Array
    decrease: float

    @classmethod
    def along(cls, w: Array, p: Array, gradient: Array) -> Step:
        """The step −p, with the decrease gᵀp of first order."""
        return cls(w, p, float((gradient * p).sum()))

    def end(self, eta: float = 1.0) -> Array:
        """w − ηp."""
        return self.w - eta * self.p

    def scaled(self, factor: float) -> Step:
        """The step with `factor` times its length."""
        return Step(self.w, factor * self.p, factor * self.decrease)


@dataclass(frozen=True)
class Armijo:
    """Backtracking line search (Armijo 1966): the first η of 1, β, β², … that lowers the objective enough,

        f(w − ηp) ≤ f(w) − α η gᵀp.

    The values for all η are asked for in one exchange. With an l1 penalty the server adds it to the clients' values.

    alpha     the part of the predicted decrease that is asked for, between 0 and 1/2 (default 1e-4, nearly every
              decrease passes); more where steps tend to be far too long
    beta      the factor between one η and the next, between 0 and 1 (default 0.5)
    halvings  how many η below 1 are tried (default 30); each costs every client one pass over its samples
    loss      the objective; None (default) takes that of the algorithm it is a field of
    """

    alpha: float = 1e-4
    beta: float = 0.5
    halvings: int = 30
    loss: LinearLoss | None = None

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 1 and self.halvings >= 1):
            raise ConfigError(f"Armijo needs 0 < alpha < 1/2, 0 < beta < 1, halvings ≥ 1; got {self}")

    def of(self, loss: LinearLoss) -> Armijo:
        """This search with `loss`, unless it has one of its own."""
        return self if self.loss is not None else replace(self, loss=loss)

    # ── clients ──

    @client_step(sends="its loss at trial points")
    def losses_along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        self.check_steps(steps)
        return self._objective.along(client, w, p, steps)

    @client_step(sends="the slope of its loss at trial points")
    def slopes(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        self.check_steps(steps)
        return self._objective.slopes_along(client, w, p, steps)

    def check_steps(self, steps: Array) -> None:
        """Raise WrongType for more steps than this search tries, because each costs a pass over the samples."""
        require_shape("steps", steps, range(self.halvings + 3))

    # ── server ──

    def grid(self) -> Array:
        """The values of η that are asked for: 1, β, β², … after 0, so that all values compared are of one cohort."""
        return np.array([0.0, *(self.beta**k for k in range(self.halvings + 1))])

    def reply_bytes(self) -> int:
        """An upper bound on the bytes of a client's reply to a search: the values, 40 bytes around them, the message's
        preamble, and an envelope with one count."""
        return 8 * (self.halvings + 2) + 40 + PREAMBLE_SIZE + 64

    def total(self, value: float, w: Array) -> float:
        """The objective: the clients' smooth part, and the l1 penalty."""
        loss = self._objective
        return value + proximal.penalty(w, loss.l1_weights(w.shape)) if loss.l1 else value

    @property
    def is_smooth(self) -> bool:
        """Whether the objective has a slope everywhere."""
        return not self._objective.l1

    def accepts(self, before: float, after: float, decrease: float, gradient_fell: bool) -> bool:
        """Whether the full step lowers the objective enough.

        Where the decrease to be seen is smaller than the rounding of the values, the gradient decides.
        """
        if after <= before - self.alpha * decrease:
            return True
        noise = rounding(before, after)
        return gradient_fell and decrease <= noise and after <= before + noise

    def choose(self, values: Array, step: Step, first: int = 0) -> float:
        """The first η = β^k, k ≥ `first`, that the clients' values on the grid let pass; 0 if none does."""
        grid = self.grid()
        if self._objective.l1:
            values = [self.total(value, step.end(eta)) for eta, value in zip(grid, values, strict=True)]
        for eta, value in zip(grid[1 + first :], values[1 + first :], strict=True):
            if value <= values[0] - self.alpha * eta * step.decrease:
                return float(eta)
        return 0.0

    def values_along(self, fed: Federation, step: Step) -> Array:
        """The clients' values on the grid, as `choose` takes them."""
        return fed.mean(self.losses_along, w=step.w, p=step.p, steps=self.grid())

    def backtrack(self, fed: Federation, step: Step) -> float:
        """Ask for the values along a step and choose: the first η of 1, β, β², … that passes, 0 if none does."""
        return self.choose(self.values_along(fed, step), step)

    def backtrack_far(self, fed: Federation, step: Step, value: float) -> float:
        """`backtrack` for a direction that may be far too long, by as many grids as it takes from f(w) = `value`."""
        reach = 1.0
        # As long as the decrease, or the small part of it that a long step leaves, exceeds the rounding of the values.
        while reach * step.decrease > 1e4 * _EPS * abs(value):
            eta = self.backtrack(fed, step.scaled(reach))
            if eta > 0:
                return reach * eta
            reach *= self.grid()[-1]
        return reach * self.backtrack_by_slopes(fed, step.scaled(reach))

    def backtrack_by_slopes(self, fed: Federation, step: Step) -> float:
        """`backtrack` where values are equal to rounding: the first η with φ′(η) ≤ (1 − 2α) |φ′(0)|, φ(η) = f(w − ηp).

        For a quadratic, which f is this near to its optimum, that is Armijo's test without a difference of values
        (Hager and Zhang 2005, the approximate Wolfe conditions). As there, the value may not rise above its rounding:
        far out, where f is no quadratic, a slope alone says nothing.
        """
        steps = self.grid()
        slopes, values = fed.exchange(
            Mean(self.slopes, w=step.w, p=step.p, steps=steps), Mean(self.losses_along, w=step.w, p=step.p, steps=steps)
        )
        return self._flat_enough(slopes, values <= values[0] + rounding(values[0]))

    def backtrack_level(self, fed: Federation, step: Step) -> float:
        """`backtrack_by_slopes` along a step on which no value rises above rounding: slopes alone, in a reply of the
        same size as values."""
        slopes = fed.mean(self.slopes, w=step.w, p=step.p, steps=self.grid())
        return self._flat_enough(slopes, np.ones(len(slopes), dtype=bool))

    def _flat_enough(self, slopes: Array, level: Array) -> float:
        if slopes[0] >= 0:  # not a descent direction for those who answered
            return 0.0
        passing = (slopes[1:] <= (1 - 2 * self.alpha) * -slopes[0]) & level[1:]
        return float(self.grid()[1:][passing][0]) if passing.any() else 0.0

    @property
    def _objective(self) -> LinearLoss:
        if self.loss is None:
            raise ConfigError("this Armijo has no loss: make it a field of an algorithm, or give it one")
        return self.loss
