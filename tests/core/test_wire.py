"""Messages to bytes and back: what went in comes out, and what was never a message ends in a WireError."""

import math
import re
import struct
import tracemalloc
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedsolve
from fedsolve.errors import TooLarge, Truncated, WireError, WrongType, WrongVersion
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.memory import Memory
from fedsolve.loop.measure_protocols import Measure
from fedsolve.losses import Squared
from fedsolve.numerics.structured_arrays import STRUCTURED, LowRank, Quantised, Symmetric, TopK
from fedsolve.typing import Array
from fedsolve.wire import encoding as wire
from fedsolve.wire import layout
from fedsolve.wire.annotation_checks import type_name
from fedsolve.wire.encoding import FAILURE, FILE, PREAMBLE_SIZE, REPLY, REQUEST, Part, Preamble
from fedsolve.wire.messages import Failure, Request, decode_answer
from fedsolve.wire.storage import read_values, write_values

DTYPES = [np.dtype(code) for code in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]]
TUPLE, LIST, DICT, ARRAY, CSR, NAMED, PLAIN = range(7)
F8, F2, I8, I4, U8, U4, U1, BOOL = 0, 2, 3, 4, 7, 8, 10, 11
SYMMETRIC, TOPK, LOW_RANK, QUANTISED = "Symmetric", "TopK", "LowRank", "Quantised"


@dataclass(frozen=True)
class Inner:
    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Outer:
    w: Array
    inner: Inner
    maybe: Inner | None
    kind: Literal["a", "b"] = "a"
    table: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KeywordOnly:
    w: Array
    rate: float


@dataclass(frozen=True)
class Positive:
    """A dataclass that refuses some of what its annotations allow."""

    value: float

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("must be positive")


SPARSE = (sp.csr_array,)
TYPES = (Inner, Outer, KeywordOnly, Positive, *SPARSE)


# ── what may travel ──

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.binary(max_size=8),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def _stride(array: np.ndarray) -> np.ndarray:
    """The same numbers as a view that is not C-contiguous, where the shape allows one."""
    if array.ndim == 0:
        return array
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]


ARRAYS = (
    st.sampled_from(DTYPES)
    .flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
    .flatmap(lambda array: st.sampled_from([array, array.T, np.asfortranarray(array), _stride(array)]))
)
FLOATS = st.floats(-1e6, 1e6)


def _square(n: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, (n, n), elements=FLOATS).map(lambda a: a + a.T)


SYMMETRIC_FULL = st.integers(0, 4).flatmap(_square).map(Symmetric)
SYMMETRIC_PACKED = st.integers(0, 4).flatmap(
    lambda n: hnp.arrays(np.float64, n * (n + 1) // 2, elements=FLOATS).map(lambda p: Symmetric.from_packed(n, p))
)
TOPKS = st.tuples(hnp.arrays(np.float64, SHAPES, elements=FLOATS), st.integers(0, 30)).map(lambda t: TopK.of(*t))
LOW_RANKS = st.tuples(st.integers(0, 4), st.integers(0, 3)).flatmap(
    lambda s: st.builds(
        lambda vectors, values: LowRank(vectors[:, ::-1], values),  # as eigh gives them: not contiguous
        hnp.arrays(np.float64, s, elements=FLOATS),
        hnp.arrays(np.float64, s[1], elements=FLOATS),
    )
)
QUANTISEDS = st.tuples(hnp.arrays(np.float64, SHAPES, elements=FLOATS), st.sampled_from([8, 16])).map(
    lambda t: Quantised.of(*t)
)
CSRS = st.tuples(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=4), elements=st.sampled_from([0.0, 1.5])),
    st.sampled_from(["f8", "f4", "i8", "?"]),
    st.sampled_from([sp.csr_array, sp.csr_matrix]),
    st.sampled_from([np.int32, np.int64]),
)


def _csr(parts: tuple[Any, ...]) -> Any:
    dense, dtype, kind, index = parts
    made = kind(dense.astype(dtype))
    made.indices, made.indptr = made.indices.astype(index), made.indptr.astype(index)
    return made


LEAVES = st.one_of(
    SCALARS,
    ARRAYS,
    SYMMETRIC_FULL,
    SYMMETRIC_PACKED,
    TOPKS,
    LOW_RANKS,
    QUANTISEDS,
    CSRS.map(_csr),
    hnp.arrays(np.float64, 1, elements=st.floats()).map(lambda a: a[0]),  # a NumPy scalar
    st.sampled_from([np.int8(-3), np.uint64(2**63), np.bool_(True), np.float16(0.5)]),
)
KEYS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.integers(-(2**63), 2**64 - 1))


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inner = st.builds(Inner, st.just("i"), st.lists(st.floats(), max_size=2).map(tuple))
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(KEYS, children, max_size=3),
        st.builds(
            Outer,
            ARRAYS,
            inner,
            st.none() | inner,
            st.sampled_from("ab"),
            st.dictionaries(st.just("k"), ARRAYS),
        ),
        st.builds(KeywordOnly, w=ARRAYS, rate=st.floats()),
    )


VALUES = st.recursive(LEAVES, _containers, max_leaves=6)


