"""Algorithms × problems × transports. A new algorithm joins by one line in EXACT or ALL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from tests.problems import PROBLEMS, Problem

# Exact algorithms claim the pooled solution, and are held to 1e-8 on every problem. With them, a bound on rounds.
EXACT: dict[str, tuple[Callable[[Problem], Any], int]] = {
    "Newton": (lambda problem: fs.Newton(problem.loss), 30),
    "FedNewtonCG": (lambda problem: fs.FedNewtonCG(problem.loss), 60),
    # At most as many iterations as unknowns to each of Newton's steps: 6 · 9 and 18 · 4.
    "FedNewtonCG, diagonal": (lambda problem: fs.FedNewtonCG(problem.loss, preconditioner="diagonal"), 80),
    "FedNewtonCG, none": (lambda problem: fs.FedNewtonCG(problem.loss, preconditioner="none"), 80),
    # The gap falls by 1 − 3κ/(κ+1)² a round, κ that of Σ p_j H_j⁻¹ H: with κ = 8 to 1e-26 in 171 rounds.
    "GIANT": (lambda problem: fs.GIANT(problem.loss), 200),
    # (1 − √(μ/L))^t with μ = 1e-2 and L = 10: to 1e-26 in 1860 rounds.
    "AGD": (lambda problem: fs.AGD(problem.loss, 0.1 if isinstance(problem.loss, fs.Poisson) else None), 1900),
    # With the default k = 8d these small problems would have the whole triangle sent. With k = d once through it takes
    # (d + 1)/2 rounds, 10 for softmax, and Newton's method up to 10 of its own: 40 is twice both.
    "FedNL": (lambda problem: fs.FedNL(problem.loss, fs.TopKPairs(1)), 40),
    "Scaffold": (lambda problem: fs.Scaffold(problem.loss, _steps(problem)), 2000),
    "SHED": (lambda problem: fs.SHED(problem.loss), 300),
    # 1 − 1/√κ a round, with κ = L/μ up to 600 where one sample is a client: to 1e-12 in 680. For the reflections of
    # FedSplit it is 1 − 2/√κ; finding the pull costs some more.
    "FedDyn": (lambda problem: fs.FedDyn(problem.loss), 700),
    "FedSplit": (lambda problem: fs.FedSplit(problem.loss), 400),
}
# Those that do not claim it still must be the same by every road.
ALL = EXACT | {
    "FedAvg": (lambda problem: fs.FedAvg(problem.loss, fs.GradientSteps(3, _step(problem), batch_size=4)), 10),
    "DKRR": (lambda problem: fs.DKRR(problem.loss), 1),
    "FedProx": (lambda problem: fs.FedProx(problem.loss, pull=0.5), 10),
    "FedNewton": (lambda problem: fs.FedNewton(problem.loss), 3),
    "MontDec": (lambda problem: fs.MontDec(problem.loss, increment=2), 3),
    "GIANT, CG": (lambda problem: fs.GIANT(problem.loss, fs.CG(steps=3)), 10),
    "DONE": (lambda problem: fs.GIANT(problem.loss, fs.Richardson(steps=5, step_size=_step(problem))), 10),
}


def _steps(problem: Problem) -> fs.GradientSteps:
    """More steps in a round where they are short: the rounds become fewer."""
    return fs.GradientSteps(steps=20 if isinstance(problem.loss, fs.Poisson) else 5, step_size=_step(problem))


def _step(problem: Problem) -> float | None:
    """Poisson has no bound on its smoothness; near these optima this step is short enough."""
    return 0.02 if isinstance(problem.loss, fs.Poisson) else None


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
@pytest.mark.parametrize("name", EXACT)
def test_exact_algorithms_reach_the_pooled_solution(name: str, problem: Problem) -> None:
    make, rounds = EXACT[name]
    # ‖w − w*‖ ≤ ‖g‖/μ with μ ≥ 1e-3 for all of these: this gradient norm leaves 1e-9.
    result = fs.run(make(problem), problem.clients(), rounds=rounds, tolerance=1e-12, measure=1 if rounds < 100 else 20)
    assert result.converged, result.message
    assert problem.distance(result.model.w) <= 1e-8


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_fedavg_stops_beside_the_pooled_solution_and_does_not_say_otherwise(problem: Problem) -> None:
    local = fs.GradientSteps(steps=5, step_size=_step(problem))
    result = fs.run(fs.FedAvg(problem.loss, local), problem.clients(), rounds=300, measure=100)
    assert not result.converged, result.message
    assert problem.distance(result.model.w) > 1e-4


SMALL = [
    PROBLEMS["logistic, penalised intercept | unbalanced"],
    PROBLEMS["squared, two outputs | sparse"],
    PROBLEMS["softmax | weighted"],
    PROBLEMS["poisson | unbalanced"],
]


ACROSS = ("Newton", "FedNewtonCG", "FedNewtonCG, diagonal", "FedNewtonCG, none", "FedNL", "GIANT")


def _across_processes() -> Iterator[Any]:
    """Each of ACROSS with each problem. A third is not slow: each algorithm meets every loss and every split, and every
    problem two algorithms. In one process each algorithm solves every problem above."""
    seen: dict[str, list[str]] = {}
    for problem in PROBLEMS.values():
        loss, split = problem.name.split(" | ")
        one, other = (seen.setdefault(each, []) for each in (loss, split))
        once = split in ("soft labels", "offsets")  # no other problem has these
        # Those that this loss and this split have met least.
        chosen = sorted(ACROSS, key=lambda name: (one.count(name), other.count(name)))[: None if once else 2]
        one.extend(chosen)
        other.extend(chosen)
        for name in ACROSS:
            marks = () if name in chosen else pytest.mark.slow
            yield pytest.param(name, problem, marks=marks, id=f"{name}-{problem.name}")


@pytest.mark.parametrize(("name", "problem"), list(_across_processes()))
def test_exact_across_processes(name: str, problem: Problem) -> None:
    make, rounds = EXACT[name]
    road = Processes(problem.clients(), workers=2, threads=1, start="fork")  # quick; faults/ tests how they start
    there = fs.run(make(problem), road, rounds=rounds, tolerance=1e-12)
    assert problem.distance(there.model.w) <= 1e-8
    here = fs.run(make(problem), InProcess(problem.clients(), threads=1), rounds=rounds, tolerance=1e-12)
    assert np.array_equal(here.model.w, there.model.w)


@pytest.mark.parametrize("name", ["Newton", "FedNewtonCG", "FedNL"])
@pytest.mark.parametrize("p", [70, 80, 100])
def test_transports_agree_where_sums_go_over_to_blas(name: str, p: int) -> None:
    """A Hessian of 64 to 90 features has more entries than the limit when held whole, and fewer when packed."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((145, p)), rng.integers(0, 2, 145).astype(float)
    parts = np.split(np.arange(145), [30, 100])
    algorithm = getattr(fs, name)(fs.Logistic(l2=0.1))
    roads = [
        kind([fs.Client(f"c{j}", X[part], y[part]) for j, part in enumerate(parts)], threads=1)
        for kind in (InProcess, partial(Processes, start="fork"))
    ]
    here, there = (fs.run(algorithm, road, rounds=5) for road in roads)
    assert np.array_equal(here.model.w, there.model.w)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.name)
def test_transports_change_nothing(name: str, problem: Problem) -> None:
    make, _ = ALL[name]
    here = fs.run(make(problem), InProcess(problem.clients(), threads=1), rounds=6, seed=3)
    there = fs.run(make(problem), Processes(problem.clients(), workers=2, threads=1, start="fork"), rounds=6, seed=3)
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger == there.ledger
    assert [row.value for row in here.history] == [row.value for row in there.history]
