"""Sums of replies: the only thing the server needs to see of most of them.

Terms are added in the order of the clients, always: the same replies give the same bits by whatever road they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from fedsolve.arrays import STRUCTURED, Symmetric
from fedsolve.errors import WrongType
from fedsolve.typing import Array, Value

BY_BLAS = 4096  # entries from which calling BLAS costs less than a second pass


def weighted_sum(values: Sequence[Value], weights: Sequence[float] | None) -> Value:
    """Σ_j weight_j · value_j (weights None: Σ_j value_j), leaf by leaf through tuples, lists, dicts and dataclasses."""
    first = values[0]
    kind = type(first)
    for value in values:
        if type(value) is not kind and not (kind in (float, int) and type(value) in (float, int)):
            raise WrongType(f"replies of different types cannot be added: {kind.__name__} and {type(value).__name__}")
    if kind is np.ndarray:
        return _sum_arrays(values, weights)
    if kind in (float, int):
        if weights is None:
            return sum(values[1:], start=first)
        return float(sum(w * v for w, v in zip(weights, values, strict=True)))
    if kind is Symmetric:
        return _sum_symmetric(values, weights)
    if kind in STRUCTURED:
        return _sum_arrays([value.dense() for value in values], weights)
    if kind in (tuple, list) or kind is dict:
        if any(len(value) != len(first) for value in values):
            raise WrongType(f"replies of different lengths cannot be added: {[len(value) for value in values]}")
        if kind is dict:
            return {key: weighted_sum([_entry(value, key) for value in values], weights) for key in first}
        return kind(weighted_sum(items, weights) for items in zip(*values, strict=True))
    if is_dataclass(first):
        names = [field.name for field in fields(first)]
        return kind(**{name: weighted_sum([getattr(value, name) for value in values], weights) for name in names})
    if first is None:
        return None
    raise WrongType(f"replies of type {kind.__name__} cannot be added; gather them instead")


def _entry(value: dict[Any, Value], key: Any) -> Value:
    if key not in value:
        raise WrongType(f"replies with different keys cannot be added: {key!r} is missing in one")
    return value[key]


def _sum_arrays(values: Sequence[Array], weights: Sequence[float] | None) -> Array:
    first = values[0]
    shape = first.shape
    for value in values:
        if value.shape != shape:
            raise WrongType(f"replies of different shapes cannot be added: {shape} and {value.shape}")
    if weights is None:
        exact = all(value.dtype.kind in "iu" for value in values)  # counts stay whole numbers
        total = first.astype(np.int64 if exact else np.float64)
        for value in values[1:]:
            total += value
        return total
    # In float64 from the first product on, whatever was sent; `out` because NumPy makes no 0-d arrays otherwise.
    total = np.empty(shape)
    np.multiply(first, weights[0], out=total, dtype=np.float64)
    if total.size >= BY_BLAS and all(value.dtype == np.float64 and value.flags.c_contiguous for value in values):
        flat = total.reshape(-1)
        for weight, value in zip(weights[1:], values[1:], strict=True):
            daxpy(value.reshape(-1), flat, a=weight)  # in one pass, in place
        return total
    term = np.empty(shape)
    for weight, value in zip(weights[1:], values[1:], strict=True):
        np.multiply(value, weight, out=term, dtype=np.float64)
        total += term
    return total


def _sum_symmetric(values: Sequence[Symmetric], weights: Sequence[float] | None) -> Symmetric:
    order = values[0].n
    if any(value.n != order for value in values):
        raise WrongType(f"symmetric replies of different orders cannot be added: {[value.n for value in values]}")
    return values[0].map(lambda *arrays: _sum_arrays(arrays, weights), *values[1:])
