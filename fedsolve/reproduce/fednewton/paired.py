"""Comparisons of methods seed by seed: the mean of the differences, in its standard errors.

The errors of a method vary by a tenth from seed to seed, and those of two methods on one seed by a thousandth of each
other: medians of few seeds compare the draws, pairs compare the methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from types import MappingProxyType

import numpy as np

from fedsolve.algorithms import DKRR, FedAvg, FedNewton, FedProx
from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.fednewton.methods import Setting, pooled
from fedsolve.reproduce.fednewton.table3_claims import difference
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.result import Measured
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

SURE = 2.0  # standard errors of a mean difference that make it one
PRINTED, LARGEST = "FedAvg", "FedAvg, 1/λ_max"
LARGER = {"FedAvg, 0.1": 0.1, "FedAvg, 1": 1.0}  # step sizes beside Table 2's
AVERAGED = (PRINTED, *LARGER, LARGEST)
RULE = (
    f"One error is below another if the mean of the differences of their logarithms by seed is more than {SURE:g} of "
    "its standard errors from 0."
)


def largest_eigenvalue(clients: Sequence[Client]) -> float:
    """Of C_D, by the power method on the rows: the step 1/λ_max is the largest that needs no search."""
    total, v = sum(client.n_samples for client in clients), np.ones(clients[0].X.shape[1])
    for _ in range(50):
        v = v / np.linalg.norm(v)
        v = sum((client.X.T @ (client.X @ v) for client in clients), np.zeros_like(v)) / total
    return float(np.linalg.norm(v))


def traces(
    clients: Sequence[Client],
    setting: Setting,
    score: Callable[[Array], float],
    rounds: int,
    larger: Mapping[str, float] = MappingProxyType(LARGER),
) -> dict[str, list[float]]:
    """Scores after 0, 1, … rounds, all methods from DKRR; KRR and DKRR have one each.

    FedAvg has the printed step size, 1/λ_max and the `larger` ones between.
    """
    loss = Squared(l2=setting.l2)
    (dkrr,) = (one.state.w for one in iterates(DKRR(loss), clients, keep_caches=True))
    steps = {PRINTED: setting.step_size, **larger, LARGEST: 1 / (largest_eigenvalue(clients) + setting.l2)}
    iterative: dict[str, Algorithm] = {
        "FedNewton": FedNewton(loss),
        "FedProx": FedProx(loss, setting.pull),
        **{name: FedAvg(loss, GradientSteps(steps=2, step_size=step)) for name, step in steps.items()},
    }
    found = {"KRR": [score(pooled(loss, clients))], "DKRR": [score(dkrr)]}
    for name, method in iterative.items():
        path = islice(iterates(method, clients, warm_start=dkrr, keep_caches=True), rounds + 1)
        found[name] = [score(one.state.w) for one in path]
    return found


def by_heading(found: dict[str, list[float]], rounds: Sequence[int]) -> dict[str, float]:
    """The last scores by method, and FedNewton's after some rounds as #t."""
    last = {name: scores[-1] for name, scores in found.items() if name != "FedNewton"}
    return {**last, **{f"#{t}": found["FedNewton"][t] for t in rounds}}


# ── pairs ──


def logarithms(of: Measured) -> Measured:
    return Measured(tuple(math.log(max(value, 1e-300)) for value in of.values))


def below(one: Measured, other: Measured) -> tuple[float, float]:
    """By which share the first error is below the second, and in how many standard errors."""
    by, errors = difference(logarithms(other), logarithms(one))
    return 1 - math.exp(-by), errors


def chain(links: Sequence[Measured]) -> tuple[bool, float]:
    """Whether each error is below the one before, and the least number of standard errors by which."""
    least = min(below(two, one)[1] for one, two in pairwise(links))
    return least > SURE, least


def distance(one: Measured, other: Measured) -> Measured:
    """|one − other| by seed."""
    return Measured(tuple(abs(a - b) for a, b in zip(one.values, other.values, strict=True)))


def best_step(tally: Tally[tuple[float, float]], case: tuple[float, float]) -> str:
    """The step size with which FedAvg's errors are least in the mean of their logarithms."""
    return min(AVERAGED, key=lambda name: logarithms(tally.measured(case, name)).mean)


def everywhere(pairs: dict[str, tuple[Measured, Measured]]) -> tuple[bool, str]:
    """Whether the first of every pair is below the second, and the shares and standard errors in words."""
    found = {name: below(*pair) for name, pair in pairs.items()}
    said = ", ".join(f"{name}: {100 * share:.2g} % ({errors:+.1f})" for name, (share, errors) in found.items())
    return all(errors > SURE for _, errors in found.values()), f"lower by (standard errors) {said}"