def assert_same(a: Any, b: Any) -> None:
    """Equal in value and in type, all the way down; NaN equals NaN, −0 is not 0."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, float):
        assert struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert [type(key) for key in a] == [type(key) for key in b]
        assert_same(list(a.values()), list(b.values()))
    elif type(a) in STRUCTURED:
        assert_same(a.to_wire(), b.to_wire())
    elif sp.issparse(a):
        assert a.shape == b.shape
        assert_same((a.indptr, a.indices, a.data), (b.indptr, b.indices, b.data))
    elif is_dataclass(a):
        for one in fields(a):
            assert_same(getattr(a, one.name), getattr(b, one.name))
    else:
        assert a == b


def round_trip(value: Any, types: Any = TYPES) -> Any:
    _, (decoded,), _ = wire.decode(wire.encode(Preamble(FILE), [Part(value)]), types)
    return decoded


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif sp.issparse(value):
        value = [value.indptr, value.indices, value.data]
    elif type(value) in STRUCTURED:
        value = value.to_wire()
    elif is_dataclass(value):
        value = [getattr(value, one.name) for one in fields(value)]
    return [found for item in value for found in arrays_in(item)] if isinstance(value, list | tuple) else []


# ── what went in comes out ──


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
@example((np.array(5.0), np.arange(4.0)[::2]))  # a 0-d array beside one that must be copied
@example([[[np.float32(1.5)]], {0: np.asfortranarray(np.eye(2))}])
def test_what_is_held_here_is_what_the_other_side_decodes(value):
    part = Part(value)
    held = part.value
    assert_same(held, round_trip(value))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=3))
def test_size_is_the_encoded_length_part_by_part(values):
    parts = [Part(value) for value in values]
    data = wire.encode(Preamble(REPLY), parts)
    assert len(data) == PREAMBLE_SIZE + sum(part.size for part in parts)
    _, decoded, sizes = wire.decode(data, TYPES)
    assert sizes == [part.size for part in parts]
    # What was decoded has the same size when sent on: a server that only sees bytes keeps the same ledger.
    assert [Part(value).size for value in decoded] == sizes
    assert [Part(value).scalars for value in decoded] == [part.scalars for part in parts]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_arrays_are_read_only_on_both_sides(value):
    part = Part(value)
    for array in arrays_in(round_trip(value)) + [a for a in arrays_in(part.value) if a.size]:
        assert not array.flags.writeable


def test_a_symmetric_matrix_held_in_full_is_read_only_once_sent():
    sent = Symmetric(np.eye(2))
    Part(sent)
    with pytest.raises(ValueError, match="read-only"):
        sent.full()[0, 0] = 9.0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 4), (2, 3), (1, 0, 2)])
def test_every_dtype_and_shape(dtype, shape):
    array = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    assert_same(array, round_trip(array))


def test_scalars_count_the_numbers_of_the_mathematics():
    value = (1.5, np.ones((2, 3)), Symmetric(np.eye(3)), TopK.of(np.arange(9.0), 2), "name", 7, None)
    # 1 float, 6 entries, 6 of a triangle, 2 values and 2 indices; whole numbers and words do not count.
    assert Part(value).scalars == 1 + 6 + 6 + 4


def test_the_preamble_comes_back():
    head = Preamble(REQUEST, 1, 2, 3, 4, 5, 6, 2**64 - 1)
    decoded, values, sizes = wire.decode(wire.encode(head, []))
    assert decoded == head
    assert values == sizes == []


def test_decoding_is_a_view_and_not_a_copy():
    data = wire.encode(Preamble(FILE), [Part(np.zeros(1_000_000))])
    tracemalloc.start()
    try:
        wire.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000  # of 8,000,000
    finally:
        tracemalloc.stop()


def test_any_buffer_can_be_decoded():
    data = wire.encode(Preamble(FILE), [Part((np.arange(3.0), "x"))])
    for kind in (bytearray, memoryview):
        _, (decoded,), _ = wire.decode(kind(data))
        assert_same(decoded, (np.arange(3.0), "x"))
        assert not decoded[0].flags.writeable


def test_nesting_up_to_the_limit_travels_with_any_leaf():
    for leaf in (1.0, np.ones(2), Symmetric(np.eye(2)), None):
        value: Any = leaf
        accepted = True
        for _ in range(layout.MAX_DEPTH + 3):
            value = [value]
            try:
                part = Part(value)
            except WrongType:
                accepted = False
                continue
            assert accepted  # once refused, always refused
            assert_same(part.value, round_trip(value))  # what this side accepts the other side accepts
        assert not accepted


# ── what may not travel ──


class Custom:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Custom(),
        Custom,
        Outer,
        object(),
        {1, 2},
        1j,
        2**64,
        -(2**63) - 1,
        lambda: 1,
        bytearray(b"x"),
        "\ud800",
        {"\ud800": 1},
        {2**70: 1},
        {1.5: 1},
        {(1, 2): 1},
        {True: 1},
        {None: 1},
        {b"k": 1},
        np.array([1j]),
        np.array(["a"]),
        np.array([None]),
        np.array([1.0]).astype(">f8"),
        np.ma.masked_array([1.0], [True]),
        np.zeros(2, dtype=[("a", "f8")]),
        np.datetime64("2020-01-01"),
        np.longdouble(1),
        sp.coo_array(np.eye(2)),
        sp.csr_array(np.eye(2, dtype=complex)),
    ],
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"k": (v,)}], ids=["bare", "list", "dict"])
def test_what_cannot_travel_is_refused_when_it_is_sent(value, wrap):
    with pytest.raises(WrongType):
        Part(wrap(value))


def test_a_value_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WrongType):
        Part(loop)


# ── what was never a message ──


def message(outline: Any, body: bytes = b"", kind: int = FILE) -> bytes:
    """A message whose one part has this outline, as a stranger may write it."""
    return raw_message(msgspec.msgpack.encode(outline), body, kind)


def raw_message(header: bytes, body: bytes = b"", kind: int = FILE) -> bytes:
    body += bytes(-len(body) % 8)
    part = struct.pack("<IIQ", len(header), 0, len(body)) + header + bytes(-len(header) % 8) + body
    return preamble(len(part), kind=kind) + part


def preamble(rest: int, parts: int = 1, magic: bytes = b"fsol", version: int = wire.VERSION, kind: int = FILE) -> bytes:
    total = PREAMBLE_SIZE + rest
    return struct.pack("<4sHBxIIIIQQQQQ", magic, version, kind, 0, 0, 0, parts, 0, 0, 0, 0, total)


def f8(*numbers: float) -> bytes:
    return np.array(numbers, dtype="f8").tobytes()


def test_the_hand_written_message_is_the_one_that_is_sent():
    assert message([ARRAY, F8, 2], f8(1.0, 2.0)) == wire.encode(Preamble(FILE), [Part(np.array([1.0, 2.0]))])


SAMPLE: Any = (
    {"w": np.arange(5.0), 3: [None, True, "word", b"raw", 1.5, -7]},
    Outer(np.ones((2, 2)), Inner("x", (1.0,)), None, "b", {"t": np.arange(3, dtype="u1")}),
    Symmetric(np.eye(3)),
    TopK.of(np.arange(6.0).reshape(2, 3), 2),
    LowRank(np.ones((3, 1)), np.ones(1)),
    Quantised.of(np.arange(4.0)),
    sp.csr_array(np.eye(3)),
    np.array([True, False]),
)


def encoded_sample() -> bytes:
    return wire.encode(Preamble(FILE), [Part(SAMPLE), Part(np.arange(3.0))])


def decode_or_refuse(data: bytes) -> Any:
    """Any outcome but an exception that is not a WireError."""
    try:
        return wire.decode(data, TYPES)
    except WireError:
        return None


def test_truncation_at_each_offset():
    data = encoded_sample()
    for length in range(len(data)):
        with pytest.raises(WireError):
            wire.decode(data[:length], TYPES)


def test_truncation_that_the_preamble_does_not_admit():
    """The declared total is made to fit, so that the part's own sizes must notice."""
    data = encoded_sample()
    for length in range(PREAMBLE_SIZE, len(data)):
        cut = preamble(length - PREAMBLE_SIZE, parts=2) + data[PREAMBLE_SIZE:length]
        with pytest.raises(WireError):
            wire.decode(cut, TYPES)


