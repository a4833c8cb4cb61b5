"""One fit of a cross-validation at the server: what it asks next, and what it makes of the answer.

The steps are those of Newton's method (`fedsolve.descent`), here for one of many fits that travel together. A fit is
done when half its squared Newton decrement λ² = gᵀH⁻¹g, which is how far its value is above the minimum, is below
1e-18. The error h on the samples that were left out is then that of the minimiser up to λ ‖∇h‖ in the norm of H⁻¹:
eight or nine digits, fewer where hardly anything holds the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsolve.descent import Armijo, Attempt, rounding
from fedsolve.descent.newton_steps import CurvedPoint, newton_step, steepness
from fedsolve.losses import LinearLoss
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.selection.batches import triangle
from fedsolve.typing import Array

ENOUGH = 2e-18  # for the squared decrement, of 1 + |f|
MOST = 100  # evaluations: Newton needs ten, or there is no minimum


@dataclass(frozen=True)
class Reached:
    """The last point that a fit has accepted: the step from there, and how well it predicts what was left out."""

    attempt: Attempt[CurvedPoint]
    error: float
    accuracy: float

    @property
    def decrease(self) -> float:
        """What the step promises."""
        return self.attempt.step.decrease

    def below(self, tolerance: float) -> bool:
        """Whether that is below a tolerance, relative to 1 + |f|."""
        return self.decrease <= tolerance * (1.0 + abs(self.attempt.total))


class Fit:
    """Damped Newton on the samples outside one fold, from w = 0."""

    def __init__(self, loss: LinearLoss, place: int, fold: int, shape: tuple[int, ...]) -> None:
        self.loss, self.place, self.fold = loss, place, fold
        self.search = Armijo().of(loss)
        self.asks: Array = np.zeros(shape)  # the point to be evaluated next
        self.here: Reached | None = None
        self.searching = False  # whether it asks for values along its step instead
        self.done = False
        self.trouble: str | None = None
        self._found = False  # whether the point asked for has passed Armijo's test already
        self._evaluations = self._slow = 0

    def answer_numbers(self) -> int:
        """How many numbers a client answers it with."""
        if self.searching:
            return len(self.search.grid())
        entries = int(self.asks.size)
        return triangle(int(self.asks.shape[0]) if self.loss.separable else entries) + entries + 3

    def evaluated(self, value: float, gradient: Array, hessian: Symmetric, error: float, accuracy: float) -> None:
        """Take in what is at the point it asked for: go on from there, or search along the step to it."""
        trial = CurvedPoint(self.asks, value, gradient, (), hessian)
        self._evaluations += 1
        if self.here is None or self._found or self.here.attempt.accepts(trial):
            self._go_on(trial, error, accuracy)
        # Where the promised decrease is below the rounding of the values, this is as far as float64 goes.
        elif self.here.decrease <= rounding(self.here.attempt.total):
            self.done = True
        else:
            self.searching = True

    def _go_on(self, point: CurvedPoint, error: float, accuracy: float) -> None:
        before = self.here
        attempt = Attempt.at(point, newton_step(self.loss, point), self.search, partial(steepness, self.loss))
        self.here, self._found = Reached(attempt, error, accuracy), False
        slow = before is not None and self.here.decrease > 0.05 * before.decrease
        self._slow = self._slow + 1 if slow else 0
        if not math.isfinite(attempt.total + self.here.decrease):
            self._give_up("its value is not finite: give the features a smaller scale")
        elif self._endless(self.here):
            self._give_up(
                "it has no finite minimum (classes that can be separated, or one that is in this fold alone); "
                "penalise all weights, the intercept too, or use fewer folds"
            )
        elif self.here.below(ENOUGH):
            self.done = True
        elif self._evaluations >= MOST:
            self._give_up(f"it has no minimum that {MOST} Newton steps would reach; penalise all weights")
        else:
            self.asks = attempt.step.end()

    def searched(self, values: Array) -> None:
        """Take in the values along its step, those of the search's grid."""
        assert self.here is not None
        eta = self.here.attempt.shortened(values)
        self.searching = False
        if eta > 0:
            self.asks, self._found = self.here.attempt.step.end(eta), True
        elif self.here.below(1e-10):
            self.done = True  # only rounding is left
        else:
            self._give_up(
                "no step lowers its value, though the gradient is not zero: give the features a smaller scale"
            )

    def _endless(self, here: Reached) -> bool:
        """Whether the weights grow without end: each step promises a fixed share of what the one before promised, down
        to next to nothing, where near a minimum it would be about the square."""
        if self.loss.strong_convexity() > 0 or self.loss.l1 > 0 or not here.below(1e-12):
            return False
        return self._slow >= 8

    def _give_up(self, why: str) -> None:
        self.done, self.trouble = True, f"the fit without fold {self.fold}: {why}"
