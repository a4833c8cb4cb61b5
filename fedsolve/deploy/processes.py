"""The processes below one, and those that a kit has left behind: found in /proc, and ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PATIENCE = 5.0  # seconds for processes to leave by themselves, and for the system to end those that do not
_ENGINE = b"nvflare.private."  # what the commands of NVFlare's daemons and jobs have in them


def prctl(option: int, value: int) -> None:
    """The system call of this name, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def reap(but: int) -> None:
    """Forget adopted processes that have ended, so that none of them stays as a zombie."""
    if sys.platform != "linux":
        return
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == but:  # whoever started it asks for its status
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def processes() -> dict[int, tuple[int, bool]]:
    """The parent of each process on this machine, and whether it lives: one that has ended waits to be forgotten."""
    found: dict[int, tuple[int, bool]] = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            state, parent = one.read_text().rpartition(")")[2].split()[:2]
            found[int(one.parent.name)] = int(parent), state not in "ZX"
    return found


def descendants(pid: int) -> list[int]:
    """All processes below one that live."""
    known, found = processes(), {pid}
    while more := {one for one, (parent, _) in known.items() if parent in found} - found:
        found |= more
    return sorted(one for one in found - {pid} if known[one][1])


def leftovers(kit: Path) -> list[int]:
    """Processes of NVFlare that use a kit, and what is below them. Whoever holds the kit has not started any yet."""
    found: set[int] = set()
    for pid, arguments in _commands():
        if str(kit).encode() in arguments and any(one.startswith(_ENGINE) for one in arguments):
            found |= {pid, *descendants(pid)}
    return sorted(found)


def _commands() -> Iterator[tuple[int, list[bytes]]]:
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield int(one.parent.name), one.read_bytes().split(b"\0")


def end_descendants(pid: int) -> list[int]:
    """End all processes below this one: with a signal they can obey, then without. Returns those that have not ended,
    which wait for something in the system itself."""
    return _end(lambda: descendants(pid))


def end_all(pids: Iterable[int]) -> list[int]:
    """The same for some processes."""
    wanted = set(pids)
    return _end(lambda: [pid for pid, (_, lives) in processes().items() if lives and pid in wanted])


def _end(those: Callable[[], list[int]]) -> list[int]:
    began, told = time.monotonic(), set[int]()
    while left := those():
        late = time.monotonic() - began > PATIENCE
        if time.monotonic() - began > 2 * PATIENCE:
            return left
        for one in left:
            if late or one not in told:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(one, signal.SIGCONT)
                    os.kill(one, signal.SIGKILL if late else signal.SIGTERM)
                told.add(one)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
    return []
