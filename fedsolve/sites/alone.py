"""One process of a site at a time, for as long as it reads and writes what its runs share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from fedsolve.errors import StorageError
from fedsolve.wire.locks import FileLock
from fedsolve.wire.storage import writing

PATIENCE = 10.0  # seconds to wait while another process has its turn, unless `waiting_until` says otherwise
_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def waiting_until(until: float) -> Iterator[None]:
    """Within this context `alone` waits for its turn until this time of `time.monotonic`, the same for all turns."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of this path. A process that dies releases it. Raises StorageError if another one keeps it."""
    lock, since = FileLock(path), time.monotonic()
    until = _UNTIL.get()
    until = since + PATIENCE if until is None else until
    with writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not lock.acquire():
            if (now := time.monotonic()) > until:
                raise StorageError(f"{path} has been held by another process of this site for {now - since:.1f} s")
            time.sleep(0.01)
    try:
        yield
    finally:
        lock.release()
