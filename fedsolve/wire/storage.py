"""Files on disk: a reader sees the old one or the new one, and nothing between.

Files are written under another name beside their own, and renamed when they are whole and on disk. Nothing is ever
written through a symbolic link. Modes are the system's default for new files (the umask at the time). The names of
unfinished files end in `.fedsolve-tmp`; whoever writes one has it locked, so that what a killed process left can be
told from what is being written, and removed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedsolve.errors import StorageError, WireError
from fedsolve.typing import Value
from fedsolve.wire import encoding as wire
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.encoding import FILE, Part, Preamble
from fedsolve.wire.locks import BINARY, NO_LINKS, try_lock

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.fedsolve-tmp")
_ADVICE = {
    errno.ENOSPC: "make room on the disk, or choose another place",
    errno.EDQUOT: "make room in the quota, or choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EFBIG: "choose a place that allows larger files",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "choose a place that this user may write to",
    errno.EPERM: "choose a place that this user may write to",
    errno.EIO: "check the disk",
}


# ── writing ──


def write_atomically(path: Path, *pieces: bytes) -> None:
    """Replace a file, or make it, as a whole; raises StorageError and leaves the old one where that is impossible."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        check_own_file(path)
        handle, temporary = _begin(path)
        try:
            for piece in pieces:
                write_all(handle, piece)
            os.fsync(handle)
            if sys.platform == "win32":  # which does not rename open files
                os.close(handle)
                handle = -1
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            if handle >= 0:
                os.close(handle)
        _sync_folder(path.parent)


def write_behind(path: Path, end: int, data: bytes, before: bytes) -> None:
    """Write data behind the first `end` bytes of a file, dropping what lies there. These must end with `before`."""
    with writing(path):
        check_own_file(path)
        handle = os.open(path, os.O_RDWR | NO_LINKS | BINARY)
        try:
            os.lseek(handle, max(0, end - len(before)), os.SEEK_SET)
            if os.read(handle, len(before)) != before:
                raise StorageError(f"{path} has been changed or replaced by somebody else since it was last written")
            os.ftruncate(handle, end)
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says of a file into a StorageError that says what to do."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        said = error.strerror or str(error)
        advice = _ADVICE.get(error.errno or 0, "choose another place")
        raise StorageError(f"{path} cannot be written: {said}; {advice}") from error


def check_own_file(path: Path) -> None:
    """Reject a path where something else than a plain file stands, a link to one too."""
    with writing(path):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
    if stat.S_ISLNK(mode):
        raise StorageError(
            f"{path} is a symbolic link, and fedsolve does not write through links; give the file's own path"
        )
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "special file"
        raise StorageError(f"{path} is a {kind} where a file is to be written; choose another name")


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove the unfinished files of these names that processes left when they were killed."""
    wanted = set(names)
    try:
        found = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return
    for name in found:
        match = _TEMPORARY.fullmatch(name)
        if match is None or match["name"] not in wanted:
            continue
        with suppress(OSError):  # somebody else's, or gone already
            handle = os.open(folder / name, os.O_RDWR | NO_LINKS | BINARY)
            try:
                if try_lock(handle):  # else it is being written
                    os.unlink(folder / name)
            finally:
                os.close(handle)


def _begin(path: Path) -> tuple[int, Path]:
    """A new file beside this one, locked for as long as it is open."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.fedsolve-tmp")
        # The kernel applies the umask. Asking for it would mean setting it, for all threads.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS | BINARY, 0o666)
        try:
            mine = try_lock(handle) and os.fstat(handle).st_nlink > 0
        except OSError:  # no locks here: then nobody removes it either
            mine = True
        if mine:
            return handle, temporary
        os.close(handle)  # taken for a leftover in the moment before it was locked


def write_all(handle: int, data: bytes) -> None:
    """Write to an open file, in as many steps as the system takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _sync_folder(folder: Path) -> None:
    """Bring a new name to disk."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── reading ──


@contextmanager
def reading(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A plain file, open, and its size. Raises OSError for anything else, which might never end or never begin."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | BINARY)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        yield file, found.st_size


# ── values ──


def encode_values(*values: Value) -> bytes:
    """Values as the payload of a file."""
    return wire.encode(Preamble(FILE), [Part(value) for value in values])


def decode_values(data: bytes, types: Iterable[type] = ()) -> list[Value]:
    """What `encode_values` was given."""
    preamble, values, _ = wire.decode(data, types, limit=2**62)
    if preamble.kind != FILE:
        raise WireError("it holds a message, and is not a file of values")
    return values


def write_values(path: Path, *values: Value) -> None:
    """A file of values that has no other kind."""
    write_atomically(path, *sealed.seal(sealed.VALUES, encode_values(*values)))


def read_values(path: Path, types: Iterable[type] = ()) -> list[Value]:
    """What `write_values` wrote."""
    with reading(path) as (file, size):
        _, payload = sealed.unseal(file, size, sealed.VALUES)
    return decode_values(payload, types)
