"""What the rounds of boosting add to a function, and how it is evaluated from that.

    f^{t+1} = decay · f^t + Σ_j c_j h_j

One round is one `Part`. Decays are applied one after the other, never as a running product: where one is 0 the past is
erased, and where many are small nothing is divided by what has underflowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.learners.base import Arrays, Function, WeakLearner
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_finite, require_shape


@dataclass(frozen=True)
class Part:
    """What one round adds.

    decay         what the function before it is multiplied by
    coefficients  c_j, one for each function
    functions     h_j as arrays
    """

    decay: float
    coefficients: Array
    functions: tuple[tuple[Array, ...], ...]


def averaged(
    decay: float, coefficients: Sequence[float], functions: Mapping[str, Sequence[Arrays]], shares: Mapping[str, float]
) -> Part:
    """The average of the clients' decay · f + Σ_k c_k h_k, in which each counts by its share, as one part."""
    whole = sum(shares[name] for name in functions)
    found = [
        (shares[name] / whole * c, arrays)
        for name, own in functions.items()
        for c, arrays in zip(coefficients, own, strict=True)
        if c != 0.0  # else a later step has erased it
    ]
    return Part(decay, np.array([c for c, _ in found]), tuple(arrays for _, arrays in found))


def check_functions(
    learner: WeakLearner, functions: Sequence[Arrays], count: int, inputs: int, outputs: tuple[int, ...]
) -> None:
    """Raise WrongType unless these are so many functions of a learner."""
    if len(functions) != count:
        raise WrongType(f"{count} functions were asked for, got {len(functions)}")
    for arrays in functions:
        checked(learner, arrays, inputs, outputs)


def built(learner: WeakLearner, part: Part, inputs: int, outputs: tuple[int, ...]) -> list[Function]:
    """The functions of a part. Raises WrongType if it is no part of such an ensemble."""
    require_shape("coefficients", part.coefficients, len(part.functions))
    require_finite("coefficients", part.coefficients)
    if not math.isfinite(part.decay):
        raise WrongType(f"decay should be a finite number, got {part.decay}")
    return [checked(learner, arrays, inputs, outputs) for arrays in part.functions]


def checked(learner: WeakLearner, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Function:
    """The function that arrays are of. Raises WrongType if they are of none, or have entries that are not finite."""
    for array in arrays:
        found = to_numpy(array)
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise WrongType(f"a function of {type(learner).__name__} has NaN or infinite entries")
        if found.dtype.kind not in "fiub":
            raise WrongType(f"a function of {type(learner).__name__} has entries of type {found.dtype}")
    return learner.function(arrays, inputs, outputs)


def added(
    learner: WeakLearner, decay: float, coefficients: Sequence[float], functions: Sequence[Function], f: Array, X: Array
) -> Array:
    """decay · f + Σ c_j h_j(X)."""
    if not functions:
        return decay * f
    new = learner.weighted_sum(functions, coefficients, X)
    return new if decay == 0.0 else decay * f + new


def constant_at(value: Array, rows: Array) -> Array:
    """A constant function at some rows: in the shape of predictions, of the library of `rows`, a number for each."""
    return value + 0.0 * (rows if not value.shape else rows[:, None])