def test_bytes_after_the_end():
    data = encoded_sample()
    with pytest.raises(TooLarge):
        wire.decode(data + b"\0", TYPES)
    longer = preamble(len(data) + 8 - PREAMBLE_SIZE, parts=2) + data[PREAMBLE_SIZE:] + bytes(8)
    with pytest.raises(TooLarge, match="8 bytes follow"):
        wire.decode(longer, TYPES)


def test_every_single_bit_flip():
    data = bytearray(encoded_sample())
    survived = 0
    for offset in range(len(data)):
        for bit in range(8):
            data[offset] ^= 1 << bit
            survived += decode_or_refuse(bytes(data)) is not None
            data[offset] ^= 1 << bit
    # A flip in the numbers themselves is another number; one in the magic, version or total is noticed.
    assert 0 < survived < 8 * len(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_several_bytes_overwritten(data):
    damaged = bytearray(encoded_sample())
    for _ in range(data.draw(st.integers(1, 4))):
        # Past the preamble, where the outlines are.
        place = data.draw(st.integers(PREAMBLE_SIZE, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    decode_or_refuse(bytes(damaged))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes(data):
    with pytest.raises(WireError):
        wire.decode(data, TYPES)


@settings(max_examples=500, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.binary(max_size=64))
def test_random_header_in_a_sound_frame(header, body):
    decode_or_refuse(raw_message(header, body))


OUTLINES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.integers(-(2**63), 2**64 - 1), st.floats())
    | st.sampled_from([*[kind.__name__ for kind in STRUCTURED], *[type_name(kind) for kind in TYPES], "x"]),
    lambda inner: (
        st.tuples(st.integers(0, 6), st.lists(inner, max_size=6)).map(lambda t: [t[0], *t[1]])
        | st.tuples(st.integers(0, 11), st.lists(st.integers(0, 3), max_size=3)).map(lambda t: [ARRAY, t[0], *t[1]])
        | st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OUTLINES, st.binary(max_size=80))
def test_random_outline_in_a_sound_frame(outline, body):
    decoded = decode_or_refuse(message(outline, body))
    if decoded is not None and not (isinstance(outline, list) and outline[:1] == [PLAIN]):
        Part(decoded[1][0])  # whatever is accepted is a value that may travel


def test_wrong_magic():
    with pytest.raises(WireError, match="not a fedsolve message"):
        wire.decode(preamble(0, 0, magic=b"HTTP"))


def test_wrong_version():
    with pytest.raises(WrongVersion, match="version 2"):
        wire.decode(preamble(0, 0, version=2))


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_unknown_kind(kind):
    with pytest.raises(WireError, match="unknown kind"):
        wire.decode(preamble(0, 0, kind=kind))


def test_the_limit_is_on_the_whole_message():
    data = encoded_sample()
    wire.decode(data, TYPES, limit=len(data))
    with pytest.raises(TooLarge):
        wire.decode(data, TYPES, limit=len(data) - 1)


@pytest.mark.parametrize("parts", [1, 2, 2**32 - 1])
def test_more_parts_declared_than_there_are(parts):
    with pytest.raises(Truncated):
        wire.decode(preamble(0, parts=parts))


@pytest.mark.parametrize(
    ("header_size", "zero", "body_size"),
    [
        (2**32 - 1, 0, 0),
        (0, 0, 2**64 - 8),
        (0, 0, 2**63),
        (8, 0, 2**64 - 16),
        (1, 1, 0),
        (0, 2**31, 0),
        (0, 0, 7),
    ],
)
def test_sizes_of_a_part_that_make_no_sense(header_size, zero, body_size):
    part = struct.pack("<IIQ", header_size, zero, body_size) + bytes(16)
    with pytest.raises(WireError):
        wire.decode(preamble(len(part)) + part)


BOMBS = {
    "a large vector": [ARRAY, F8, 2**40],
    "sizes that overflow": [ARRAY, F8, 2**63, 2**63],
    "sizes whose product wraps to 0": [ARRAY, F8, 2**32, 2**32],
    "many dimensions": [ARRAY, F8, *[2**20] * 30],
    "too many dimensions": [ARRAY, F8, *[1] * 65],
    "nothing, hugely": [ARRAY, F8, 0, 2**63],
    "nothing, in too many bytes": [ARRAY, F8, 0, 2**40, 2**40],
    "nothing, beyond 64 bits": [ARRAY, F8, 2**64 - 1, 0],
    "a list of arrays": [LIST, *[[ARRAY, F8, 2**30]] * 100],
    "a CSR matrix of many rows": [CSR, 2**40, 3, [ARRAY, I8, 2**40 + 1], [ARRAY, I8, 0], [ARRAY, F8, 0]],
    "a triangle": [NAMED, SYMMETRIC, 2**31, [ARRAY, F8, 2**30 * (2**31 + 1)]],
    "codes": [NAMED, QUANTISED, [ARRAY, U1, 2**50], 0.0, 1.0],
}


@pytest.mark.parametrize("outline", BOMBS.values(), ids=BOMBS.keys())
def test_a_declared_size_allocates_nothing(outline):
    data = message(outline, f8(1.0))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            wire.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"],
)
def test_a_declared_length_in_the_header_allocates_nothing(header):
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            wire.decode(raw_message(header + b"\x01"))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def _nested(depth: int, opening: list[Any], leaf: Any = None) -> Any:
    for _ in range(depth):
        leaf = [*opening, leaf]
    return leaf


@pytest.mark.parametrize("depth", [34, 200, 900, 5000])
def test_deep_nesting(depth):
    for opening in (b"\x92\x00", b"\x92\x01", b"\x93\x02\x91\xa1k", b"\x93\x05\xa7_Nested"):
        with pytest.raises(WireError):
            wire.decode(raw_message(opening * depth + b"\xc0"))


@pytest.mark.parametrize("depth", [34, 150, 330])
def test_deep_nesting_of_sparse_matrices(depth):
    header = (b"\x96\x04\x00\x00") * depth + b"\xc0" + b"\xc0\xc0" * depth
    assert isinstance(msgspec.msgpack.decode(header), list)
    with pytest.raises(WireError):
        wire.decode(raw_message(header))


@pytest.mark.parametrize(
    "outline",
    [
        [],
        [7],
        [-1],
        [2**63],
        ["x"],
        [None],
        [True, 1],
        [1.0],
        {},
        {"a": 1},
        [DICT],
        [DICT, "ab", 1, 2],
        [DICT, ["a"]],
        [DICT, ["a", "b"], 1],
        [DICT, [1.5], 1],
        [DICT, [None], 1],
        [DICT, [True], 1],
        [DICT, [[1]], 1],
        [DICT, [b"k"], 1],
        [ARRAY],
        [ARRAY, 12],
        [ARRAY, -1],
        [ARRAY, F8, -1],
        [ARRAY, F8, -1, -8],
        [ARRAY, F8, 1.0],
        [ARRAY, F8, None],
        [ARRAY, F8, "8"],
        [ARRAY, F8, True],
        [ARRAY, F8, [1]],
        [ARRAY, "f8", 1],
        [PLAIN],
        [PLAIN, 1, 2],
        [LIST, [PLAIN, 1]],
        [NAMED],
        [NAMED, 3],
        [NAMED, "Nobody"],
        [NAMED, "builtins.eval", "1"],
        [NAMED, "os.system", "true"],
        [CSR],
        [CSR, 1, 1, 1, 1, 1],
    ],
    ids=repr,
)
def test_outlines_that_stand_for_nothing(outline):
    with pytest.raises(WireError):
        wire.decode(message(outline, f8(0.0)))


def test_msgpack_extensions_and_dates_are_no_values():
    timestamp = b"\xd6\xff\x00\x00\x00\x01"
    for header in (timestamp, b"\x92\x01" + timestamp, b"\xd4\x05\x00"):
        with pytest.raises(WireError):
            wire.decode(raw_message(header))


def test_a_bool_is_one_bit():
    """Any other byte would be a bool that is neither true nor false."""
    for byte in (2, 128, 255):
        with pytest.raises(WireError):
            wire.decode(message([ARRAY, BOOL, 1], bytes([byte])))


def csr(rows: Any, columns: Any, indptr: list[int], indices: list[int], dtype: int = I4, data: int = F8) -> bytes:
    numpy_dtype = layout.DTYPES[dtype]
    body = b""
    for numbers, kind in (
        (indptr, numpy_dtype),
        (indices, numpy_dtype),
        ([1] * len(indices), layout.DTYPES[data]),
    ):
        raw = np.array(numbers).astype(kind).tobytes()
        body += raw + bytes(-len(raw) % 8)
    shapes = ([ARRAY, dtype, len(indptr)], [ARRAY, dtype, len(indices)], [ARRAY, data, len(indices)])
    return message([CSR, rows, columns, *shapes], body)


def test_a_sound_csr_matrix_written_by_hand():
    _, (decoded,), _ = wire.decode(csr(2, 3, [0, 1, 2], [2, 0]), SPARSE)
    np.testing.assert_array_equal(decoded.toarray(), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 3, [0, 1], [0]),  # too few row bounds
        (2, 3, [0, 1, 1, 1], [0]),  # too many
        (2, 3, [1, 1, 1], [0]),  # does not begin at 0
        (2, 3, [0, 1, 3], [0, 1]),  # ends beyond its entries
        (2, 3, [0, 1, 1], [0, 1]),  # ends before its entries
        (3, 3, [0, 2, 1, 2], [0, 1]),  # falls
        (3, 3, [0, 2, 1, 2], [0, 1], U8),  # falls, where a difference cannot be negative
        (3, 3, [0, 2, 1, 2], [0, 1], U4),
        (3, 3, [0, 2**31 - 1, -2, 1], [0]),  # falls, where the difference wraps to a positive number
        (3, 2**40, [0, 2**63 - 1, -2, 1], [0], I8),
        (3, 3, [0, -(2**31), -(2**31), 0], []),
        (2, 3, [0, -1, 1], [0]),
        (2, 3, [0, 1, 2], [0, 3]),  # a column outside
        (2, 3, [0, 1, 2], [0, -1]),
        (2, 0, [0, 1, 2], [0, 0]),
        (-1, 3, [], []),
        (2, -1, [0, 0, 0], []),
        (0, -1, [0], []),
        (2, 2**64 - 1, [0, 0, 0], [], I8),
        (2, 2**63, [0, 0, 0], [], I8),
        (True, 3, [0, 1], [0]),
        (2.0, 3, [0, 1, 1], [0]),
        (2, "3", [0, 1, 1], [0]),
        (2, None, [0, 1, 1], [0]),
        (2, 3, [0, 1, 2], [0, 1], F8),  # bounds and indices that are no integers
        (2, 3, [0, 1, 1], [1], BOOL),
        (2, 3, [0, 1, 2], [0, 1], I4, F2),  # float16, which SciPy does not know
    ],
    ids=repr,
)
def test_a_csr_matrix_that_is_none(arguments):
    data = csr(*arguments)
    with pytest.raises(WireError):
        wire.decode(data, SPARSE)


