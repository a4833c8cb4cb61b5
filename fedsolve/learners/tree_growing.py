"""Growing a regression tree level by level, on bins."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsolve.learners.bins import Floats, Ints, Table
from fedsolve.learners.tree_splits import Limits, Splits, Sums, best_splits, levels_of

ROUNDING = 1e-12  # a gain below this part of the target's own square is rounding


@dataclass(eq=False)
class Node:
    """A node as it grows. `child` is the place of its left child, the right one follows; 0: it is a leaf."""

    value: Floats
    child: int = 0
    gain: float = 0.0
    feature: int = -1
    threshold: float = 0.0
    missing_left: bool = False
    width: int = 0
    left: NDArray[np.bool_] | None = None


def grow(
    table: Table, target: Floats, weight: Floats | None, depth: int, leaves: int | None, limits: Limits
) -> list[Node]:
    """The nodes of a tree fitted to `target` (outputs × rows), root first and children after their parents.

    Every level is split wherever that gains something; of these splits, the `leaves` − 1 best are kept that can be made
    one after another from the root.
    """
    weighted = target if weight is None else target * weight
    smallest = ROUNDING * float((weighted * target).sum())
    nodes: list[Node] = []
    place = np.zeros(table.n, dtype=np.intp)  # of each row among the nodes of the level; `width` of it: in a leaf
    by_entry = [one[table.rows] for one in weighted]
    weight_by_entry = None if weight is None else weight[table.rows]
    open_nodes: list[int] = []  # the nodes of this level, by their place in `nodes`
    for level in range(depth + 1):
        width = max(1, len(open_nodes)) if level else 1
        total, S, N = _node_sums(place, weighted, weight, width)
        for at in range(width):
            value = total[:, at] / (S[at] + limits.l2) if S[at] > 0 else np.zeros(len(total))
            if level == 0:
                nodes.append(Node(value))
                open_nodes = [0]
            else:
                nodes[open_nodes[at]].value = value
        if level == depth:
            break
        sums = _bin_sums(table, place, by_entry, weight_by_entry, (total, S, N))
        splits = best_splits(table, sums, limits)
        able = splits.gain > smallest
        if not able.any():
            break
        children = _record(table, nodes, open_nodes, splits, able)
        place = _moved_down(table, place, splits, able)
        open_nodes = children
    return nodes if leaves is None else pruned(nodes, leaves)


def _node_sums(
    place: NDArray[np.intp], weighted: Floats, weight: Floats | None, width: int
) -> tuple[Floats, Floats, Floats]:
    N = np.bincount(place, minlength=width + 1)[:width].astype(np.float64)
    S: Floats = N
    if weight is not None:
        S = np.bincount(place, weights=weight, minlength=width + 1)[:width].astype(np.float64)
    return np.stack([np.bincount(place, weights=one, minlength=width + 1)[:width] for one in weighted]), S, N


def _bin_sums(
    table: Table,
    place: NDArray[np.intp],
    by_entry: list[Floats],
    weight_by_entry: Floats | None,
    whole: tuple[Floats, Floats, Floats],
) -> Sums:
    """Sums over the listed entries of each bin; a column's usual bin has the rest of its node."""
    total, S, N = whole
    width, bins = len(N), table.total
    cells = place[table.rows]
    cells *= bins
    cells += table.bins

    def summed(weights: Floats | None, rest: Floats) -> Floats:
        flat = np.bincount(cells, weights=weights, minlength=(width + 1) * bins)[: width * bins]
        found: Floats = flat.astype(np.float64, copy=False).reshape(width, bins)
        listed = np.add.reduceat(found, table.first[:-1], axis=1)
        found[:, table.usual] = rest[:, None] - listed
        return found

    counts = summed(None, N)
    weights = counts if weight_by_entry is None else summed(weight_by_entry, S)
    totals = np.stack([summed(one, rest) for one, rest in zip(by_entry, total, strict=True)])
    return Sums(total, S, N, totals, weights, counts)


