"""Runs the methods whose costs are compared, and follows each until it has the last accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fedsolve.algorithms.agd import AGD
from fedsolve.algorithms.base import Algorithm
from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.fedlrgd import FedLRGD
from fedsolve.algorithms.newton import Newton
from fedsolve.complexity.fedlrgd_theory import fedlrgd_complexity
from fedsolve.complexity.oracle import Sending, oracle_complexity
from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.federation.participation import Participation
from fedsolve.local import GradientSteps
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.reproduce.fedlrgd.cost_paths import FINEST, Path, cheapest, path
from fedsolve.reproduce.fedlrgd.cost_problem import LOSS, OWN, SAMPLES, CostProblem, P
from fedsolve.reproduce.fedlrgd.fedave_lanes import SMOOTH, Lanes, Limits, Tuned

SENDINGS: tuple[Sending, ...] = ("epochs", "vectors")
PHIS = (1.0, 10.0, 100.0, 1000.0)
LITERAL, OURS, FEDAVE, FULL, ACCELERATED, NEWTON = (
    "FedLRGD, Algorithm 1",
    "FedLRGD",
    "FedAve",
    "FedAvg, all samples",
    "AGD",
    "Newton",
)
METHODS = (LITERAL, OURS, FEDAVE, FULL, ACCELERATED, NEWTON)
MOST_STEPS = 20_000  # of all clients together, in the run of `FedAvg` beside the fast form


@dataclass(frozen=True)
class Grid:
    """What is tried.

    ranks, steps         r and S of Algorithm 1
    local, sizes         gradient steps on all samples in a round, and their step sizes times L₁
    batches              b of FedAve by the share τ of clients; a few clients cannot average the noise of large b away
    limits               when FedAve is given up
    """

    ranks: Sequence[int] = range(P + 1, OWN + 1)
    steps: Sequence[int] = (2, 3, 5, 8, 12, 20, 30, 50, 80)
    local: Sequence[int] = (1, 3, 10)
    sizes: Sequence[float] = (4.0, 2.0, 1.0, 0.25, 0.0625)
    batches: tuple[tuple[float, tuple[int, ...]], ...] = (
        (0.1, (1, 10, 100)),
        (0.5, (1, 10, 100)),
        (1.0, (1, 3, 10, 30, 100, 300, 1000, 3000)),
    )
    limits: Limits = field(default_factory=lambda: Limits({1.0: 1.2e4, 10.0: 3e4, 100.0: 1.6e5, 1000.0: 8e5}, 100_000))


QUICK = Grid((3, 5, 8), (5, 30), (1, 3), (2.0, 1.0), ((0.5, (10,)), (1.0, (1, 10, 100))), Limits({100.0: 3e4}, 1000))


@dataclass(frozen=True, eq=False)
class Costs:
    """What was found on one problem: runs by method and by how sending counts, and formulas beside ledgers.

    formulas  how many runs of Algorithm 1 cost what Theorem 2 says, of how many
    epochs    the same for `FedAvg` and T (b + φτm)
    singular  how many runs of Algorithm 1 ended because a matrix could not be inverted
    """

    paths: dict[tuple[str, Sending], list[Path]]
    formulas: tuple[int, int]
    epochs: tuple[int, int]
    singular: int


def compared(problem: CostProblem, grid: Grid, seed: int) -> Costs:
    """Run everything on one problem."""
    made: dict[tuple[str, Sending], list[Path]] = {(name, one): [] for name in METHODS for one in SENDINGS}

    def note(name: str, words: str, found: Run, endless: bool = False) -> None:
        shares = [(row.round, problem.minimum.share(row.value)) for row in found.history if row.value is not None]
        for one in SENDINGS:
            made[name, one].append(path(words, oracle_complexity(found, 1.0, sending=one), shares, endless))

    right, tried, singular = 0, 0, 0
    for r in grid.ranks:
        for S in grid.steps:
            try:
                found = run(FedLRGD.literal(LOSS, S, rank=r), problem.clients, server=problem.server)
            except DataError:  # G⁽ⁱ⁾ cannot be inverted
                singular += 1
                continue
            note(LITERAL, f"r = {r}, S = {S}", found)
            right, tried = right + _is_theorem_2(found, r, S, len(problem.rows)), tried + 1
    note(OURS, "defaults", run(FedLRGD(LOSS), problem.clients, server=problem.server, tolerance=1e-12, rounds=40))
    others = problem.others
    for words, algorithm in _full(grid):
        note(FULL, words, run(algorithm, others, tolerance=1e-12, rounds=60))
    note(ACCELERATED, "1/L", run(AGD(LOSS), others, tolerance=1e-12, rounds=60))
    note(NEWTON, "exact", run(Newton(LOSS), others, tolerance=1e-12, rounds=20))
    lanes = Lanes(problem)
    tuned = [
        lanes.tuned(b, max(1, round(tau * len(others))), grid.limits, seed) for tau, bs in grid.batches for b in bs
    ]
    for one in SENDINGS:  # a model is one vector
        made[FEDAVE, one] = [each.path for each in tuned]
    return Costs(made, (right, tried), _confirmed(tuned, others, seed), singular)


def _full(grid: Grid) -> Iterable[tuple[str, Algorithm]]:
    for steps in grid.local:
        for size in grid.sizes:
            yield f"{steps} steps, η = {size:g}/L₁", FedAvg(LOSS, GradientSteps(steps, size / SMOOTH))


def _is_theorem_2(found: Run, r: int, S: int, m: int) -> bool:
    """Whether Γ is r² + rs + rS + φmr to the last digit; if the server has R > r samples, rR + rs + RS + φmr."""
    gammas = [oracle_complexity(found, phi).total for phi in PHIS]
    if r == OWN:
        return gammas == [fedlrgd_complexity(r, SAMPLES, S, m, phi) for phi in PHIS]
    return gammas == [r * OWN + r * SAMPLES + OWN * S + phi * m * r for phi in PHIS]


def _confirmed(tuned: Sequence[Tuned], others: Sequence[Client], seed: int) -> tuple[int, int]:
    """`FedAvg` with what is best for ε = 1e-2 and each φ: in how many runs Γ after T epochs is T (b + φτm), and of how
    many. Runs that would take long are cut short."""
    place, right, tried = 2 * FINEST, 0, 0
    for phi in PHIS:
        reached = cheapest([one.path for one in tuned], phi)[place]
        best = next((one for one in tuned if one.path.cost(phi)[place] == reached), None)
        if best is None or (pace := best.paces[place]) is None:
            continue
        T = max(1, min(int(best.epochs[place]), MOST_STEPS // (best.b * best.active)))
        share = Participation(fraction=best.active / len(others))
        found = run(
            FedAvg(LOSS, pace.local(best.b)), others, rounds=T, tolerance=0.0, participation=share, seed=seed, measure=0
        )
        expected = T * (best.b + phi * best.active)
        right += all(oracle_complexity(found, phi, sending=one).after(T) == expected for one in SENDINGS)
        tried += 1
    return right, tried
