"""Values on disk, in the wire's own format: a reader sees the old file or the new one, and nothing between."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedsolve import wire
from fedsolve.errors import WireError
from fedsolve.typing import Value
from fedsolve.wire import FILE, Part, Preamble

# Asking for it means setting it, which is safe only before there are threads.
_UMASK = os.umask(0)
os.umask(_UMASK)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one beside it, on disk before it takes its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_UMASK)  # mkstemp's files are private; this one is as any other
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_values(path: Path, *values: Value) -> None:
    write_atomically(path, wire.encode(Preamble(FILE), [Part(value) for value in values]))


def read_values(path: Path, types: Iterable[type[Any]] = ()) -> list[Value]:
    preamble, values, _ = wire.decode(path.read_bytes(), types, limit=2**62)
    if preamble.kind != FILE:
        raise WireError(f"{path} is a message, not a file of values")
    return values


def append_values(path: Path, end: int, *values: Value) -> int:
    """Write values after the first `end` bytes of a file, dropping what lies behind them, and return the new end."""
    data = wire.encode(Preamble(FILE), [Part(value) for value in values])
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(len(data).to_bytes(8, "little") + data)
        file.flush()
        os.fsync(file.fileno())
    return end + 8 + len(data)


def read_appended(path: Path, end: int, types: Iterable[type[Any]] = ()) -> Iterator[list[Value]]:
    """The values of each `append_values`, up to `end`."""
    with open(path, "rb") as file:
        while file.tell() < end:
            size = int.from_bytes(file.read(8), "little")
            if size > end - file.tell():
                raise WireError(f"{path} is cut off: a piece of {size} bytes does not end before {end}")
            yield wire.decode(file.read(size), types, limit=2**62)[1]
