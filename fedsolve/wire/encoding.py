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
proportion to its length (`headers.py`); how many parts and header bytes a message may have is fixed before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np
import scipy.sparse as sp

from fedsolve.errors import FedsolveError, TooLarge, Truncated, WireError, WrongType, WrongVersion
from fedsolve.numerics.structured_arrays import STRUCTURED, Symmetric, TopK
from fedsolve.text import shortened
from fedsolve.typing import Array, Value
from fedsolve.wire.contracts import CSR, by_name, checker, field_hints, type_name
from fedsolve.wire.header_limits import HeaderBudget

VERSION = 1
MAGIC = b"fsol"
MAX_BYTES = 4 * 2**30  # a limit for strangers, not for the mathematics: pass `limit=` to allow more
MAX_DEPTH = 32
MAX_PARTS = 1024  # of one message: a request has one for its routes and one for each call
MAX_EMPTY = 4096  # arrays without entries in one part: they take memory, and no bytes but those of their outline
MAX_DIMENSIONS = 32
MAX_SIDE = 2**63 - 1  # what NumPy can count

REQUEST, REPLY, FAILURE, FILE = 1, 2, 3, 4

_PREAMBLE = struct.Struct("<4sHBxIIIIQQQQQ")
_PART = struct.Struct("<IIQ")
PREAMBLE_SIZE = _PREAMBLE.size

