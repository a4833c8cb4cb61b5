"""The step of Newton-type methods: try it in full, accept it, or shorten it; and ask again when the cohort changed.

Value and gradient belong to the clients that computed them. Two values compare only if the same clients are behind
both: this is where the library sees to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedsolve.descent.line_search import Armijo, Step, rounding
from fedsolve.federation.federation import Federation
from fedsolve.numerics.linalg import norm
from fedsolve.typing import Array


@dataclass(frozen=True)
class Point:
    """The objective at w, as the clients in `cohort` know it. A State can inherit from it."""

    w: Array
    value: float
    gradient: Array
    cohort: tuple[str, ...]


P = TypeVar("P", bound=Point)


def asked_again(fed: Federation, point: P, visit: Callable[[Array], P]) -> P:
    """The point, visited again if its value and gradient are those of another cohort than this round's."""
    return point if point.cohort == fed.cohort.clients else visit(point.w)


def gradient_norm(point: Point) -> float:
    """‖g‖."""
    return norm(point.gradient)


@dataclass(frozen=True)
class Attempt(Generic[P]):
    """A step about to be tried: what its end will be compared with.

    step       from where, and which way
    total      the objective there, an l1 penalty included
    slope      how steep it is there
    cohort     the clients behind these two
    search     the line search that accepts or shortens the step
    steepness  of a point; must not grow where values are equal to rounding
    """

    step: Step
    total: float
    slope: float
    cohort: tuple[str, ...]
    search: Armijo
    steepness: Callable[[P], float]

    @classmethod
    def at(cls, here: P, step: Step, search: Armijo, steepness: Callable[[P], float] = gradient_norm) -> Attempt[P]:
        """The attempt of a step from a point."""
        return cls(step, search.total(here.value, here.w), steepness(here), here.cohort, search, steepness)

    def accepts(self, trial: P) -> bool:
        """Whether to go on from the end of the full step."""
        if trial.cohort != self.cohort:  # someone left, and the two values do not compare
            return False
        after, fell = self.search.total(trial.value, trial.w), self.steepness(trial) <= self.slope
        return self.search.accepts(self.total, after, self.step.decrease, fell)

    def is_level(self, trial: P) -> bool:
        """Whether the objective is the same to rounding from one end of the step to the other, as its model says and
        its values show; it is convex, so what lies between is no higher. Slopes then still tell; but not those of an
        l1 penalty, which has none at 0."""
        if not self.search.is_smooth:
            return False
        after = self.search.total(trial.value, trial.w)
        noise = rounding(self.total, after)
        return trial.cohort == self.cohort and self.step.decrease <= noise and after <= self.total + noise

    def shortened(self, values: Array, same_cohort: bool = True) -> float:
        """After a rejected trial: the η that the clients' values along the step let pass; 0 if there is none.

        η = 1 is among them only if the trial was of another cohort, so that these clients have not rejected it.
        """
        return self.search.choose(values, self.step, first=1 if same_cohort else 0)


@dataclass(frozen=True)
class Tried(Generic[P]):
    """What became of a full step: the point at its end, whether it was accepted, and the part η of the step to take."""

    trial: P
    accepted: bool
    eta: float


def try_step(fed: Federation, attempt: Attempt[P], visit: Callable[[Array], P], forget: bool = False) -> Tried[P]:
    """Visit the end of the full step. If it is rejected, search for the part of the step that passes.

    visit   asks the clients for the point at the given weights
    forget  let the clients forget a rejected trial, for methods whose clients learn wherever they are asked
    """
    trial = visit(attempt.step.end())
    if attempt.accepts(trial):
        return Tried(trial, True, 1.0)
    if forget:
        fed.take_back()
    if attempt.is_level(trial):
        return Tried(trial, False, attempt.search.backtrack_level(fed, attempt.step))
    values = attempt.search.values_along(fed, attempt.step)
    return Tried(trial, False, attempt.shortened(values, same_cohort=trial.cohort == attempt.cohort))


def descend(fed: Federation, attempt: Attempt[P], visit: Callable[[Array], P], *, forget: bool = False) -> P | None:
    """The point where the step leads: its end if that is accepted, else the end of a shorter one; None if no part of
    the step lowers the objective. Arguments as in `try_step`."""
    tried = try_step(fed, attempt, visit, forget)
    if tried.accepted:
        return tried.trial
    return visit(attempt.step.end(tried.eta)) if tried.eta > 0 else None
