"""Starting worker processes, and telling what has become of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any, Protocol

# Sets the path before it imports anything: a module of the working directory must not take the place of another.
_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[2:]; from fedsolve.federation.transports.worker import main; main(sys.argv[1])"
)


class Started(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    def exit_code(self) -> int | None:
        """None while it lives; the negative number of the signal that killed it."""
        ...

    def kill(self) -> None:
        """End it at once. Unlike SIGTERM, this also ends a process that is stopped."""
        ...

    def join(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        ...


class Spawned:
    """A fresh interpreter. Nothing of this process is in it, so that no lock a thread holds here can be held there."""

    def __init__(self, end: socket.socket) -> None:
        path = [entry for entry in sys.path if isinstance(entry, str)]
        executable = get_executable() or sys.executable
        executable = executable.decode() if isinstance(executable, bytes) else executable
        command = [executable, "-c", _BOOTSTRAP]
        if sys.platform == "win32":
            self.process = subprocess.Popen([*command, "shared", *path], stdin=subprocess.PIPE)
            assert self.process.stdin is not None
            self.process.stdin.write(end.share(self.process.pid))
            self.process.stdin.close()
            return
        # In a group of its own Ctrl-C does not reach it, and if we are killed while it is stopped, the system ends it.
        handle = end.fileno()
        self.process = subprocess.Popen(
            [*command, str(handle), *path], stdin=subprocess.DEVNULL, pass_fds=[handle], process_group=0
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def exit_code(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        self.process.kill()

    def join(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


class Forked:
    """A copy of this process as it stands."""

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.process = context.Process(target=target, args=arguments, daemon=True)
        self.process.start()

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def exit_code(self) -> int | None:
        return self.process.exitcode  # type: ignore[no-any-return]

    def kill(self) -> None:
        self.process.kill()

    def join(self, seconds: float) -> bool:
        self.process.join(seconds)
        return self.process.exitcode is not None


def start_methods() -> tuple[str, ...]:
    """What this system has, the safe one first."""
    return ("spawn", "fork") if "fork" in multiprocessing.get_all_start_methods() else ("spawn",)


def is_alone() -> bool:
    """Whether this process has no other thread, so that a copy of it cannot inherit a lock that nobody will release.

    Only Linux tells; threads of C libraries (BLAS, CUDA) count like all others.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped by a signal (SIGSTOP, SIGTSTP) and not continued. Only Linux says so."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b") ")[2][:1] == b"T"


def ending(exit_code: int | None) -> str:
    """How a process ended, in words."""
    if exit_code is None:
        return "closed its connection"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
