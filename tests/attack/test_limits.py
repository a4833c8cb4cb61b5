"""A message takes memory in proportion to its bytes, whatever it claims."""

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import numpy as np
import pytest

from fedsolve.data.schema import Numeric
from fedsolve.errors import TooLarge, Truncated, WireError, WrongType
from fedsolve.numerics.structured_arrays import LowRank, TopK
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import FILE, MAX_PARTS, REPLY, REQUEST, Part, Preamble
from fedsolve.wire.header_limits import EXPANSION, HeaderBudget, memory_of
from fedsolve.wire.messages import decode_answer
from tests.attack.subjects import subjects

TUPLE, LIST, DICT, ARRAY, CSR, NAMED, PLAIN = range(7)
F8, U4 = 0, 8
encode = msgspec.msgpack.encode


def message(header: bytes, body: bytes = b"", kind: int = REQUEST) -> bytes:
    part = struct.pack("<IIQ", len(header), 0, len(body)) + header + bytes(-len(header) % 8) + body
    return struct.pack("<4sHBxIIIIQQQQQ", b"fsol", 1, kind, 0, 0, 0, 1, 0, 0, 0, 0, 64 + len(part)) + part


@contextmanager
def memory() -> Iterator[Any]:
    """The most that is allocated inside, in bytes, as found[0] afterwards."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


# ── headers ──

REPEATED: dict[str, tuple[bytes, bytes]] = {  # what comes many times, and the body of each
    "nothing": (b"\xc0", b""),
    "small numbers": (b"\xcd\x01\x01", b""),
    "letters": (b"\xa1a", b""),
    "empty texts": (b"\xa0", b""),
    "wide characters": (encode("a" * 20 + "\U0001f600"), b""),
    "empty tuples": (b"\x91\x00", b""),
    "pairs": (encode([TUPLE, 1, 2]), b""),
    "empty dicts": (encode([DICT, []]), b""),
    "dicts": (encode([DICT, ["k"], None]), b""),
    "empty arrays": (encode([ARRAY, F8, 0]), b""),
    "empty matrices": (encode([NAMED, "Symmetric", 0, [ARRAY, F8, 0]]), b""),
    "arrays of one entry": (encode([ARRAY, F8, 1]), bytes(8)),
    "columns": (encode([NAMED, "schema.Numeric", "x", None, False, None, None, None]), b""),
}
PLAIN_REPEATED = {"empty maps": b"\x80", "empty lists": b"\x90", "maps": b"\x81\x00\xc0", "extensions": b"\xd4\x05\x00"}
LENGTH = 80_000  # more than is decoded without a look


def _many(item: bytes, tag: bytes) -> bytes:
    count = LENGTH // len(item)
    return b"\xdd" + struct.pack(">I", count + len(tag)) + tag + count * item


@pytest.mark.parametrize("name", [*REPEATED, *PLAIN_REPEATED])
def test_a_header_takes_memory_in_proportion(name):
    """It took up to ninety times its length; now `EXPANSION` times, rejected otherwise before anything is built."""
    if name in REPEATED:
        item, each = REPEATED[name]
        data = message(_many(item, b"\x00"), each * (LENGTH // len(item)))
    else:
        data = message(b"\x92\x06" + _many(PLAIN_REPEATED[name], b""))
    with memory() as found, suppress(TooLarge):
        wire.decode(data, (Numeric,))
    assert found[0] <= 1.1 * EXPANSION * len(data) + 200_000


def test_ordinary_headers_are_in_proportion():
    """Many columns, names, numbers and short tuples: what may travel in a long header is not rejected."""
    columns = tuple(Numeric(f"column {j}", indicator=j % 2 == 0) for j in range(4000))
    values = [columns, [f"x{j}" for j in range(20_000)], tuple(range(100_000)), [(j, j + 1) for j in range(20_000)]]
    for value in values:
        part = Part(value)
        assert len(part.header) > 2**16
        assert wire.decode(wire.encode(Preamble(REPLY), [part]), (Numeric,))[1] == [value]


def test_many_short_headers_count_like_a_long_one():
    header = b"\x92\x06" + b"\xdc\x40\x00" + 2**14 * b"\x80"
    part = struct.pack("<IIQ", len(header), 0, 0) + header + bytes(-len(header) % 8)
    count = 60
    data = struct.pack("<4sHBxIIIIQQQQQ", b"fsol", 1, REQUEST, 0, 0, 0, count, 0, 0, 0, 0, 64 + count * len(part))
    with memory() as found, pytest.raises(TooLarge, match="times its length"):
        wire.decode(data + count * part)
    assert found[0] < 100 * 2**16 + 10**6


def test_the_limit_on_headers_is_set_before():
    budget = HeaderBudget(2**22)
    budget.admit(memoryview(bytes(2**16)))
    with pytest.raises(TooLarge, match="headers"):
        budget.admit(memoryview(b"\xc0"))


@pytest.mark.parametrize(
    "value",
    [
        *(None, 5, -3, 300, 70000, 2**33, -(2**40), 1.5, "a", "b" * 40, "c" * 300, "d" * 70000, b"e", b"f" * 300),
        *([], [1, [2, [3]]], {"a": {"b": [1, 2]}}, [None] * 20, [0.5] * 70000, {str(j): j for j in range(20)}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_the_walk_through_a_header_follows_msgpack(value):
    header = encode(value)
    assert memory_of(header, 2**40) > 0
    for cut in {0, len(header) // 2} if not isinstance(value, str | bytes) else {0}:
        if cut < len(header):
            with pytest.raises(WireError):
                memory_of(header[:cut], 2**40)


def test_more_parts_than_allowed():
    parts = (MAX_PARTS + 1) * struct.pack("<IIQ8s", 1, 0, 0, b"\xc0")
    head = struct.pack("<4sHBxIIIIQQQQQ", b"fsol", 1, FILE, 0, 0, 0, MAX_PARTS + 1, 0, 0, 0, 0, 64 + len(parts))
    with pytest.raises(TooLarge, match="parts"):
        wire.decode(head + parts)


def test_more_parts_than_there_are_bytes_for():
    head = struct.pack("<4sHBxIIIIQQQQQ", b"fsol", 1, FILE, 0, 0, 0, 2**32 - 1, 0, 0, 0, 0, 64)
    with pytest.raises(Truncated, match="parts"):
        wire.decode(head)


def test_a_key_that_comes_twice():
    with pytest.raises(WrongType, match="twice"):
        wire.decode(message(encode([DICT, ["w", "w"], 1, 2])))


# ── arrays with structure ──

ONE = [[ARRAY, U4, 1], [ARRAY, F8, 1]]
CLAIMS = {
    "a text times a side": [NAMED, "TopK", [TUPLE, 2**31, "x"], *ONE],
    "a side times a text": [NAMED, "TopK", [TUPLE, "x", 2**31], *ONE],
    "bytes times a side": [NAMED, "TopK", [TUPLE, 2**31, b"xy"], *ONE],
    "a list times a side": [NAMED, "TopK", [TUPLE, 2**28, [LIST, 1, 2]], *ONE],
    "a tuple times a side": [NAMED, "TopK", [TUPLE, 2**28, [TUPLE, 1, 2]], *ONE],
    "a shape that is a list": [NAMED, "TopK", [LIST, 2, 2], *ONE],
    "a shape that is a text": [NAMED, "TopK", "xx", *ONE],
    "a shape that is true": [NAMED, "TopK", [TUPLE, True], *ONE],
    "a huge square": [NAMED, "TopK", [TUPLE, 10**5, 10**5], *ONE],
    "nothing of a huge array": [NAMED, "TopK", [TUPLE, 0, 2**62, 2**62], [ARRAY, U4, 0], [ARRAY, F8, 0]],
    "indices that are no array": [NAMED, "TopK", [TUPLE, 4], 1, [ARRAY, F8, 1]],
    "indices that are real": [NAMED, "TopK", [TUPLE, 4], [ARRAY, F8, 1], [ARRAY, F8, 1]],
    "values of two dimensions": [NAMED, "TopK", [TUPLE, 4], [ARRAY, U4, 1], [ARRAY, F8, 1, 1]],
    "a triangle of no numbers": [NAMED, "Symmetric", 1, "x"],
    "a triangle of text": [NAMED, "Symmetric", "x", [ARRAY, F8, 1]],
    "a triangle of two dimensions": [NAMED, "Symmetric", 1, [ARRAY, F8, 1, 1]],
    "columns without entries": [NAMED, "LowRank", [ARRAY, F8, 10**9, 0], [ARRAY, F8, 0]],
    "columns of a tuple": [NAMED, "LowRank", [TUPLE, 1], [ARRAY, F8, 1]],
    "codes that are text": [NAMED, "Quantised", "x", 0.0, 1.0],
    "a step that is text": [NAMED, "Quantised", [ARRAY, 10, 8], 0.0, "x"],
    "a step that is true": [NAMED, "Quantised", [ARRAY, 10, 8], 0.0, True],
}


@pytest.mark.parametrize("name", CLAIMS)
def test_types_are_checked_before_arithmetic(name):
    outline = CLAIMS[name]
    data = message(encode(outline), bytes(16 if outline[2:] and "arrays" not in name else 0))
    assert len(data) < 200
    with memory() as found, pytest.raises(WireError):
        wire.decode(data)
    assert found[0] < 200_000


@pytest.mark.parametrize("indices", [[0, 0], [3, 1, 3], [2, 2, 2]])
def test_a_topk_with_an_index_twice(indices):
    """Its dense form would depend on the order of assignment."""
    with pytest.raises(WrongType, match="twice"):
        TopK.from_wire((4,), np.array(indices, dtype=np.uint32), np.ones(len(indices)))
    TopK.from_wire((4,), np.array([3, 1], dtype=np.uint32), np.ones(2))  # any order will do


def test_a_client_cannot_claim_more_than_memory():
    subject = next(one for one in subjects() if one.name == "FedNL Squared")
    for claim in (TopK((2**29,), np.zeros(1, dtype=np.uint32), np.ones(1)), LowRank(np.zeros((20000, 0)), np.zeros(0))):
        parts = [Part.plain([0.0, [{}]]), Part((0.0, np.zeros(3), 0.0, claim))]
        with memory() as found:
            decode_answer(wire.encode(Preamble(REPLY), parts), subject.runtime.types)
        assert found[0] < 200_000
