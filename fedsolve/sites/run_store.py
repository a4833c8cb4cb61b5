"""What a site keeps of one run on its own disk: what it agreed to, and the versions of its memory.

The newest process of a site that opens the store owns it. One that was started before, and lives on as an orphan, finds
another owner when it wants to write: it can neither change the memory nor, because no reply leaves before its memory is
written, answer.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedsolve import version as library
from fedsolve.errors import StorageError, WireError, WrongVersion
from fedsolve.typing import Value
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.locks import FileLock
from fedsolve.wire.storage import decode_values, encode_values, reading, remove_leftovers, write_atomically, writing

_HALF = ".forgotten-"  # what the folder of a run is called while it is being removed
PATIENCE = 10.0  # seconds to wait while another process writes


class SiteChanged(StorageError):
    """A site is not what it was when a run began there."""


class RunStore:
    """The folder of one run at a site.

    agreed  by name, what must be the same whenever the site starts again for this run: the terms, the data file, the
            rows, the library
    """

    def __init__(self, folder: Path, agreed: Mapping[str, str]) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self._lock = FileLock(folder / "lock")
        with _opened(folder, self._lock):
            _agree(folder, agreed)
            write_atomically(folder / "owner", self.token.encode())

    def write(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        """Replace the stored versions; the old ones stay if that fails."""
        payload = encode_values(attempt, dict(versions))
        with self.owned():
            write_atomically(self.folder / "memory", *sealed.seal(sealed.MEMORY, payload))

    def read(self, types: frozenset[type]) -> tuple[int, dict[int, dict[str, Value]]]:
        """The attempt and the versions that were written last; those of a client that has never answered, if none."""
        path = self.folder / "memory"
        if not os.path.lexists(path):
            return 0, {0: {}}
        try:
            with reading(path) as (file, size):
                version, payload = sealed.unseal(file, size, sealed.MEMORY)
            if version != library.__version__:
                raise WrongVersion(f"fedsolve {version} wrote it, and this is fedsolve {library.__version__}")
            attempt, versions = decode_values(payload, types)
        except (WireError, ValueError, OSError) as error:
            said = (isinstance(error, OSError) and error.strerror) or str(error)
            raise StorageError(f"the memory of this run cannot be read: {said}; begin a new run") from error
        return attempt, versions

    @contextmanager
    def owned(self) -> Iterator[None]:
        """What only the owner does; meanwhile no other process takes over. Raises StorageError if one has."""
        with _alone(self._lock):
            with reading(self.folder / "owner") as (file, _):
                owner = file.read().decode(errors="replace")
            if owner != self.token:
                raise StorageError(
                    "another process of this site has taken over this run; this one neither writes nor answers any more"
                )
            yield


def check_agreed(folder: Path, agreed: Mapping[str, str]) -> None:
    """Keep what a run came with, as far as it is known yet. Raises SiteChanged if it came with something else
    before."""
    with _opened(folder, FileLock(folder / "lock")):
        _agree(folder, agreed)


@contextmanager
def _opened(folder: Path, lock: FileLock) -> Iterator[None]:
    """The folder of a run, for one process at a time."""
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(lock):
        remove_leftovers(folder, ("agreed.json", "owner", "memory", "transform.json", "functions.json"))
        yield


def _agree(folder: Path, agreed: Mapping[str, str]) -> None:
    path, now = folder / "agreed.json", {"library": library.__version__, **agreed}
    before: dict[str, str] = {}
    if os.path.lexists(path):
        try:
            with reading(path) as (file, _):
                before = json.loads(file.read())
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}; begin a new run") from error
    for what, mark in now.items():
        if before.get(what, mark) != mark:
            raise SiteChanged(
                f"the {what} of this site changed since the run began, so it takes no further part in it; restore "
                "what was there and resume the run, or begin a new one"
            )
    if before != {**before, **now}:
        write_atomically(path, json.dumps({**before, **now}, indent=1).encode())


@contextmanager
def _alone(lock: FileLock) -> Iterator[None]:
    """One process of this site at a time. A process that dies releases the lock."""
    until = time.monotonic() + PATIENCE
    with writing(lock.path):
        while not lock.acquire():
            if time.monotonic() > until:
                raise StorageError(f"{lock.path} has been held by another process for {PATIENCE:g} s")
            time.sleep(0.01)
    try:
        yield
    finally:
        lock.release()


def forget_runs(folder: Path, days: float) -> list[str]:
    """Remove the folders of runs in which nothing was written for so many days; returns their names. A run that a
    process is just writing to stays, and so does whatever is no folder of a run."""
    gone: list[str] = []
    with writing(folder):
        for one in sorted(folder.iterdir()) if folder.is_dir() else ():
            if one.name.startswith(_HALF):  # of a call that was cut short
                shutil.rmtree(one)
            elif not one.is_symlink() and (one / "agreed.json").is_file() and time.time() - _newest(one) > days * 86400:
                lock = FileLock(one / "lock")
                if lock.acquire():
                    half = folder / f"{_HALF}{one.name}"  # so that no run is ever there in part
                    one.rename(half)
                    lock.release()
                    shutil.rmtree(half)
                    gone.append(one.name)
    return gone


def _newest(folder: Path) -> float:
    """When something was written last, in seconds since the epoch."""
    return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
