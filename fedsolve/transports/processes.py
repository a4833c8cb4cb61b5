"""A pool of worker processes, each holding many clients. Requests and replies cross as encoded bytes.

The clients themselves are handed to the workers when they start, by fork where the system has it (nothing is copied)
and otherwise by multiprocessing's own means: that is this machine talking to itself, not the network. From then on
only wire messages pass.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from threadpoolctl import threadpool_limits

from fedsolve import wire
from fedsolve.client import Client
from fedsolve.errors import ConfigError, TransportError, WireError
from fedsolve.messages import Failure, Reply, Request, decode_answer
from fedsolve.runtime import Runtime, Served
from fedsolve.transports.base import Versions
from fedsolve.transports.in_process import checked_names
from fedsolve.wire import FILE, Part, Preamble

_ASK, _MEMORIES, _RESTORE = b"a", b"m", b"r"


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    clients: tuple[str, ...]
    owes: bool = False  # an answer


class Processes:
    """`workers` processes with `threads` BLAS threads each; clients are dealt to them in turn."""

    def __init__(
        self,
        clients: Sequence[Client],
        workers: int | None = None,
        threads: int = 1,
        start: Literal["fork", "spawn", "forkserver"] | None = None,
    ) -> None:
        self.clients = {client.name: client for client in checked_names(clients)}
        self.count = min(workers or os.cpu_count() or 1, len(self.clients))
        if self.count < 1 or threads < 1:
            raise ConfigError(f"at least one worker and one thread are needed, got {workers} and {threads}")
        self.threads = threads
        known = multiprocessing.get_all_start_methods()
        self.start = start or ("fork" if "fork" in known else "spawn")
        self._workers: list[_Worker] = []
        self._home: dict[str, _Worker] = {}
        self._types: frozenset[type[Any]] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.clients)

    def open(self, protocols: Mapping[str, Any]) -> None:
        self.close()
        self._types = Served(protocols).types
        context: Any = multiprocessing.get_context(self.start)
        names = self.names
        for index in range(self.count):
            held = names[index :: self.count]
            here, there = context.Pipe()
            # A forked worker inherits our ends of all pipes; it must close them to see when we are gone.
            ours = [worker.pipe for worker in self._workers] + [here] if self.start == "fork" else []
            arguments = (there, ours, [self.clients[name] for name in held], dict(protocols), self.threads)
            process = context.Process(target=_serve, args=arguments, daemon=True, name=f"fedsolve-{index}")
            process.start()
            there.close()
            worker = _Worker(process, here, held)
            self._workers.append(worker)
            self._home.update(dict.fromkeys(held, worker))

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        queues: dict[int, list[str]] = {index: [] for index in range(len(self._workers))}
        for name in requests:
            queues[self._workers.index(self._home[name])].append(name)
        until = None if deadline is None else time.monotonic() + deadline
        missing = set(requests)
        while missing:
            # One request at a time per worker: two large messages that neither side reads would block both for ever.
            for index, worker in enumerate(self._workers):
                if not worker.owes and queues[index]:
                    name = queues[index].pop(0)
                    self._send(worker, _ASK, name, requests[name].encode())
                    worker.owes = True
            busy = {worker.pipe: worker for worker in self._workers if worker.owes}
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = wait(list(busy), timeout=left)
            if not ready:
                break  # the deadline: who has not answered is missing
            for pipe in ready:
                name, data = self._receive(busy[pipe])  # type: ignore[index]
                try:
                    answer = decode_answer(data, self._types)
                except WireError as error:
                    raise type(error)(f"client {name!r}: {error}") from error
                request = requests.get(name)
                if request is not None and _answers(answer, request):  # else late, from an earlier exchange
                    missing.discard(name)
                    yield name, answer

    def memories(self) -> dict[str, Versions] | None:
        found: dict[str, Versions] = {}
        for name in self.names:
            worker = self._home[name]
            self._quieten(worker)
            self._send(worker, _MEMORIES, name, b"")
            _, data = self._receive(worker)
            _, values, _ = wire.decode(data, self._types)
            found[name] = values[0]
        return found

    def restore(self, memories: Mapping[str, Versions], attempt: int) -> None:
        for name in self.names:
            worker = self._home[name]
            self._quieten(worker)
            self._send(worker, _RESTORE, name, wire.encode(Preamble(FILE, attempt), [Part(memories[name])]))

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()  # the worker reads the end of its pipe and leaves
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()
        self._workers, self._home = [], {}

    def _quieten(self, worker: _Worker) -> None:
        """Take in an answer that is still on its way."""
        while worker.owes:
            self._receive(worker)

    def _send(self, worker: _Worker, verb: bytes, name: str, data: bytes) -> None:
        try:
            worker.pipe.send_bytes(verb + name.encode())
            worker.pipe.send_bytes(data)
        except OSError as error:
            raise self._died(worker) from error

    def _receive(self, worker: _Worker) -> tuple[str, bytes]:
        try:
            name, data = worker.pipe.recv_bytes().decode(), worker.pipe.recv_bytes()
            worker.owes = False
            return name, data
        except (EOFError, OSError) as error:
            raise self._died(worker) from error

    def _died(self, worker: _Worker) -> TransportError:
        worker.process.join(timeout=1)
        held = ", ".join(worker.clients[:5]) + (" …" if len(worker.clients) > 5 else "")
        return TransportError(
            f"a worker process ended with exit code {worker.process.exitcode}; it held the clients {held}. "
            "Out of memory is the usual cause: use fewer workers"
        )


def _answers(answer: Reply | Failure, request: Request) -> bool:
    head = request.preamble
    return answer.preamble.number == head.number and answer.preamble.attempt == head.attempt


def _serve(
    pipe: Connection, ours: Sequence[Connection], clients: Sequence[Client], protocols: Mapping[str, Any], threads: int
) -> None:
    """A worker's life: answer until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our pipe
    for other in ours:
        other.close()
    served = Served(protocols)
    runtimes = {client.name: Runtime(client, served) for client in clients}
    with threadpool_limits(threads):
        while True:
            try:
                head, data = pipe.recv_bytes(), pipe.recv_bytes()
            except (EOFError, OSError):
                return
            verb, name = head[:1], head[1:].decode()
            runtime = runtimes[name]
            if verb == _RESTORE:
                preamble, values, _ = wire.decode(data, runtime.types)
                runtime.restore(preamble.attempt, values[0])
                continue
            answer = (
                runtime.answer_bytes(data) if verb == _ASK else wire.encode(Preamble(FILE), [Part(runtime.snapshot())])
            )
            try:
                pipe.send_bytes(name.encode())
                pipe.send_bytes(answer)
            except OSError:
                return  # the server has gone without waiting for this answer
