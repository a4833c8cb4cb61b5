"""Worker processes that are started again when they die. Nothing here waits for a worker longer than it is told to."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedsolve.errors import TransportError
from fedsolve.federation.client import Client
from fedsolve.federation.transports import handover
from fedsolve.federation.transports.channel import Channel, Message
from fedsolve.federation.transports.kept_memories import KeptMemory
from fedsolve.federation.transports.launch import Forked, Spawned, Started, ending, is_alone, is_stopped
from fedsolve.federation.transports.worker import READY, RESTORE, TROUBLE, forked

LOOK_SECONDS = 1.0  # how often workers that are waited for are looked at
STOPPED_LOOKS = 10  # found stopped so many times in a row, a worker is not waited for where there is no deadline
START_SECONDS = 300.0  # a worker that has neither taken its data nor begun by then will not
CLOSE_SECONDS = 2.0  # for workers to leave by themselves
MOST_DEATHS = 5  # a worker that dies so many times in a row without an answer in between is not started again

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Worker:
    """A place for some clients, and the process that holds them now."""

    clients: tuple[str, ...]
    process: Started
    channel: Channel
    ready: bool = False
    asked: str | None = None  # the client whose answer it owes, in this exchange or from an earlier one
    queue: deque[str] = field(default_factory=deque)  # who is to be asked after that
    pending: set[str] = field(default_factory=set)  # whose answer of this exchange has not come
    late: bool = False  # it missed a deadline, and has said nothing since
    was_stopped: bool = False  # when it missed that deadline
    looks: int = 0  # how often in a row it was found stopped
    deaths: int = 0  # in a row, without an answer in between
    lost: str = ""  # why it is not started again

    def is_stopped(self) -> bool:
        return is_stopped(self.process.pid)


class Death(NamedTuple):
    """What a worker died of, and over what."""

    reason: str
    asked: str | None  # the client for whom it was computing
    was_ready: bool


class Pool:
    """The workers of one run. `held` says which clients each of them holds."""

    def __init__(
        self,
        held: Sequence[Sequence[Client]],
        protocols: Mapping[str, object],
        kept: Mapping[str, KeptMemory],
        threads: int,
        start: str | None,
    ) -> None:
        self.protocols, self.kept, self.threads, self.start = dict(protocols), kept, threads, start
        self.workers: list[Worker] = []
        self._clients = {client.name: client for group in held for client in group}
        self._selector = selectors.DefaultSelector()
        try:
            for group in held:
                names = tuple(client.name for client in group)
                worker = Worker(names, *self._started(names))
                self.workers.append(worker)
                self._selector.register(worker.channel.socket, selectors.EVENT_READ, worker)
            self._await_ready()
        except BaseException:
            self.close()
            raise

    def pump(self, seconds: float) -> list[tuple[Worker, Message | None]]:
        """Send and receive what can be, waiting so long for the first.

        None stands for a worker's death, after its last message; `renew` it once that message has been taken in.
        """
        for worker in self.workers:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.channel.sending else 0)
            if not worker.lost and self._selector.get_key(worker.channel.socket).events != wanted:
                self._selector.modify(worker.channel.socket, wanted, worker)
        found: list[tuple[Worker, Message | None]] = []
        for key, events in self._selector.select(max(0.0, seconds)):
            worker = key.data
            if events & selectors.EVENT_WRITE:
                worker.channel.flush()
            if events & selectors.EVENT_READ:
                try:
                    while (message := worker.channel.receive()) is not None:
                        worker.late, worker.looks = False, 0
                        if not self._is_about_start(worker, message):
                            # Here, and not where the answer is used: it may be dropped unread.
                            worker.asked, worker.deaths = None, 0
                            found.append((worker, message))
                except EOFError:
                    found.append((worker, None))
        return found

    def look(self) -> None:
        """Note which workers are stopped at this moment."""
        for worker in self.workers:
            worker.looks = worker.looks + 1 if worker.is_stopped() else 0

    def close(self) -> None:
        """End the workers. One that is busy or stopped is killed: what it computes is not wanted any more."""
        try:
            for worker in self.workers:
                worker.channel.close()
                if worker.asked is not None or not worker.ready or worker.is_stopped():
                    worker.process.kill()
            until = time.monotonic() + CLOSE_SECONDS
            for worker in self.workers:
                worker.process.join(max(0.0, until - time.monotonic()))
        finally:  # also if Ctrl-C came meanwhile
            for worker in self.workers:
                if worker.process.exit_code() is None:
                    worker.process.kill()
            for worker in self.workers:
                worker.process.join(CLOSE_SECONDS)
            self._selector.close()

    # ── starting ──

    def _started(self, names: Sequence[str]) -> tuple[Started, Channel]:
        clients = [self._clients[name] for name in names]
        try:
            here, there = socket.socketpair()
        except OSError as error:
            raise TransportError(f"no connection to a new worker process could be made: {error}") from error
        channel = Channel(here)
        try:
            process: Started
            # A forked process inherits locks as they are; one that another thread holds stays locked for ever.
            if self.start == "fork" or (self.start is None and is_alone()):
                process = Forked(forked, there, clients, self.protocols, self.threads)
            else:
                data, contents = handover.pack(self.protocols, clients, self.threads)
                process = Spawned(there)
                channel.send(b"", data, contents)
        except BaseException as error:
            channel.close()
            if isinstance(error, OSError):
                raise TransportError(f"a new worker process could not be started: {error}") from error
            raise
        finally:
            there.close()
        for name in names:
            if not self.kept[name].is_blank:
                channel.send(RESTORE + name.encode(), self.kept[name].encode())
        return process, channel

    def _is_about_start(self, worker: Worker, message: Message) -> bool:
        kind = bytes(message.head[:1])
        if kind == TROUBLE:
            raise TransportError(
                f"a worker process could not take over its clients: {message.body.decode()}. A fresh process must be "
                'able to import what they and the algorithm are made of; or use Processes(clients, start="fork")'
            )
        worker.ready = True
        return kind == READY

    def _await_ready(self) -> None:
        sent, moved, looked = -1, time.monotonic(), time.monotonic()
        while waiting := [worker for worker in self.workers if not worker.ready]:
            for worker, _ in self.pump(LOOK_SECONDS):
                self.renew(worker)
            now, before, sent = time.monotonic(), sent, sum(worker.channel.sent for worker in waiting)
            moved = now if sent != before else moved
            if now - looked >= LOOK_SECONDS:
                looked = now
                self.look()
            for worker in waiting:
                where = f"worker process {worker.process.pid}, which should hold {in_words(worker.clients)},"
                if worker.lost:
                    raise TransportError(f"{where} {worker.lost}")
                if not worker.ready and worker.looks >= STOPPED_LOOKS:
                    raise TransportError(f"{where} is stopped; continue it (SIGCONT) and start again")
                if not worker.ready and now - moved > START_SECONDS:
                    raise TransportError(f"{where} has not begun within {START_SECONDS:.0f} s")

    def renew(self, worker: Worker) -> Death:
        """Take note of a worker's death, and start it again with what its clients remember."""
        self._selector.unregister(worker.channel.socket)
        worker.channel.close()
        if not worker.process.join(1.0):
            worker.process.kill()
            worker.process.join(CLOSE_SECONDS)
        death = Death(ending(worker.process.exit_code()), worker.asked, worker.ready)
        worker.deaths += 1
        worker.asked, worker.ready, worker.late, worker.looks = None, False, False, 0
        if worker.deaths >= MOST_DEATHS:
            worker.lost = (
                f"{death.reason}, the {MOST_DEATHS}th in a row to end without an answer; none is started again"
            )
        what = worker.lost or f"{death.reason}; a new one is started"
        hint = " (out of memory is a usual cause: use fewer workers)" if death.reason.endswith("SIGKILL") else ""
        _log.warning("worker process %d with %s %s%s", worker.process.pid, in_words(worker.clients), what, hint)
        if not worker.lost:
            try:
                worker.process, worker.channel = self._started(worker.clients)
            except TransportError as error:
                worker.lost = f"{death.reason}, and {error}"
            else:
                self._selector.register(worker.channel.socket, selectors.EVENT_READ, worker)
        return death


def in_words(names: Sequence[str], most: int = 8) -> str:
    """The names, or the first of them and how many there are more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
