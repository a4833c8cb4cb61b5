"""Weak learners whose answers are known: oracles on a finite support, the adversary of Theorem 4.2, and stumps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.learners import Fitting, Function, WeakLearner
from fedsolve.learners.base import Arrays
from fedsolve.learners.lipschitz import LipschitzExtension, LipschitzLearner
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Table(Function):
    """A value for each point 0, 1, … of the support, which the first column holds."""

    values: Array

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.values)[places(X)]

    def arrays(self) -> Arrays:
        return (self.values,)


class OnTables(WeakLearner):
    """A learner of tables: sums of them are tables again."""

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Table:
        if len(arrays) != 1 or tuple(arrays[0].shape[1:]) != outputs:
            raise WrongType(f"a table has a value of shape {outputs} for each point")
        return Table(arrays[0])

    def weighted_sum(self, functions: Sequence[Function], coefficients: Sequence[float], X: Array) -> Array:
        values = np.stack([one.arrays()[0] for one in functions])
        return np.asarray(np.tensordot(np.asarray(coefficients), values, axes=1)[places(X)])


@dataclass(frozen=True)
class ScaleOracle(OnTables):
    """h = γφ where the client has rows, 0 elsewhere: satisfies (5) and (10) with equality.

    φ(x) is the mean of the target over the client's rows at x, of `points` points.
    """

    gamma: float
    points: int

    kind: ClassVar[str] = "theory: scale oracle"

    def fit(self, fitting: Fitting) -> Table:
        at, target = places(fitting.X), np.asarray(fitting.target)
        s = np.ones(len(at)) if fitting.weight is None else np.asarray(fitting.weight)
        mass = np.bincount(at, s, self.points)
        sums = np.bincount(at, s * target, self.points)
        return Table(self.gamma * sums / np.where(mass > 0, mass, 1.0))


@dataclass(frozen=True)
class Adversary(OnTables):
    """The oracle of Theorem 4.2 (appendix C), for two clients with one row each and the two classes.

    At its client's own point it is exact (γ = 1). At the other point it is minus the other client's answer, which is
    minus its own because the labels are opposite: a constant.
    """

    kind: ClassVar[str] = "theory: adversary"

    def fit(self, fitting: Fitting) -> Table:
        return Table(np.repeat(np.asarray(fitting.target), 2, axis=0))


@dataclass(frozen=True)
class Honest(OnTables):
    """Of two clients with one row each: exact at the client's own point, and 0 at the other."""

    kind: ClassVar[str] = "theory: exact at one point"

    def fit(self, fitting: Fitting) -> Table:
        values = np.zeros((2, np.shape(fitting.target)[1]))
        values[places(fitting.X)] = fitting.target
        return Table(values)


@dataclass(frozen=True)
class Stump(OnTables):
    """The split of an ordered support that explains most of the target: weak, and enough for every function."""

    points: int

    kind: ClassVar[str] = "theory: stump"

    def fit(self, fitting: Fitting) -> Table:
        at, target = places(fitting.X), np.asarray(fitting.target)
        count, total = np.bincount(at, minlength=self.points), np.bincount(at, target, self.points)
        left, right = np.cumsum(count)[:-1], np.cumsum(total)[:-1]
        rest, others = count.sum() - left, total.sum() - right
        explained = right**2 / np.maximum(left, 1) + others**2 / np.maximum(rest, 1)
        best = int(np.argmax(explained))
        values = np.full(self.points, others[best] / rest[best])
        values[: best + 1] = right[best] / left[best]
        return Table(values)


@dataclass(frozen=True)
class ScaledLipschitz(LipschitzLearner):
    """γ times the Lipschitz extension: satisfies (14) and (15) with equality.

    What earlier fits have left over is a multiple of the first target, and so is its extension.
    """

    gamma: float = 1.0

    def fit(self, fitting: Fitting) -> LipschitzExtension:
        if "first" not in fitting.kept:
            fitting.kept["first"] = super().fit(fitting)
        first = fitting.kept["first"]
        assert isinstance(first, LipschitzExtension)
        scale = self.gamma * float(fitting.target @ first.values / (first.values @ first.values))
        return LipschitzExtension(first.points, scale * first.values, np.array(scale * float(first.constant)))


def places(X: Array) -> Array:
    """The points that rows stand for."""
    return np.asarray(X)[:, 0].astype(np.intp)
