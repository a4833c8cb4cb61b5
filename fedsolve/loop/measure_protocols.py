"""Measuring a run: the pooled objective at the current model, its scale, and what both certify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.federation.client import Client, client_step
from fedsolve.losses import LinearLoss, Loss
from fedsolve.losses.measurement import Measurement
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_finite, require_shape
from fedsolve.wire.messages import Purpose

# Of the root of f's scale: a slope per root of curvature that is above it is more than rounding leaves.
RESOLVED = 1e-12


@dataclass(frozen=True)
class Scale:
    """The problem's own units, learned from sums when a run begins, by which "small" has a meaning.

    columns   root mean square of each column of the design; a penalty's share is added to the square
    residual  root mean square of dℓ/dη at w = 0, one number or one for each output
    value     f(0)
    """

    columns: Array
    residual: Array
    value: float

    def relative(self, gradient: Array) -> float:
        """The gradient's norm with every column in units of its own and the residual as the unit: at most about 1 at
        w = 0, and the same whatever the units of columns, targets and sample weights."""
        columns = self.columns if gradient.ndim == 1 else self.columns[:, None]
        return norm(gradient / columns / self.residual)

    def spread(self) -> float:
        """How many times larger the largest column is than the smallest."""
        return float(self.columns.max() / self.columns.min())


@dataclass(frozen=True)
class Measure:
    """The protocol that asks how good a model is."""

    loss: Loss

    purpose: ClassVar[Purpose] = "measure"
    sends_weights: ClassVar[bool] = True  # in the numbers that the loss computes with

    @client_step(together=True, sends="its loss and gradient")
    def value_and_gradient(self, client: Client, w: Array) -> tuple[float, Array]:
        """f_j(w) and ∇f_j(w)."""
        return self.loss.value(client, w), self.loss.gradient(client, w)

    @client_step(together=True, sends="its loss")
    def value_alone(self, client: Client, w: Array) -> float:
        """f_j(w), for losses whose gradient would be too much to send."""
        return self.loss.value(client, w)


@dataclass(frozen=True)
class Inspect:
    """The protocol of what a run asks once: the problem's scale at its beginning, and at its end whether the point it
    has reached is a minimum."""

    loss: LinearLoss

    purpose: ClassVar[Purpose] = "setup"  # which a link is not charged for

    # ── clients ──

    @client_step(sends="the typical size of its columns, residuals and loss")
    def scale(self, client: Client) -> tuple[Array, Array, float]:
        """What f is measured by at this client; see `LinearLoss.scale`."""
        return self.loss.scale(client)

    @client_step(sends="a confirmation of the units")
    def agree(self, client: Client, units: Array) -> float:
        """Remember the units in which local systems without a unique solution are solved."""
        require_shape("units", units, self.loss.design(client).shape[1])
        if not float(client.xp.min(units)) > 0:
            raise WrongType("units should be positive")
        require_finite("units", units)
        client.session["units"] = units
        return 0.0

    @client_step(sends="its Hessian")
    def hessian(self, client: Client, w: Array) -> Symmetric:
        """∇²f_j(w)."""
        self.loss.check_weights(client, w=w)
        return self.loss.hessian(client, w)

    @client_step(sends="the diagonal of its Hessian")
    def diagonal(self, client: Client, w: Array) -> Array:
        """The diagonal of ∇²f_j(w), without the penalty's part."""
        self.loss.check_weights(client, w=w)
        return self.loss.data_diagonal(client, w)

    @client_step(sends="its Hessian times a direction")
    def product(self, client: Client, w: Array, v: Array) -> Array:
        """∇²f_j(w) v."""
        self.loss.check_weights(client, w=w, v=v)
        return self.loss.row_product(client, w, v)

    @client_step(sends="how far its predictions change along a direction")
    def prospect(self, client: Client, step: Array) -> tuple[float, float]:
        """How far predictions change along a step, and how much of that some sample is against."""
        return self.loss.prospect(client, step)

    # ── server ──

    def made_scale(self, sums: tuple[Array, Array, float]) -> Scale:
        """The scale from the clients' mean."""
        squares, residual, value = sums
        squares = squares + self.loss.row_penalties(squares.shape[0])
        columns, residual = np.sqrt(np.asarray(squares)), np.sqrt(np.asarray(residual))
        return Scale(np.where(columns > 0, columns, 1.0), np.where(residual > 0, residual, 1.0), value)


@dataclass(frozen=True)
class Certificate:
    """How far the value can be from the optimum.

    kind "strong convexity": f − f* ≤ gap, a bound (‖g‖²/2μ with μ > 0 in every coordinate).
    kind "newton decrement": f − f* ≈ gap = ½gᵀH⁻¹g, exact for a quadratic and otherwise to second order near the
    optimum. It is not a bound. Where the Hessian is singular it is given only if the gradient vanishes, to rounding,
    in the directions without curvature.
    """

    kind: str
    gap: float

    @property
    def is_bound(self) -> bool:
        """Whether `gap` is a bound, and not an estimate."""
        return self.kind == "strong convexity"


def certificate(loss: Loss, measurement: Measurement, unit: float) -> Certificate | None:
    """What a measurement certifies, with `unit` the size of f; None when nothing is known of its distance."""
    mu, newton = loss.strong_convexity(), measurement.newton
    if mu > 0 and measurement.gradient is not None:
        return Certificate("strong convexity", norm(measurement.gradient) ** 2 / (2 * mu))
    if newton is not None and newton.unresolved <= RESOLVED * abs(unit) ** 0.5:
        return Certificate("newton decrement", 0.5 * newton.decrement)
    return None
