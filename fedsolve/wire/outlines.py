"""The outline of a value: plain values as they are, an array as its type and shape. A header holds it, see `encoding`.

`outline` walks over a value once and tallies the bytes and numbers of its arrays; `normalised` makes of it what the
other side would decode.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import WrongType
from fedsolve.numerics.structured_arrays import STRUCTURED, Symmetric, TopK
from fedsolve.typing import Array, Value
from fedsolve.wire.annotation_checks import type_name
from fedsolve.wire.layout import (
    ARRAY,
    CSR_MATRIX,
    DICT,
    DTYPE_CODE,
    LIST,
    MAX_DEPTH,
    NAMED,
    TUPLE,
    padded,
)

Outline = Any  # None, numbers, texts and bytes, and lists of outlines that begin with a tag


class Tally:
    """What one walk over a value finds out."""

    __slots__ = ("buffers", "nbytes", "plain", "scalars")

    def __init__(self, buffers: list[Array] | None) -> None:
        self.nbytes = self.scalars = 0
        self.plain = True  # False: the value must be normalised to be what the other side would decode
        self.buffers = buffers


def outline_array(dtype: np.dtype, shape: tuple[int, ...], tally: Tally) -> list[Outline]:
    code = DTYPE_CODE.get(dtype)
    if code is None:
        raise WrongType(f"an array of dtype {dtype} cannot travel; use float, int or bool of 64 bits or fewer")
    size = prod(shape)
    tally.nbytes += padded(size * dtype.itemsize)
    tally.scalars += size
    return [ARRAY, code, *shape]


def _outline_sent(value: Array, tally: Tally) -> list[Outline]:
    flags = value.flags
    if not flags.c_contiguous:
        tally.plain = False
    # What has been sent is what was said: neither side may change it afterwards.
    flags.writeable = False
    if tally.buffers is not None:
        tally.buffers.append(value)
    return outline_array(value.dtype, value.shape, tally)


def outline(value: Value, tally: Tally, depth: int = 0) -> Outline:
    """The outline of a value; raises WrongType for what cannot travel."""
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
    if kind is tuple or kind is list:
        return [TUPLE if kind is tuple else LIST, *[outline(item, tally, depth + 1) for item in value]]
    if kind is dict:
        return _outline_dict(value, tally, depth + 1)
    if kind in STRUCTURED:
        return _outline_structured(value, tally, depth + 1)
    return _outline_other(value, tally, depth + 1)


def _outline_dict(value: dict[str | int, Value], tally: Tally, deeper: int) -> Outline:
    for key in value:
        if type(key) is not str and not (type(key) is int and -(2**63) <= key < 2**64):
            raise WrongType(f"dict keys that travel are str or int of 64 bits, got {key!r}")
    return [DICT, list(value), *(outline(item, tally, deeper) for item in value.values())]


def _outline_structured(value: Value, tally: Tally, deeper: int) -> Outline:
    kind = type(value)
    if kind is Symmetric and tally.buffers is None:
        value.freeze()
        n, (dtype, shape) = value.wire_shape()
        return [NAMED, kind.__name__, n, outline_array(dtype, shape, tally)]
    if kind is TopK:  # as below, but of a known form: many are sent in a round
        shape, indices, values = value.to_wire()
        first, second = _outline_sent(indices, tally), _outline_sent(values, tally)
        return [NAMED, kind.__name__, [TUPLE, *shape], first, second]
    return [NAMED, kind.__name__, *(outline(item, tally, deeper) for item in value.to_wire())]


def _outline_other(value: Value, tally: Tally, deeper: int) -> Outline:
    kind = type(value)
    if isinstance(value, sp.csr_array | sp.csr_matrix):
        if not _is_canonical(value):
            tally.plain = False
            value = _canonical(value)
        arrays = (value.indptr, value.indices, value.data)
        return [CSR_MATRIX, *value.shape, *(outline(item, tally, deeper) for item in arrays)]
    if is_dataclass(value) and not isinstance(value, type):
        items = (getattr(value, field.name) for field in fields(value))
        return [NAMED, type_name(kind), *(outline(item, tally, deeper) for item in items)]
    if isinstance(value, np.generic) and value.dtype in DTYPE_CODE:
        tally.plain = False
        return outline(value.item(), tally, deeper)
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


def normalised(value: Value) -> Value:
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
        return type(value)(normalised(item) for item in value)
    if type(value) is dict:
        return {key: normalised(item) for key, item in value.items()}
    if type(value) in STRUCTURED:
        return type(value).from_wire(*(normalised(item) for item in value.to_wire()))
    if sp.issparse(value):
        return value if _is_canonical(value) else _canonical(value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: normalised(getattr(value, field.name)) for field in fields(value)})
    return value