def _record(
    table: Table, nodes: list[Node], open_nodes: list[int], splits: Splits, able: NDArray[np.bool_]
) -> list[int]:
    """Note the splits in the nodes, with children that follow; the children are the nodes of the next level."""
    children: list[int] = []
    for at in np.flatnonzero(able).tolist():
        node = nodes[open_nodes[at]]
        node.child, node.gain = len(nodes), float(splits.gain[at])
        if splits.group[at] >= 0:
            start, width = table.shared.groups[splits.group[at]].tolist()
            node.feature, node.width, node.left = start, width, splits.left[at]
        else:
            bin_ = int(splits.bin[at])
            node.feature, node.threshold = int(table.column_of[bin_]), float(table.edge_of[bin_])
            node.missing_left = bool(splits.missing[at])
        children += [len(nodes), len(nodes) + 1]
        nodes += [Node(node.value), Node(node.value)]
    return children


def _moved_down(table: Table, place: NDArray[np.intp], splits: Splits, able: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The place of each row among the children of the split nodes."""
    width = len(able)
    split = np.flatnonzero(able)
    # Where a node's left child is; rows of nodes that are not split go behind all of them.
    base = np.full(width + 1, 2 * len(split), dtype=np.intp)
    base[split] = 2 * np.arange(len(split))
    by_group = splits.group[split] >= 0
    feature = np.where(by_group, 0, table.column_of[splits.bin[split]])
    span = np.ones(len(split), dtype=np.int64)
    usual_right = np.zeros(width + 1, dtype=np.intp)
    for order in np.flatnonzero(by_group).tolist():
        start, wide = table.shared.groups[splits.group[split[order]]].tolist()
        feature[order], span[order] = start, max(1, wide)
    usual = table.usual[feature]
    usual_right[split] = ~_goes_left(table, usual, split, splits, np.where(span > 1, -1, feature))
    down = base[place] + usual_right[place]
    low, length = table.ends[feature], table.ends[feature + span] - table.ends[feature]
    entries = np.repeat(low - np.concatenate([[0], np.cumsum(length)[:-1]]), length) + np.arange(length.sum())
    whose = np.repeat(split, length)
    rows = table.rows[entries]
    here = place[rows] == whose
    rows, whose, bins = rows[here], whose[here], table.bins[entries[here]]
    down[rows] = base[whose] + ~_goes_left(table, bins, whose, splits, table.column_of[bins])
    return down


def _goes_left(table: Table, bins: Ints, whose: Ints, splits: Splits, column: Ints) -> NDArray[np.bool_]:
    """Whether rows of these bins go left in the nodes `whose`. A column of −1: no one-hot column is 1."""
    last = splits.bin[whose]
    left = (bins <= last) | (splits.missing[whose] & table.is_missing[bins])
    for node in np.unique(whose[splits.group[whose] >= 0]).tolist():
        start, width = table.shared.groups[splits.group[node]].tolist()
        mine = whose == node
        if width > 0:
            level = np.where(column[mine] < 0, width, column[mine] - start)
        else:
            level = bins[mine] - levels_of(table, start, width)[0]
        left[mine] = splits.left[node][level]
    return left


def pruned(nodes: list[Node], leaves: int) -> list[Node]:
    """The tree that making the best split first, and then the next best, has when it has so many leaves."""
    if sum(node.child == 0 for node in nodes) <= leaves:
        return nodes
    kept: set[int] = set()
    waiting = [(-nodes[0].gain, 0)] if nodes[0].child else []
    while waiting and len(kept) < leaves - 1:
        _, at = heapq.heappop(waiting)
        kept.add(at)
        for child in (nodes[at].child, nodes[at].child + 1):
            if nodes[child].child:
                heapq.heappush(waiting, (-nodes[child].gain, child))
    for at, node in enumerate(nodes):
        if at not in kept:
            node.child = 0
    return nodes
