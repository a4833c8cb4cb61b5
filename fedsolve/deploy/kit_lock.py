"""One daemon for each kit: a second one would take the first one's place at the server, and neither would say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsolve.deploy.kits import Kit
from fedsolve.errors import ConfigError, StorageError
from fedsolve.wire.locks import FileLock

LOCK = "daemon.lock"  # in the kit; holds the number of the process that has it


@contextmanager
def only_one(kit: Kit) -> Iterator[None]:
    """Hold a kit for this process. The system releases it when the process ends, however it ends.

    Raises ConfigError, with the number of the other process, where the kit is in use.
    """
    path = kit.folder / LOCK
    lock = FileLock(path)
    try:
        held = lock.acquire()
        if held:
            path.write_text(f"{os.getpid()}\n")
    except OSError as error:
        raise StorageError(f"the kit {kit.folder} cannot be written to: {error.strerror or error}") from error
    if not held:
        raise ConfigError(
            f"the kit {kit.folder} is in use: `fedsolve {kit.kind}` runs with it already{_process(path)}; "
            "end that one first"
        )
    try:
        yield
    finally:
        lock.release()


def _process(path: Path) -> str:
    with suppress(OSError, ValueError):  # it is just being written, or removed
        return f", as process {int(path.read_text())}"
    return ""
