"""A road to clients that live on by themselves, with their memories on disk, and on which everything goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.wire.messages import Failure, Reply, Request


class Crash(Exception):
    """The server dies."""


class FaultyRoad:
    """As deployed: clients outlive the server, keep their own memory, and the checkpoint has none of it.

    loss      probability that a reply is lost after the client has computed it
    repeat    every request is delivered twice
    late      a lost reply turns up again in the next exchange
    restart   (round, client): the client's process is new before this round's first request
    crash     a round in which the server dies after the clients have answered
    """

    def __init__(
        self,
        clients: Sequence[fs.Client],
        folder: Path | None,
        *,
        loss: float = 0.0,
        repeat: bool = False,
        late: bool = False,
        restart: Sequence[tuple[int, str]] = (),
        crash: int | None = None,
        seed: int = 0,
    ) -> None:
        self.clients = {client.name: client for client in clients}
        self.folder = folder
        self.loss, self.repeat, self.late, self.crash = loss, repeat, late, crash
        self.restarts = list(restart)
        self.rng = np.random.default_rng(seed)
        self.runtimes: dict[str, Runtime] = {}
        self.held: dict[str, Reply | Failure] = {}
        self.lost = self.restarted = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.clients)

    def open(self, protocols: Mapping[str, Any]) -> None:
        self.protocols = dict(protocols)
        for name in self.clients:
            if name not in self.runtimes:
                self.runtimes[name] = self._runtime(name)

    def _runtime(self, name: str) -> Runtime:
        store = None if self.folder is None else MemoryStore(self.folder / f"{name}.memory")
        return Runtime(self.clients[name], self.protocols, store)

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterable[tuple[str, Reply | Failure]]:
        round_ = next(iter(requests.values())).preamble.round
        setup = next(iter(requests.values())).routes.value[0][2] == "setup"
        for planned in [one for one in self.restarts if one[0] == round_]:
            self.restarts.remove(planned)
            self.clients[planned[1]].forget()
            self.runtimes[planned[1]] = self._runtime(planned[1])
            self.restarted += 1
        answers: dict[str, Reply | Failure] = {}
        before, self.held = self.held, {}
        for name, request in requests.items():
            answer = self.runtimes[name].answer(request)
            if self.repeat:
                assert self.runtimes[name].answer(request) is answer
            if not setup and self.rng.random() < self.loss:
                self.lost += 1
                self.held[name] = answer
                if self.late and name in before:
                    answers[name] = before[name]  # what arrives is the answer to an earlier request
                continue
            answers[name] = answer
        if self.crash == round_ and not setup:
            self.crash = None
            raise Crash
        return answers.items()

    def memories(self) -> None:
        return None

    def restore(self, memories: Any, attempt: int) -> None:
        raise AssertionError("deployed clients keep their own memories")

    def close(self) -> None:
        pass


def until_done(make_run: Callable[[bool], fs.Run]) -> fs.Run:
    """Start the server again whenever it dies."""
    resume = False
    while True:
        try:
            return make_run(resume)
        except Crash:
            resume = True
