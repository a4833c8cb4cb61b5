"""A regression tree as a function, and sums of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedsolve.learners.base import Arrays, Function
from fedsolve.learners.bins import HALF, Floats, Ints, level_of
from fedsolve.learners.tree_growing import Node
from fedsolve.numerics.linalg import like, to_numpy
from fedsolve.typing import Array

BLOCK = 2**19  # entries of the inputs that are dense at once: 4 MiB


class Tree(Function):
    """A tree in breadth-first order: the children of the k-th split are the nodes 2k + 1 and 2k + 2.

    feature    for each node the column it is split by, −1 for a leaf; of one-hot columns the first
    threshold  for each split: values up to it go left. It is an edge of the shared bins, never a value of the data
    missing    for each split, 1 where missing values go left
    width      for each split, 0: by a number; w > 0: by w one-hot columns; −k: by codes 0 … k − 1
    levels     for each split by categories and each level, 1 where it goes left; the last level is none of them, or
               missing
    gain       for each split, by how much it lowers the squared error
    value      for each leaf what is predicted: a number, or a row of them
    """

    def __init__(self, arrays: Arrays) -> None:
        self.feature, self.threshold, self.missing, self.width, self.levels, self.gain, self.value = arrays

    @classmethod
    def of(cls, nodes: list[Node], outputs: tuple[int, ...]) -> Tree:
        """A tree of nodes that were grown."""
        order, splits, leaves = [0], [], []
        feature = []
        for at in order:  # grows while it is walked through
            node = nodes[at]
            feature.append(node.feature if node.child else -1)
            if node.child:
                splits.append(node)
                order += [node.child, node.child + 1]
            else:
                leaves.append(node.value)
        levels = [one.left for one in splits if one.left is not None]
        return cls(
            (
                np.array(feature, dtype=np.int32),
                np.array([one.threshold for one in splits], dtype=np.float64),
                np.array([one.missing_left for one in splits], dtype=np.uint8),
                np.array([one.width for one in splits], dtype=np.int32),
                np.concatenate([np.zeros(0, dtype=np.uint8), *levels]).astype(np.uint8),
                np.array([one.gain for one in splits], dtype=np.float64),
                np.array(leaves, dtype=np.float64).reshape(len(leaves), *outputs),
            )
        )

    def arrays(self) -> Arrays:
        """The arrays it travels and is saved as."""
        return self.feature, self.threshold, self.missing, self.width, self.levels, self.gain, self.value

    def __call__(self, X: Array) -> Array:
        """h(x) of each row."""
        return added([self], [1.0], X)

    # ── as it is walked through ──

    @cached_property
    def steps(self) -> _Steps:
        """The tree with all nodes in one list: leaves lead to themselves."""
        return _Steps(self)


class _Steps:
    """What a walk from the root needs. Splits by categories become splits of a column that is made for them, which
    comes after the inputs' own: 1 where a row goes right."""

    def __init__(self, tree: Tree) -> None:
        nodes = len(tree.feature)
        split = np.flatnonzero(tree.feature >= 0)
        self.child = np.arange(nodes, dtype=np.intp)
        self.child[split] = 2 * np.arange(len(split)) + 1
        self.threshold, self.missing_left = np.full(nodes, np.inf), np.ones(nodes, dtype=np.bool_)
        self.threshold[split], self.missing_left[split] = tree.threshold, tree.missing > 0
        self.value = np.zeros((nodes, *tree.value.shape[1:]))
        self.value[tree.feature < 0] = tree.value
        self.depth = depth_of(tree.feature)
        by_category = np.flatnonzero(tree.width != 0)
        numeric = split[tree.width == 0]
        used = [tree.feature[numeric].astype(np.int64)]
        self.made: list[tuple[int, int, Ints]] = []  # first column, width, which levels go right
        at = 0
        for k in by_category.tolist():
            first, width = int(tree.feature[split[k]]), int(tree.width[k])
            self.made.append((first, width, 1 - tree.levels[at : at + abs(width) + 1].astype(np.int64)))
            at += abs(width) + 1
            used.append(np.arange(first, first + max(1, width)))
        self.threshold[split[by_category]] = HALF
        self.columns = np.unique(np.concatenate(used))
        self.feature, self.numeric = np.zeros(nodes, dtype=np.intp), numeric
        self.own = tree.feature[numeric]
        self.category_nodes = split[by_category]


