"""The Newton step of a point whose Hessian is known. With an l1 penalty it is a proximal Newton step, taken at the
server (Lee, Sun and Saunders 2014): the clients send what they always send.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.descent.line_search import Step
from fedsolve.descent.steps import Point
from fedsolve.losses import LinearLoss
from fedsolve.numerics import proximal
from fedsolve.numerics.linalg import factor
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.typing import Array


@dataclass(frozen=True)
class CurvedPoint(Point):
    """A point with its Hessian."""

    hessian: Symmetric


def newton_step(loss: LinearLoss, point: CurvedPoint) -> Step:
    """−H⁻¹g, or with an l1 penalty the step to the minimum of the quadratic model and the penalty."""
    if loss.l1:
        H, c = point.hessian.full(), loss.l1_weights(point.w.shape)
        return Step(point.w, *proximal.newton_step(H, point.gradient, point.w, c))
    return Step.along(point.w, factor(point.hessian).solve(point.gradient), point.gradient)


def subgradient(loss: LinearLoss, point: Point) -> Array:
    """The gradient, or with an l1 penalty the subgradient of least norm."""
    if not loss.l1:
        return point.gradient
    return proximal.subgradient(point.gradient, point.w, loss.l1_weights(point.w.shape))


def steepness(loss: LinearLoss, point: CurvedPoint) -> float:
    """The squared norm of the (sub)gradient with each entry divided by the root of its curvature: free of units."""
    curvature = np.diagonal(point.hessian.full())
    slope = subgradient(loss, point).reshape(len(curvature), -1)
    return float((slope**2 / np.where(curvature > 0, curvature, 1.0)[:, None]).sum())
