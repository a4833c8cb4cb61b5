"""Parts of a message back to values: nothing is allocated before its bytes are there, or built that is not listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

import msgspec
import numpy as np
import scipy.sparse as sp

from fedsolve.errors import FedsolveError, TooLarge, Truncated, WireError, WrongType
from fedsolve.numerics.structured_arrays import STRUCTURED
from fedsolve.text import shortened
from fedsolve.typing import Array, Value
from fedsolve.wire.annotation_checks import checker, field_hints
from fedsolve.wire.header_limits import HeaderBudget
from fedsolve.wire.layout import (
    ARRAY,
    CSR_MATRIX,
    DICT,
    DTYPES,
    LIST,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_EMPTY,
    MAX_SIDE,
    NAMED,
    PART,
    PLAIN,
    TUPLE,
    padded,
)
from fedsolve.wire.outlines import Outline

_decode_header = msgspec.msgpack.Decoder().decode


@dataclass(slots=True)
class _Reader:
    data: bytes
    position: int
    end: int
    known: Mapping[str, type[Value]]
    sparse: bool  # whether CSR matrices are expected
    empty: int = 0  # arrays without entries so far

    def take(self, dtype: np.dtype, shape: Sequence[int]) -> Array:
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
        self.position += padded(nbytes)
        array = array.reshape(shape)
        array.flags.writeable = False
        return array


def decode_part(
    data: bytes, start: int, known: Mapping[str, type[Value]], sparse: bool, budget: HeaderBudget
) -> tuple[Value, int]:
    """The value of the part that begins at `start`, and where it ends."""
    if len(data) - start < PART.size:
        raise Truncated("a part is cut off before its sizes")
    header_size, zero, body_size = PART.unpack_from(data, start)
    body = start + PART.size + padded(header_size)
    end = body + body_size
    if zero != 0 or body_size != padded(body_size):
        raise WireError("a part's sizes make no sense")
    if end > len(data):
        there = len(data) - start - PART.size
        raise Truncated(f"a part declares {header_size} + {body_size} bytes, {there} are there")
    header = memoryview(data)[start + PART.size : start + PART.size + header_size]
    budget.admit(header)
    try:
        found = _decode_header(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"a header that is not msgpack: {error}") from None
    reader = _Reader(data, body, end, known, sparse)
    value = _rebuild(found, reader)
    if reader.position != end:
        raise WireError(f"a part has {end - reader.position} bytes that its outline does not mention")
    return value, end


def _rebuild(found: Outline, reader: _Reader, depth: int = 0) -> Value:
    if found is None or isinstance(found, bool | int | float | str | bytes):
        return found
    if not isinstance(found, list) or not found or type(found[0]) is not int:
        raise WrongType("an outline came that stands for no value")
    tag = found[0]
    if depth > MAX_DEPTH and tag != ARRAY:  # an array has no depth of its own
        raise WrongType(f"a value nested more than {MAX_DEPTH} deep came")
    if tag in (TUPLE, LIST):
        items = [_rebuild(item, reader, depth + 1) for item in islice(found, 1, None)]
        return tuple(items) if tag == TUPLE else items
    if tag in _REBUILT:
        return _REBUILT[tag](found[1:], reader, depth)
    raise _no_value(tag, found[1:])


def _no_value(tag: int, rest: list[Outline]) -> WrongType:
    return WrongType(f"an outline with tag {tag} and {len(rest)} items stands for no value")


def _rebuild_dict(rest: list[Outline], reader: _Reader, depth: int) -> Value:
    if not (rest and isinstance(rest[0], list) and len(rest[0]) == len(rest) - 1):
        raise _no_value(DICT, rest)
    if not all(type(key) in (str, int) for key in rest[0]):
        raise WrongType("a dict came whose keys are not str or int")
    made = {key: _rebuild(item, reader, depth + 1) for key, item in zip(rest[0], rest[1:], strict=True)}
    if len(made) != len(rest[0]):
        raise WrongType("a dict came with the same key twice")
    return made


def _rebuild_array(rest: list[Outline], reader: _Reader, depth: int) -> Array:
    if not (rest and all(type(size) is int and size >= 0 for size in rest)):
        raise _no_value(ARRAY, rest)
    code, *shape = rest
    if code >= len(DTYPES) or len(shape) > MAX_DIMENSIONS:
        raise WrongType(f"an array of unknown dtype {code} or of {len(shape)} dimensions came")
    return reader.take(DTYPES[code], shape)


def _rebuild_plain(rest: list[Outline], reader: _Reader, depth: int) -> Value:
    if len(rest) != 1 or depth:
        raise _no_value(PLAIN, rest)
    return rest[0]


def _rebuild_csr(rest: list[Outline], reader: _Reader, depth: int) -> Value:
    """A CSR matrix that SciPy can compute with: its compiled loops follow the row bounds and indices unchecked."""
    if len(rest) != 5:
        raise _no_value(CSR_MATRIX, rest)
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
    if data.dtype == np.float16:
        raise WrongType("a CSR matrix came with float16 entries, which SciPy does not know")
    _check_indices(indptr, indices, data, rows, columns)
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _check_indices(indptr: Array, indices: Array, data: Array, rows: int, columns: int) -> None:
    index = sp.get_index_dtype(maxval=max(rows, columns, indices.size))
    if indptr.dtype != index or indices.dtype != index:
        raise WrongType(f"a CSR matrix came with indices of {indptr.dtype} and {indices.dtype}, expected {index}")
    # Neighbours are compared, because a difference of two of them can wrap to a positive number.
    falling = bool((indptr[1:] < indptr[:-1]).any())
    if falling or int(indptr[0]) != 0 or int(indptr[-1]) != indices.size or indices.size != data.size:
        raise WrongType("a CSR matrix came whose row bounds do not fit its entries")
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= columns):
        raise WrongType(f"a CSR matrix of {columns} columns came with an index outside them")


def _rebuild_named(given: list[Outline], reader: _Reader, depth: int) -> Value:
    if not (given and isinstance(given[0], str)):
        raise _no_value(NAMED, given)
    name, *rest = given
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


_REBUILT = {
    DICT: _rebuild_dict,
    ARRAY: _rebuild_array,
    CSR_MATRIX: _rebuild_csr,
    NAMED: _rebuild_named,
    PLAIN: _rebuild_plain,
}
