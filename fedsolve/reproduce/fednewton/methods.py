"""The methods that the FedNewton paper compares, on the same clients.

All of them start at DKRR (section 7), and share what a client computes once: its Gram matrix and its factors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from fedsolve.algorithms import DKRR, FedAvg, FedNewton, FedNewtonCG, FedProx
from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.numerics.linalg import factor, to_numpy
from fedsolve.reproduce.iterates import iterates
from fedsolve.typing import Array

ROUNDS = 8  # the most that Table 3 prints

# What a table shows: a heading, the method, and after how many rounds. #t is FedNewton, as Table 3 heads it.
SHOWN: dict[str, tuple[str, int]] = {
    "KRR": ("KRR", 0),
    "DKRR": ("DKRR", 0),
    "FedAvg": ("FedAvg", ROUNDS),
    "FedProx": ("FedProx", ROUNDS),
    "#1": ("FedNewton", 1),
    "#2": ("FedNewton", 2),
    "#4": ("FedNewton", 4),
    "#8": ("FedNewton", ROUNDS),
    "CG #8": ("FedNewtonCG", ROUNDS),
}


@dataclass(frozen=True)
class Setting:
    """A row of Table 2: λ, λ_prox and the learning rate γ of FedAvg."""

    l2: float
    pull: float
    step_size: float


def methods(setting: Setting) -> dict[str, Algorithm]:
    """The iterative methods by name."""
    loss = Squared(l2=setting.l2)
    return {
        "FedAvg": FedAvg(loss, GradientSteps(steps=2, step_size=setting.step_size)),  # s = 2, on all local data
        "FedProx": FedProx(loss, setting.pull),
        "FedNewton": FedNewton(loss),
        "FedNewtonCG": FedNewtonCG(loss),
    }


def pooled(loss: Squared, clients: Sequence[Client]) -> Array:
    """KRR on all data (equation (2)), from the weighted means of the clients' normal equations (Proposition 1)."""
    total = sum(client.weight for client in clients)
    H = g = 0.0
    for client in clients:
        hessian, at_zero = loss.normal(client)
        H, g = H + client.weight / total * hessian.full(), g + client.weight / total * at_zero
    return to_numpy(-factor(cast(Array, H), loss.strong_convexity()).solve(g))


def models(clients: Sequence[Client], setting: Setting, rounds: int) -> Iterator[tuple[str, int, Array]]:
    """The weights of every method after 0, 1, … rounds; KRR and DKRR have one each."""
    loss = Squared(l2=setting.l2)
    for client in clients:
        client.forget()  # nothing of an earlier experiment is shared
    (dkrr,) = (one.state.w for one in iterates(DKRR(loss), clients, keep_caches=True))
    yield "KRR", 0, pooled(loss, clients)
    yield "DKRR", 0, dkrr
    for name, method in methods(setting).items():
        for step in islice(iterates(method, clients, warm_start=dkrr, keep_caches=True), rounds + 1):
            yield name, step.round, step.state.w


def scores(
    clients: Sequence[Client], setting: Setting, score: Callable[[Array], float], rounds: int
) -> dict[str, list[float]]:
    """The score of every method after 0, 1, … rounds."""
    found: dict[str, list[float]] = defaultdict(list)
    for method, _, w in models(clients, setting, rounds):
        found[method].append(score(w))
    return dict(found)


def shown_scores(clients: Sequence[Client], setting: Setting, score: Callable[[Array], float]) -> dict[str, float]:
    """The scores that a table shows, by heading; no other is computed."""
    headings = {place: heading for heading, place in SHOWN.items()}
    return {
        headings[method, round]: score(w)
        for method, round, w in models(clients, setting, ROUNDS)
        if (method, round) in headings
    }
