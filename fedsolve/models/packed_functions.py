"""Thousands of small functions as a few long arrays, for files.

All functions of a learner have as many arrays, so the first arrays of all of them are laid end to end, and so are the
second ones, each with a table of their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.learners.base import Arrays
from fedsolve.typing import Array


def packed(functions: Sequence[Arrays]) -> dict[str, Array]:
    """The arrays of all functions end to end, by name. Raises ConfigError if they are not alike."""
    if not functions:
        return {}
    found: dict[str, Array] = {}
    likes = {tuple((np.asarray(one).dtype.str, np.ndim(one)) for one in arrays) for arrays in functions}
    if len(likes) > 1:
        raise ConfigError(f"the functions of one learner have arrays of one kind, got {sorted(likes)[:2]}")
    for place, each in enumerate(zip(*functions, strict=True)):
        found[f"functions{place}"] = np.concatenate([np.ravel(one) for one in each])
        found[f"shapes{place}"] = np.array([np.shape(one) for one in each], dtype=np.int64)
    return found


def unpacked(arrays: Mapping[str, Array], count: int) -> list[Arrays]:
    """The functions again. Raises DataError if these are not the arrays of so many of them."""
    columns: list[list[Array]] = []
    while f"functions{len(columns)}" in arrays:
        flat, shapes = (arrays[f"{name}{len(columns)}"] for name in ("functions", "shapes"))
        if shapes.ndim != 2 or len(shapes) != count or (shapes < 0).any():
            raise DataError(f"it has the shapes of {len(shapes)} functions, expected {count}")
        sides = [tuple(one) for one in shapes.tolist()]
        ends = np.cumsum([prod(one) for one in sides]).tolist()
        if flat.ndim != 1 or ends[-1] != len(flat):
            raise DataError(f"its functions take {ends[-1]} numbers, and it has {len(flat)}")
        starts = [0, *ends[:-1]]
        columns.append([flat[a:b].reshape(side) for a, b, side in zip(starts, ends, sides, strict=True)])
    if not columns and count:
        raise DataError(f"it has the arrays of none of its {count} functions")
    return list(zip(*columns, strict=True)) if columns else []