_DTYPES = tuple(np.dtype(code) for code in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
_DTYPE_CODE = {dtype: code for code, dtype in enumerate(_DTYPES)}
_TUPLE, _LIST, _DICT, _ARRAY, _CSR, _NAMED, _PLAIN = range(7)
_STRUCTURED_NAMES: dict[str, type[Any]] = {kind.__name__: kind for kind in STRUCTURED}
_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder().decode


def _padded(size: int) -> int:
    return (size + 7) & ~7


# ── values to parts ──


class _Tally:
    """What one walk over a value finds out."""

    __slots__ = ("buffers", "nbytes", "plain", "scalars")

    def __init__(self, buffers: list[Array] | None) -> None:
        self.nbytes = self.scalars = 0
        self.plain = True  # False: the value must be normalised to be what the other side would decode
        self.buffers = buffers


def _outline_array(dtype: np.dtype[Any], shape: tuple[int, ...], tally: _Tally) -> list[Any]:
    code = _DTYPE_CODE.get(dtype)
    if code is None:
        raise WrongType(f"an array of dtype {dtype} cannot travel; use float, int or bool of 64 bits or fewer")
    size = prod(shape)
    tally.nbytes += _padded(size * dtype.itemsize)
    tally.scalars += size
    return [_ARRAY, code, *shape]


def _outline_sent(value: Array, tally: _Tally) -> list[Any]:
    flags = value.flags
    if not flags.c_contiguous:
        tally.plain = False
    # What has been sent is what was said: neither side may change it afterwards.
    flags.writeable = False
    if tally.buffers is not None:
        tally.buffers.append(value)
    return _outline_array(value.dtype, value.shape, tally)


def _outline(value: Value, tally: _Tally, depth: int = 0) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        return _outline_sent(value, tally)
    if kind is float:
        tally.scalars += 1
        return value
    if value is None or kind in (bool, str, bytes):
        return value
    if kind is int:
        if not -(2**63) <= value < 2**64:
            raise WrongType(f"the integer {value} does not fit into 64 bits")
        return value
    if depth > MAX_DEPTH:
        raise WrongType(f"a value nested more than {MAX_DEPTH} deep cannot travel")
    deeper = depth + 1
    if kind is tuple or kind is list:
        return [_TUPLE if kind is tuple else _LIST, *[_outline(item, tally, deeper) for item in value]]
    if kind is dict:
        for key in value:
            if type(key) is not str and not (type(key) is int and -(2**63) <= key < 2**64):
                raise WrongType(f"dict keys that travel are str or int of 64 bits, got {key!r}")
        return [_DICT, list(value), *(_outline(item, tally, deeper) for item in value.values())]
    if kind is Symmetric and tally.buffers is None:
        value.freeze()
        n, (dtype, shape) = value.wire_shape()
        return [_NAMED, kind.__name__, n, _outline_array(dtype, shape, tally)]
    if kind is TopK:  # as below, but of a known form: many are sent in a round
        shape, indices, values = value.to_wire()
        first, second = _outline_sent(indices, tally), _outline_sent(values, tally)
        return [_NAMED, kind.__name__, [_TUPLE, *shape], first, second]
    if kind in STRUCTURED:
        return [_NAMED, kind.__name__, *(_outline(item, tally, deeper) for item in value.to_wire())]
    if isinstance(value, sp.csr_array | sp.csr_matrix):
        if not _is_canonical(value):
            tally.plain = False
            value = _canonical(value)
        arrays = (value.indptr, value.indices, value.data)
        return [_CSR, *value.shape, *(_outline(item, tally, deeper) for item in arrays)]
    if is_dataclass(value) and not isinstance(value, type):
        items = (getattr(value, field.name) for field in fields(value))
        return [_NAMED, type_name(kind), *(_outline(item, tally, deeper) for item in items)]
    if isinstance(value, np.generic) and value.dtype in _DTYPE_CODE:
        tally.plain = False
        return _outline(value.item(), tally, deeper)
    raise WrongType(
        f"a value of type {kind.__module__}.{kind.__qualname__} cannot travel; send arrays, numbers, strings, None, "
        "or tuples, lists, dicts and dataclasses of these"
    )


def _is_canonical(value: Value) -> bool:
    """Whether a CSR matrix is one that decoding would give: of the index type that SciPy chooses itself."""
    index = sp.get_index_dtype(maxval=max(*value.shape, value.nnz))
    arrays = (value.indptr, value.indices, value.data)
    return (
        type(value) is sp.csr_array
        and value.indptr.dtype == value.indices.dtype == index
        and all(array.flags.c_contiguous for array in arrays)
    )


def _canonical(value: Value) -> Value:
    index = sp.get_index_dtype(maxval=max(*value.shape, value.nnz))
    data, indices, indptr = value.data, value.indices.astype(index), value.indptr.astype(index)
    made = sp.csr_array((np.ascontiguousarray(data), indices, indptr), shape=value.shape)
    for array in (made.indptr, made.indices, made.data):
        array.flags.writeable = False
    return made


def _normalised(value: Value) -> Value:
    """What the other side would decode: C-ordered arrays and Python numbers."""
    if isinstance(value, np.ndarray):
        if value.flags.c_contiguous:  # also because NumPy would make a vector of a 0-d array
            return value
        made = np.ascontiguousarray(value)
        made.flags.writeable = False
        return made
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(_normalised(item) for item in value)
    if type(value) is dict:
        return {key: _normalised(item) for key, item in value.items()}
    if type(value) in STRUCTURED:
        return type(value).from_wire(*(_normalised(item) for item in value.to_wire()))
    if sp.issparse(value):
        return value if _is_canonical(value) else _canonical(value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: _normalised(getattr(value, field.name)) for field in fields(value)})
    return value


def _encoded(outline: Any) -> bytes:
    try:
        return _encode_header(outline)
    except UnicodeEncodeError as error:
        raise WrongType(f"a string that is not valid Unicode cannot travel: {error}") from None


