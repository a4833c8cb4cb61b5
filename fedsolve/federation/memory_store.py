"""A client's memory on its own disk, so that it may restart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakValueDictionary

from fedsolve import version as library
from fedsolve.errors import StorageError, WireError, WrongVersion
from fedsolve.typing import Value
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.locks import FileLock
from fedsolve.wire.storage import (
    check_own_file,
    decode_values,
    encode_values,
    reading,
    remove_leftovers,
    write_atomically,
    writing,
)


class MemoryStore:
    """A client's memory versions on its own disk, for one process at a time.

    The store is taken by the first `read` or `write`, and held (`.lock`) until `close` or the end of the process.
    Opened again in the same process, as by a client that starts anew, it goes to the new object. Raises StorageError
    for a file that is damaged, written by another version, in use by another process, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path  # as it was given, for messages
        self.place = Path(os.path.realpath(path.parent)) / path.name
        self._hold: _Hold | None = None
        self._token = object()

    def write(self, attempt: int, versions: Mapping[int, dict[str, Value]]) -> None:
        """Replace what is stored; the old versions stay if that fails."""
        payload = encode_values(attempt, dict(versions))
        self._take()
        write_atomically(self.place, *sealed.seal(sealed.MEMORY, payload))

    def read(self, types: frozenset[type]) -> tuple[int, dict[int, dict[str, Value]]]:
        """The attempt and the versions that were written last; those of a client that has never answered, if none."""
        self._take()
        if not os.path.lexists(self.place):
            return 0, {0: {}}
        try:
            with reading(self.place) as (file, size):
                version, payload = sealed.unseal(file, size, sealed.MEMORY)
            if version != library.__version__:
                raise WrongVersion(f"fedsolve {version} wrote it, and this is fedsolve {library.__version__}")
            attempt, versions = decode_values(payload, types)
            if any(":" not in key for memory in versions.values() for key in memory):
                raise WrongVersion("an earlier fedsolve wrote it, which did not keep memory by protocol")
        except (WireError, ValueError, OSError) as error:
            said = (isinstance(error, OSError) and error.strerror) or str(error)
            raise StorageError(
                f"the memory store {self.path} cannot be read: {said}. Restore it from a copy, or remove it and begin "
                "a new run"
            ) from error
        return attempt, versions

    def close(self) -> None:
        """Let another process have it. Safe to call twice."""
        if self._hold is not None and self._hold.owner is self._token:
            self._hold.lock.release()
        self._hold = None

    def _take(self) -> None:
        """Make sure that nobody else has it, also if somebody has removed the lock's file."""
        hold = self._hold
        if hold is None:
            with writing(self.place):
                self.place.parent.mkdir(parents=True, exist_ok=True)
            check_own_file(self.place)
            hold = _HOLDS.get(self.place) or _Hold(FileLock(self.place.with_name(self.place.name + ".lock")))
        elif hold.owner is not self._token:
            raise StorageError(f"the memory store {self.path} has been opened again by this process, and is used there")
        with writing(hold.lock.path):
            taken = hold.lock.acquire()
        if not taken:
            raise StorageError(
                f"the memory store {self.path} is in use by another process; end that client, or give this one a store "
                "of its own"
            )
        if self._hold is None:
            remove_leftovers(self.place.parent, (self.place.name,))
            self._hold = _HOLDS[self.place] = hold
            hold.owner = self._token


class _Hold:
    """A process's hold on a store, and which of its objects may use it."""

    def __init__(self, lock: FileLock) -> None:
        self.lock = lock
        self.owner: object = None


_HOLDS: WeakValueDictionary[Path, _Hold] = WeakValueDictionary()
