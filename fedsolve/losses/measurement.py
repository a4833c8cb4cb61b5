"""What is known of an objective at one point: value, gradient and, where it was computed, Newton's step."""

from __future__ import annotations

from dataclasses import dataclass

from fedsolve.numerics.linalg import Factor
from fedsolve.typing import Array


@dataclass(frozen=True)
class NewtonStep:
    """H⁻¹g at one model, and how well the Hessian says what it is."""

    step: Array
    decrement: float  # gᵀH⁻¹g
    singular: bool = False  # other weights fit as well
    unresolved: float = 0.0  # of g, in directions in which H is zero to rounding; see `Factor.unresolved`
    idle: Array | None = None  # that part of w of which H, to rounding, knows nothing

    @classmethod
    def by(cls, hessian: Factor, gradient: Array, w: Array) -> NewtonStep:
        """The step of a factorised Hessian at w."""
        step = hessian.solve(gradient)
        decrement, left = float((gradient * step).sum()), hessian.unresolved(gradient)
        return cls(step, decrement, not hessian.definite, left, hessian.idle(w))


@dataclass(frozen=True)
class Measurement:
    """What is known of an objective at one model.

    Attributes:
        value: f, with an l1 penalty if there is one.
        gradient: ∇f; None where there is none, such as for a boosted ensemble.
        newton: Newton's step, where it was computed.
    """

    value: float
    gradient: Array | None = None
    newton: NewtonStep | None = None