@lru_cache(maxsize=1024)
def _array_part(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[bytes, int, int]:
    """Header, size and scalars of a part that is one array."""
    tally = _Tally(None)
    header = _encode_header(_outline_array(dtype, shape, tally))
    return header, _PART.size + _padded(len(header)) + tally.nbytes, tally.scalars


# Outlines of dicts are kept where they are small: names from the other side must not fill the memory.
FEW, SHORT = 8, 64


@lru_cache(maxsize=1024)
def _arguments_part(names: tuple[str, ...], *arrays: tuple[np.dtype[Any], tuple[int, ...]]) -> tuple[bytes, int, int]:
    """The same for a dict of arrays, as most requests carry."""
    tally = _Tally(None)
    header = _encoded([_DICT, list(names), *[_outline_array(*array, tally) for array in arrays]])
    return header, _PART.size + _padded(len(header)) + tally.nbytes, tally.scalars


def _has_plain_arrays(value: dict[Any, Value]) -> bool:
    if not 0 < len(value) <= FEW:
        return False
    short = [type(key) is str and len(key) <= SHORT for key in value]
    return all(short) and all([_plain_array(array) for array in value.values()])


def _plain_array(value: Value) -> bool:
    """Whether a value is an array that travels as it lies in memory; from here on nobody may change it."""
    if type(value) is np.ndarray and value.flags.c_contiguous:
        value.setflags(False)  # type: ignore[call-arg]
        return True
    return False


class Part:
    """One value on its way: its outline is made at once, its bytes only when they are asked for."""

    __slots__ = ("checked", "header", "scalars", "size", "value")

    checked: Any  # the contract this value was last found to fulfil
    header: bytes
    size: int
    scalars: int
    value: Value

    def __init__(self, value: Value) -> None:
        if type(value) is np.ndarray and value.flags.c_contiguous:  # by far the most common reply
            value.setflags(False)  # type: ignore[call-arg]  # a name would cost three times as much
            self.header, self.size, self.scalars = _array_part(value.dtype, value.shape)
            self.value, self.checked = value, None
            return
        if type(value) is dict and _has_plain_arrays(value):
            arrays = [(array.dtype, array.shape) for array in value.values()]
            self.header, self.size, self.scalars = _arguments_part(tuple(value), *arrays)
            self.value, self.checked = value, None
            return
        tally = _Tally(None)
        self.header = _encoded(_outline(value, tally))
        self.size = _PART.size + _padded(len(self.header)) + tally.nbytes
        self.scalars = tally.scalars
        self.value, self.checked = value if tally.plain else _normalised(value), None

    @classmethod
    def plain(cls, value: Value) -> Part:
        """A part that msgpack knows already: numbers, strings, lists, dicts with string keys. Envelopes are such."""
        part = cls.__new__(cls)
        part.header = _encoded([_PLAIN, value])
        part.size = _PART.size + _padded(len(part.header))
        part.scalars, part.value, part.checked = 0, value, None
        return part

    def chunks(self) -> list[bytes | memoryview]:
        """The bytes of this part, to be joined."""
        header, body = self.header, self.size - _PART.size - _padded(len(self.header))
        tally = _Tally([])
        if body:
            _outline(self.value, tally)
        out: list[bytes | memoryview] = [_PART.pack(len(header), 0, body), header]
        out.append(bytes(_padded(len(header)) - len(header)))
        assert tally.buffers is not None
        for array in tally.buffers:
            if array.size:
                out.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                out.append(bytes(_padded(array.nbytes) - array.nbytes))
        return out


# ── messages ──


def plain_size(value: Value) -> int:
    """The size of `Part.plain(value)`, without making it."""
    return _PART.size + _padded(len(_encode_header([_PLAIN, value])))


class Preamble(NamedTuple):
    """The fixed head of a message. What the numbers mean is said where they are used (`client.Runtime`)."""

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
    head = _PREAMBLE.pack(MAGIC, VERSION, kind, attempt, round_, exchange, len(parts), *rest, total)
    return b"".join([head, *(chunk for part in parts for chunk in part.chunks())])


def peek(data: bytes) -> Preamble:
    """The preamble of a message that could not be read, as far as it can be made out; kind FAILURE, to answer with."""
    if len(data) < PREAMBLE_SIZE:
        return Preamble(FAILURE)
    _, _, _, attempt, round_, exchange, _, *rest, _ = _PREAMBLE.unpack_from(data)
    return Preamble(FAILURE, attempt, round_, exchange, *rest)


def count_parts(data: bytes) -> int:
    """How many parts a message says it has; 0 for bytes that are no message."""
    return int(_PREAMBLE.unpack_from(data)[6]) if len(data) >= PREAMBLE_SIZE and data[:4] == MAGIC else 0


def decode(
    data: bytes, types: Iterable[type[Any]] = (), limit: int = MAX_BYTES
) -> tuple[Preamble, list[Value], list[int]]:
    """The preamble, the value of each part and its size in bytes.

    `types` are the dataclasses allowed, and `scipy.sparse.csr_array` where CSR matrices are. `limit` is the longest
    message to accept, in bytes; the headers of its parts may have 1/64 of that together (64 MiB by default).
    """
    if len(data) > limit:
        raise TooLarge(f"a message of {len(data)} bytes came where at most {limit} are allowed")
    if len(data) < PREAMBLE_SIZE:
        raise Truncated(f"a message of {len(data)} bytes came, shorter than its preamble of {PREAMBLE_SIZE}")
    magic, version, kind, attempt, round_, exchange, count, *rest, total = _PREAMBLE.unpack_from(data)
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
    if count * _PART.size > total - PREAMBLE_SIZE:
        raise Truncated(f"a message of {count} parts is declared, {total - PREAMBLE_SIZE} bytes are there")
    if count > MAX_PARTS:
        raise TooLarge(f"a message of {count} parts came where at most {MAX_PARTS} are allowed")
    listed = set(types)
    known = {**_STRUCTURED_NAMES, **by_name(listed - {CSR})}
    budget = HeaderBudget(limit)
    values: list[Value] = []
    sizes: list[int] = []
    position = PREAMBLE_SIZE
    for _ in range(count):
        value, end = _decode_part(data, position, known, CSR in listed, budget)
        values.append(value)
        sizes.append(end - position)
        position = end
    if position != total:
        raise TooLarge(f"{total - position} bytes follow the last part of a message")
    return Preamble(kind, attempt, round_, exchange, *rest), values, sizes


@dataclass(slots=True)
class _Reader:
    data: bytes
    position: int
    end: int
    known: Mapping[str, type[Any]]
    sparse: bool  # whether CSR matrices are expected
    empty: int = 0  # arrays without entries so far

    def take(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        size = prod(shape)
        nbytes = size * dtype.itemsize
        # Checked before NumPy sees it: a claimed shape allocates nothing.
        if nbytes > self.end - self.position:
            raise Truncated(f"an array of shape {tuple(shape)} is declared, {self.end - self.position} bytes are there")
        if not size and prod(side for side in shape if side) * dtype.itemsize > MAX_SIDE:
            raise WrongType(f"an empty array of shape {tuple(shape)} is declared, which no array can have")
        self.empty += not size
        if self.empty > MAX_EMPTY:
            raise TooLarge(f"a part came with more than {MAX_EMPTY} arrays without entries")
        array = np.frombuffer(self.data, dtype, size, self.position) if size else np.empty(0, dtype)
        if dtype.kind == "b" and size and array.view(np.uint8).max() > 1:
            raise WrongType("an array of bool came with a byte that is neither 0 nor 1")
        self.position += _padded(nbytes)
        array = array.reshape(shape)
        array.flags.writeable = False
        return array


def _decode_part(
    data: bytes, start: int, known: Mapping[str, type[Any]], sparse: bool, budget: HeaderBudget
) -> tuple[Value, int]:
    if len(data) - start < _PART.size:
        raise Truncated("a part is cut off before its sizes")
    header_size, zero, body_size = _PART.unpack_from(data, start)
    body = start + _PART.size + _padded(header_size)
    end = body + body_size
    if zero != 0 or body_size != _padded(body_size):
        raise WireError("a part's sizes make no sense")
    if end > len(data):
        there = len(data) - start - _PART.size
        raise Truncated(f"a part declares {header_size} + {body_size} bytes, {there} are there")
    header = memoryview(data)[start + _PART.size : start + _PART.size + header_size]
    budget.admit(header)
    try:
        outline = _decode_header(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"a header that is not msgpack: {error}") from None
    reader = _Reader(data, body, end, known, sparse)
    value = _rebuild(outline, reader)
    if reader.position != end:
        raise WireError(f"a part has {end - reader.position} bytes that its outline does not mention")
    return value, end


def _rebuild(outline: Any, reader: _Reader, depth: int = 0) -> Value:
    if outline is None or isinstance(outline, bool | int | float | str | bytes):
        return outline
    if not isinstance(outline, list) or not outline or type(outline[0]) is not int:
        raise WrongType("an outline came that stands for no value")
    tag = outline[0]
    if depth > MAX_DEPTH and tag != _ARRAY:  # an array has no depth of its own
        raise WrongType(f"a value nested more than {MAX_DEPTH} deep came")
    if tag in (_TUPLE, _LIST):
        items = [_rebuild(item, reader, depth + 1) for item in islice(outline, 1, None)]
        return tuple(items) if tag == _TUPLE else items
    rest = outline[1:]
    if tag == _DICT and rest and isinstance(rest[0], list) and len(rest[0]) == len(rest) - 1:
        if not all(type(key) in (str, int) for key in rest[0]):
            raise WrongType("a dict came whose keys are not str or int")
        made = {key: _rebuild(item, reader, depth + 1) for key, item in zip(rest[0], rest[1:], strict=True)}
        if len(made) != len(rest[0]):
            raise WrongType("a dict came with the same key twice")
        return made
    if tag == _ARRAY and rest and all(type(size) is int and size >= 0 for size in rest):
        code, *shape = rest
        if code >= len(_DTYPES) or len(shape) > MAX_DIMENSIONS:
            raise WrongType(f"an array of unknown dtype {code} or of {len(shape)} dimensions came")
        return reader.take(_DTYPES[code], shape)
    if tag == _PLAIN and len(rest) == 1 and depth == 0:
        return rest[0]
    if tag == _CSR and len(rest) == 5:
        return _rebuild_csr(rest, reader, depth)
    if tag == _NAMED and rest and isinstance(rest[0], str):
        return _rebuild_named(rest[0], rest[1:], reader, depth)
    raise WrongType(f"an outline with tag {tag} and {len(rest)} items stands for no value")


def _rebuild_csr(rest: list[Any], reader: _Reader, depth: int) -> Value:
    """A CSR matrix that SciPy can compute with: its compiled loops follow the row bounds and indices unchecked."""
    if not reader.sparse:
        raise WrongType("a CSR matrix came, which was not expected here: a step declares it as scipy.sparse.csr_array")
    rows, columns, *arrays = rest
    indptr, indices, data = (_rebuild(item, reader, depth + 1) for item in arrays)
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (indptr, indices, data)):
        raise WrongType("a CSR matrix came whose parts are not vectors")
    if type(rows) is not int or type(columns) is not int or rows < 0 or indptr.shape != (rows + 1,):
        raise WrongType(f"a CSR matrix of {shortened(rows)} rows came with {indptr.size} row bounds")
    if not 0 <= columns <= MAX_SIDE:
        raise WrongType(f"a CSR matrix of {columns} columns came")
    index = sp.get_index_dtype(maxval=max(rows, columns, indices.size))
    if indptr.dtype != index or indices.dtype != index:
        raise WrongType(f"a CSR matrix came with indices of {indptr.dtype} and {indices.dtype}, expected {index}")
    if data.dtype == np.float16:
        raise WrongType("a CSR matrix came with float16 entries, which SciPy does not know")
    # Neighbours are compared, because a difference of two of them can wrap to a positive number.
    falling = bool((indptr[1:] < indptr[:-1]).any())
    if falling or int(indptr[0]) != 0 or int(indptr[-1]) != indices.size or indices.size != data.size:
        raise WrongType("a CSR matrix came whose row bounds do not fit its entries")
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= columns):
        raise WrongType(f"a CSR matrix of {columns} columns came with an index outside them")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _rebuild_named(name: str, rest: list[Any], reader: _Reader, depth: int) -> Value:
    kind = reader.known.get(name)
    if kind is None:
        raise WrongType(f"a value of type {shortened(name)} came, which was not expected here")
    items = [_rebuild(item, reader, depth + 1) for item in rest]
    if kind in STRUCTURED:
        if len(items) != len(kind.wire_fields):
            raise WrongType(f"{name} has {len(kind.wire_fields)} fields, {len(items)} came")
        try:
            return kind.from_wire(*items)
        except (AttributeError, TypeError, ValueError) as error:
            raise WrongType(f"a {name} came with fields of wrong types: {error}") from None
    hints = field_hints(kind)
    if len(items) != len(hints):
        raise WrongType(f"{name} has {len(hints)} fields, {len(items)} came")
    for (field, hint), item in zip(hints.items(), items, strict=True):
        if not checker(hint)(item):
            raise WrongType(f"{name}.{field} should be {hint}, a {type(item).__name__} came")
    try:
        return kind(**dict(zip(hints, items, strict=True)))
    except (FedsolveError, AttributeError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise WrongType(f"a {name} came that its own checks refuse: {error}") from None
