"""Section III-B of Jadbabaie et al. (2023), what `proofs_ledger` leaves out: runs of Algorithm 1 and what they send."""

from __future__ import annotations

import math

import numpy as np

from fedsolve.algorithms.fedlrgd import FedLRGD
from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.losses import Loss, Squared
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import LOSS, SAMPLES, CostProblem, P, posed
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

PARTS = Check("(1) and (3)", "F by clients and server is the mean over all n = ms + r samples", "off", 1e-12)
LOGISTIC = Check(
    "Appendix A, (67)", "the sum of (66) over samples is the value of the library's logistic regression", "off", 1e-12
)
INDEXED = Check("Section I-A", "as printed, j ∈ [s] for the server, too: (m + 1)s samples over n = ms + r", "times")
BROADCAST = AtLeast(
    "Algorithm 1, lines 5 and 6",
    "the first message to a client has the r probes and the p inverses, rp + pr² numbers; the others nothing",
    "times",
    100.0,
    "% of the runs",
)
IDLE = AtLeast(
    "Section III-B",
    "S = 0, 20 and 40: the same messages, the same work of clients: share of runs",
    "times",
    100.0,
    "% of the runs",
)
STEPS = Check(
    "(42); Algorithm 1, lines 11 to 17",
    "ridge regression, r = p + 1: θ^(S) is that of gradient descent, 1/L_1",
    "off",
    1e-8,
)
CHECKS = (PARTS, LOGISTIC, INDEXED, BROADCAST, IDLE, STEPS)
RANK, CLIENTS = 5, 6


def measured(seed: int) -> dict[str, float]:
    found = {PARTS: 0.0, LOGISTIC: 0.0, INDEXED: 0.0, STEPS: 0.0}
    right: dict[Check, list[bool]] = {BROADCAST: [], IDLE: []}
    for kind in ("alike", "different"):
        problem = posed(kind, seed, CLIENTS)
        server = Client("server", problem.own[0][:RANK], problem.own[1][:RANK])
        done = [literal(problem.clients, server, LOSS, steps) for steps in (0, 20, 40)]
        if all(done):
            each = [_messages(one) for one in done if one is not None]
            right[BROADCAST].append([down for down, *_ in each[0]] == [RANK * P + P * RANK**2] + [0] * (RANK - 1))
            right[IDLE].append(each[0] == each[1] == each[2])
        X, y = _pooled(problem)
        first = run(FedLRGD(LOSS), problem.clients, server=problem.server, rounds=1).history[0].value
        assert first is not None
        found[PARTS] = max(found[PARTS], abs(first - float(np.mean(np.logaddexp(0, 0 * X[:, 0])))))
        found[PARTS] = max(found[PARTS], _apart(problem))
        theta = np.array([1.5, -4.0])
        found[LOGISTIC] = max(
            found[LOGISTIC], *(abs(LOSS.value(one, theta) - _entropy(one.X, one.y, theta)) for one in problem.clients)
        )
        found[INDEXED] = max(found[INDEXED], (len(problem.rows) + 1) * SAMPLES / len(y))
        found[STEPS] = max(found[STEPS], _descended(problem))
    return named({**found, **{check: 100 * float(np.mean(each)) for check, each in right.items()}})


def literal(
    clients: list[Client], server: Client, loss: Loss, steps: int, step_size: float | None = None
) -> Run | None:
    try:
        return run(FedLRGD.literal(loss, steps, step_size=step_size), clients, server=server)
    except DataError:  # G⁽ⁱ⁾ cannot be inverted
        return None


def _messages(done: Run) -> list[tuple[int, list[int], list[int]]]:
    """Of each exchange of the algorithm: numbers down and up of the first call, and what clients computed."""
    return [
        (
            int(one.scalars_down[1].max()),
            one.scalars_up[1].tolist(),
            [
                counts.get("gradients", 0)
                for counts, purpose in zip(one.counts, one.purposes, strict=True)
                if purpose == "algorithm"
            ],
        )
        for one in done.ledger.records
        if "algorithm" in one.purposes
    ]


def _pooled(problem: CostProblem) -> tuple[Array, Array]:
    X = np.vstack([*(rows for rows, _ in problem.rows), problem.own[0]])
    return X, np.concatenate([*(labels for _, labels in problem.rows), problem.own[1]])


def _entropy(X: Array, y: Array, theta: Array) -> float:
    """(67) as printed, μ that of the problem."""
    t = X @ theta
    losses = y * np.log(1 + np.exp(-t)) + (1 - y) * np.log(1 + np.exp(t))
    return float(losses.mean() + LOSS.l2 / 2 * theta @ theta)


def _apart(problem: CostProblem) -> float:
    """(3) with sums over the server and over each client, at random θ, less the mean of (1)."""
    X, y = _pooled(problem)

    def losses(rows: Array, labels: Array, theta: Array) -> Array:
        return np.asarray(np.logaddexp(0, rows @ theta) - labels * (rows @ theta))

    worst = 0.0
    for theta in np.random.default_rng(0).standard_normal((5, P)):
        parts = losses(*problem.own, theta).sum() + sum(losses(*one, theta).sum() for one in problem.rows)
        worst = max(worst, abs(float(parts / len(y) - losses(X, y, theta).mean())))
    return worst


def _descended(problem: CostProblem, steps: int = 30) -> float:
    """The gradient of a ridge regression is of rank p + 1, so that (41) is exact whatever the probes."""
    l2 = 0.1
    server = Client("server", problem.own[0][: P + 1], problem.own[1][: P + 1])
    X = np.vstack([*(rows for rows, _ in problem.rows), server.X])
    y = np.concatenate([*(labels for _, labels in problem.rows), server.y])
    L_1 = float(np.square(X).sum(axis=1).max()) + l2
    done = literal(problem.clients, server, Squared(l2=l2), steps, 1 / L_1)
    if done is None:
        return math.nan
    theta = np.zeros(P)
    for _ in range(steps):
        theta = theta - (X.T @ (X @ theta - y) / len(y) + l2 * theta) / L_1
    return float(np.abs(np.asarray(done.state.w) - theta).max())
