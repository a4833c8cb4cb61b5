"""Section III-B of Jadbabaie et al. (2023) by the ledger: what Algorithm 1 and FedAve compute and send."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.fedlrgd import FedLRGD
from fedsolve.complexity.oracle import oracle_complexity
from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.federation.ledger import ExchangeRecord
from fedsolve.local import GradientSteps
from fedsolve.loop.history import Run
from fedsolve.loop.run import run
from fedsolve.losses import Logistic
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import LOSS, SAMPLES, CostProblem, P, posed
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named

EPOCHS = AtLeast(
    "Section III-B",
    "r epochs in which each client sends p weights, and computes in the first only: share of runs",
    "times",
    100.0,
    "% of the runs",
)
COUNTS = AtLeast(
    "Section III-B",
    "gradients: r² at the server, rs at a client, then rS at the server: share of runs",
    "times",
    100.0,
    "% of the runs",
)
EQUAL = Check(
    "After Definition 1",
    "every client computes as many gradients as the others in every epoch, FedLRGD and FedAve: largest over smallest",
    "times",
)
FREE = Check(
    "After Definition 1",
    "with φ = 0, Γ is the number of gradients of server and one client: over r² + rs + rS",
    "times",
)
RUNS = AtLeast(
    "After Proposition 1",
    "without strong convexity (μ = 0) Algorithm 1 runs to its end: share of runs with finite weights",
    "times",
    100.0,
    "% of the runs",
)
CONVEX = Check("After Proposition 1", "… and leaves at most a tenth of F(0) − F*, μ = 0, S = 400", "times", 0.1)
STRONG = Check("After Proposition 1", "with μ = 0.1 the same problems: what is left of F(0) − F*", "times", 0.1)
CHECKS = (EPOCHS, COUNTS, EQUAL, FREE, RUNS, CONVEX, STRONG)
RANK, CLIENTS = 5, 6


def measured(seed: int) -> dict[str, float]:
    return named(_runs(seed))


def _algorithm(record: ExchangeRecord) -> bool:
    return "algorithm" in record.purposes


def _gradients(done: Run) -> tuple[list[int], int]:
    """Of all clients by exchange, and of the server."""
    clients = [
        sum(
            counts.get("gradients", 0)
            for counts, purpose in zip(one.counts, one.purposes, strict=True)
            if purpose == "algorithm"
        )
        for one in done.ledger.records
        if _algorithm(one)
    ]
    return clients, sum(counts.get("gradients", 0) for _, counts in done.ledger.server_counts)


def unequal(counts: Sequence[Sequence[int]]) -> float:
    """The largest count of an epoch over its smallest, from those of each client by epoch. Where no client computes,
    counts are equal; NaN without clients."""
    found = [1.0] if counts else [math.nan]
    for epoch in zip(*counts, strict=True):
        if max(epoch) > 0:
            found.append(max(epoch) / min(epoch) if min(epoch) else math.inf)
    return max(found)


def _descended(problem: CostProblem, clients: list[Client], steps: int, loss: Logistic = LOSS) -> Run | None:
    server = Client("server", problem.own[0][:RANK], problem.own[1][:RANK])
    try:
        return run(FedLRGD.literal(loss, steps, rank=RANK), clients, server=server)
    except DataError:  # G⁽ⁱ⁾ cannot be inverted
        return None


def _runs(seed: int) -> dict[Check, float]:
    found = {EQUAL: 0.0, FREE: 0.0, CONVEX: 0.0, STRONG: 0.0}
    right: dict[Check, list[bool]] = {EPOCHS: [], COUNTS: [], RUNS: []}
    for kind in ("alike", "different"):
        problem = posed(kind, seed, CLIENTS)
        short, long = (_descended(problem, problem.clients, steps) for steps in (20, 40))
        if short is None or long is None:
            continue
        records = [one for one in short.ledger.records if _algorithm(one)]
        clients, server = _gradients(short)
        sent = [one.scalars_up[1].tolist() for one in records]  # the weights; the bound on L₁ travels beside
        right[EPOCHS].append(sent == [[P] * CLIENTS] * RANK and clients[1:] == [0] * (RANK - 1))
        expected = [CLIENTS * RANK * SAMPLES, RANK**2 + 20 * RANK, RANK**2 + 40 * RANK]
        right[COUNTS].append([clients[0], server, _gradients(long)[1]] == expected)
        alone = [_descended(problem, [one], 20) for one in problem.clients]
        each = [_gradients(one)[0] for one in alone if one is not None]
        steps = GradientSteps(7, 0.3, batch_size=1, batches="independent")
        theirs = [
            _gradients(run(FedAvg(LOSS, steps), [one], rounds=5, tolerance=0.0, measure=0))[0] for one in problem.others
        ]
        found[EQUAL] = max(found[EQUAL], unequal(each), unequal(theirs))
        free = oracle_complexity(short, 0.0).total / (RANK**2 + RANK * SAMPLES + 20 * RANK)
        found[FREE] = max(found[FREE], free, 1 / free)
        for check, l2 in ((CONVEX, 0.0), (STRONG, 0.1)):
            found[check] = max(found[check], _left(problem, l2))
        right[RUNS].append(math.isfinite(found[CONVEX]))
    return {**found, **{check: 100 * float(np.mean(each)) for check, each in right.items()}}


def _left(problem: CostProblem, l2: float) -> float:
    """(F − F*)/(F(0) − F*) with this penalty, after 400 steps."""
    done = _descended(problem, problem.clients, 400, Logistic(l2=l2))
    if done is None:
        return math.nan
    X = np.vstack([*(rows for rows, _ in problem.rows), problem.own[0][:RANK]])
    y = np.concatenate([*(labels for _, labels in problem.rows), problem.own[1][:RANK]])
    theta, n = np.zeros(P), len(y)
    for _ in range(50):  # Newton's steps to the minimum
        share = 1 / (1 + np.exp(-X @ theta))
        H = (X.T * (share * (1 - share))) @ X / n + l2 * np.eye(P)
        theta = theta - np.linalg.solve(H, X.T @ (share - y) / n + l2 * theta)
    least = float(np.mean(np.logaddexp(0, X @ theta) - y * (X @ theta)) + l2 / 2 * theta @ theta)
    first, last = done.history[0].value, done.history[-1].value
    assert first is not None
    assert last is not None
    return (last - least) / (first - least)
