"""A file that grows: what is added costs what it is, not what was there before.

    head       a sealed file whose payload is a random number, so that no two journals are alike
    frame …    length u64 · values · digest of the digest before, the length and the values

The digests are a chain. A `Mark` (how many bytes count, and the digest they end with) is kept elsewhere. Only the bytes
it was made of match it: not an older journal, nor one with frames left out, changed or swapped. What follows a mark
does not count; it is what a process was writing when it died.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedsolve.errors import Truncated, WireError
from fedsolve.typing import Value
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.sealed_files import DIGEST_SIZE, digest
from fedsolve.wire.storage import decode_values, encode_values, reading, write_atomically, write_behind

_LENGTH = struct.Struct("<Q")
_SALT = 16


@dataclass(frozen=True)
class Mark:
    """How much of a journal counts."""

    end: int
    digest: bytes


class Journal:
    """A growing file of values."""

    def __init__(self, path: Path, kind: int) -> None:
        self.path, self.kind = path, kind

    def begin(self, *values: Value) -> Mark:
        """Replace the journal by a new one with these values."""
        head = b"".join(sealed.seal(self.kind, os.urandom(_SALT)))
        frame = _frame(head[-DIGEST_SIZE:], encode_values(*values))
        write_atomically(self.path, head + frame)
        return Mark(len(head) + len(frame), frame[-DIGEST_SIZE:])

    def append(self, mark: Mark, *values: Value) -> Mark:
        """Add values behind a mark; whatever followed it is dropped."""
        frame = _frame(mark.digest, encode_values(*values))
        write_behind(self.path, mark.end, frame, before=mark.digest)
        return Mark(mark.end + len(frame), frame[-DIGEST_SIZE:])

    def read(self, mark: Mark, types: Iterable[type]) -> Iterator[list[Value]]:
        """The values of each `begin` and `append` up to a mark; raises WireError if the file does not match it."""
        with reading(self.path) as (file, size):
            if size < mark.end:
                raise Truncated(f"it is damaged: it has {size} bytes of {mark.end}")
            sealed.unseal(file, size, self.kind, more=True)
            file.seek(-DIGEST_SIZE, os.SEEK_CUR)
            chain = file.read(DIGEST_SIZE)
            while file.tell() < mark.end:
                length = file.read(_LENGTH.size)
                left = mark.end - file.tell() - DIGEST_SIZE
                if left < 0 or _LENGTH.unpack(length)[0] > left:
                    raise WireError("it is damaged: a frame does not end where it should")
                payload = file.read(*_LENGTH.unpack(length))
                if (chain := digest(chain, length, payload)) != file.read(DIGEST_SIZE):
                    raise WireError("it is damaged: a checksum does not match its contents")
                yield decode_values(payload, types)
            if file.tell() != mark.end or chain != mark.digest:
                raise WireError("it is not the one that belongs to this checkpoint")


def _frame(before: bytes, payload: bytes) -> bytes:
    length = _LENGTH.pack(len(payload))
    return length + payload + digest(before, length, payload)
