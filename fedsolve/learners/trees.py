"""Histogram regression trees as weak learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.errors import ConfigError, WrongType
from fedsolve.learners.base import Arrays, Fitting, Function
from fedsolve.learners.bins import Bins, Table
from fedsolve.learners.shared_bins import SharedBins
from fedsolve.learners.tree import Tree, added, depth_of, leaves_of
from fedsolve.learners.tree_growing import grow
from fedsolve.learners.tree_splits import Limits
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import at_least_zero, is_whole
from fedsolve.typing import Array

DEEPEST, MOST_BINS, MOST_CATEGORIES = 16, 4096, 65_536
# Beyond these the next sums of honest clients would overflow, and they would be taken for the ones that are wrong.
LARGEST, LARGEST_GAIN = 1e153, 1e304


@dataclass(frozen=True)
class Trees(SharedBins):
    """Regression trees on bins that all clients share.

    A tree is fitted by weighted least squares; with several outputs its leaves hold a number for each, and a split is
    chosen by the sum of what it gains in all of them. Thresholds are edges of the shared bins, which are no values of
    anybody's data. Missing values (NaN) go to the side that fits better. The columns of a categorical feature that the
    preprocessing's schema declares are also split by sets of categories.

    Args:
        depth: How many splits lie between the root and a leaf at most. Default 6.
        leaves: How many leaves a tree has at most; the best splits are kept. Default 31; None: as many as `depth`
            allows.
        bins: How many bins a column has at most, beside that of missing values. Default 255.
        min_rows: How many rows a leaf stands for at least, counted in rows whatever their weights; rows of weight 0 do
            not count. A client with fewer rows sends trees that are zero. Default 5. Fewer would make leaves of single
            persons: change it only where that does no harm.
        l2: Shrinks the leaves: a leaf is Σ s φ / (Σ s + l2), the values of its rows in units of rows or of their
            weights. Default 0.
        categories: Columns that hold codes 0, 1, …, k − 1 of categories, each with k: (("region", 7),). By name, or by
            place from 0. Columns that a schema has made one-hot need not be listed.
    """

    depth: int = 6
    leaves: int | None = 31
    bins: int = 255
    min_rows: int = 5
    l2: float = 0.0
    categories: tuple[tuple[str | int, int], ...] = ()

    kind: ClassVar[str] = "trees"
    accepts_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, least, most in (("depth", 1, DEEPEST), ("bins", 2, MOST_BINS), ("min_rows", 1, 2**31)):
            value = getattr(self, name)
            if not is_whole(value) or not least <= value <= most:
                raise ConfigError(f"{name} is a whole number from {least} to {most}, got {value!r}")
        if self.leaves is not None and (not is_whole(self.leaves) or self.leaves < 2):
            raise ConfigError(f"leaves is a whole number of at least 2, or None, got {self.leaves!r}")
        at_least_zero("l2", self.l2)
        object.__setattr__(self, "categories", _declared(self.categories))

    @property
    def most_bins(self) -> int:
        """How many bins a column has at most, without that of missing values."""
        return self.bins

    @property
    def declared_codes(self) -> tuple[tuple[str | int, int], ...]:
        """Columns that hold codes of categories, and how many categories each has."""
        return self.categories

    @property
    def sends(self) -> str:
        return (
            f"trees that it fitted to its rows: at which bins they split, on which side each category is, and means of "
            f"{self.min_rows} or more rows"
        )

    def fit(self, fitting: Fitting) -> Function:
        """The tree that is grown for the target. Inputs are put into bins once per client."""
        table = fitting.kept.get("bins")
        if not isinstance(table, Table):
            table = Table.of(fitting.X, Bins.of(fitting.agreed, fitting.X.shape[1]))
            fitting.kept["bins"] = table
        target = np.asarray(to_numpy(fitting.target))
        weight = None if fitting.weight is None else np.asarray(to_numpy(fitting.weight))
        by_output = np.ascontiguousarray(target.reshape(table.n, -1).T)
        limits = Limits(int(self.min_rows), float(self.l2))
        nodes = grow(table, by_output, weight, int(self.depth), self.leaves, limits)
        tree = Tree.of(nodes, target.shape[1:])
        if fitting.watch is not None:
            fitting.watch.fitted(leaves_of(tree, fitting.X), by_output, weight)
        return tree

    def function(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Function:
        """The tree of these arrays. Raises WrongType unless they are a tree of this learner."""
        return Tree(self._checked(arrays, inputs, outputs))

    def weighted_sum(self, functions: Sequence[Function], coefficients: Sequence[float], X: Array) -> Array:
        """Σ c_j h_j(x) of each row of X: all trees walk through one block of rows before the next."""
        trees = [one for one in functions if isinstance(one, Tree)]
        assert len(trees) == len(functions)
        return added(trees, coefficients, X)

    def importances(self, function: Function, inputs: int) -> Array | None:
        """The gain of all splits of each column; that of a split by several one-hot columns is divided among them."""
        found = np.zeros(inputs)
        if not isinstance(function, Tree):
            return None
        for first, width, gain in zip(
            function.feature[function.feature >= 0].tolist(),
            function.width.tolist(),
            function.gain.tolist(),
            strict=True,
        ):
            found[first : first + max(1, width)] += gain / max(1, width)
        return found

    def _checked(self, arrays: Arrays, inputs: int, outputs: tuple[int, ...]) -> Arrays:
        """The arrays as NumPy has them, if they are a tree."""
        most = 2**self.depth if self.leaves is None else min(2**self.depth, self.leaves)
        if len(arrays) != 7:
            raise WrongType(f"a tree is seven arrays, got {len(arrays)}")
        feature, threshold, missing, width, levels, gain, value = parts = tuple(
            np.asarray(to_numpy(one)) for one in arrays
        )
        nodes = len(feature) if feature.ndim == 1 else 0
        if feature.dtype != np.int32 or not 1 <= nodes <= 2 * most - 1 or nodes % 2 == 0:
            raise WrongType(f"a tree of at most {most} leaves has an odd number of nodes up to {2 * most - 1} (int32)")
        splits = nodes // 2
        kinds = ((threshold, np.float64), (missing, np.uint8), (width, np.int32), (gain, np.float64))
        if any(one.dtype != kind or one.shape != (splits,) for one, kind in kinds):
            raise WrongType(f"a tree of {nodes} nodes has a threshold, a side, a width and a gain for {splits} splits")
        if value.dtype != np.float64 or value.shape != (splits + 1, *outputs) or not np.isfinite(value).all():
            raise WrongType(f"a tree of {splits + 1} leaves has as many finite values of shape {outputs}")
        at = np.flatnonzero(feature >= 0)
        if len(at) != splits or (2 * np.arange(splits) + 1 <= at).any() or (feature < -1).any():
            raise WrongType("the splits of a tree come before their children, and there is one less than leaves")
        if depth_of(feature) > self.depth:
            raise WrongType(f"a tree of this learner is at most {self.depth} deep")
        if (np.abs(value) > LARGEST).any() or (gain > LARGEST_GAIN).any():
            raise WrongType(
                f"a tree has leaves of at most {LARGEST:g} and gains of at most {LARGEST_GAIN:g}; larger ones come of "
                "steps that are too long, of targets in too small a unit, or of a client that is wrong"
            )
        if not np.isfinite(threshold).all() or not np.isfinite(gain).all() or (gain < 0).any() or (missing > 1).any():
            raise WrongType(
                "a split has a finite threshold, a gain of at least 0, and sends missing values left or right"
            )
        spread = np.maximum(width.astype(np.int64), 1)
        if (feature[at] + spread > inputs).any() or (
            np.abs(width.astype(np.int64)) > max(inputs, MOST_CATEGORIES)
        ).any():
            raise WrongType(f"a split is by one of {inputs} columns, or by some that follow each other")
        expected = int((np.abs(width[width != 0].astype(np.int64)) + 1).sum())
        if levels.dtype != np.uint8 or levels.shape != (expected,) or (levels > 1).any():
            raise WrongType(f"splits by categories say of {expected} levels, 0 or 1 each, whether they go left")
        return parts


def _declared(categories: object) -> tuple[tuple[str | int, int], ...]:
    """Columns and how many categories each has. Raises ConfigError for anything else."""
    if not isinstance(categories, Sequence) or not all(
        isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 2 for one in categories
    ):
        raise ConfigError(
            f'categories are pairs of a column and a number, such as (("region", 7),), got {categories!r}'
        )
    for which, count in categories:
        if not isinstance(which, str) and not is_whole(which):
            raise ConfigError(f"categories: a column is a name or a place from 0, got {which!r}")
        if not is_whole(count) or not 2 <= count <= MOST_CATEGORIES:
            raise ConfigError(f"categories: column {which!r} has 2 to {MOST_CATEGORIES} categories, got {count!r}")
    return tuple((which, count) for which, count in categories)


@dataclass(frozen=True)
class Stumps(Trees):
    """Trees of a single split.

    Args:
        bins, min_rows, l2, categories: As in `Trees`.
    """

    depth: int = 1
    leaves: int | None = 2

    kind: ClassVar[str] = "stumps"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth != 1 or self.leaves not in (2, None):
            raise ConfigError("a stump has one split and two leaves; for more use Trees")