def test_a_csr_matrix_comes_only_where_it_is_declared():
    data = csr(2, 3, [0, 1, 2], [2, 0])
    with pytest.raises(WrongType, match="not expected"):
        wire.decode(data, (Inner, Outer))
    with pytest.raises(WrongType, match="not expected"):  # nor as a named type
        wire.decode(message([NAMED, "_csr.csr_array", 1]), SPARSE)


def test_a_step_that_declares_a_csr_matrix_gets_it():
    sparse = sp.csr_array(np.eye(2))
    answer = decode_answer(sums().answer_bytes(request([["sums", "rows", "algorithm", "gather "]], {"X": sparse})), ())
    assert answer.results[0].value == [1.0, 1.0]
    answer = decode_answer(
        sums().answer_bytes(request([["sums", "vector", "algorithm", "gather "]], {"w": sparse})), ()
    )
    assert (answer.kind, answer.step) == ("WrongType", "sums.vector")  # `Array` is a dense one
    answer = decode_answer(runtime().answer_bytes(request([ROUTE], {"w": sparse})), ())
    assert (answer.kind, answer.step) == ("WrongType", "decode")


def test_a_csr_matrix_that_nobody_declares_is_not_remembered():
    """It could not be read back from a checkpoint."""
    undeclared = Runtime(Client("a", sp.csr_array(np.eye(2)), np.ones(2)), {"measure": Measure(Squared())})
    with pytest.raises(WrongType, match="read back"):
        Memory({}, undeclared.types)["X"] = undeclared.client.X
    Memory({}, sums().types)["X"] = undeclared.client.X


