"""One fit's way down, at the server: what it asks next, and what it makes of the answer.

The steps are those of `Newton`, here for one of many fits that travel together. A fit is done when half its squared
Newton decrement λ² = gᵀH⁻¹g, which is how far its value is above the minimum, is below 1e-18. The error h on the
samples that were left out is then that of the minimiser up to λ ‖∇h‖ in the norm of H⁻¹: eight or nine digits, fewer
where hardly anything holds the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsolve.algorithms.newton import Newton, State
from fedsolve.descent import rounding
from fedsolve.losses import LinearLoss
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.selection.batches import triangle
from fedsolve.typing import Array

ENOUGH = 2e-18  # for the squared decrement, of 1 + |f|
MOST = 100  # evaluations: Newton needs ten, or there is no minimum


@dataclass(frozen=True)
class Point:
    """Where a fit has got to."""

    w: Array
    value: float
    slope: float
    step: Array
    decrease: float
    error: float
    accuracy: float


class Fit:
    """Damped Newton on the samples outside one fold, from w = 0."""

    def __init__(self, loss: LinearLoss, place: int, fold: int, shape: tuple[int, ...]) -> None:
        self.solver, self.place, self.fold = Newton(loss), place, fold
        self.asks: Array = np.zeros(shape)  # the point to be evaluated next
        self.here: Point | None = None
        self.searching = False  # whether it asks for values along its step instead
        self.done = False
        self.trouble: str | None = None
        self._found = False  # whether the point asked for has passed Armijo's test already
        self._evaluations = self._slow = 0

    @property
    def loss(self) -> LinearLoss:
        return self.solver.loss

    def answer_numbers(self) -> int:
        """How many numbers a client answers it with."""
        if self.searching:
            return len(self.solver.search.grid())
        entries = int(self.asks.size)
        return triangle(int(self.asks.shape[0]) if self.loss.separable else entries) + entries + 3

    def evaluated(self, value: float, gradient: Array, hessian: Symmetric, error: float, accuracy: float) -> None:
        """What is at the point it asked for."""
        trial = State(self.asks, value, gradient, hessian, ())
        total, slope = self.solver.total(trial), self.solver.steepness(trial)
        self._evaluations += 1
        if self.here is not None and not self._found and not self._accepts(self.here, total, slope):
            # Where the promised decrease is below the rounding of the values, this is as far as float64 goes.
            if self.here.decrease <= rounding(self.here.value):
                self.done = True
            else:
                self.searching = True
            return
        step, decrease = self.solver.step(trial)
        slow = self.here is not None and decrease > 0.05 * self.here.decrease
        self._slow = self._slow + 1 if slow else 0
        self.here = Point(self.asks, total, slope, step, decrease, error, accuracy)
        self._found = False
        if not math.isfinite(total + decrease):
            self._give_up("its value is not finite: give the features a smaller scale")
        elif self._endless():
            self._give_up(
                "it has no finite minimum (classes that can be separated, or one that is in this fold alone); "
                "penalise all weights, the intercept too, or use fewer folds"
            )
        elif decrease <= ENOUGH * (1.0 + abs(total)):
            self.done = True
        elif self._evaluations >= MOST:
            self._give_up(f"it has no minimum that {MOST} Newton steps would reach; penalise all weights")
        else:
            self.asks = self.asks - step

    def searched(self, values: Array) -> None:
        """The values along its step, those of the search's grid."""
        assert self.here is not None
        extra: Any = self.solver.l1_along(self.here.w, self.here.step)
        eta = self.solver.search.choose(values if extra is None else values + extra, self.here.decrease, first=1)
        self.searching = False
        if eta > 0:
            self.asks, self._found = self.here.w - eta * self.here.step, True
        elif self.here.decrease <= 1e-10 * (1.0 + abs(self.here.value)):
            self.done = True  # no step lowers the value any more: rounding has the last word
        else:
            self._give_up(
                "no step lowers its value, though the gradient is not zero: give the features a smaller scale"
            )

    def _accepts(self, here: Point, total: float, slope: float) -> bool:
        return self.solver.search.accepts(here.value, total, here.decrease, slope <= here.slope)

    def _endless(self) -> bool:
        """Whether the weights grow without end: each step promises a fixed share of what the one before promised, down
        to next to nothing, where near a minimum it would be about the square."""
        here = self.here
        assert here is not None
        if self.loss.strong_convexity() > 0 or self.loss.l1 > 0 or here.decrease > 1e-12 * (1.0 + abs(here.value)):
            return False
        return self._slow >= 8

    def _give_up(self, why: str) -> None:
        self.done, self.trouble = True, f"the fit without fold {self.fold}: {why}"
