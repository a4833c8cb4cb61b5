"""Arrays inside a value turned into arrays of another library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import array_api_compat as api

from fedsolve.numerics.structured_arrays import STRUCTURED, Symmetric
from fedsolve.typing import Array, Value


def map_arrays(value: Value, function: Callable[[Array], Array]) -> Value:
    """The same value with `function` applied to each array in it."""
    if isinstance(value, Symmetric):
        return Symmetric(function(value.full()))  # clients compute with the whole matrix
    if type(value) in STRUCTURED:
        return type(value)(*(map_arrays(item, function) for item in value.to_wire()))
    if api.is_array_api_obj(value):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)(map_arrays(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_arrays(item, function) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{one.name: map_arrays(getattr(value, one.name), function) for one in fields(value)})
    return value
