"""Weak learners whose answers are known: oracles on a finite support, and a stump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.errors import WrongType
from fedsolve.learners import Fitting, Function, WeakLearner
from fedsolve.learners.base import Arrays
from fedsolve.typing import Array


@dataclass(frozen=True, eq=False)
class Table(Function):
    """A value for each point 0, 1, … of the support, which is what the first column holds."""

    values: Array

    def __call__(self, X: Array) -> Array:
        return self.values[np.asarray(X)[:, 0].astype(int)]

    def arrays(self) -> Arrays:
        return (self.values,)


@dataclass(frozen=True)
class ScaleOracle(WeakLearner):
    """h = γφ at the points of the support: satisfies the weak learning assumption (5) and (10) with equality.

    φ(x) is the mean of the target over the rows at x.
    """

    gamma: float
    points: int

    kind: ClassVar[str] = "test: scale oracle"

    def fit(self, fitting: Fitting) -> Table:
        at = np.asarray(fitting.X)[:, 0].astype(int)
        s = np.ones(len(at)) if fitting.weight is None else fitting.weight
        target = fitting.target if fitting.target.ndim == 2 else fitting.target[:, None]
        sums, weights = np.zeros((self.points, target.shape[1])), np.bincount(at, s, self.points)
        np.add.at(sums, at, s[:, None] * target)
        values = self.gamma * sums / np.where(weights > 0, weights, 1.0)[:, None]
        return Table(values if fitting.target.ndim == 2 else values[:, 0])

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Table:
        if [np.shape(one) for one in arrays] != [(self.points, *outputs)]:
            raise WrongType(f"a table has a value for each of {self.points} points, got {arrays!r}")
        return Table(arrays[0])


@dataclass(frozen=True)
class Mirror(WeakLearner):
    """The adversary of Theorem 4.2 (appendix C), for two clients with one row each and opposite labels.

    At its own point h is the target itself, so γ = 1. At the other client's point it is minus what that client's
    oracle answers there. Labels are opposite, so that this answer is minus the client's own: h is a constant.
    """

    kind: ClassVar[str] = "test: mirror"

    def fit(self, fitting: Fitting) -> Table:
        return Table(np.tile(fitting.target, (2, 1)))

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Table:
        return Table(arrays[0])


@dataclass(frozen=True, eq=False)
class Split(Function):
    """One value up to a threshold in one column, another above it."""

    column: int
    threshold: float
    values: Array

    def __call__(self, X: Array) -> Array:
        return self.values[(np.asarray(X)[:, self.column] > self.threshold).astype(int)]

    def arrays(self) -> Arrays:
        return np.array([self.column]), np.array([self.threshold]), self.values


@dataclass(frozen=True)
class ToyStump(WeakLearner):
    """The split of least squares among thresholds halfway between whole numbers."""

    thresholds: int

    kind: ClassVar[str] = "test: stump"

    def fit(self, fitting: Fitting) -> Split:
        X, r = np.asarray(fitting.X), fitting.target
        best: tuple[float, Split] | None = None
        for column in range(X.shape[1]):
            for threshold in np.arange(self.thresholds) + 0.5:
                above = X[:, column] > threshold
                if above.all() or not above.any():
                    continue
                means = np.array([r[~above].mean(), r[above].mean()])
                explained = float((~above).sum() * means[0] ** 2 + above.sum() * means[1] ** 2)
                if best is None or explained > best[0]:
                    best = explained, Split(column, float(threshold), means)
        assert best is not None
        return best[1]

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Split:
        column, threshold, values = arrays
        if np.shape(values) != (2,) or not 0 <= int(column[0]) < inputs:
            raise WrongType("a stump has a column and two values")
        return Split(int(column[0]), float(threshold[0]), np.asarray(values))
