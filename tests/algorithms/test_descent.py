"""The step that Newton-type methods share: tried in full, accepted or shortened, and never across cohorts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.descent import Armijo, Attempt, Point, Step, asked_again, descend, try_step
from fedsolve.errors import ConfigError
from tests.problems import PROBLEMS

ALL = ("a", "b", "c")
SEARCH = Armijo().of(fs.Squared())


class Federation:
    """Just enough of one: f(w) = w², with a cohort that the test sets."""

    def __init__(self, f: Callable[[float], float] = lambda w: w * w) -> None:
        self.f, self.clients = f, ALL
        self.asked: list[float | str] = []

    @property
    def cohort(self) -> Federation:
        return self

    def visit(self, w: np.ndarray) -> Point:
        self.asked.append(float(w[0]))
        return Point(w, self.f(float(w[0])), 2 * w, self.clients)

    def mean(self, step: object, *, w: np.ndarray, p: np.ndarray, steps: np.ndarray) -> np.ndarray:
        self.asked.append("search")
        return np.array([self.f(float((w - eta * p)[0])) for eta in steps])

    def take_back(self) -> None:
        self.asked.append("forget")


def attempt(fed: Federation, w: float, p: float, cohort: tuple[str, ...] = ALL) -> Attempt[Point]:
    here = replace(fed.visit(np.array([w])), cohort=cohort)
    fed.asked.clear()
    return Attempt.at(here, Step.along(here.w, np.array([p]), here.gradient), SEARCH)


def test_a_full_step_that_passes_is_one_visit() -> None:
    fed = Federation()
    tried = try_step(fed, attempt(fed, 1.0, 1.0), fed.visit)
    assert tried.accepted
    assert tried.eta == 1
    assert fed.asked == [0.0]


def test_a_rejected_step_is_shortened_and_visited_again() -> None:
    fed = Federation()
    reached = descend(fed, attempt(fed, 1.0, 5.0), fed.visit)  # to −4, and back to −0.25
    assert reached is not None
    assert reached.w[0] == pytest.approx(-0.25)
    assert fed.asked == [-4.0, "search", -0.25]


def test_a_rejected_trial_can_be_forgotten_before_the_search() -> None:
    fed = Federation()
    try_step(fed, attempt(fed, 1.0, 5.0), fed.visit, forget=True)
    assert fed.asked == [-4.0, "forget", "search"]
    fed.asked.clear()
    try_step(fed, attempt(fed, 1.0, 1.0), fed.visit, forget=True)  # accepted: nothing to forget
    assert fed.asked == [0.0]


@pytest.mark.parametrize("f", [lambda w: 1.0 if w == 1.0 else 2.0, lambda w: 1.0 if w == 1.0 else np.nan])
def test_no_step_at_all_is_none(f: Callable[[float], float]) -> None:
    fed = Federation(f)
    assert descend(fed, attempt(fed, 1.0, 1.0), fed.visit) is None
    assert fed.asked == [0.0, "search"]


def test_values_of_different_clients_are_never_compared() -> None:
    """The trial looks lower only because another cohort computed it. The search, all of whose values are of one
    cohort, may still take the full step."""
    fed = Federation()
    tried = try_step(fed, attempt(fed, 1.0, 1.0, cohort=("a", "b")), fed.visit)
    assert not tried.accepted
    assert tried.eta == 1
    assert fed.asked == [0.0, "search"]


def test_the_clients_of_the_trial_reject_the_full_step_only_once() -> None:
    """With f(w − p) = f(w) − α·decrease to rounding, the search would accept what the trial has rejected."""
    fed = Federation()
    tried = try_step(fed, attempt(fed, 1.0, 5.0), fed.visit)
    assert tried.eta < 1


def test_a_point_of_this_cohort_is_not_asked_for_again() -> None:
    fed = Federation()
    here = fed.visit(np.array([3.0]))
    fed.asked.clear()
    assert asked_again(fed, here, fed.visit) is here
    assert fed.asked == []
    fed.clients = ("a", "c")
    again = asked_again(fed, here, fed.visit)
    assert again.cohort == ("a", "c")
    assert fed.asked == [3.0]


def test_where_values_are_equal_to_rounding_the_gradient_decides() -> None:
    fed = Federation(lambda w: 1e6 if w == 1e-7 else 1e6 + 1e-9)  # what rounding may make of 10⁶ + w²
    for p, accepted in [(1e-7, True), (3e-7, False)]:  # the second overshoots to −2e-7
        assert attempt(fed, 1e-7, p).accepts(fed.visit(np.array([1e-7 - p]))) is accepted


class Level(Federation):
    """10⁶ + w², whose values near 0 are what rounding makes of them; slopes are not."""

    def __init__(self) -> None:
        super().__init__(lambda w: 1e6 if w == 1e-7 else 1e6 + 1e-9)

    def mean(self, step: object, *, w: np.ndarray, p: np.ndarray, steps: np.ndarray) -> np.ndarray:
        if getattr(step, "__name__", "") != "slopes":
            return super().mean(step, w=w, p=p, steps=steps)
        self.asked.append("slopes")
        return np.array([-2 * float((w - eta * p)[0]) * float(p[0]) for eta in steps])


@pytest.mark.parametrize(("p", "reached"), [(3e-7, -0.5e-7), (5e-7, -0.25e-7), (8e-7, 0.0)])
def test_a_step_that_is_rejected_below_rounding_is_shortened_by_slopes(p: float, reached: float) -> None:
    """φ(η) = (w − ηp)²: the first η of 1, ½, … with φ′(η) ≤ (1 − 2α)|φ′(0)| has |w − ηp| < w. Values, all equal to
    rounding, would let pass whatever chance makes equal."""
    fed = Level()
    found = descend(fed, attempt(fed, 1e-7, p), fed.visit)
    assert found is not None
    assert found.w[0] == pytest.approx(reached, abs=1e-15)
    assert fed.asked == [pytest.approx(1e-7 - p), "slopes", pytest.approx(reached, abs=1e-15)]


def test_with_an_l1_penalty_values_decide_below_rounding_too() -> None:
    fed, search = Level(), Armijo().of(fs.Squared(l1=1e-3))
    here = fed.visit(np.array([1e-7]))
    step = Step.along(here.w, np.array([3e-7]), here.gradient)
    fed.asked.clear()
    try_step(fed, Attempt.at(here, step, search), fed.visit)
    assert fed.asked[1:] == ["search"]


def test_the_l1_penalty_is_part_of_what_is_compared() -> None:
    """The smooth part falls and the objective rises: rejected in full, and by every part of the grid."""
    search = Armijo().of(fs.Squared(l1=1.0))
    fed = Federation(lambda w: -0.5 * w)
    here = fed.visit(np.array([1.0]))
    step = Step(here.w, np.array([-1.0]), 0.5)  # to 2
    one = Attempt.at(here, step, search)
    assert not one.accepts(fed.visit(np.array([2.0])))
    assert one.shortened(fed.mean(None, w=step.w, p=step.p, steps=search.grid())) == 0
    assert Attempt.at(here, step, SEARCH).accepts(fed.visit(np.array([2.0])))


def test_a_search_without_a_loss_says_so() -> None:
    with pytest.raises(ConfigError, match="this Armijo has no loss"):
        Armijo().choose(np.zeros(32), Step(np.zeros(1), np.ones(1), 1.0))


def test_a_direction_that_is_far_too_long_is_shortened_below_the_grid() -> None:
    search = Armijo(halvings=4).of(fs.Squared())
    fed = Federation()
    here = fed.visit(np.array([1.0]))
    fed.asked.clear()
    eta = search.backtrack_far(fed, Step.along(here.w, np.array([2e6]), here.gradient), here.value)
    assert 0 < eta < 1e-6
    assert len(fed.asked) == 5  # 2⁻⁴ further with each grid


@pytest.mark.parametrize("algorithm", [fs.Newton, fs.FedNL, fs.FedNewtonCG, fs.SHED])
def test_from_far_away_steps_are_shortened_and_the_value_falls(algorithm: type) -> None:
    problem = PROBLEMS["logistic | label-skewed"]
    run = fs.run(algorithm(problem.loss), problem.clients(), rounds=60, tolerance=1e-9, warm_start=np.full(6, 9.0))
    calls = [call for record in run.ledger.records for call in record.calls]
    assert "algorithm.search.losses_along" in calls
    values = [row.value for row in run.history if row.value is not None]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))
    assert run.converged
    assert problem.distance(run.model.w) <= 1e-8


def test_the_step_is_written_once() -> None:
    """Whether a step is accepted, and which part of it, is decided in fedsolve/descent alone."""
    library = Path(fs.__file__).parent
    found = {
        str(path.relative_to(library)).replace("\\", "/")
        for path in library.rglob("*.py")
        if re.search(r"search\.(accepts|choose)\(", path.read_text())
    }
    assert found == {"descent/steps.py"}