def test_arguments_without_names_that_can_be_sorted():
    answer = decode_answer(runtime().answer_bytes(request([ROUTE], {"w": np.zeros(2), 3: 1})), ())
    assert (answer.kind, answer.step) == ("WrongType", "measure.value_and_gradient")


@pytest.mark.parametrize(
    "envelope", [[-1.0, [{}]], [math.nan, [{}]], [math.inf, [{}]], [0.0, [{"a": -1}]], [0.0, [{1: 1}]]]
)
def test_an_envelope_with_numbers_that_are_none(envelope):
    with pytest.raises(WireError):
        decode_answer(wire.encode(Preamble(REPLY), [Part.plain(envelope), Part(1.0)]), ())


SPARSE_1 = [CSR, 1, 1, [ARRAY, I4, 2], [ARRAY, I4, 1], [ARRAY, F8, 1]]
SPARSE_U1 = [CSR, 1, 1, [ARRAY, I4, 2], [ARRAY, I4, 1], [ARRAY, U1, 1]]
SPARSE_BOUNDS = struct.pack("<4i", 0, 1, 0, 0)  # row bounds 0, 1; column 0; padding


def test_there_is_one_way_to_write_a_csr_matrix():
    """SciPy would change the index type of any other, and the ledger would count other bytes than came."""
    for dtype in (I8, U8, U4, U1):
        with pytest.raises(WrongType, match="expected"):
            wire.decode(csr(2, 3, [0, 1, 2], [2, 0], dtype), SPARSE)
    _, (decoded,), (size,) = wire.decode(csr(2, 2**40, [0, 1, 2], [2, 2**39], I8), SPARSE)
    assert decoded.shape == (2, 2**40)
    assert Part(decoded).size == size


