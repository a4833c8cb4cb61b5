"""What it costs to put out something else than a teacher: squares of outputs, or differences of class probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.federation.client import Client
from fedsolve.losses.pointwise import Pointwise
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array, Namespace


@dataclass(frozen=True)
class Probabilities(Pointwise):
    """T² KL(σ(teacher/T) ‖ σ(η/T)) of each row, less what does not depend on η: the cross-entropy. Targets are rows of
    the teacher's probabilities σ(teacher/T); T² keeps gradients of one size whatever T is (Hinton et al. 2015).

    temperature  T, larger for softer probabilities. Default 1
    """

    temperature: float = 1.0

    curvature_bound: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)

    def softened(self, xp: Namespace, eta: Array) -> Array:
        """σ(η/T) of each row."""
        powers = xp.exp((eta - xp.max(eta, axis=1, keepdims=True)) / self.temperature)
        return powers / xp.sum(powers, axis=1, keepdims=True)

    def pointwise(self, xp: Namespace, eta: Array, y: Array) -> Array:
        scaled = eta / self.temperature
        top = xp.max(scaled, axis=1, keepdims=True)
        logs = xp.log(xp.sum(xp.exp(scaled - top), axis=1)) + top[:, 0]
        return self.temperature**2 * (logs - xp.sum(y * scaled, axis=1))

    def derivative(self, xp: Namespace, eta: Array, y: Array) -> Array:
        return self.temperature * (self.softened(xp, eta) - y)

    def curvature(self, xp: Namespace, eta: Array, y: Array) -> Array | None:
        raise NotImplementedError("the classes are coupled")

    def check(self, client: Client) -> None:
        """Targets are a teacher's, not the client's: there is nothing to check."""
