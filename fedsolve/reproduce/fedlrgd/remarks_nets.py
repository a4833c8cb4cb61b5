"""Jadbabaie et al. (2023): nets of [0, 1]^d by volumes, before (51); and the inverses that line 6 sends."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from fedsolve.algorithms.fedlrgd import FedLRGD
from fedsolve.federation.client import Client
from fedsolve.federation.protocol import client_step
from fedsolve.loop.run import run
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import LOSS, posed
from fedsolve.reproduce.fedlrgd.proofs_ledger import RANK
from fedsolve.reproduce.fedlrgd.theory_smoothness import gradient
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

PLACE = "Proof of Theorem 1, before (51)"
INSIDE = Check(
    PLACE, "[0, 1]^d + B is in [−1/(2q), 1 + 1/(2q)]^d: how far points of it are outside [0, 1]^d, over 1/(2q)"
)
VOLUME = Check(PLACE, "vol([0, 1]^d + B)/vol(B) over d! (q + 1)^d, d = 1 to 4, q = 1 to 10")
PACKED = Check(PLACE, "1/q-separated points of [0, 1]^d, picked greedily, over vol([0, 1]^d + B)/vol(B)")
INVERSE = Check(
    "Algorithm 1, lines 2, 4, 5 and 6",
    "the matrices that a client is sent, times G⁽ⁱ⁾ of (34), are I: largest entry of the difference",
    "off",
    1e-8,
)
CHECKS = (INSIDE, VOLUME, PACKED, INVERSE)


def measured(seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 61])
    every = list(product(range(1, 5), range(1, 11)))
    return named(
        {
            INSIDE: max(_outside(rng, d, q) for d, q in every),
            VOLUME: max(volumes(d, q) / (math.factorial(d) * (q + 1) ** d) for d, q in every),
            PACKED: max(separated(rng.random((3000, d)), q) / volumes(d, q) for d, q in _TESTED),
            INVERSE: max(left_of_identity(*overheard(kind, seed)) for kind in ("alike", "different")),
        }
    )


_TESTED = (*((1, q) for q in range(1, 11)), *((2, q) for q in range(1, 11)), (3, 1), (3, 2), (3, 4), (4, 1), (4, 2))


def volumes(d: int, q: float) -> float:
    """vol([0, 1]^d + B)/vol(B), B the ℓ¹-ball of radius 1/(2q). A point of the sum is outside the cube in k of its
    coordinates, by amounts whose sizes add up to at most 1/(2q): an ℓ¹-ball in k dimensions, (1/q)^k/k!."""
    whole = sum(math.comb(d, k) * q ** (-k) / math.factorial(k) for k in range(d + 1))
    return whole * math.factorial(d) * q**d


def separated(points: Array, q: float) -> int:
    """How many points are picked when each is that is farther than 1/q, in ℓ¹, from all picked before."""
    count = 0
    while len(points):
        count += 1
        points = points[np.abs(points - points[0]).sum(axis=1) > 1 / q]
    return count


def _outside(rng: np.random.Generator, d: int, q: float) -> float:
    """Points x + b, also at corners of the cube and of B; over 1/(2q)."""
    x = np.vstack([rng.random((500, d)), rng.integers(0, 2, (500, d))])
    b = rng.exponential(size=(1000, d)) * rng.choice([-1.0, 1.0], (1000, d))
    b[::4] *= np.eye(d)[rng.integers(0, d, 250)]
    y = x + b / np.abs(b).sum(axis=1, keepdims=True) / (2 * q)
    return float(np.maximum(-y, y - 1).max() * 2 * q)


def overheard(kind: str, seed: int, rank: int = RANK) -> tuple[Client, list[tuple[Array, Array]]]:
    """The server, and the probes and matrices that each client of a run of Algorithm 1 is sent."""
    problem, heard = posed(kind, seed, 2), []

    class Overheard(FedLRGD):
        @client_step(sends="sums of weights of its rows")
        def local_weights(self, client: Client, points: Array, bases: Array, rows: int) -> Array:
            heard.append((np.array(points), np.array(bases)))
            return FedLRGD.local_weights(self, client, points, bases, rows)

    server = Client("server", problem.own[0][:rank], problem.own[1][:rank])
    run(Overheard.literal(LOSS, 1), problem.clients, server=server)
    return server, heard


def left_of_identity(server: Client, heard: list[tuple[Array, Array]]) -> float:
    """The largest entry of (G⁽ⁱ⁾)⁻¹ G⁽ⁱ⁾ − I, with the first as it was sent; NaN if nothing was."""
    worst = [math.nan] if not heard else [0.0]
    for points, inverses in heard:
        G = gradient(server.X[:, None], server.y[:, None], points[None])  # samples, probes, coordinates
        eye = np.eye(server.n_samples)
        worst += [float(np.abs(inverse @ G[..., i] - eye).max()) for i, inverse in enumerate(inverses)]
    return max(worst)
