"""The distance of an algorithm from the pooled optimum by iteration, with the messages and Hessians so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.algorithms import Newton
from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import norm
from fedsolve.reproduce.iterates import iterates
from fedsolve.typing import Array

MOST_ROUNDS = 100  # of Newton; it needs about ten


@dataclass(frozen=True, eq=False)
class Optimum:
    """θ* and f* of a federation's pooled problem."""

    clients: Sequence[Client]
    loss: LinearLoss
    w: Array
    value: float
    gradient_norm: float  # at the optimum, from rounding

    def gap(self, w: Array) -> float:
        """f(w) − f*. For a quadratic ½ (w − w*)ᵀH(w − w*), which has no cancellation."""
        loss, e = self.loss, w - self.w
        if loss.quadratic:
            return 0.5 * _mean(self.clients, [float((e * loss.row_product(one, w, e)).sum()) for one in self.clients])
        return _mean(self.clients, [loss.value(one, w) for one in self.clients]) - self.value

    def error(self, w: Array) -> float:
        """‖w − w*‖."""
        return norm(w - self.w)


def optimum(clients: Sequence[Client], loss: LinearLoss) -> Optimum:
    """Solve by exact Newton, until the gradient norm has not decreased for three rounds."""
    least, w, idle = np.inf, np.zeros(0), 0
    for iterate in iterates(Newton(loss), clients):
        found = norm(iterate.state.gradient)
        least, w, idle = (found, iterate.state.w, 0) if found < least else (least, w, idle + 1)
        if idle == 3 or iterate.round == MOST_ROUNDS:
            break
    return Optimum(clients, loss, w, _mean(clients, [loss.value(one, w) for one in clients]), least)


def _mean(clients: Sequence[Client], values: Sequence[float]) -> float:
    total = sum(client.weight for client in clients)
    return sum(client.weight / total * value for client, value in zip(clients, values, strict=True))


@dataclass(frozen=True)
class Trace:
    """Gap, error and costs so far, by iteration; the start is the first entry."""

    gaps: list[float]
    errors: list[float]
    exchanges: list[int]  # communication rounds as the SHED paper counts them, backtracking included
    vectors: list[float]  # sent by an agent, in vectors as long as w
    bytes: list[int]  # both ways, all agents
    hessians: list[float]  # computed by an agent

    def until(self, gap: float, counted: Sequence[float]) -> float:
        """The count at the first iteration within this gap; infinite if there is none."""
        return next((float(count) for count, one in zip(counted, self.gaps, strict=True) if one <= gap), np.inf)

    def iterations(self, gap: float) -> float:
        return self.until(gap, range(len(self.gaps)))

    def rounds(self, gap: float) -> float:
        """Communication rounds until this gap."""
        return self.until(gap, self.exchanges)


def follow(
    algorithm: Algorithm,
    best: Optimum,
    *,
    gap: float,
    iterations: float = np.inf,
    rounds: float = np.inf,
    seed: int = 0,
) -> Trace:
    """Run an algorithm until it reaches the gap or a limit of iterations or communication rounds."""
    agents = len(best.clients)
    trace = Trace([], [], [], [], [], [])
    for iterate in iterates(algorithm, best.clients, seed):
        w, sent = iterate.state.w, iterate.sent
        trace.gaps.append(best.gap(w))
        trace.errors.append(best.error(w))
        trace.exchanges.append(sent.exchanges)
        trace.vectors.append(sent.scalars_up / (agents * best.w.size))
        trace.bytes.append(iterate.bytes)
        trace.hessians.append(sent.counts.get("hessians", 0) / agents)
        if trace.gaps[-1] <= gap or iterate.round >= iterations or sent.exchanges >= rounds:
            break
    return trace
