"""Steps that misbehave in a worker process, and what a test must know of processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import Processes
from fedsolve.federation.transports.launch import is_stopped
from fedsolve.typing import Array


@dataclass(frozen=True)
class Steps:
    """A protocol that moves much, remembers, and dies."""

    @fs.client_step
    def take(self, client: fs.Client, array: Array) -> float:
        return float(array[-1])

    @fs.client_step
    def give(self, client: fs.Client, size: int) -> Array:
        return np.ones(size)

    @fs.client_step
    def count(self, client: fs.Client) -> int:
        client.memory["count"] = client.memory.get("count", 0) + 1
        return int(client.memory["count"])

    @fs.client_step
    def remember(self, client: fs.Client, size: int) -> float:
        client.memory["large"] = np.ones(size)
        return 0.0

    @fs.client_step
    def remember_path(self, client: fs.Client) -> float:
        client.memory["path"] = Path("a")  # cannot be encoded
        return 0.0

    @fs.client_step
    def sleep(self, client: fs.Client, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    @fs.client_step
    def fail(self, client: fs.Client) -> float:
        raise ValueError("on purpose")

    @fs.client_step
    def leave(self, client: fs.Client, name: str, code: int) -> str:
        if client.name == name:
            os._exit(code)
        return client.name

    @fs.client_step
    def leave_in(self, client: fs.Client, worker: tuple[str, ...]) -> str:
        if client.name in worker:
            os._exit(3)
        return client.name


STEPS = Steps()


def clients(count: int = 4) -> list[fs.Client]:
    return [fs.Client(f"c{j}", np.ones((2 + j, 2)), np.ones(2 + j)) for j in range(count)]


@contextlib.contextmanager
def federation(count: int = 4, workers: int = 2, **policy: Any) -> Iterator[tuple[Federation, Processes]]:
    """A federation over workers that stands in round 1; `c0`, `c2` … are with the first of two workers."""
    transport = Processes(clients(count), workers=workers, start="fork")
    transport.open({"steps": STEPS})
    try:
        fed = Federation(transport, {"steps": STEPS}, participation=fs.Participation(**policy))
        fed.join()
        fed.begin_round(1)
        yield fed, transport
    finally:
        transport.close()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail, and do not hang, if this takes longer."""

    def raise_(*_: Any) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, raise_)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid))


def kill(transport: Processes, index: int) -> None:
    """Kill a worker, and wait until the server can see it."""
    worker = transport._workers[index]
    hang_up = select.poll()
    hang_up.register(worker.channel.socket, 0)
    os.kill(worker.process.pid, signal.SIGKILL)
    wait_until(lambda: bool(hang_up.poll(0)))


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def is_there(pid: int) -> bool:
    """Whether a process lives; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] not in "ZX"
    except OSError:
        return False


def children() -> set[int]:
    """The processes this one has started, those that ended and were not waited for included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(") ")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found
