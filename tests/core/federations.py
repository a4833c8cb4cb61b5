"""Tiny federations to count by hand, and a transport that writes down every message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.loop.measure_protocols import Measure
from fedsolve.losses import Logistic
from fedsolve.numerics.structured_arrays import Symmetric, TopK
from fedsolve.typing import Array
from fedsolve.wire.messages import Failure, Reply, Request


@dataclass(frozen=True)
class Steps:
    """A protocol with one step of each kind."""

    loss: Logistic = field(default_factory=lambda: Logistic(l2=0.1))

    @client_step
    def gradient(self, client: Client, w: Array) -> Array:
        return self.loss.gradient(client, w)

    @client_step
    def everything(self, client: Client, w: Array) -> tuple[float, Array, Symmetric]:
        return self.loss.value(client, w), self.loss.gradient(client, w), self.loss.hessian(client, w)

    @client_step
    def largest(self, client: Client, w: Array, k: int) -> TopK:
        return TopK.of(self.loss.gradient(client, w), k)

    @client_step
    def name(self, client: Client) -> str:
        return client.name

    @client_step
    def numbers(self, client: Client, size: int) -> Array:
        return np.zeros(size)

    @client_step
    def room(self, client: Client) -> int | None:
        return client.room

    @client_step
    def as_much_as_fits(self, client: Client) -> Array:
        """Part sizes, header, padding: 24 bytes around a vector."""
        assert client.room is not None
        return np.zeros((client.room - 24) // 8)

    @client_step
    def draw(self, client: Client) -> float:
        return float(client.rng.random())


@dataclass
class Recorder:
    """A transport around another: keeps each request and each answer as bytes."""

    inner: Any
    down: list[tuple[str, bytes]] = field(default_factory=list)
    up: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def open(self, protocols: Mapping[str, Any]) -> None:
        self.inner.open(protocols)

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        self.down += [(name, request.encode()) for name, request in requests.items()]
        for name, answer in self.inner.deliver(requests, deadline):
            self.up.append((name, answer.encode()))
            yield name, answer

    def close(self) -> None:
        self.inner.close()


STEPS = Steps()
MEASURE = Measure(STEPS.loss)
TRANSPORTS: dict[str, Callable[[list[Client]], Any]] = {
    "in process": InProcess,
    "processes": lambda clients: Processes(clients, workers=2, start="fork"),
}


def clients(sizes: tuple[int, ...] = (2, 3, 5), features: int = 2, **arguments: Any) -> list[Client]:
    rng = np.random.default_rng(0)
    made = []
    for index, n in enumerate(sizes):
        X = rng.standard_normal((n, features))
        y = np.arange(n) % 2.0
        made.append(Client(f"c{index}", X, y, **arguments))
    return made


def join(transport: Any, **arguments: Any) -> Federation:
    """A federation that has agreed on its protocols and stands in round 1."""
    protocols = {"algorithm": STEPS, "measure": MEASURE}
    transport.open(protocols)
    fed = Federation(transport, protocols, **arguments)
    fed.join()
    fed.begin_round(1)
    return fed
