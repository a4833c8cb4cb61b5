"""What a client step requires of its arguments beyond their types.

A request names sizes and places, and brings arrays to compute with. Whatever a step allocates or computes must be
bounded by what the client has itself (its data, the hyper-parameters both sides agreed on), so a step checks the shapes
of arrays and the range of numbers before it uses them. Losses check weights themselves: `LinearLoss.check_weights`.
"""

from __future__ import annotations

import math

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.numerics.linalg import is_float64, to_numpy
from fedsolve.numerics.structured_arrays import Symmetric
from fedsolve.text import shortened
from fedsolve.typing import Array


def require_shape(name: str, array: Array, *shape: int | range) -> None:
    """Raise WrongType unless `array` has float64 entries and this shape, a range where a side may differ."""
    sides = tuple(array.shape)
    fits = len(sides) == len(shape) and all(
        side in wanted if isinstance(wanted, range) else side == wanted
        for side, wanted in zip(sides, shape, strict=True)
    )
    if not fits or not is_float64(array):
        wanted = ", ".join(f"{one.start} … {one.stop - 1}" if isinstance(one, range) else str(one) for one in shape)
        raise WrongType(f"{name} should be float64 of shape ({wanted}), got {array.dtype} of shape {sides}")


def require_finite(name: str, array: Array) -> None:
    """Raise WrongType for NaN and infinite entries."""
    if not np.isfinite(to_numpy(array)).all():
        raise WrongType(f"{name} has NaN or infinite entries")


def require_symmetric(name: str, matrix: Symmetric, order: int) -> None:
    """Raise WrongType unless `matrix` has float64 entries, all finite, and this order."""
    if matrix.n != order:
        raise WrongType(f"{name} should be symmetric of order {order}, got order {matrix.n}")
    held = matrix.held() if matrix.is_whole else matrix.packed()
    require_shape(name, held, *([order, order] if matrix.is_whole else [order * (order + 1) // 2]))
    require_finite(name, held)


def require_count(name: str, number: int | None) -> None:
    """Raise WrongType for a number below 0; None stands for "as many as there are"."""
    if number is not None and number < 0:
        raise WrongType(f"{name} should be a number of at least 0, got {shortened(number)}")


def require_positive(name: str, number: float) -> None:
    """Raise WrongType unless the number is positive and finite."""
    if not 0 < number < math.inf:
        raise WrongType(f"{name} should be a positive, finite number, got {shortened(number)}")


def places(name: str, array: Array, of: int, *alongside: tuple[object, ...], once: bool = True) -> list[int]:
    """The entries of a vector of whole numbers below `of`, each there once; `alongside` has an item for each of them.

    `once=False` lets one come several times, which is for steps where each brings an array of its own.
    """
    given = to_numpy(array)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise WrongType(f"{name} should be a vector of whole numbers, got {given.dtype} of shape {given.shape}")
    if given.size and (given.min() < 0 or given.max() >= of):
        raise WrongType(f"{name} should be from 0 to {of - 1}, got {given.min()} to {given.max()}")
    found: list[int] = given.tolist()
    if once and len(set(found)) != len(found):
        raise WrongType(f"{name} should be different numbers, got some of {shortened(found)} twice")
    for others in alongside:
        if len(others) != len(found):
            raise WrongType(f"{len(found)} {name} came with {len(others)} arrays, expected one for each")
    return found
