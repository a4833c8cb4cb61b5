"""Zeros of a vector field that is nearly a gradient, and fields that agree with what was measured.

A field is called with many points at once: rows of an array in, rows out. All of this is in units in which steps of
size 1 are natural in every coordinate; the caller scales.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedsolve.numerics.linalg import norm
from fedsolve.typing import Array

Field = Callable[[Array], Array]  # (points, p) ↦ (points, p)

DIFFERENCE = 1e-4  # of a unit: central differences are then right to about eight digits
LEAST_CURVATURE = 1e-8  # of the largest: a Jacobian with less is not trusted
SMALL = 1e-15  # of the field where it began: as near to zero as rounding allows
SHORTEST = 2.0**-20


def zero(field: Field, start: Array, reach: float, most: int = 60) -> Array:
    """A zero of the field near `start`, or as near to one as Newton's steps lead: at most `reach` from the start in any
    coordinate. The Jacobian is found by central differences, so nothing but the field is needed."""
    x, value = start, field(start[None])[0]
    small = SMALL * norm(value)
    for _ in range(most):
        if not norm(value) > small:  # or it is not a number
            return x
        step = _direction(field, x, value)
        step = step * _room(x - start, step, reach)
        found = _shortened(field, x, step, norm(value))
        if found is None:  # no zero this way; where it began, one step of size 1 shows more than none
            return x if x is not start else start - step / max(1.0, float(np.abs(step).max()))
        x, value = found
    return x


def _shortened(field: Field, x: Array, step: Array, size: float) -> tuple[Array, Array] | None:
    """The first of x − step, x − step/2, … where the field is below `size`, and the field there; None if none is."""
    length = 1.0
    while length >= SHORTEST:
        trial = x - length * step
        found = field(trial[None])[0]
        if norm(found) < (1 - 1e-4 * length) * size:
            return trial, found
        length /= 2
    return None


def _direction(field: Field, x: Array, value: Array) -> Array:
    """Newton's direction, or along the field itself where its differences say nothing."""
    jacobian = _jacobian(field, x)
    step = newton_direction(jacobian, value) if np.isfinite(jacobian).all() else 0.0 * value
    return step if step.any() else value / float(np.abs(value).max())


def newton_direction(jacobian: Array, value: Array) -> Array:
    """J⁻¹ value; where the symmetric part of J is not positive definite, as a convex function's Hessian is, by that
    part with its eigenvalues made positive, and not at all in directions without curvature.

    What is little curvature is judged with the diagonal scaled to 1: beside a coordinate that a penalty holds tightly,
    others would seem to have none.
    """
    diagonal = np.abs(np.diag(jacobian))
    units = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    scaled = units[:, None] * jacobian * units
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    largest = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    if values[0] > LEAST_CURVATURE * largest:
        return units * np.linalg.solve(scaled, units * value)
    curved = np.abs(values) > LEAST_CURVATURE * largest
    return units * (vectors[:, curved] @ ((vectors[:, curved].T @ (units * value)) / np.abs(values[curved])))


def _jacobian(field: Field, x: Array) -> Array:
    p = x.shape[0]
    shifts = DIFFERENCE * np.eye(p)
    found = field(np.concatenate([x + shifts, x - shifts]))
    return (found[:p] - found[p:]).T / (2 * DIFFERENCE)


def _room(gone: Array, step: Array, reach: float) -> float:
    """How much of −step stays within `reach` of where x − gone was, at most 1."""
    ends = np.abs(gone - step).max()
    if ends <= reach:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(step > 0, (reach + gone) / step, np.where(step < 0, (gone - reach) / step, np.inf))
    return float(max(0.0, min(1.0, limits.min())))


def secant_correction(points: Array, differences: Array, cutoff: float = 1e-7) -> tuple[Array, Array]:
    """(e, M) so that e + M (x − x_T) is the difference at every one of the points, the last of them x_T, and M is the
    smallest such matrix. Points nearly on a line with others decide nothing beyond it."""
    last, p = differences[-1], points.shape[1]
    if len(points) == 1:
        return last, np.zeros((p, p))
    steps, changes = points[:-1] - points[-1], differences[:-1] - last
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    used = lengths[:, 0] > 0
    steps, changes = steps[used] / lengths[used], changes[used] / lengths[used]
    return last, changes.T @ np.linalg.pinv(steps, rcond=cutoff).T
