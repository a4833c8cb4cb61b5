"""The best split of each node of a level, from sums over bins.

A split of a node into L and R lowers Σ s ‖φ − h‖² (plus `l2` times a leaf's squared value) by

    ‖G_L‖² / (S_L + l2) + ‖G_R‖² / (S_R + l2) − ‖G‖² / (S + l2),      G = Σ s φ,  S = Σ s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsolve.learners.bins import Floats, Ints, Table


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of each node, and of each bin in it.

    total, weight, count     Σ s φ (outputs × nodes), Σ s and the rows of each node
    totals, weights, counts  the same of each bin (… × nodes × bins)
    """

    total: Floats
    weight: Floats
    count: Floats
    totals: Floats
    weights: Floats
    counts: Floats


@dataclass(eq=False)
class Splits:
    """The best split of each node so far; a gain of 0 or less is none.

    bin        the last bin that goes left, numbered through over all columns (of splits by number)
    missing    whether missing values go left
    group      which categorical feature it is by; −1: by a number
    left       for each node that is split by categories, which levels go left
    """

    gain: Floats
    bin: Ints
    missing: NDArray[np.bool_]
    group: Ints
    left: dict[int, NDArray[np.bool_]]


@dataclass(frozen=True)
class Limits:
    """What a leaf must have: rows, and `l2`, by which its value is shrunk."""

    min_rows: int
    l2: float

    def gains(self, total: Floats, weight: Floats, count: Floats, sums: Sums) -> Floats:
        """The gain of sending left what has these sums (… × nodes × candidates); −inf where a leaf would be too small.

        The last axis of `sums` is that of nodes; candidates come behind it.
        """
        G, S, N = sums.total[:, :, None], sums.weight[:, None], sums.count[:, None]
        S_right = S - weight
        sound = (count >= self.min_rows) & (N - count >= self.min_rows) & (weight > 0) & (S_right > 0)
        left, right = np.where(sound, weight + self.l2, 1.0), np.where(sound, S_right + self.l2, 1.0)
        found = np.zeros(weight.shape)
        for part, whole in zip(total, G, strict=True):
            rest = whole - part
            found += part * part / left + rest * rest / right
        return np.where(sound, found, -np.inf)


def best_splits(table: Table, sums: Sums, limits: Limits) -> Splits:
    """The best split of each node."""
    nodes = np.arange(len(sums.count))
    before = table.first[:-1]
    totals, weights, counts = (_running(one, table, before) for one in (sums.totals, sums.weights, sums.counts))
    gains = limits.gains(totals, weights, counts, sums)
    gains[:, table.is_missing] = -np.inf
    best = np.argmax(gains, axis=1)
    found = Splits(
        gains[nodes, best], best, np.zeros(len(nodes), np.bool_), np.full(len(nodes), -1, dtype=np.int64), {}
    )
    if table.is_missing.any():
        _missing_left(table, sums, limits, (totals, weights, counts), found)
    for group, (start, width) in enumerate(table.shared.groups.tolist()):
        _by_category(table, sums, limits, group, (start, width), found)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(sums.weight > 0, (sums.total**2).sum(axis=0) / (sums.weight + limits.l2), 0.0)
    found.gain -= own
    return found


def _running(one: Floats, table: Table, before: Ints) -> Floats:
    """Sums over the bins of a column up to each of them."""
    running = np.cumsum(one, axis=-1)
    offset = np.zeros((*one.shape[:-1], len(before)))
    offset[..., 1:] = running[..., before[1:] - 1]
    running -= np.repeat(offset, table.shared.counts, axis=-1)
    return running


def _missing_left(
    table: Table, sums: Sums, limits: Limits, running: tuple[Floats, Floats, Floats], found: Splits
) -> None:
    """Splits that send missing values left, where they are better."""
    columns = np.flatnonzero(table.missing_bin >= 0)
    bins = np.flatnonzero(np.isin(table.column_of, columns) & ~table.is_missing)
    absent = table.missing_bin[table.column_of[bins]]
    totals, weights, counts = (
        ahead[..., bins] + whole[..., absent]
        for ahead, whole in zip(running, (sums.totals, sums.weights, sums.counts), strict=True)
    )
    gains = limits.gains(totals, weights, counts, sums)
    nodes, best = np.arange(len(sums.count)), np.argmax(gains, axis=1)
    better = gains[nodes, best] > found.gain
    found.gain[better] = gains[nodes, best][better]
    found.bin[better] = bins[best][better]
    found.missing[better] = True


def levels_of(table: Table, start: int, width: int) -> Ints:
    """The bins that are levels of a categorical feature: of one-hot columns those of the ones."""
    if width > 0:
        return table.first[start : start + width] + 1
    return np.arange(table.first[start], table.first[start + 1])


def _by_category(table: Table, sums: Sums, limits: Limits, group: int, where: tuple[int, int], found: Splits) -> None:
    """Splits by a set of levels: the first so many in the order of their means. For one output the best of all sets is
    among them (Fisher 1958); for several, sets in the order of each output are tried."""
    bins = levels_of(table, *where)
    parts = [sums.totals[..., bins], sums.weights[..., bins], sums.counts[..., bins]]
    if where[1] > 0:  # rows in none of the columns are a level too, the last
        wholes = (sums.total, sums.weight, sums.count)
        parts = [
            np.concatenate([part, (whole - part.sum(axis=-1))[..., None]], axis=-1)
            for part, whole in zip(parts, wholes, strict=True)
        ]
    totals, weights, counts = parts
    nodes = np.arange(len(sums.count))
    for output in range(len(totals)):
        seen = (counts > 0) & (weights > 0)
        mean = np.where(seen, totals[output] / np.where(seen, weights + limits.l2, 1.0), np.inf)
        order = np.argsort(mean, axis=1, kind="stable")
        ahead = [np.cumsum(np.take_along_axis(one, order, axis=1), axis=1) for one in (weights, counts)]
        ahead_totals = np.stack([np.cumsum(np.take_along_axis(one, order, axis=1), axis=1) for one in totals])
        gains = limits.gains(ahead_totals, ahead[0], ahead[1], sums)
        best = np.argmax(gains, axis=1)
        value = gains[nodes, best]
        for node in np.flatnonzero(value > found.gain * (1 + 1e-12)):
            chosen = np.zeros(mean.shape[1], dtype=np.bool_)
            chosen[order[node, : best[node] + 1]] = True
            # Levels that no row here has go where more rows go.
            chosen[counts[node] == 0] = ahead[1][node, best[node]] * 2 > sums.count[node]
            found.gain[node], found.group[node], found.left[int(node)] = value[node], group, chosen
