"""The problem of Su, Xu and Yang (2023), section 7.1: 25 alike clients, and how far a path is from its aims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.closed_forms.linear_path import gradient_norm
from fedsolve.closed_forms.methods import LocalSteps, Method
from fedsolve.data import linear_model
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.report.figures import Figure
from fedsolve.reproduce.figures import draw_curves, legend_below, over_rounds
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.nonparametric.methods import SIGMA
from fedsolve.typing import Array

CLIENTS, ROWS, FEATURES = 25, 500, 100
ROUNDS = 300  # the slowest method, s = 1, is then at its limit to 1e-10
ARRIVED = 1.1  # a method has arrived when its error is at most this times its last one
LOSS = Squared()
SETTING = f"{CLIENTS} clients with {ROWS} rows each, d = {FEATURES}, σ = {SIGMA}, η = 0.1, {ROUNDS} rounds from θ = 0."
FACTOR = "The gradient is that of the paper's ℓ = (1/N) Σ ‖y_i − X_i θ‖², without ½: twice that of fs.Squared."


@dataclass(frozen=True, eq=False)
class Problem:
    """The clients and the truth they share."""

    clients: list[Client]
    truth: Array

    @property
    def X(self) -> list[Array]:
        return [client.X for client in self.clients]

    @property
    def y(self) -> list[Array]:
        return [client.y for client in self.clients]

    def trace(self, path: Array) -> Trace:
        """The gradient norms and the errors along θ_0, θ_1, …"""
        return Trace(gradient_norm(self.X, self.y, path), np.linalg.norm(path - self.truth, axis=1))


@dataclass(frozen=True, eq=False)
class Trace:
    """‖∇ℓ(θ_t)‖ and ‖θ_t − θ*‖ after 0, 1, 2, … rounds."""

    gradient_norms: Array
    errors: Array

    @property
    def arrival(self) -> int:
        """The first round whose error is at most 1.1 times the last one."""
        return int(np.argmax(self.errors <= ARRIVED * self.errors[-1]))


def problem(seed: int) -> Problem:
    """The clients of one seed."""
    drawn = linear_model([ROWS] * CLIENTS, FEATURES, sigma=SIGMA, seed=seed)
    return Problem(drawn.clients, drawn.models[0])


def algorithm(method: Method) -> FedAvg | FedProx:
    """The method as an algorithm of the library."""
    if isinstance(method, LocalSteps):
        return FedAvg(LOSS, GradientSteps(method.steps, method.step_size))
    return FedProx(LOSS, pull=1 / method.step_size)


def run_path(what: FedAvg | FedProx, clients: Sequence[Client], rounds: int) -> Array:
    """θ_0, …, θ_T of an ordinary run."""
    return np.stack([one.state.w for one in islice(iterates(what, clients, keep_caches=True), rounds + 1)])


def draw_traces(figure: Figure, panels: Sequence[tuple[str, dict[str, list[Array]], str]]) -> None:
    """A panel per title, with a curve per method over the rounds; at most two panels in a row."""
    across = min(2, len(panels))
    axes = figure.subplots(-(-len(panels) // across), across, squeeze=False)
    for axis, (title, traces, label) in zip(axes.flat, panels, strict=True):
        draw_curves(axis, {name: over_rounds([one.tolist() for one in some]) for name, some in traces.items()})
        axis.set_title(title)
        axis.set_ylabel(label)
    legend_below(figure, axes.flat)
