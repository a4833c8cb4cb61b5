"""The form of every file that fedsolve reads back: what it is, who wrote it, and a checksum over all of it.

    head      magic (8 bytes) · format u16 · kind u8 · length of the version u8 · length of the payload u64
    version   of the library that wrote it
    payload
    digest    BLAKE2b of all before, 32 bytes

Nothing of the payload is looked at before the digest has been found right. It guards against accidents, not against
forgery: whoever can write the file can write the digest too.
"""

from __future__ import annotations

import hashlib
import struct
from typing import BinaryIO

from fedsolve import version as library
from fedsolve.errors import Truncated, WireError, WrongVersion

MAGIC = b"\x89fsolve\n"
FORMAT = 1
KINDS = ("file of values", "checkpoint", "ledger", "memory store")
VALUES, CHECKPOINT, LEDGER, MEMORY = range(len(KINDS))
DIGEST_SIZE = 32

_HEAD = struct.Struct("<8sHBBQ")
_BEFORE_CHECKSUMS = b"fsol"  # how files of values began before they had this form


def digest(*pieces: bytes) -> bytes:
    """The checksum of some bytes."""
    summed = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for piece in pieces:
        summed.update(piece)
    return summed.digest()


def seal(kind: int, payload: bytes) -> tuple[bytes, bytes, bytes]:
    """What makes a file of a payload: its head, itself and its digest, not joined, because it may be large."""
    version = library.__version__.encode()
    if len(version) > 255:
        raise ValueError(f"a version has at most 255 bytes, got {version!r}")
    head = _HEAD.pack(MAGIC, FORMAT, kind, len(version), len(payload)) + version
    return head, payload, digest(head, payload)


def unseal(file: BinaryIO, size: int, kind: int, *, more: bool = False) -> tuple[str, bytes]:
    """The version that wrote a file, and its payload; raises WireError for anything that `seal` did not write.

    `size` is that of the whole file, in which something may follow with `more`.
    """
    head = file.read(_HEAD.size)
    if head[: len(MAGIC)] != MAGIC:
        raise WireError(f"it is not a {KINDS[kind]} of fedsolve: {_looks_like(head, size)}")
    if len(head) < _HEAD.size:
        raise Truncated(f"it is damaged: it ends after {len(head)} bytes")
    _, form, found, version_size, payload_size = _HEAD.unpack(head)
    if form != FORMAT:
        raise WrongVersion(f"it is damaged, or of format {form} where this version of fedsolve reads {FORMAT}")
    whole = _HEAD.size + version_size + payload_size + DIGEST_SIZE
    if size < whole or (size > whole and not more):
        raise Truncated(f"it is damaged: it has {size} bytes and declares {whole}")
    version, payload = file.read(version_size), file.read(payload_size)
    if digest(head, version, payload) != file.read(DIGEST_SIZE):
        raise WireError("it is damaged: its checksum does not match its contents")
    if found != kind:
        name = KINDS[found] if found < len(KINDS) else f"file of kind {found}"
        raise WireError(f"it is a {name} where a {KINDS[kind]} is expected")
    return version.decode(), payload


def _looks_like(head: bytes, size: int) -> str:
    if not head:
        return "it is empty"
    if _BEFORE_CHECKSUMS in (head[:4], head[8:12]):
        return "it was written by an earlier fedsolve, before files had checksums"
    if head[:2] == b"PK":
        return "it is a zip archive, such as a model file"
    if MAGIC.startswith(head):
        return f"it ends after {size} bytes"
    return f"it begins with {head[: len(MAGIC)]!r}"
