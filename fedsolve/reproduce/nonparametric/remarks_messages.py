"""Su, Xu and Yang (2023), section 4: what a round of FedAvg and FedProx sends down and up, as the transport sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.federation.client import Client
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import opened
from fedsolve.federation.transports import InProcess
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.typing import Array
from fedsolve.wire.messages import Failure, Reply, Request

BROADCAST = Quantity(
    "Section 4",
    "in rounds 1 to 3 every client's request carries f_{t−1}, to the last bit, and is the same for all clients",
    "share of the requests",
    1.0,
    1.0,
)
DOWN = Quantity(
    "Section 4",
    "… and at most one number more: d (FedProx) or d + 1 (FedAvg, the step size) numbers down for each client",
    "numbers down for each client, less d",
    0.0,
    1.0,
)
REPORTED = identity(
    "Section 4",
    "each client's reply is its updated model: s gradient steps on its own rows, or its own proximal minimiser",
)
AVERAGED = identity("Section 4, (5)", "the next f_t is the sum of these replies with the weights n_i/N")
QUANTITIES = (BROADCAST, DOWN, REPORTED, AVERAGED)
ROUNDS, STEPS = 3, 5


class Overheard(InProcess):
    """Keeps the requests and the replies of the last exchange."""

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        self.requests, self.replies = dict(requests), dict(super().deliver(requests, deadline))
        yield from self.replies.items()


def measured(seed: int, notes: Notes) -> None:
    """Three rounds of either method, three clients, d = 4, from a random start."""
    rng = np.random.default_rng([seed, 41])
    X = [rng.standard_normal((n, 4)) for n in (20, 3, 12)]
    clients = [Client(f"c{i}", rows, rng.standard_normal(len(rows))) for i, rows in enumerate(X)]
    eta, start = 0.2 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X), rng.standard_normal(4)
    _rounds(FedAvg(Squared(), GradientSteps(STEPS, eta)), clients, eta, start, notes)
    _rounds(FedProx(Squared(), pull=1 / eta), clients, eta, start, notes)


def _rounds(what: FedAvg | FedProx, clients: list[Client], eta: float, start: Array, notes: Notes) -> None:
    transport, total = Overheard(clients), sum(len(client.y) for client in clients)
    with opened(transport, dict(collect("algorithm", what)), seed=0) as fed:
        fed.warm_start = start
        fed.begin_round(0)
        state: Any = what.start(fed)
        for number in range(1, ROUNDS + 1):
            before = np.array(state.w)
            sent = len(fed.ledger.records)
            fed.begin_round(number)
            state = what.round(fed, state)
            (record,) = fed.ledger.records[sent:]
            notes.add(DOWN, record.spread(record.scalars_down).sum(axis=0) - before.size)
            notes.add(BROADCAST, *(carries(transport.requests[client.name], before) for client in clients))
            replies = {client.name: model(transport.replies[client.name]) for client in clients}
            for client in clients:
                notes.same(REPORTED, replies[client.name], updated(what, client, eta, before))
            weighted = [len(client.y) / total * replies[client.name] for client in clients]
            notes.same(AVERAGED, np.array(state.w), np.sum(weighted, axis=0))


def carries(request: Request, w: Array) -> float:
    """1 if the request's only array is this one, bit by bit; else 0."""
    arrays = [one for part in request.arguments for one in part.value.values() if isinstance(one, np.ndarray)]
    return float(len(arrays) == 1 and arrays[0].tobytes() == w.tobytes())


def model(reply: Reply | Failure) -> Array:
    """The array that a client returned."""
    if isinstance(reply, Failure):
        raise TypeError(f"a client failed: {reply}")
    (found,) = (np.asarray(part.value) for part in reply.results)
    return found


def updated(what: FedAvg | FedProx, client: Client, eta: float, w: Array) -> Array:
    """What the client should return, from its rows alone."""
    X, y, n = client.X, client.y, len(client.y)
    if isinstance(what, FedProx):
        moved: Array = np.linalg.solve(np.eye(len(w)) + eta / n * X.T @ X, w + eta / n * X.T @ y)
        return moved
    for _ in range(STEPS):
        w = w - eta / n * X.T @ (X @ w - y)
    return w
