"""One daemon for each kit: a second one would take the first one's place at the server, and neither would say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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

    def in_use(process: str) -> str:
        return (
            f"the kit {kit.folder} is in use: `fedsolve {kit.kind}` runs with it already{process}; end that one first"
        )

    with locked(kit.folder / LOCK, f"the kit {kit.folder}", in_use):
        yield


@contextmanager
def locked(path: Path, what: str, in_use: Callable[[str], str]) -> Iterator[None]:
    """Hold a lock that says which process has it.

    what    what is locked, for where its folder cannot be written to
    in_use  the sentence for where another process has it, from what is known of that process, which may be nothing
    """
    lock = FileLock(path)
    try:
        held = lock.acquire()
        if held:
            path.write_text(f"{os.getpid()}\n")
    except OSError as error:
        raise StorageError(f"{what} cannot be written to: {error.strerror or error}") from error
    if not held:
        raise ConfigError(in_use(_process(path)))
    try:
        yield
    finally:
        lock.release()


def _process(path: Path) -> str:
    with suppress(OSError, ValueError):  # it is just being written, or removed
        return f", as process {int(path.read_text())}"
    return ""
