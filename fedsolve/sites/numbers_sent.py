"""How much a reply tells, whatever form it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse as sp

from fedsolve.numerics.structured_arrays import STRUCTURED, Symmetric
from fedsolve.typing import Array, Value

TEXT = 8  # characters, or bytes, that count as a number


def floats_in(value: Value) -> Iterator[Array]:
    """The arrays of floats in a value, of whatever form."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from floats_in(one)
    elif isinstance(value, dict):
        yield from floats_in(list(value.values()))
    elif isinstance(value, sp.csr_array | sp.csr_matrix):
        yield value.data
    elif type(value) in STRUCTURED:
        yield from floats_in(list(value.to_wire()))
    elif is_dataclass(value):
        yield from floats_in([getattr(value, one.name) for one in fields(value)])


def numbers_in(value: Value) -> int:
    """The numbers in a value: entries of arrays, and numbers by themselves, whole ones and truth values too. (The
    ledger counts the entries of arrays and floats, which is what an algorithm sends.) Text counts by its length."""
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, str | bytes):
        return -(-len(value) // TEXT)
    if isinstance(value, tuple | list):
        return sum(map(numbers_in, value))
    if isinstance(value, dict):
        return sum(numbers_in(key) + numbers_in(one) for key, one in value.items())
    if isinstance(value, sp.csr_array | sp.csr_matrix):
        return numbers_in([value.data, value.indices, value.indptr])
    if type(value) in STRUCTURED:  # its orders and shapes are not what it tells
        return sum(numbers_in(one) for one in value.to_wire() if isinstance(one, np.ndarray | float))
    if is_dataclass(value):
        return sum(numbers_in(getattr(value, one.name)) for one in fields(value))
    return 1


def has_matrix(value: Value) -> bool:
    """Whether a value is or contains a symmetric matrix, such as a Hessian."""
    return isinstance(value, Symmetric) or (isinstance(value, tuple | list) and any(map(has_matrix, value)))
