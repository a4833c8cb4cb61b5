"""Bins from counts: a grid over a column's values that is refined where many rows are, and edges chosen from it.

A grid is a list of bounds; a cell holds the values above one bound and up to the next. The first grid has a cell for
each octave (a factor of 2) of a column's typical size, so units do not matter, and a cell for zero alone. Cells that
hold more rows than a share of a bin are split until they hold fewer, or a single value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

OCTAVES = 24  # octaves on either side of a column's typical size that have a cell of their own in the first grid
SHIFT = 0.7310585786300049  # bounds are no round numbers, which values are
FINENESS = 4  # a cell holds at most this part of a bin's rows
SMALLEST = 10  # rows: a cell with fewer is never looked into
CELLS = 1024  # new cells per column and exchange; twice as many at most, where each heavy cell is cut in two
PARTS_SAME = 32  # parts of a cell in which no client has two different values
NARROW = 36  # such a cell is taken for a single value when it is narrower than 2^(36 − 52) of its size
SMALLEST_NUMBER = float(np.nextafter(0.0, 1.0))
SETTLING = 30  # steps to find how much a single value may count


def keys(values: Floats) -> Ints:
    """Whole numbers in the order of these floats; neighbouring floats have neighbouring numbers."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def floats(numbers: Ints) -> Floats:
    """The floats that have these keys."""
    bits = np.where(numbers >= 0, numbers, np.int64(-(2**63)) - numbers)
    return np.ascontiguousarray(bits).view(np.float64)


@dataclass
class Grid:
    """The grid of one column. Bounds are the keys of values divided by `scale`, the column's typical size.

    counts  the rows of each cell: those above one bound, up to the next
    mixed   whether some client has two different values there
    """

    scale: float
    bounds: Ints
    counts: Ints
    mixed: Flags

    @classmethod
    def first(cls, scale: float) -> Grid:
        """The grid that is asked for first; nothing is counted yet."""
        steps = [-1020, -400, -100, -60, *range(-OCTAVES, OCTAVES + 1), 60, 100, 400, 1020]
        up = keys(np.ldexp(1.0, np.array(steps)))
        # (−2^1020, …, the smallest negative number, 0, 2^-1020, …): the cell that ends at 0 holds nothing else.
        bounds = np.concatenate([[-(2**62)], -up[::-1], [-1, 0], up, [keys(np.array([np.finfo(np.float64).max]))[0]]])
        bounds[0] = -bounds[-1]
        cells = len(bounds) - 1
        return cls(scale * SHIFT, bounds, np.zeros(cells, dtype=np.int64), np.ones(cells, dtype=np.bool_))

    def values(self, numbers: Ints) -> Floats:
        """Bounds in the column's own unit."""
        with np.errstate(over="ignore", under="ignore"):
            found = floats(numbers) * self.scale
        largest = np.finfo(np.float64).max
        found = np.clip(found, -largest, largest)
        return np.where(numbers < 0, np.minimum(found, -SMALLEST_NUMBER), found)  # below zero in any unit

    # ── refining ──

    def splittable(self) -> Flags:
        """Cells that may hold several values, and enough rows to be looked into."""
        width = np.diff(self.bounds)
        narrow = ~self.mixed & (width <= 2**NARROW)
        able: Flags = (self.counts >= SMALLEST) & (width > 1) & ~narrow & (self.bounds[1:] != 0)
        return able

    def heavy(self, bins: int) -> Ints:
        """The cells to split next."""
        splittable = self.splittable()
        limit = per_bin(self.counts, bins, ~splittable) / FINENESS
        return np.flatnonzero(splittable & (self.counts > limit))

    def split(self, cells: Ints, bins: int) -> tuple[Ints, Ints]:
        """New bounds inside these cells, ends included and in order; and how many parts each cell gets: no more than
        its rows call for, so that few cells hold single rows."""
        low, width = self.bounds[cells], np.diff(self.bounds)[cells]
        limit = per_bin(self.counts, bins, ~self.splittable()) / FINENESS
        most = np.minimum(max(2, cells_for(bins) // max(1, len(cells))), np.maximum(4 * self.counts[cells] // limit, 8))
        parts = np.minimum(np.where(self.mixed[cells], most, np.minimum(most, PARTS_SAME)), width).astype(np.int64)
        ends = [
            at + (wide // count) * np.arange(count + 1) + (wide % count) * np.arange(count + 1) // count
            for at, wide, count in zip(low.tolist(), width.tolist(), parts.tolist(), strict=True)
        ]
        return np.concatenate(ends), parts

    def refined(self, cells: Ints, ends: Ints, parts: Ints, counts: Ints, mixed: Flags) -> Grid:
        """The grid with these cells replaced by their parts."""
        last = np.cumsum(parts + 1) - 1
        inner = np.ones(len(ends), dtype=np.bool_)
        inner[last] = inner[last - parts] = False
        where = np.repeat(cells, parts - 1) + 1
        bounds = np.insert(self.bounds, where, ends[inner])
        keep = np.ones(len(self.counts), dtype=np.bool_)
        keep[cells] = False
        new = np.sort(np.concatenate([np.flatnonzero(keep) * 2, np.repeat(cells * 2 + 1, parts)]))
        is_new = new % 2 == 1
        all_counts, all_mixed = np.empty(len(new), dtype=np.int64), np.empty(len(new), dtype=np.bool_)
        all_counts[is_new], all_counts[~is_new] = counts, self.counts[keep]
        all_mixed[is_new], all_mixed[~is_new] = mixed, self.mixed[keep]
        return Grid(self.scale, bounds, all_counts, all_mixed)

    # ── edges ──

    def edges(self, bins: int) -> Floats:
        """At most `bins` − 1 different edges, each in the middle between two cells that hold rows."""
        filled = np.flatnonzero(self.counts)
        between = np.arange(len(filled) - 1)
        if len(filled) > bins:
            between = chosen(self.counts[filled], bins, ~self.splittable()[filled])
        below = self.values(self.bounds[filled[between] + 1])
        above = self.values(self.bounds[filled[between + 1]])
        return np.unique(below + (above - below) / 2)


def cells_for(bins: int) -> int:
    """How many new cells an exchange asks for. No more cells than this are heavy."""
    return max(CELLS, FINENESS * bins)


def per_bin(counts: Ints, bins: int, single: Flags) -> float:
    """How many rows a bin should hold, if a cell of a single value counts for at most two bins: a column that is mostly
    zero then has as many bins for its other values as one that is not."""
    total = float(counts.sum())
    for _ in range(SETTLING):
        total = float(np.where(single, np.minimum(counts, 2 * total / bins), counts).sum())
    return total / bins


def chosen(counts: Ints, bins: int, single: Flags) -> Ints:
    """After which cells to cut, so that bins hold about the same: for each rank k / bins the nearest end of a cell."""
    share = per_bin(counts, bins, single)
    ends = np.cumsum(np.where(single, np.minimum(counts, 2 * share), counts))
    targets = np.arange(1, bins) * ends[-1] / bins
    after = np.clip(np.searchsorted(ends, targets), 1, len(ends) - 1)
    nearer_below = targets - ends[after - 1] <= ends[after] - targets
    return np.unique(np.minimum(np.where(nearer_below, after - 1, after), len(ends) - 2))
