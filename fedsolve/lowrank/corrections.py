"""Exact gradients correct an approximate one: which points to believe, how far to go, when to learn new weights.

Each point that the clients were asked about gives the exact gradient there. The approximation is shifted and tilted
until it agrees with all of them, which costs p numbers from each client instead of the r p of new weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedsolve.descent.line_search import rounding
from fedsolve.lowrank.surrogate import Surrogate
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.vector_fields import Field, secant_correction
from fedsolve.typing import Array

REACH = 20.0  # how many boxes a first step may leave the centre by: predictions then move by about five units
SLOW = 1.0  # of the gradient before: a correction that leaves more of it calls for new weights
SHRINK = 0.25  # what is left of the reach after a step that led up
REFUSALS = 2  # so many steps in a row that led up call for new weights too
NOWHERE = 1e-9  # boxes: a step so short that is still not finite is no question of its length
SMALLEST = 1e-3  # of the first box: in a smaller one rounding would show in the differences
NOT_FINITE = "values or gradients are not finite, however short the step"
NO_BETTER = "neither value nor gradient gets better any more, not even with new weights"


@dataclass(frozen=True)
class Point:
    """What is known at w: value and gradient are None where the clients were not asked for them."""

    w: Array
    value: float | None = None
    gradient: Array | None = None
    cohort: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corrected(Point):
    """The current point, the approximation of the gradient, and the exact gradients it is corrected by.

    surrogate  None: weights are to be learned at w
    widths     half the sides of the first box
    box        the side of the next box, in units of the first
    reach      how far the next step may go in any coordinate, in units of the first box
    places, gradients   (t, p): points and the exact gradients there, the current one last
    refused    how many steps in a row led up
    corrected  how many exact gradients were used so far
    step       the size of gradient steps, where these are taken
    """

    surrogate: Surrogate | None = None
    widths: Array | None = None
    box: float = 1.0
    reach: float = REACH
    places: Array | None = None
    gradients: Array | None = None
    refused: int = 0
    corrected: int = 0
    step: float = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether the approximation was learned here."""
        return self.surrogate is not None and bool(np.array_equal(self.surrogate.centre, self.w.reshape(-1)))

    def size(self, point: Point) -> float:
        """The norm of a point's gradient in the box's units."""
        assert point.gradient is not None
        assert self.widths is not None
        return norm(self.widths * point.gradient.reshape(-1))


C = TypeVar("C", bound=Corrected)


def corrected_field(approximate: Field, state: Corrected) -> Field:
    """The approximate gradient, made equal to the exact ones where these are known; the change is the smallest in units
    of the box."""
    if state.places is None or state.gradients is None:
        return approximate
    widths, last = state.widths, state.places[-1]
    assert widths is not None
    missing = widths * (state.gradients - approximate(state.places))
    shift, tilt = secant_correction(state.places / widths, missing)
    return lambda points: approximate(points) + (shift + ((points - last) / widths) @ tilt.T) / widths


def asked_again(state: C, point: Point) -> C:
    """The state when other clients are there than those behind its gradients: only the new gradient counts."""
    return replace(
        state,
        value=point.value,
        gradient=point.gradient,
        cohort=point.cohort,
        places=None if point.gradient is None else point.w.reshape(1, -1),
        gradients=None if point.gradient is None else point.gradient.reshape(1, -1),
        refused=0,
    )


def advanced(state: C, trial: Point) -> tuple[C, str | None]:
    """The state after a trial was visited by the same clients, and why there is nothing left to gain, if so."""
    assert trial.value is not None
    assert trial.gradient is not None
    assert state.widths is not None
    step = (trial.w - state.w).reshape(-1)
    moved = float(np.abs(step / state.widths).max())
    if not (np.isfinite(trial.value) and np.isfinite(trial.gradient).all()):  # too far: nothing is known there
        return replace(state, reach=SHRINK * moved), NOT_FINITE if moved < NOWHERE else None
    if not _fell(state, trial):
        unclear = state.gradient is not None and _within_rounding(state, trial)
        known = _refused(state, trial, moved, unclear)
        if unclear and state.is_fresh:  # in a small box rounding may have misled: once more in a large one
            return replace(known, box=1.0), NO_BETTER if state.box >= 1.0 else None
        return known, None
    at_the_edge = moved >= 0.99 * state.reach
    slow = state.gradient is not None and state.size(trial) > SLOW * state.size(state)
    known = replace(
        _remembering(state, trial, state.places is not None),
        w=trial.w,
        value=trial.value,
        gradient=trial.gradient,
        refused=0,
        corrected=state.corrected + 1,
        reach=2 * state.reach if at_the_edge else state.reach,
    )
    return (_renewed(known, moved) if slow else known), None


def _fell(state: Corrected, trial: Point) -> bool:
    """Whether the trial is better: by its value or, where values are equal to rounding, by its gradient."""
    assert trial.value is not None
    if state.value is None:
        return True
    unclear = rounding(state.value, trial.value)
    if state.gradient is None or abs(trial.value - state.value) > unclear:
        return trial.value < state.value + (unclear if state.gradient is None else 0.0)
    return state.size(trial) < state.size(state)


def _refused(state: C, trial: Point, moved: float, unclear: bool) -> C:
    """Stay, with the trial's gradient among the known ones, and go less far; or learn new weights here, at once where
    all that the step promised was within rounding of the value."""
    known = replace(_remembering(state, trial, False), reach=SHRINK * moved, refused=state.refused + 1)
    if known.refused < REFUSALS and not unclear:
        return known
    return _renewed(replace(known, refused=0, reach=state.reach if unclear else known.reach), SHRINK * moved)


def _within_rounding(state: Corrected, trial: Point) -> bool:
    """Whether the values of two points could not show what the gradient promises between them."""
    assert state.value is not None
    assert trial.value is not None
    assert state.gradient is not None
    promised = abs(float(((trial.w - state.w) * state.gradient).sum()))
    return promised <= rounding(state.value, trial.value)


def _renewed(state: C, moved: float) -> C:
    """Let new weights be learned in a smaller box around w. What gradients say of the old ones is of no use then."""
    box = min(state.box, max(moved, SMALLEST))
    here = None if state.gradient is None else state.gradient.reshape(1, -1)
    place = None if here is None else state.w.reshape(1, -1)
    return replace(state, surrogate=None, box=box, places=place, gradients=here)


def _remembering(state: C, trial: Point, is_last: bool) -> C:
    """With the trial's gradient; at most p + 1 are kept, the current point's last."""
    assert trial.gradient is not None
    place, gradient = trial.w.reshape(1, -1), trial.gradient.reshape(1, -1)
    if state.places is None or state.gradients is None:
        return replace(state, places=place, gradients=gradient)
    order = slice(-(place.shape[1] + 1), None)
    if is_last or state.gradient is None:
        places, gradients = [state.places, place], [state.gradients, gradient]
    else:
        places = [state.places[:-1], place, state.places[-1:]]
        gradients = [state.gradients[:-1], gradient, state.gradients[-1:]]
    return replace(state, places=np.concatenate(places)[order], gradients=np.concatenate(gradients)[order])
