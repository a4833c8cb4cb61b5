"""Sections I-A and II-D of Jadbabaie et al. (2023): what other methods do, on regressions; what their steps cost."""

from __future__ import annotations

from itertools import product

import numpy as np

from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.local import GradientSteps
from fedsolve.loop.run import run
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import LOSS, posed
from fedsolve.reproduce.fedlrgd.remarks_learning import _steps
from fedsolve.reproduce.fedlrgd.small_nets import Net
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, named
from fedsolve.typing import Array

SPLIT = Check("Section I-A", "FedSplit, clients that differ: ‖θ − θ*‖ over ‖θ*‖ after 3,000 rounds", "off", 1e-8)
STALLED = AtLeast(
    "Section I-A", "… FedAve with ten local steps of 1/L_1 there: ‖θ − θ*‖ over ‖θ*‖", "times", 1e-3, "of ‖θ*‖"
)
MOMENTUM = Check(
    "Section I-A",
    "FedAve with the best momentum at the server, clients alike: rounds until 1e-6, over those without",
    "times",
    0.9,
)
BITS = Check(
    "Section I-A",
    "FedAve with updates of 4 bits a number, rounded at random: bits until 1e-6 of F(0) − F*, over 32 a number",
    "times",
    0.5,
)
GRADIENTS = AtLeast(
    "Section II-D",
    "GD and SGD: operations of gradients over those of the update, the least of batches of 1 to 400 and six models",
    "times",
    1.0,
    "times the rest",
)
AVERAGE = Check(
    "Section III-D",
    "`fs.FedAvg`, five local steps: its model after each round, from the mean of the clients'",
    "off",
    1e-12,
)
CHECKS = (AVERAGE, SPLIT, STALLED, MOMENTUM, BITS, GRADIENTS)
P = 5


def measured(seed: int, quick: bool = False) -> dict[str, float]:
    rng = np.random.default_rng([seed, 94])
    found: dict[Check, list[float]] = {check: [] for check in CHECKS}
    found[AVERAGE] = [_broadcast(seed, rounds) for rounds in (1, 2, 3)]
    for _ in range(3):
        H, c = clients(rng, apart=True)
        best = np.linalg.solve(H.mean(axis=0), c.mean(axis=0))
        size = float(np.linalg.norm(best))
        found[SPLIT].append(float(np.linalg.norm(_split(H, c) - best)) / size)
        found[STALLED].append(float(np.linalg.norm(averaged(H, c, rng, rounds=3000)[0] - best)) / size)
        H, c = clients(rng, apart=False)
        plain, *moved = (averaged(H, c, rng, momentum=one / 10, until=1e-6)[1] for one in range(10))
        found[MOMENTUM].append(min(moved) / plain)
        found[BITS].append(averaged(H, c, rng, bits=4, until=1e-6)[1] * (4 + 32 / P) / (plain * 32))
    found[GRADIENTS] = [_operations(*case) for case in product(_models(), (1, 10, 400))]
    return named({check: min(ones) if isinstance(check, AtLeast) else max(ones) for check, ones in found.items()})


def _broadcast(seed: int, rounds: int) -> float:
    """Every client takes its steps from the mean that the server sent, and sends what it has then."""
    problem, size = posed("different", seed), 0.5
    found = run(FedAvg(LOSS, GradientSteps(5, size)), problem.clients, rounds=rounds, tolerance=0.0, measure=0).state.w
    theta = np.zeros_like(found)
    for _ in range(rounds):
        theta = np.mean([_steps(X, y, theta, 5, 1 / size) for X, y in problem.rows], axis=0)
    return float(np.abs(found - theta).max())


def clients(rng: np.random.Generator, apart: bool) -> tuple[Array, Array]:
    """Hessians and right sides of ten ridge regressions; `apart`: with scales and solutions of their own."""
    X = rng.standard_normal((10, 200, P)) * np.geomspace(1, 0.1, P)
    if apart:
        X = X * rng.uniform(0.3, 1.5, (10, 1, P))
    theta = np.ones(P) + apart * rng.standard_normal((10, P))
    y = np.einsum("cnp,cp->cn", X, theta) + 0.1 * rng.standard_normal((10, 200))
    return np.einsum("cnp,cnq->cpq", X, X) / 200 + 1e-3 * np.eye(P), np.einsum("cnp,cn->cp", X, y) / 200


def averaged(
    H: Array,
    c: Array,
    rng: np.random.Generator,
    momentum: float = 0.0,
    bits: int = 0,
    rounds: int = 20_000,
    until: float = 0.0,
) -> tuple[Array, int]:
    """FedAve with ten local steps of 1/L_1: where it is and after how many rounds, F − F* down to a share of its start.

    Its fixed point is that of clients alike nearly the minimum; the accuracy is that above the fixed point's.
    """
    rate = 1 / max(float(np.linalg.eigvalsh(one)[-1]) for one in H)
    power = np.linalg.matrix_power(np.eye(P) - rate * H, 10)  # of each client
    own = np.linalg.solve(H, c[..., None])[..., 0]
    fixed = np.linalg.solve(np.eye(P) - power.mean(axis=0), (own - np.einsum("cpq,cq->cp", power, own)).mean(axis=0))
    theta, speed, mean = np.zeros(P), np.zeros(P), H.mean(axis=0)
    start = float(fixed @ mean @ fixed)
    for count in range(1, rounds + 1):
        moves = own + np.einsum("cpq,cq->cp", power, theta - own) - theta
        if bits:
            moves = rounded(moves, bits, rng)
        speed = momentum * speed + moves.mean(axis=0)
        theta = theta + speed
        far = theta - fixed
        if until and float(far @ mean @ far) <= until * start:
            return theta, count
    return theta, rounds


def rounded(moves: Array, bits: int, rng: np.random.Generator) -> Array:
    """To multiples of the largest size of each row over 2^(bits − 1) − 1, up or down at random; no bias."""
    unit = np.abs(moves).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.asarray(np.floor(moves / unit + rng.random(moves.shape)) * unit)


def _split(H: Array, c: Array) -> Array:
    """FedSplit: reflected proximal points of every client."""
    ends = np.linalg.eigvalsh(H)
    step = 1 / np.sqrt(ends.min() * ends.max())
    inverses = np.linalg.inv(np.eye(P) + step * H)
    z = np.zeros_like(c)
    for _ in range(3000):
        mean = z.mean(axis=0)
        near = np.einsum("cpq,cq->cp", inverses, 2 * mean - z + step * c)
        z = z + 2 * (near - mean)
    return np.asarray(z.mean(axis=0))


def _models() -> tuple[tuple[int, ...], ...]:
    return ((10, 1), (1000, 1), (64, 10), (64, 10, 10), (64, 10, 10, 10), (784, 200, 200, 10))


def _operations(widths: tuple[int, ...], batch: int) -> float:
    """2 a weight and sample forward, 2 for its derivative, 2 back through it but in the first layer; 2 to move."""
    p = len(Net(widths, relu=False).start(np.random.default_rng(0)))
    first = (widths[0] + 1) * widths[1]
    return batch * (6 * p - 2 * first) / (2 * p)