def test_the_sparse_vectors_of_the_next_test_are_sound():
    _, (decoded,), _ = wire.decode(message(SPARSE_1, SPARSE_BOUNDS + f8(1)), SPARSE)
    assert decoded.toarray() == [[1.0]]


def topk(shape: Any, indices: list[int], values: list[float], dtype: int = I8) -> bytes:
    body = np.array(indices).astype(layout.DTYPES[dtype]).tobytes()
    body += bytes(-len(body) % 8) + f8(*values)
    return message([NAMED, TOPK, shape, [ARRAY, dtype, len(indices)], [ARRAY, F8, len(values)]], body)


def test_a_sound_topk_written_by_hand():
    _, (decoded,), _ = wire.decode(topk([TUPLE, 2, 2], [0, 3], [1.0, 2.0]))
    np.testing.assert_array_equal(decoded.dense(), [[1, 0], [0, 2]])


@pytest.mark.parametrize(
    "arguments",
    [
        ([TUPLE, 2, 2], [0, 4], [1.0, 2.0]),  # beyond the end
        ([TUPLE, 2, 2], [-1, 3], [1.0, 2.0]),
        ([TUPLE, 2, 2], [0], [1.0, 2.0]),  # not as many indices as values
        ([TUPLE, 2, 2], [0, 1], [1.0, 2.0], F8),  # indices that are no integers
        ([TUPLE, 2, 2], [0, 1], [1.0, 2.0], BOOL),
        ([TUPLE, -2, -2], [0, 1], [1.0, 2.0]),
        ([TUPLE, 2.0, 2], [0, 1], [1.0, 2.0]),
        ([TUPLE, "2"], [0, 1], [1.0, 2.0]),
        ([TUPLE, True, 4], [0, 1], [1.0, 2.0]),
        ([TUPLE, None], [0], [1.0]),
        ([TUPLE, [TUPLE, 2]], [0], [1.0]),
        (4, [0], [1.0]),
        (None, [0], [1.0]),
        ("4", [0], [1.0]),
        ([TUPLE, 0], [0], [1.0]),
    ],
    ids=repr,
)
def test_a_topk_that_is_none(arguments):
    with pytest.raises(WireError):
        wire.decode(topk(*arguments))


@pytest.mark.parametrize(
    ("outline", "body"),
    [
        ([NAMED, SYMMETRIC, 2, [ARRAY, F8, 2]], f8(1, 2)),  # a triangle of 2 has 3 entries
        ([NAMED, SYMMETRIC, -2, [ARRAY, F8, 1]], f8(1)),  # −2·−1/2 = 1
        ([NAMED, SYMMETRIC, True, [ARRAY, F8, 1]], f8(1)),
        ([NAMED, SYMMETRIC, 1.0, [ARRAY, F8, 1]], f8(1)),
        ([NAMED, SYMMETRIC, "1", [ARRAY, F8, 1]], f8(1)),
        ([NAMED, SYMMETRIC, None, [ARRAY, F8, 1]], f8(1)),
        ([NAMED, SYMMETRIC, 1, [ARRAY, F8, 1, 1]], f8(1)),
        ([NAMED, SYMMETRIC, 1, 1.0], b""),
        ([NAMED, SYMMETRIC, 1, SPARSE_1], SPARSE_BOUNDS + f8(1)),
        ([NAMED, SYMMETRIC, 1], b""),
        ([NAMED, SYMMETRIC, 1, [ARRAY, F8, 1], 1], f8(1)),
        ([NAMED, LOW_RANK, [ARRAY, F8, 2, 1], [ARRAY, F8, 2]], f8(1, 2, 3, 4)),
        ([NAMED, LOW_RANK, [ARRAY, F8, 2], [ARRAY, F8, 1]], f8(1, 2, 3)),
        ([NAMED, LOW_RANK, 1.0, 2.0], b""),
        ([NAMED, LOW_RANK, SPARSE_1, [ARRAY, F8, 1]], SPARSE_BOUNDS + f8(1, 1)),
        ([NAMED, QUANTISED, [ARRAY, F8, 1], 0.0, 1.0], f8(1)),
        ([NAMED, QUANTISED, [ARRAY, U1, 1], "0", 1.0], bytes(8)),
        ([NAMED, QUANTISED, [ARRAY, U1, 1], 0.0, None], bytes(8)),
        ([NAMED, QUANTISED, [ARRAY, U1, 1], 0.0, [ARRAY, F8, 1]], bytes(16)),
        ([NAMED, QUANTISED, SPARSE_U1, 0.0, 1.0], SPARSE_BOUNDS + bytes(8)),
        ([NAMED, QUANTISED, 1, 0.0, 1.0], b""),
    ],
    ids=repr,
)
def test_structured_arrays_that_are_none(outline, body):
    with pytest.raises(WireError):
        wire.decode(message(outline, body))


