"""What the server hears in each iteration, and what Algorithms 1 and 4 say that it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.algorithms.base import Algorithm
from fedsolve.curvature.increments import Increment
from fedsolve.curvature.options import HowMany
from fedsolve.federation.client import Client
from fedsolve.federation.links import Rayleigh
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import opened
from fedsolve.federation.transports import InProcess
from fedsolve.losses import LinearLoss
from fedsolve.typing import Array
from fedsolve.wire.messages import Failure, Reply, Request

N, SIZES, MU = 12, (20, 30, 40, 60), 1e-2
EXACT = 1e-9
UNEQUAL = {f"agent-{j}": d for j, d in enumerate((1, 2, 3, 1))}
COUNTS: dict[str, HowMany] = {"d = 1": 1, "d of 1 to 3": UNEQUAL}


@dataclass(frozen=True)
class Told:
    """What an agent sends in an iteration."""

    gradient: Array
    increment: Increment


@dataclass(frozen=True, eq=False)
class Heard:
    """An iteration: θ^t, θ^{t+1}, and each agent's message."""

    w: Array
    after: Array
    told: dict[str, Told]


class Listening(InProcess):
    """Clients in this process; eigenpairs and the gradients they come with are written down."""

    def __init__(self, clients: Sequence[Client]) -> None:
        super().__init__(clients)
        self.told: dict[str, Told] = {}

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        for name, reply in super().deliver(requests, deadline):
            if isinstance(reply, Reply):
                values = [part.value for part in reply.results]
                for increment in (one for one in values if isinstance(one, Increment)):
                    first = values[0][-1] if isinstance(values[0], (tuple, list)) else values[0]  # (f, g), or g
                    self.told[name] = Told(np.array(first), increment)
            yield name, reply


def heard(
    algorithm: Algorithm, clients: Sequence[Client], iterations: int, seed: int = 0, start: Array | None = None
) -> list[Heard]:
    """The messages of a run, from 0 or another start."""
    transport, found = Listening(clients), list[Heard]()
    with opened(transport, dict(collect("algorithm", algorithm)), seed=seed) as fed:
        fed.warm_start = start
        fed.begin_round(0)
        state = algorithm.start(fed)
        for t in range(1, iterations + 1):
            transport.told = {}
            fed.begin_round(t)
            after = algorithm.round(fed, state)
            found.append(Heard(np.array(state.w), np.array(after.w), transport.told))
            state = after
    return found


def spectrum(loss: LinearLoss, client: Client, w: Array) -> tuple[Array, Array]:
    """The eigenvalues of an agent's Hessian, the largest first, and the eigenvectors, by NumPy."""
    values, vectors = np.linalg.eigh(loss.hessian(client, w).full())
    return values[::-1], vectors[:, ::-1]


def mismatch(pairs: Increment, first: int, values: Array, H: Array) -> float:
    """How far sent pairs are from the `first`-th and next eigenpairs of H, of the largest eigenvalue."""
    sent, V = np.asarray(pairs.pairs.values), np.asarray(pairs.pairs.vectors)
    if not sent.size:
        return 0.0
    if first + sent.size > len(values):
        return float("inf")
    off = np.abs(sent - values[first : first + sent.size]).max()
    residual = np.linalg.norm(H @ V - V * sent, axis=0).max() + np.abs(np.linalg.norm(V, axis=0) - 1).max()
    return float((off + residual) / values[0])


def agents(seed: int, n: int = N, sizes: Sequence[int] = SIZES, link: Rayleigh | None = None) -> list[Client]:
    rng = np.random.default_rng((seed, 51))
    found = []
    for j, size in enumerate(sizes):
        X = rng.standard_normal((size, n)) * 0.8 ** np.arange(n) + 0.2 * rng.standard_normal(n)
        y = (X @ np.ones(n) + 2 * rng.logistic(size=size) > 0).astype(float)
        found.append(Client(f"agent-{j}", X, y, link=link))
    return found
