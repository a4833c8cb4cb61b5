"""Messages to bytes and back: typed, versioned, with sizes declared and checked; never pickle.

    message   preamble (64 bytes, fixed) · part · part · …
    part      header length u32 · zero u32 · body length u64 · header (msgpack) · array bytes …

A header is the value's outline: plain values as they are, an array only as dtype and shape. The raw bytes of
the arrays follow in the order of the outline, each on an 8-byte boundary, so that decoding is a view and not a copy.
The size of a message is therefore known from outlines alone (`Part.size`): in one process nothing is encoded,
and the ledger is still exact.

Nothing that arrives can name code: a dataclass is built only if the reader listed its type, and only from
fields of the types it declares. The same holds for CSR matrices, whose invariants SciPy does not check itself. An array
is allocated only when its bytes are there, and a header is decoded only when what it would take in memory is in
proportion to its length (`header_limits`); how many parts and header bytes a message may have is fixed before.

`layout` has the constants, `outlines` what a header says, `parts` one value, `decoding` the way back; this module has
whole messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fedsolve.errors import TooLarge, Truncated, WireError, WrongVersion
from fedsolve.numerics.structured_arrays import STRUCTURED
from fedsolve.typing import Value
from fedsolve.wire.annotation_checks import CSR, by_name
from fedsolve.wire.decoding import decode_part
from fedsolve.wire.header_limits import HeaderBudget
from fedsolve.wire.layout import (
    FAILURE,
    FILE,
    MAGIC,
    MAX_BYTES,
    MAX_PARTS,
    PART,
    PREAMBLE,
    PREAMBLE_SIZE,
    REPLY,
    REQUEST,
    VERSION,
)
from fedsolve.wire.parts import Part, plain_size

__all__ = [
    "FAILURE",
    "FILE",
    "MAX_BYTES",
    "MAX_PARTS",
    "PREAMBLE_SIZE",
    "REPLY",
    "REQUEST",
    "VERSION",
    "Part",
    "Preamble",
    "count_parts",
    "decode",
    "encode",
    "peek",
    "plain_size",
]

_STRUCTURED_NAMES: dict[str, type] = {kind.__name__: kind for kind in STRUCTURED}


class Preamble(NamedTuple):
    """The fixed head of a message. What the numbers mean is said where they are used (`federation.client_runtime`)."""

    kind: int
    attempt: int = 0
    round: int = 0
    exchange: int = 0
    number: int = 0
    used: int = 0
    keep: int = 0
    seed: int = 0


def encode(preamble: Preamble, parts: Sequence[Part]) -> bytes:
    """One message as bytes."""
    total = PREAMBLE_SIZE + sum(part.size for part in parts)
    kind, attempt, round_, exchange, *rest = preamble
    head = PREAMBLE.pack(MAGIC, VERSION, kind, attempt, round_, exchange, len(parts), *rest, total)
    return b"".join([head, *(chunk for part in parts for chunk in part.chunks())])


def peek(data: bytes) -> Preamble:
    """The preamble of a message that could not be read, as far as it can be made out; kind FAILURE, to answer with."""
    if len(data) < PREAMBLE_SIZE:
        return Preamble(FAILURE)
    _, _, _, attempt, round_, exchange, _, *rest, _ = PREAMBLE.unpack_from(data)
    return Preamble(FAILURE, attempt, round_, exchange, *rest)


def count_parts(data: bytes) -> int:
    """How many parts a message says it has; 0 for bytes that are no message."""
    return int(PREAMBLE.unpack_from(data)[6]) if len(data) >= PREAMBLE_SIZE and data[:4] == MAGIC else 0


def decode(data: bytes, types: Iterable[type] = (), limit: int = MAX_BYTES) -> tuple[Preamble, list[Value], list[int]]:
    """The preamble, the value of each part and its size in bytes.

    `types` are the dataclasses allowed, and `scipy.sparse.csr_array` where CSR matrices are. `limit` is the longest
    message to accept, in bytes; the headers of its parts may have 1/64 of that together (64 MiB by default).
    """
    preamble, count = _checked_preamble(data, limit)
    listed = set(types)
    known = {**_STRUCTURED_NAMES, **by_name(listed - {CSR})}
    budget = HeaderBudget(limit)
    values: list[Value] = []
    sizes: list[int] = []
    position = PREAMBLE_SIZE
    for _ in range(count):
        value, end = decode_part(data, position, known, CSR in listed, budget)
        values.append(value)
        sizes.append(end - position)
        position = end
    if position != len(data):
        raise TooLarge(f"{len(data) - position} bytes follow the last part of a message")
    return preamble, values, sizes


def _checked_preamble(data: bytes, limit: int) -> tuple[Preamble, int]:
    """The preamble of a message, and how many parts it declares; every size that it declares is checked."""
    if len(data) > limit:
        raise TooLarge(f"a message of {len(data)} bytes came where at most {limit} are allowed")
    if len(data) < PREAMBLE_SIZE:
        raise Truncated(f"a message of {len(data)} bytes came, shorter than its preamble of {PREAMBLE_SIZE}")
    magic, version, kind, attempt, round_, exchange, count, *rest, total = PREAMBLE.unpack_from(data)
    if magic != MAGIC:
        raise WireError(f"these bytes are not a fedsolve message: they begin with {bytes(magic)!r}, not {MAGIC!r}")
    if version != VERSION:
        raise WrongVersion(
            f"a message of wire version {version} came, this side speaks {VERSION}: run one fedsolve on both sides"
        )
    if kind not in (REQUEST, REPLY, FAILURE, FILE):
        raise WireError(f"a message of unknown kind {kind} came")
    if total > len(data):
        raise Truncated(f"a message that declares {total} bytes came with {len(data)}")
    if total < len(data):
        raise TooLarge(f"a message that declares {total} bytes came with {len(data)}")
    if count * PART.size > total - PREAMBLE_SIZE:
        raise Truncated(f"a message of {count} parts is declared, {total - PREAMBLE_SIZE} bytes are there")
    if count > MAX_PARTS:
        raise TooLarge(f"a message of {count} parts came where at most {MAX_PARTS} are allowed")
    return Preamble(kind, attempt, round_, exchange, *rest), count
