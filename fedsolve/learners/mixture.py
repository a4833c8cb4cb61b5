"""The average of several functions of one learner, as one function that travels in a fixed number of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.learners.base import Arrays, Function, WeakLearner
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Mixture(Function):
    """x ↦ the mean of the members."""

    learner: WeakLearner
    members: tuple[Function, ...]

    def __call__(self, X: Array) -> Array:
        count = len(self.members)
        return self.learner.weighted_sum(self.members, [1.0 / count] * count, X)

    def arrays(self) -> Arrays:
        """How many members there are and the shapes of all their arrays, then the entries of each array, over members.

        A shape is the number of its sides, and the sides.
        """
        each = [[to_numpy(array) for array in member.arrays()] for member in self.members]
        shapes = [side for arrays in each for array in arrays for side in (array.ndim, *array.shape)]
        flat = [np.concatenate([arrays[place].ravel() for arrays in each]) for place in range(len(each[0]))]
        return (np.array([len(each), *shapes], dtype=np.int64), *flat)


def members(
    learner: WeakLearner, arrays: Arrays, inputs: int, outputs: tuple[int, ...], most: int
) -> Sequence[Function]:
    """The members that `Mixture.arrays` were of, at most so many. Raises WrongType for anything else."""
    if len(arrays) < 2 or any(array.ndim != 1 for array in arrays) or to_numpy(arrays[0]).dtype.kind not in "iu":
        raise WrongType("a mixture has a vector of whole numbers, its shapes, and a vector for each array of a member")
    shapes, flat = [int(side) for side in to_numpy(arrays[0])], arrays[1:]
    if not shapes or not 1 <= shapes[0] <= most:
        raise WrongType(f"a mixture has 1 to {most} members, got {shapes[:1]}")
    used, found, place = [0] * len(flat), [], 1
    for _ in range(shapes[0]):
        own = []
        for which, entries in enumerate(flat):
            sides = shapes[place + 1 : place + 1 + shapes[place]] if place < len(shapes) else [-1]
            size = int(np.prod(sides, dtype=object)) if all(side >= 0 for side in sides) else -1
            if place >= len(shapes) or len(sides) != shapes[place] or not 0 <= size <= entries.shape[0] - used[which]:
                raise WrongType("the shapes of a mixture's members do not fit its entries")
            own.append(entries[used[which] : used[which] + size].reshape(tuple(sides)))
            used[which] += size
            place += 1 + len(sides)
        found.append(learner.function(tuple(own), inputs, outputs))
    if place != len(shapes) or any(part != entries.shape[0] for part, entries in zip(used, flat, strict=True)):
        raise WrongType("a mixture has entries that belong to no member")
    return found
