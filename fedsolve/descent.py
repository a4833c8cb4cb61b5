"""Line searches over a federation, as protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_shape
from fedsolve.wire.encoding import PREAMBLE_SIZE

_EPS = float(np.finfo(np.float64).eps)


def rounding(*values: float) -> float:
    """Differences between values of an objective that are below this say nothing."""
    return 16 * _EPS * max(map(abs, values))


@dataclass(frozen=True)
class Armijo:
    """Backtracking (SHED, Algorithm 2 and equation 18), all steps of the grid η = β^k in one exchange.

    A search without a loss takes that of the algorithm it is a part of.
    """

    alpha: float = 1e-4
    beta: float = 0.5
    halvings: int = 30
    loss: LinearLoss | None = None

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 1 and self.halvings >= 1):
            raise ConfigError(f"Armijo needs 0 < alpha < 1/2, 0 < beta < 1, halvings ≥ 1; got {self}")

    def of(self, loss: LinearLoss) -> Armijo:
        """This search on a loss, if it has none of its own."""
        return self if self.loss is not None else replace(self, loss=loss)

    # ── clients ──

    @client_step
    def losses_along(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        assert self.loss is not None
        self.check_steps(steps)
        return self.loss.along(client, w, p, steps)

    @client_step
    def slopes(self, client: Client, w: Array, p: Array, steps: Array) -> Array:
        assert self.loss is not None
        self.check_steps(steps)
        return self.loss.slopes_along(client, w, p, steps)

    def check_steps(self, steps: Array) -> None:
        """Raise WrongType for more steps than this search tries: each costs a pass over the samples."""
        require_shape("steps", steps, range(self.halvings + 3))

    # ── server ──

    def accepts(self, before: float, after: float, decrease: float, gradient_fell: bool) -> bool:
        """Whether the unit step lowers the value enough.

        Where the decrease to be seen is smaller than the rounding of the values, they cannot say; then the
        gradient decides.
        """
        if after <= before - self.alpha * decrease:
            return True
        noise = rounding(before, after)
        return gradient_fell and decrease <= noise and after <= before + noise

    def grid(self) -> Array:
        """The steps that are tried: 0 first, so that what is compared was said by the same clients; then 1, β, β², …"""
        return np.array([0.0, *(self.beta**k for k in range(self.halvings + 1))])

    def reply_room(self) -> int:
        """Bytes that suffice for a client's answer to a search: its values, 40 bytes around them, the message's
        preamble, and an envelope with one count."""
        return 8 * (self.halvings + 2) + 40 + PREAMBLE_SIZE + 64

    def step(
        self, fed: Federation, w: Array, p: Array, decrease: float, first: int = 0, extra: Array | None = None
    ) -> float:
        """The first η = β^k, k ≥ `first`, that Armijo's test accepts; 0 if none does.

        `extra` is what the server adds to the values of the grid (an l1 penalty).
        """
        values = fed.mean(self.losses_along, w=w, p=p, steps=self.grid())
        if extra is not None:
            values = values + extra
        return self.choose(values, decrease, first)

    def choose(self, values: Array, decrease: float, first: int = 0) -> float:
        """The same from the values of the grid."""
        for eta, value in zip(self.grid()[1 + first :], values[1 + first :], strict=True):
            if value <= values[0] - self.alpha * eta * decrease:
                return float(eta)
        return 0.0

    def sees(self, value: float, decrease: float) -> bool:
        """Whether a decrease, or the small part of it that a long step leaves, stands out from the values' rounding."""
        return decrease > 1e4 * _EPS * abs(value)

    def step_by_slopes(self, fed: Federation, w: Array, p: Array) -> float:
        """`step` where values cannot say: the first η = β^k with φ′(η) ≤ (1 − 2α) |φ′(0)|, φ(η) = f(w − ηp); 0 if none.

        For a quadratic, which f is this near to its optimum, that is Armijo's test without a difference of values
        (Hager and Zhang 2005, the approximate Wolfe conditions). As there, the value may not rise above its rounding:
        far out, where f is no quadratic, a slope alone says nothing.
        """
        steps = self.grid()
        slopes, values = fed.exchange(
            Mean(self.slopes, w=w, p=p, steps=steps), Mean(self.losses_along, w=w, p=p, steps=steps)
        )
        if slopes[0] >= 0:  # those here would go up
            return 0.0
        level = values <= values[0] + rounding(values[0])
        passing = (slopes[1:] <= (1 - 2 * self.alpha) * -slopes[0]) & level[1:]
        return float(steps[1:][passing][0]) if passing.any() else 0.0
