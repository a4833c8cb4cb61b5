"""The losses that Remark 4 names beside the squared one: ReLU, an exponential and a trigonometric loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.federation.client import Client
from fedsolve.losses.linear import LinearLoss
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class _Named(LinearLoss):
    curvature_bound: ClassVar[float] = float("inf")

    def check(self, client: Client) -> None:
        """Targets are ours."""

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, self.intercept is not None, self.link, features=self.features)


@dataclass(frozen=True)
class Relu(_Named):
    """ℓ = max(0, 1 − yη) for y = ±1; where it bends, the slope of the right."""

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        rest = 1.0 - y * eta
        return 0.5 * (rest + xp.abs(rest))

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return xp.where(y * eta < 1.0, -y, xp.zeros_like(y))

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return xp.zeros_like(eta)


@dataclass(frozen=True)
class Exponential(_Named):
    """ℓ = e^−yη for y = ±1."""

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return xp.exp(-y * eta)

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return -y * xp.exp(-y * eta)

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return xp.exp(-y * eta)


@dataclass(frozen=True)
class Trigonometric(_Named):
    """ℓ = 1 − cos(η − y), convex where |η − y| < π/2."""

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return 1.0 - xp.cos(eta - y)

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return xp.sin(eta - y)

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        return xp.cos(eta - y)
