"""A pool of worker processes, each holding many clients. Requests and replies cross as encoded bytes.

A worker that is stopped, slow or dead does not hold up the server: its end of a connection never waits (`channel`), a
client that has not answered by the deadline is missing, and a worker that died is started again (`pool`) with what its
clients remember (`kept`).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from fedsolve.errors import ConfigError, WireError
from fedsolve.federation.client import Client
from fedsolve.federation.served_steps import Served
from fedsolve.federation.transports.base import Versions
from fedsolve.federation.transports.channel import Message
from fedsolve.federation.transports.in_process import checked_names
from fedsolve.federation.transports.kept_memories import KeptMemory
from fedsolve.federation.transports.launch import start_methods
from fedsolve.federation.transports.pool import LOOK_SECONDS, STOPPED_LOOKS, Death, Pool, Worker
from fedsolve.federation.transports.worker import ASK, RESTORE
from fedsolve.wire.encoding import FAILURE
from fedsolve.wire.messages import Failure, Reply, Request, decode_answer

DEATHS = 3  # a client in whose steps its worker dies so many times in a row is not asked again


class Processes:
    """A pool of worker processes on this machine; clients are dealt to them in turn.

    A client whose worker dies is missing from the exchange. The worker is started again with the memories of its
    clients, so they can be asked in the next exchange. If it dies three times in a row while it computes for the same
    client, that client is not asked again. A stopped worker is waited for until the deadline, and not at all in later
    exchanges while it stays stopped. Without a deadline it is waited for until it has been stopped for ten seconds (on
    Linux; elsewhere a stopped worker looks like a slow one). Opening, closing, saving and restoring memories end in
    bounded time whatever the workers do.

    Parameters
    ----------
    clients : sequence of Client
    workers : int, optional
        How many processes; one per core by default.
    threads : int, default 1
        BLAS threads of each worker.
    start : {"spawn", "fork"}, optional
        "spawn" starts fresh interpreters and copies the clients to them. "fork" copies this process as it stands:
        quick, and the data is shared, but it can hang if this process has other threads or has used a GPU. By default
        workers are forked if this process has no other thread (as Linux tells) and spawned otherwise.

    Attributes
    ----------
    absences : dict
        The clients missing from the last exchange, with the reason.
    pids : tuple of int
        The worker processes.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        workers: int | None = None,
        threads: int = 1,
        start: Literal["spawn", "fork"] | None = None,
    ) -> None:
        self.clients = {client.name: client for client in checked_names(clients)}
        self.count = min((os.cpu_count() or 1) if workers is None else workers, len(self.clients))
        if self.count < 1 or threads < 1:
            raise ConfigError(f"at least one worker and one thread are needed, got {workers} and {threads}")
        if start is not None and start not in start_methods():
            raise ConfigError(f"start is {' or '.join(map(repr, start_methods()))} on this system, got {start!r}")
        self.threads = threads
        self.start = start
        self.absences: dict[str, str] = {}
        self._pool: Pool | None = None
        self._home: dict[str, Worker] = {}
        self._kept: dict[str, KeptMemory] = {}
        self._deaths: dict[str, int] = {}  # in a row, by the client in whose steps they happened
        self._given_up: dict[str, str] = {}  # clients that are not asked again, and why
        self._types: frozenset[type] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.clients)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.process.pid for worker in self._workers if worker.process.exit_code() is None)

    @property
    def _workers(self) -> list[Worker]:
        return [] if self._pool is None else self._pool.workers

    def open(self, protocols: Mapping[str, object]) -> None:
        """Start the workers, and wait until they hold their clients."""
        self.close()
        self._types = Served(protocols).types
        self._kept = {name: KeptMemory() for name in self.names}
        self._deaths, self._given_up, self.absences = {}, {}, {}
        clients = list(self.clients.values())
        held = [clients[index :: self.count] for index in range(self.count)]
        self._pool = Pool(held, protocols, self._kept, self.threads, self.start)
        self._home = {name: worker for worker in self._workers for name in worker.clients}

    def close(self) -> None:
        """End all workers, within seconds whatever they do."""
        pool, self._pool, self._home = self._pool, None, {}
        if pool is not None:
            pool.close()

    # ── memory ──

    def memories(self) -> dict[str, Versions] | None:
        """The server's copies, which came with the replies: no worker is asked."""
        return {name: kept.snapshot() for name, kept in self._kept.items()}

    def restore(self, memories: Mapping[str, Versions], attempt: int) -> None:
        """Give workers the memories of a checkpoint; nobody waits until they have read them."""
        for name, kept in self._kept.items():
            kept.attempt, kept.versions = attempt, dict(memories[name])
            self._home[name].channel.send(RESTORE + name.encode(), kept.encode())

    # ── who is there ──

    def reachable(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these clients that could answer now: their workers run, and owe no answer from an earlier exchange.
        Nothing is sent, and nobody is waited for."""
        if self._pool is None:
            return ()
        for worker, message in self._pool.pump(0.0):  # what came since the last exchange
            if message is None:
                self._bury(worker, self._pool.renew(worker), begun=False)
            else:
                self._answer(worker, message, {})
        return tuple(name for name in names if name not in self._given_up and _is_free(self._home[name]))

    # ── an exchange ──

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        """Each client's answer as it comes; those missing at the end are in `absences`, with the reason."""
        assert self._pool is not None, "open() comes first"
        until = None if deadline is None else time.monotonic() + deadline
        looked = time.monotonic()
        self.absences = {}
        for worker in self._workers:
            worker.pending.clear()
            worker.queue.clear()
            worker.looks = 0
        events = self._pool.pump(0.0)  # what came since the last exchange
        for name in requests:
            if name in self._given_up:
                self.absences[name] = self._given_up[name]
            else:
                self._home[name].pending.add(name)
                self._home[name].queue.append(name)
        if self._deaths:  # who has brought down its worker is asked last, so that those beside it are heard
            for worker in self._workers:
                worker.queue = deque(sorted(worker.queue, key=lambda name: self._deaths.get(name, 0)))
        begun = False
        while True:
            for worker, message in events:
                if message is None:
                    self._bury(worker, self._pool.renew(worker), begun)
                    continue
                answer = self._answer(worker, message, requests)
                if answer is not None:
                    yield answer
            begun = True
            self._ask(requests)
            now = time.monotonic()
            if now - looked >= LOOK_SECONDS:
                looked = now
                self._pool.look()
            if not any(self._is_awaited(worker, deadline) for worker in self._workers):
                break
            if until is not None and now >= until:
                break
            events = self._pool.pump(LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - now))
        self._note_missing(deadline)

    def _ask(self, requests: Mapping[str, Request]) -> None:
        # One request at a time per worker: a second one would lie in this process's memory until it is taken.
        for worker in self._workers:
            while worker.ready and worker.asked is None and worker.queue:
                name = worker.queue.popleft()
                if name in worker.pending:
                    worker.asked = name
                    worker.channel.send(ASK + name.encode(), requests[name].encode())

    def _answer(
        self, worker: Worker, message: Message, requests: Mapping[str, Request]
    ) -> tuple[str, Reply | Failure] | None:
        """What a worker says, if it belongs to this exchange; else it is late, and leaves no trace."""
        name = message.head[1:].decode()
        self._deaths.pop(name, None)
        request = requests.get(name)
        if request is None or name not in worker.pending:
            return None
        answer: Reply | Failure
        try:
            answer = decode_answer(cast(bytes, message.body), self._types)  # a bytearray reads like bytes
        except WireError as error:
            head = request.preamble._replace(kind=FAILURE)
            answer = Failure(head, type(error).__name__, "decode", str(error), error)
        if not _answers(answer, request):
            return None
        if isinstance(answer, Reply):
            self._kept[name].commit(request, message.attachment, self._types)
        worker.pending.discard(name)
        return name, answer

    def _bury(self, worker: Worker, death: Death, begun: bool) -> None:
        if death.asked is not None:
            self._deaths[death.asked] = self._deaths.get(death.asked, 0) + 1
            if self._deaths[death.asked] >= DEATHS:
                self._given_up[death.asked] = (
                    f"its worker process {death.reason} {DEATHS} times in a row while it computed for this client, "
                    "which is not asked again"
                )
        # Where nobody has been asked yet nobody is missing: the new process may still answer in time.
        if begun and death.was_ready:
            for name in worker.pending:
                self.absences[name] = self._given_up.get(name, f"its worker process {worker.lost or death.reason}")
            worker.pending.clear()

    def _is_awaited(self, worker: Worker, deadline: float | None) -> bool:
        if not worker.pending or worker.lost:
            return False
        # One that was still stopped when a deadline passed is not waited for again until it moves.
        if worker.late and worker.is_stopped():
            return False
        return deadline is not None or worker.looks < STOPPED_LOOKS

    def _note_missing(self, deadline: float | None) -> None:
        for worker in self._workers:
            if not worker.pending:
                continue
            worker.late, worker.was_stopped = True, worker.is_stopped()
            if worker.lost:
                reason = f"its worker process {worker.lost}"
            else:
                reason = "no answer" + ("" if deadline is None else f" within {deadline:g} s")
                if worker.was_stopped:
                    reason += f", its worker process {worker.process.pid} is stopped"
            self.absences.update(dict.fromkeys(worker.pending, reason))
            worker.pending.clear()


def _is_free(worker: Worker) -> bool:
    """Whether a worker can be given work. One that was stopped, and has been continued, will first give the answer it
    owes."""
    if worker.lost or worker.is_stopped():
        return False
    return worker.asked is None or not worker.late or worker.was_stopped


def _answers(answer: Reply | Failure, request: Request) -> bool:
    head = request.preamble
    return answer.preamble.number == head.number and answer.preamble.attempt == head.attempt