INNER, OUTER = type_name(Inner), type_name(Outer)
GOOD_INNER = [NAMED, INNER, "x", [TUPLE, 1.0]]


@pytest.mark.parametrize(
    "outline",
    [
        [NAMED, INNER, 3, [TUPLE]],  # a number for a name
        [NAMED, INNER, "x", [LIST, 1.0]],  # a list for a tuple
        [NAMED, INNER, "x", [TUPLE, "1"]],
        [NAMED, INNER, "x", [TUPLE, True]],
        [NAMED, INNER, "x"],
        [NAMED, INNER, "x", [TUPLE], 1],
        [NAMED, OUTER, 1.0, GOOD_INNER, None, "a", [DICT, []]],
        [NAMED, OUTER, [ARRAY, F8, 0], None, None, "a", [DICT, []]],
        [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, "c", [DICT, []]],
        [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, [ARRAY, F8, 0], [DICT, []]],
        [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, [ARRAY, I8, 0, 2], [DICT, []]],
        [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, "a", [DICT, [1], [ARRAY, F8, 0]]],
        [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, "a", [DICT, ["k"], 1.0]],
        [NAMED, type_name(Positive), -1.0],
        [NAMED, "Inner", "x", [TUPLE]],
    ],
    ids=repr,
)
def test_dataclasses_with_fields_of_other_types(outline):
    with pytest.raises(WireError):
        wire.decode(message(outline), TYPES)


def test_an_array_is_no_literal():
    outline = [NAMED, OUTER, [ARRAY, F8, 0], GOOD_INNER, None, [ARRAY, F8, 2], [DICT, []]]
    with pytest.raises(WireError):
        wire.decode(message(outline, f8(1, 2)), TYPES)


def test_a_dataclass_is_built_only_where_its_type_was_listed():
    data = wire.encode(Preamble(FILE), [Part(Inner("x", ()))])
    with pytest.raises(WrongType, match=r"Inner.*not expected"):
        wire.decode(data)
    with pytest.raises(WrongType):
        wire.decode(data, (Outer,))
    assert wire.decode(data, (Inner,))[1] == [Inner("x", ())]


# ── requests, replies and files ──


def runtime(protocols: Any = None) -> Runtime:
    """A client whose server has joined."""
    made = Runtime(Client("a", np.eye(2), np.ones(2)), protocols or {"measure": Measure(Squared())})
    joining = {"version": fedsolve.__version__, "protocols": made.serves.fingerprints, "checkpointed": False}
    data = wire.encode(
        Preamble(REQUEST, number=1), [Part.plain([["session", "join", "setup", "gather "]]), Part(joining)]
    )
    assert wire.peek(made.answer_bytes(data)).number == 1
    assert list(made.versions) == [0, 1]
    return made


def request(routes: Any, *arguments: Any) -> bytes:
    return wire.encode(Preamble(REQUEST, number=2, used=1, keep=1), [Part.plain(routes), *map(Part, arguments)])


ROUTE = ["measure", "value_and_gradient", "algorithm", "gather "]


@dataclass(frozen=True)
class RowSums:
    """A protocol with a step that takes a CSR matrix, and one that does not."""

    @client_step
    def rows(self, client: Client, X: sp.csr_array) -> list[float]:
        return X.sum(axis=1).tolist()

    @client_step
    def vector(self, client: Client, w: Array) -> float:
        return float(w.sum())


def sums() -> Runtime:
    return runtime({"sums": RowSums()})


