"""The logistic loss: ℓ = log(1 + e^η) − yη, for labels 0 and 1 or soft labels between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class Logistic(LinearLoss):
    r"""Logistic regression, $\frac1n\sum_i \log(1+e^{x_i^\top w})-y_ix_i^\top w+\frac{\lambda}{2}\|w\|^2$."""

    curvature_bound: ClassVar[float] = 0.25
    classifies: ClassVar[bool] = True
    error_name: ClassVar[str] = "log-loss"
    link: ClassVar[str] = "logistic"

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        # log(1 + e^η) without overflow: max(η, 0) + log(1 + e^−|η|).
        return 0.5 * (eta + xp.abs(eta)) + xp.log1p(xp.exp(-xp.abs(eta))) - y * eta

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return _sigmoid(xp, eta) - y

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        p = _sigmoid(xp, eta)
        return p * (1.0 - p)

    def responses(self, xp: Namespace, eta: Array) -> Array:
        """The probability of the class 1."""
        return _sigmoid(xp, eta)

    def hits(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return xp.where((eta > 0) == (y > 0.5), xp.ones_like(eta), xp.zeros_like(eta))

    def hinders(self, xp: Namespace, change: Array, y: Array) -> Array:
        # Up is free for y = 1 only, down for y = 0 only; a soft label lets η go neither way.
        free = ((change >= 0) & (y == 1)) | ((change <= 0) & (y == 0))
        return xp.where(free, xp.zeros_like(change), change)

    def check(self, client: Client) -> None:
        y = to_numpy(client.y)
        if y.ndim != 1:
            raise DataError(f"client {client.name!r}: the logistic loss has one target, y has shape {y.shape}")
        if y.min() < 0 or y.max() > 1:
            raise DataError(
                f"client {client.name!r}: labels of the logistic loss are 0, 1 or between, "
                f"got {y.min():g} … {y.max():g}; for −1 and 1 use (y + 1) / 2, for several classes Softmax(classes=…)"
            )

    def minimise(self, client: Client, anchor: Array | None = None, pull: float = 0.0) -> Array:
        y = to_numpy(client.y)
        if not pull and (self.intercept == "free" or self.l2 == 0) and (y.max() == 0 or y.min() == 1):
            raise DataError(
                f"client {client.name!r} has only one class, so its own fit has no finite minimiser; "
                "penalise the intercept too, or use an algorithm that needs no local fits (Newton)"
            )
        return super().minimise(client, anchor, pull)

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, self.link, features=self.features)


def _sigmoid(xp: Namespace, eta: Array) -> Array:
    # ½(1 + tanh(η/2)): never overflows, and one call.
    return 0.5 + 0.5 * xp.tanh(0.5 * eta)
