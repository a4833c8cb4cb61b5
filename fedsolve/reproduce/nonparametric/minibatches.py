"""FedAvg and FedProx with fixed minibatches (Su, Xu and Yang 2023, section 7.1), as affine maps of the library's own.

With the same batches in every round, a round is θ_t = A θ_{t−1} + c for a squared loss. One round of the ordinary
algorithm gives the map: d + 1 copies of the targets as outputs, started from the columns of I and from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.closed_forms.methods import LocalSteps, Method
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps, ProximalSteps
from fedsolve.report.figures import Figure
from fedsolve.reproduce.harness import Seeds
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.nonparametric.homogeneous import (
    LOSS,
    ROUNDS,
    ROWS,
    Problem,
    Trace,
    draw_traces,
    problem,
    run_path,
)
from fedsolve.reproduce.nonparametric.methods import methods
from fedsolve.reproduce.result import Measured
from fedsolve.typing import Array

SIZES = (ROWS, 100, 50, 20)  # rows in a batch; the first is all
CHECKED = 3  # rounds that are also run one after the other
EXACT = 1e-10


def algorithm(method: Method, batch_size: int) -> FedAvg | FedProx:
    """The method with fixed batches whose steps keep 1/n_i: FedAvg passes s times over them, FedProx once."""
    if isinstance(method, LocalSteps):
        local = GradientSteps(
            step_size=method.step_size, batch_size=batch_size, epochs=method.steps, batches="fixed", scale="client"
        )
        return FedAvg(LOSS, local)
    proximal = ProximalSteps(batch_size=batch_size, epochs=1, batches="fixed", scale="client")
    return FedProx(LOSS, pull=1 / method.step_size, local=proximal)


def round_map(what: FedAvg | FedProx, clients: Sequence[Client]) -> tuple[Array, Array]:
    """A and c of θ_t = A θ_{t−1} + c, from one round of the algorithm."""
    d = clients[0].X.shape[1]
    several = [Client(one.name, one.X, np.tile(one.y[:, None], (1, d + 1))) for one in clients]
    start = np.hstack([np.eye(d), np.zeros((d, 1))])
    steps = iterates(what, several, warm_start=start)
    next(steps)
    moved: Array = next(steps).state.w
    return moved[:, :d] - moved[:, d:], moved[:, d]


def path_of(A: Array, c: Array, rounds: int) -> Array:
    """θ_0 = 0, θ_1, …, θ_T of a map."""
    path = np.zeros((rounds + 1, len(c)))
    for t in range(rounds):
        path[t + 1] = A @ path[t] + c
    return path


@dataclass(frozen=True, eq=False)
class Traced:
    """The traces by batch size and method, one for each seed, and how far the map is from the first rounds. And the
    gradient norms at the fixed points of the rounds, where they would end."""

    traces: dict[tuple[int, str], list[Trace]]
    distance: float
    limits: dict[tuple[int, str], list[float]] = field(default_factory=dict)

    def errors(self, size: int, name: str) -> Measured:
        """The last errors."""
        return Measured(tuple(float(one.errors[-1]) for one in self.traces[size, name]))

    def norms(self, size: int, name: str) -> Measured:
        """The last gradient norms."""
        return Measured(tuple(float(one.gradient_norms[-1]) for one in self.traces[size, name]))

    def arrivals(self, size: int, name: str) -> Measured:
        """The rounds until the error has arrived."""
        return Measured(tuple(float(one.arrival) for one in self.traces[size, name]))


def traced(seeds: Seeds, sizes: Sequence[int] = SIZES) -> Traced:
    """Every method with every batch size; in the first seed the first rounds are also run one after the other."""
    found: dict[tuple[int, str], list[Trace]] = {(size, name): [] for size in sizes for name in methods()}
    posed: dict[int, Problem] = {}
    limits: dict[tuple[int, str], list[float]] = {case: [] for case in found}
    distance = 0.0
    for seed, (size, name) in seeds.over(found):
        if seed not in posed:
            posed = {seed: problem(seed)}
        what = algorithm(methods()[name], size)
        A, c = round_map(what, posed[seed].clients)
        path = path_of(A, c, ROUNDS)
        end = np.linalg.solve(np.eye(len(c)) - A, c)
        limits[size, name].append(float(posed[seed].trace(end[None]).gradient_norms[0]))
        if seed == seeds.seeds[0]:
            run = run_path(what, posed[seed].clients, CHECKED)
            distance = max(distance, float(np.max(np.linalg.norm(run - path[: CHECKED + 1], axis=1))))
        found[size, name].append(posed[seed].trace(path))
    return Traced(found, distance, limits)


def panel_title(size: int) -> str:
    """ "all rows", or "batches of 50"."""
    return "all rows" if size == ROWS else f"batches of {size}"


def draw_sizes(
    found: Traced, sizes: Sequence[int], what: Literal["errors", "gradient_norms"], label: str, figure: Figure
) -> None:
    """A panel for each batch size, with the errors or the gradient norms of all methods."""
    panels = [
        (
            panel_title(size),
            {name: [getattr(one, what) for one in found.traces[size, name]] for name in methods()},
            label,
        )
        for size in sizes
    ]
    draw_traces(figure, panels)
