"""One process at a time: a lock that the kernel releases when its holder ends, however it ends."""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

# Never through a link, and never as text: names that only some systems have.
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)

if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        """Lock an open file without waiting; whether that succeeded."""
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Lock an open file without waiting; whether that succeeded."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """An exclusive lock on a file of its own, held from `acquire` to `release` or to the end of the process.

    Two locks on one path exclude each other within a process too. A process that was forked does not inherit the lock.
    The file is removed on release; what a killed process leaves is not locked, and is used again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        self._closing: weakref.finalize[[Path, int, int], FileLock] | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False if it is held elsewhere. Raises OSError where it cannot be made."""
        if self._handle is not None and _is_named(self._handle, self.path):
            return True
        self.release()
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_LINKS | BINARY, 0o666)
            try:
                locked = try_lock(handle)
                if locked and _is_named(handle, self.path):
                    break
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            if not locked:
                return False
            # Locked, but its holder removed the file between our two steps: the next one has the name.
        self._handle = handle
        self._closing = weakref.finalize(self, _let_go, self.path, handle, os.getpid())
        _held.add(self)
        return True

    def release(self) -> None:
        """Give the lock back. Safe to call twice."""
        if self._closing is not None:
            self._closing()
        self._handle = self._closing = None
        _held.discard(self)

    def forget(self) -> None:
        """Close what was inherited by a fork; the parent still holds the lock."""
        if self._handle is not None and self._closing is not None:
            self._closing.detach()
            os.close(self._handle)
        self._handle = self._closing = None


def is_locked(path: Path) -> bool:
    """Whether somebody holds the `FileLock` on this path."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        return not lock.acquire()
    finally:
        lock.release()


def _is_named(handle: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _let_go(path: Path, handle: int, owner: int) -> None:
    if os.getpid() != owner:
        return
    if sys.platform != "win32":  # which does not remove open files
        with suppress(OSError):
            if _is_named(handle, path):
                os.unlink(path)
    os.close(handle)


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    # A lock belongs to the open file, which a child shares: without this, a worker that outlives its server would keep
    # the server's checkpoint locked.
    os.register_at_fork(after_in_child=_after_fork)