def test_a_sound_request_is_answered():
    answer = decode_answer(runtime().answer_bytes(request([ROUTE], {"w": np.zeros(2)})), ())
    assert answer.results[0].value[0] == 0.5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        wire.encode(Preamble(REQUEST), []),
        wire.encode(Preamble(REPLY), [Part.plain([ROUTE]), Part({"w": np.zeros(2)})]),
        wire.encode(Preamble(FAILURE), [Part.plain(["a", "b", "c"])]),
        request([ROUTE]),
        request([], {"w": np.zeros(2)}),
        request([["measure", "value_and_gradient"]], {"w": np.zeros(2)}),
        request([["measure", "value_and_gradient", 3]], {"w": np.zeros(2)}),
        request("abc", {"w": np.zeros(2)}),
        request({"a": 1}, {"w": np.zeros(2)}),
        request([ROUTE], [np.zeros(2)]),
        request([ROUTE], np.zeros(2)),
        request([ROUTE], {}),
        request([ROUTE], {"v": np.zeros(2)}),
        request([ROUTE], {3: np.zeros(2)}),
        request([ROUTE], {"w": np.zeros(2), "client": None}),
        request([ROUTE], {"w": 3.0}),
        request([ROUTE], {"w": None}),
        request([ROUTE], {"w": np.zeros(3)}),
        request([ROUTE], {"w": np.array(["1", "2"]).astype("u1")[:1]}),
        request([["measure", "__init__", "algorithm", "gather "]], {"w": np.zeros(2)}),
        request([["os", "system", "algorithm", "gather "]], {"command": "true"}),
        wire.encode(Preamble(REQUEST), [Part.plain([ROUTE]), Part.plain({"w": [1, 2]})]),
    ],
)
def test_a_client_answers_anything_else_with_a_failure(data):
    answer = decode_answer(runtime().answer_bytes(data), ())
    assert wire.decode(answer.encode())[0].kind == FAILURE
    assert answer.text


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_client_survives_a_damaged_request(data):
    damaged = bytearray(request([ROUTE], {"w": np.ones(2)}))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    decode_answer(runtime().answer_bytes(bytes(damaged)), ())


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Part.plain([1.0])],
        [Part.plain([1.0, [{}]])],  # counts of a call without a result
        [Part.plain([1.0, []]), Part(1.0)],
        [Part.plain([1, []])],
        [Part.plain([1.0, [{"gradients": 1.5}]]), Part(1.0)],
        [Part.plain([1.0, [{"gradients": True}]]), Part(1.0)],
        [Part.plain([1.0, [[]]]), Part(1.0)],
        [Part.plain([1.0, {}])],
        [Part.plain("x")],
        [Part.plain(None), Part(1.0)],
        [Part(np.zeros(2)), Part(1.0)],
    ],
)
def test_a_reply_whose_envelope_does_not_fit(parts):
    with pytest.raises(WireError):
        decode_answer(wire.encode(Preamble(REPLY), parts), ())


@pytest.mark.parametrize("words", [None, [], ["a", "b"], ["a", "b", 3], "abc", {"a": 1}, np.zeros(3)])
def test_a_failure_that_says_nothing(words):
    part = Part(words) if isinstance(words, np.ndarray) else Part.plain(words)
    with pytest.raises(WireError):
        decode_answer(wire.encode(Preamble(FAILURE), [part]), ())


def test_a_failure_in_words_that_are_not_unicode_still_arrives():
    """As a file name in an error message may be."""
    answer = decode_answer(Failure(Preamble(FAILURE), "OSError", "step", "no file \udcff").encode(), ())
    assert answer.text == "no file \\udcff"


def test_requests_and_replies_are_not_taken_for_each_other():
    with pytest.raises(WireError):
        Request.decode(wire.encode(Preamble(REPLY), [Part.plain([])]), ())
    with pytest.raises(WireError):
        decode_answer(wire.encode(Preamble(REQUEST), [Part.plain([0.0, []])]), ())


def test_a_request_decodes_to_the_size_it_came_in():
    data = request([ROUTE], {"w": np.zeros(2), "H": Symmetric(np.eye(2))})
    decoded = Request.decode(data, ())
    assert decoded.size == len(data)
    assert decoded.encode() == data


def test_values_on_disk_come_back(tmp_path):
    path = tmp_path / "deep" / "file"
    write_values(path, SAMPLE, 3)
    decoded, three = read_values(path, TYPES)
    assert_same(decoded, Part(SAMPLE).value)
    assert three == 3
    assert [one.name for one in path.parent.iterdir()] == ["file"]  # no temporary file is left


def test_a_damaged_file_is_a_wire_error(tmp_path):
    path = tmp_path / "file"
    write_values(path, SAMPLE)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WireError):
        read_values(path, TYPES)
    path.write_bytes(request([ROUTE], {}))
    with pytest.raises(WireError, match="not a file of values"):
        read_values(path, TYPES)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_values(path, 1)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_values(path, 2)
    assert read_values(path) == [1]
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


# ── no code from the network ──

FORBIDDEN = re.compile(
    r"^\s*(import|from)\s+(pickle|cPickle|dill|cloudpickle|joblib|marshal|shelve)\b"
    r"|(?<![\w.])(eval|exec|__import__)\("
    r"|\bpickle\.\w|allow_pickle\s*=\s*True|\bimport_module\(",
    re.MULTILINE,
)


def test_nothing_in_the_package_unpickles_or_evaluates():
    files = sorted(Path(fedsolve.__file__).parent.rglob("*.py"))
    assert len(files) > 20
    home = Path(fedsolve.__file__).parent
    found = {path.relative_to(home).as_posix() for path in files if FORBIDDEN.search(path.read_text())}
    assert found == {
        "federation/transports/handover.py",  # what the server gives its own worker processes when it starts them
        "runfiles/own_classes.py",  # classes that a run file on this machine names
        "deploy/library.py",  # modules of NVFlare, by names that are written in that room
        "loggers/base.py",  # TensorBoard and MLflow, by names that are written there
    }


@pytest.mark.parametrize(
    "line", ["import pickle", "x = eval(s)", "exec(s)", "pickle.loads(b)", "np.load(f, allow_pickle=True)"]
)
def test_the_search_for_forbidden_words_finds_them(line):
    assert FORBIDDEN.search(line)