def depth_of(feature: Ints) -> int:
    """How many splits lie above the deepest leaf."""
    depth = np.zeros(len(feature), dtype=np.int64)
    for k, at in enumerate(np.flatnonzero(feature >= 0).tolist()):
        depth[2 * k + 1 : 2 * k + 3] = depth[at] + 1
    return int(depth.max())


def added(trees: Sequence[Tree], coefficients: Sequence[float], X: Array) -> Array:
    """Σ_j c_j h_j(x) of each row of X, dense or CSR; at most `BLOCK` of its entries are dense at once."""
    n = X.shape[0]
    found = np.zeros((n, *trees[0].value.shape[1:])) if trees else np.zeros(n)
    used = np.unique(np.concatenate([[0], *(tree.steps.columns for tree in trees)])).astype(np.int64)
    rows = max(1, min(4096, BLOCK // len(used)))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        block = _dense(X, part, used)
        absent = bool(np.isnan(block).any())
        for tree, c in zip(trees, coefficients, strict=True):
            found[part] += c * tree.steps.value[_walk(tree.steps, block, used, absent)]
    return found if sp.issparse(X) or isinstance(X, np.ndarray) else like(found, X)


def leaves_of(tree: Tree, X: Array) -> Ints:
    """The leaf of each row of X, as its place among the leaves of the tree."""
    places = np.arange(len(tree.value))
    shaped = Tree((*tree.arrays()[:-1], places.astype(np.float64)))
    return np.asarray(to_numpy(shaped(X))).astype(np.int64)


def _dense(X: Array, part: slice, used: Ints) -> Floats:
    """Some rows, and of them the columns in use, which are in order."""
    if not sp.issparse(X):
        rows = np.asarray(to_numpy(X[part]))
        return np.ascontiguousarray(rows if len(used) == rows.shape[1] else rows[:, used], dtype=np.float64)
    low, high = X.indptr[part.start], X.indptr[min(part.stop, X.shape[0])]
    counts = np.diff(X.indptr[part.start : min(part.stop, X.shape[0]) + 1])
    where = np.full(X.shape[1], -1, dtype=np.intp)
    where[used] = np.arange(len(used))
    place = where[X.indices[low:high]]
    kept = place >= 0
    found = np.zeros((len(counts), len(used)))
    found[np.repeat(np.arange(len(counts)), counts)[kept], place[kept]] = X.data[low:high][kept]
    return found


def _walk(steps: _Steps, block: Floats, used: Ints, absent: bool) -> NDArray[np.intp]:
    """The leaf of each row."""
    feature = steps.feature.copy()
    feature[steps.numeric] = np.searchsorted(used, steps.own)
    if steps.made:
        feature[steps.category_nodes] = block.shape[1] + np.arange(len(steps.made))
        block = np.concatenate([block, *(_made(one, block, used) for one in steps.made)], axis=1)
    entries, first = block.reshape(-1), np.arange(len(block)) * block.shape[1]
    node = np.zeros(len(block), dtype=np.intp)
    for _ in range(steps.depth):
        values = entries[first + feature[node]]
        right = values > steps.threshold[node]
        if absent:
            right |= np.isnan(values) & ~steps.missing_left[node]
        node = steps.child[node] + right
    return node


def _made(split: tuple[int, int, Ints], block: Floats, used: Ints) -> Floats:
    """1 for the rows that go right in a split by categories."""
    first, width, right = split
    at = int(np.searchsorted(used, first))
    if width > 0:
        hot = block[:, at : at + width] > HALF
        level = np.where(hot.any(axis=1), hot.argmax(axis=1), width)
    else:
        level = level_of(block[:, at], -width)
    return right[level][:, None].astype(np.float64)
