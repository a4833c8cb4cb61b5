"""Measuring a run: the pooled objective at the current model, and what it certifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.client import Client, client_step
from fedsolve.linalg import norm
from fedsolve.losses import LinearLoss
from fedsolve.messages import Purpose
from fedsolve.typing import Array


@dataclass(frozen=True)
class Measurement:
    """f, ∇f and, where it is known, the Newton decrement gᵀH⁻¹g at one model."""

    value: float
    gradient: Array
    decrement: float | None = None
    singular: bool = False  # the Hessian is known to be singular, so the solution is not the only one
    moving: bool = False  # Newton's step does not vanish with the gradient: there is no finite minimum here


@dataclass(frozen=True)
class Measure:
    """The protocol that asks for it."""

    loss: LinearLoss

    purpose: ClassVar[Purpose] = "measure"

    @client_step
    def value_and_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        return self.loss.value(client, w), self.loss.gradient(client, w)


@dataclass(frozen=True)
class Certificate:
    """How far the value can be from the optimum.

    kind "strong convexity": f − f* ≤ gap, a bound (‖g‖²/2μ with μ > 0 in every coordinate).
    kind "newton decrement": f − f* ≈ gap = ½gᵀH⁻¹g, exact for a quadratic and otherwise to second order near the
    optimum. It is not a bound, and says nothing where the Hessian is singular.
    """

    kind: str
    gap: float

    @property
    def is_bound(self) -> bool:
        return self.kind == "strong convexity"


def certificate(loss: LinearLoss, measurement: Measurement) -> Certificate | None:
    """What a measurement certifies; None when neither strong convexity nor a decrement is at hand."""
    mu = loss.strong_convexity()
    if mu > 0:
        return Certificate("strong convexity", norm(measurement.gradient) ** 2 / (2 * mu))
    if measurement.decrement is not None:
        return Certificate("newton decrement", 0.5 * measurement.decrement)
    return None
