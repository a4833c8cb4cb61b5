"""Pipelining: at the end of the full step, also ask for what the next iteration needs of the curvature there.

An iteration is then one exchange if the full step is accepted, instead of one for gradient and curvature and one for
the search; the iterates are the same. After a rejected step the gradient at the end of the shorter one is left to the
next round, so that no client sends two gradients in one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.curvature.server_state import Curvature
from fedsolve.descent.line_search import Armijo, Step
from fedsolve.descent.steps import Attempt, Point, try_step
from fedsolve.federation.federation import Federation
from fedsolve.losses.measurement import Measurement
from fedsolve.typing import Array


@dataclass(frozen=True)
class Visit(Point):
    """A point, and the curvature with what the clients sent of it there."""

    curvature: Curvature

    @classmethod
    def none(cls, w: Array) -> Visit:
        """Before the first visit: nothing is known."""
        return cls(w, np.inf, 0.0 * w, (), Curvature())

    def is_at(self, w: Array) -> bool:
        """Whether these are the weights that were visited."""
        return np.array_equal(self.w, w)

    def measured(self, w: Array) -> Measurement | None:
        """Value and gradient at w, if that is where they were asked for."""
        return Measurement(self.value, self.gradient) if self.cohort and self.is_at(w) else None

    def after(self, eta: float) -> Visit:
        """The visit from which the part η of a step was taken."""
        return replace(self, curvature=self.curvature.after_search(eta))


def search_ahead(
    fed: Federation, search: Armijo, point: Visit, step: Step, visit: Callable[[Array], Visit]
) -> tuple[Array, Visit]:
    """Where a step leads, and the last visit: that of the step's end if it is accepted, else the point it is from.

    If no gradient will compare with the point's, because the cohort changed or no part of the step was taken, its
    cohort is empty, and the next round visits the new weights before anything else.
    """
    tried = try_step(fed, Attempt.at(point, step, search), visit)
    if tried.eta == 1:
        return tried.trial.w, tried.trial
    comparable = tried.eta > 0 and tried.trial.cohort == point.cohort
    curvature = point.curvature.after_rejection(tried.trial.curvature, tried.eta, keep_pairs=comparable)
    return step.end(tried.eta), replace(point, cohort=point.cohort if comparable else (), curvature=curvature)
