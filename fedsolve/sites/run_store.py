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

PATIENCE = 10.0  # seconds to wait while another process writes


class RunStore:
    """The folder of one run at a site.

    agreed  by name, what must be the same whenever the site starts again for this run: the terms, the data file, the
            rows, the library
    """

    def __init__(self, folder: Path, agreed: Mapping[str, str]) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self._lock = FileLock(folder / "lock")
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            remove_leftovers(folder, ("agreed.json", "owner", "memory"))
            self._check_agreed({"library": library.__version__, **agreed})
            write_atomically(folder / "owner", self.token.encode())

    def _check_agreed(self, agreed: Mapping[str, str]) -> None:
        path = self.folder / "agreed.json"
        if not os.path.lexists(path):
            write_atomically(path, json.dumps(dict(agreed), indent=1).encode())
            return
        try:
            with reading(path) as (file, _):
                before = json.loads(file.read())
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}; begin a new run") from error
        for what, mark in agreed.items():
            if before.get(what) != mark:
                raise StorageError(
                    f"the {what} of this site changed since the run began, so it takes no further part in it; restore "
                    "what was there, or begin a new run"
                )

    def write(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        """Replace the stored versions; the old ones stay if that fails."""
        payload = encode_values(attempt, dict(versions))
        with self._alone():
            if self._owner() != self.token:
                raise StorageError(
                    "another process of this site has taken over this run; this one neither writes nor answers any more"
                )
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

    def _owner(self) -> str:
        with reading(self.folder / "owner") as (file, _):
            return file.read().decode(errors="replace")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of this site at a time. A process that dies releases the lock."""
        until = time.monotonic() + PATIENCE
        with writing(self._lock.path):
            while not self._lock.acquire():
                if time.monotonic() > until:
                    raise StorageError(f"{self._lock.path} has been held by another process for {PATIENCE:g} s")
                time.sleep(0.01)
        try:
            yield
        finally:
            self._lock.release()


def forget_runs(folder: Path, days: float) -> list[str]:
    """Remove the folders of runs in which nothing was written for so many days; returns their names."""
    gone: list[str] = []
    if not folder.is_dir():
        return gone
    for one in sorted(folder.iterdir()):
        memory = one / "memory"
        newest = max((path.stat().st_mtime for path in (memory, one) if path.exists()), default=0.0)
        if one.is_dir() and not one.is_symlink() and time.time() - newest > days * 86400:
            shutil.rmtree(one)
            gone.append(one.name)
    return gone
