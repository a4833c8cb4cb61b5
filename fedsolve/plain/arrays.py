"""Arrays in plain form: numbers in lists, rows in lists of their own, null for NaN.

Arrays of other types than float64, int64 and bool, and those without entries, are a table instead, with their `dtype`,
`shape` and `values`: a list would not say what they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.typing import Array

Plain: TypeAlias = bool | int | float | str | list["Plain"] | dict[str, "Plain"] | None

MOST_DIMENSIONS = 32
_LISTED = ("float64", "int64", "bool")
_DTYPES = (*_LISTED, "float32", "float16", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


class Misfit(Exception):
    """A plain value that is not of the form that is tried; whoever tries says what was expected."""


def to_lists(value: np.ndarray, where: str) -> Plain:
    """The plain form of an array. Raises ConfigError for text, objects and infinite entries; `where` is for that."""
    if value.dtype.kind not in "fiub":
        raise ConfigError(f"{where} is an array of {value.dtype}; only numbers have a plain form")
    if value.dtype.kind == "f" and np.isinf(value).any():
        raise ConfigError(f"{where} is an array with infinite entries, which have no plain form")
    if value.dtype.name in _LISTED and value.size and value.ndim:
        return _nan_as_none(value.tolist())
    return {
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "values": _nan_as_none(value.reshape(-1).tolist()),
    }


def _nan_as_none(listed: list[Plain]) -> list[Plain]:
    return [_nan_as_none(one) if isinstance(one, list) else None if one != one else one for one in listed]


def from_lists(plain: object) -> Array:
    """The array of a plain form. Raises Misfit for what is none, and for numbers that its type would change."""
    if isinstance(plain, Mapping):
        return _from_table(plain)
    if not isinstance(plain, list | tuple):
        raise Misfit
    listed, types = _none_as_nan(plain, 0)
    if types != {bool} and not types <= {int, float}:
        raise Misfit
    try:
        array = np.array(listed)
    except (ValueError, OverflowError):  # rows of different lengths, or a number of too many digits
        raise Misfit from None
    if array.dtype.kind not in "fiub" or (types == {int} and array.dtype.kind == "f"):  # 2**63 beside a small number
        raise Misfit
    return array


def _from_table(plain: Mapping[str, object]) -> Array:
    dtype, shape, values = (plain.get(key) for key in ("dtype", "shape", "values"))
    if set(plain) != {"dtype", "shape", "values"} or dtype not in _DTYPES:
        raise Misfit
    if not isinstance(values, list | tuple) or not _is_shape(shape, len(values)):
        raise Misfit
    listed, types = _none_as_nan(values, MOST_DIMENSIONS - 1)
    if not types <= ({bool} if dtype == "bool" else {int, float}):
        raise Misfit
    try:
        made = np.array(listed, dtype=str(dtype)).reshape(shape)  # type: ignore[call-overload]
    except (ValueError, OverflowError):  # too large for the type, or sides too large for an array with a side of 0
        raise Misfit from None
    if not all(a == b or a != a for a, b in zip(listed, made.reshape(-1).tolist(), strict=True)):
        raise Misfit
    return made


def _is_shape(shape: object, size: int) -> bool:
    return (
        isinstance(shape, list | tuple)
        and len(shape) <= MOST_DIMENSIONS
        and all(type(side) is int and side >= 0 for side in shape)
        and math.prod(shape) == size
    )


def _none_as_nan(plain: Sequence[object], depth: int) -> tuple[list[object], set[type]]:
    """The lists with NaN for None, and the types of what is in them."""
    if depth >= MOST_DIMENSIONS:
        raise Misfit
    made: list[object] = []
    types: set[type] = set()
    for one in plain:
        if isinstance(one, list | tuple):
            inner, found = _none_as_nan(one, depth + 1)
            made.append(inner)
            types |= found
        else:
            made.append(math.nan if one is None else one)
            types.add(type(made[-1]))
    return made, types
