"""The Poisson loss: ℓ = e^η − yη, for counts; a client's offset is the logarithm of its exposures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array, Namespace

# Beyond this predictor (a mean of 10^130) the exponential is cut off, so that a step that is far too long has a huge
# but finite value and is refused like any other. No solution is there.
_CEILING = 300.0


@dataclass(frozen=True)
class Poisson(LinearLoss):
    r"""Poisson regression with logarithmic link, $\frac1n\sum_i e^{\eta_i}-y_i\eta_i+\frac{\lambda}{2}\|w\|^2$.

    Its curvature has no bound, so neither has its smoothness: gradient methods must be given a step size.
    """

    curvature_bound: ClassVar[float] = float("inf")
    error_name: ClassVar[str] = "mean deviance"
    link: ClassVar[str] = "exponential"
    ceiling: ClassVar[float] = _CEILING

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return _mean(xp, eta) - y * eta

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return _mean(xp, eta) - y

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return _mean(xp, eta)

    def responses(self, xp: Namespace, eta: Array) -> Array:
        """The mean count."""
        return _mean(xp, eta)

    def error(self, xp: Namespace, eta: Array, y: Array) -> Array:
        """The deviance, 2 (μ − y − y log(μ/y)): twice the distance of ℓ from what it is at μ = y."""
        saturated = y - y * xp.log(xp.where(y > 0, y, xp.ones_like(y)))
        return 2.0 * (self.pointwise(xp, eta, y) - saturated)

    def hinders(self, xp: Namespace, change: Array, y: Array) -> Array:
        # Only the mean of a count of zero may fall for ever.
        return xp.where((change <= 0) & (y == 0), xp.zeros_like(change), change)

    def check(self, client: Client) -> None:
        y = to_numpy(client.y)
        if y.ndim != 1:
            raise DataError(f"client {client.name!r}: the Poisson loss has one target, y has shape {y.shape}")
        if y.min() < 0:
            raise DataError(f"client {client.name!r}: counts are not negative, got {y.min():g}")

    def minimise(self, client: Client, anchor: Array | None = None, pull: float = 0.0) -> Array:
        if not pull and (self.intercept == "free" or self.l2 == 0) and to_numpy(client.y).max() == 0:
            raise DataError(
                f"client {client.name!r} has only zero counts, so its own fit has no finite minimiser; "
                "penalise the intercept too, or use an algorithm that needs no local fits (Newton)"
            )
        return super().minimise(client, anchor, pull)

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, self.link, features=self.features)


def _mean(xp: Namespace, eta: Array) -> Array:
    return xp.exp(xp.clip(eta, None, _CEILING))
