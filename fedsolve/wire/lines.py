"""Text files that grow by whole lines, also where the disk fills in the middle of one, or the power fails."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from fedsolve.errors import StorageError
from fedsolve.wire.locks import BINARY, NO_LINKS, try_lock
from fedsolve.wire.storage import check_own_file, write_all, writing

PATIENCE = 10.0  # seconds to wait while another process writes


def append_lines(path: Path, text: str, sync: bool = False) -> None:
    """Add lines to the end of a file, which is made if it is not there; with `sync`, wait until they are on disk.

    All of the text is added or, with a StorageError, none of it. A line that was left unfinished, by a process that
    died or a disk that could not even be cleaned up, is ended first, so that it spoils no other.
    """
    with writing(path):
        check_own_file(path)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_LINKS | BINARY, 0o666)
        try:
            _wait_for_turn(handle, path)
            end = os.fstat(handle).st_size
            try:
                write_all(handle, _missing_end(handle, end) + text.encode())
                if sync:
                    os.fsync(handle)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)  # which gives the turn on


def _wait_for_turn(handle: int, path: Path) -> None:
    """One writer at a time, or one would take back what another has added since. A process that dies gives it on."""
    if sys.platform == "win32":  # where a lock would keep readers out
        return
    until = time.monotonic() + PATIENCE
    while not _has_turn(handle):
        if time.monotonic() > until:
            raise StorageError(f"{path} has been held by another process for {PATIENCE:g} s; if one is stopped, end it")
        time.sleep(0.005)


def _has_turn(handle: int) -> bool:
    try:
        return try_lock(handle)
    except OSError:  # no locks on this file system: then it has one writer, as far as can be told
        return True


def _missing_end(handle: int, end: int) -> bytes:
    """What a file needs before a new line can begin."""
    if not end:
        return b""
    os.lseek(handle, end - 1, os.SEEK_SET)
    return b"" if os.read(handle, 1) == b"\n" else b"\n"
