"""SHED, sections 1 and 1.1: where FedAvg ends with unlike agents, and what Scaffold and FedProx change about it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx, Scaffold
from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed.heard_messages import SIZES, agents
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import norm_2
from fedsolve.typing import Array

MU, ROUNDS = 0.1, 600
SHARES, LOCAL = (1.0, 0.3), (2, 5, 20)  # step sizes, of 1/L of the steepest agent; local steps
LEFT = 1e-6  # of the first error: far above rounding
PULLS = (0.1, 1.0, 10.0)

WEAK = "FedAvg with unlike agents ends away from θ*, whatever its steps: 1e-6 of the first error over what is left"
SETTLED = "… what is left is its limit: the error changes by at most 1 % in the second half of the rounds"
ALIKE = "FedAvg with the same rows at every agent ends at θ*, to 1e-6 of the first error"
STABLE = "FedAvg with steps of at most 1/L does not diverge: the last error over the first"
CORRECTED = "Scaffold ends at θ*, to 1e-6 of the first error, where FedAvg does not"
PULLED = "FedProx ends nearer to θ* than the mean of the agents' own optima, for each pull"
CHECKS = (
    Check("section 1", WEAK),
    Check("section 1", SETTLED, "off", 0.01),
    Check("section 1", ALIKE, "times", LEFT),
    Check("section 1", STABLE, "times", 1.0),
    Check("section 1.1", CORRECTED, "times", LEFT),
    Check("section 1.1", PULLED, "times", 1.0),
)


def ends(algorithm: Algorithm, clients: Sequence[Client], best: Array) -> tuple[float, float]:
    """‖θ − θ*‖ over ‖θ*‖, from 0, after half of the rounds and after all."""
    path = [norm(one.state.w - best) / norm(best) for one in islice(iterates(algorithm, clients), ROUNDS + 1)]
    return path[ROUNDS // 2], path[-1]


def solution(clients: Sequence[Client]) -> Array:
    """Of the pooled least squares."""
    X, y = (np.concatenate([getattr(one, name) for one in clients]) for name in ("X", "y"))
    return np.asarray(np.linalg.solve(X.T @ X / len(y) + MU * np.eye(X.shape[1]), X.T @ y / len(y)))


def averaging(seed: int, w: Worst) -> None:
    """FedAvg, Scaffold and FedProx on least squares with four agents of their own rows, or of the same ones."""
    clients, loss = agents(seed), Squared(l2=MU)
    alike = [Client(one.name, clients[-1].X, clients[-1].y) for one in clients]
    best, same = solution(clients), solution(alike)
    own = np.average([solution([one]) for one in clients], axis=0, weights=SIZES)
    step = 1 / max(norm_2(one.X.T @ one.X / len(one.X)) + MU for one in clients)
    for share in SHARES:
        for steps in LOCAL:
            algorithm = FedAvg(loss, GradientSteps(steps=steps, step_size=share * step))
            half, last = ends(algorithm, clients, best)
            w.add(WEAK, LEFT / last)
            w.add(SETTLED, abs(last / half - 1))
            w.add(STABLE, last)
            w.add(ALIKE, ends(algorithm, alike, same)[1])
    w.add(CORRECTED, ends(Scaffold(loss, GradientSteps(steps=5, step_size=0.1 * step)), clients, best)[1])
    for pull in PULLS:
        w.add(PULLED, ends(FedProx(loss, pull=pull), clients, best)[1] * norm(best) / norm(own - best))


def measured(seed: int) -> dict[str, float]:
    worst = Worst()
    averaging(seed, worst)
    return worst.found


@experiment(
    "shed-averaging",
    paper="SHED",
    place="sections 1 and 1.1",
    title="Where FedAvg ends with unlike agents, and Scaffold and FedProx",
    takes="1 min",
)
def ending(seeds: Seeds, quick: bool) -> Result:
    """Least squares, where the limits are known."""
    notes = (
        f"Least squares with the four agents of shed-order, μ = {MU}, {ROUNDS} rounds; steps of "
        f"{' and '.join(f'{one:g}' for one in SHARES)} of 1/L of the steepest agent, "
        f"{', '.join(map(str, LOCAL))} of them in a round; Scaffold with five steps of 0.1/L; "
        "FedProx with exact local solves and pulls of "
        f"{', '.join(f'{one:g}' for one in PULLS)}.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
