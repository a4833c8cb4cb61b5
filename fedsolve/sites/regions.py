"""Rows that a server can look at by themselves, because a column tells them from all others.

A Hessian's row of a category is a sum over the rows that have it, and what it leaves of the intercept's row is a sum
over all others. So few rows can be nearly everything in such a sum while they are little among all rows, who may be
moved to hide it. A column makes two regions where half of all rows or more have one value in it: those that have it,
and those that do not. Columns of two values each, of which no row has two, make one more: those that have none of them,
as the category that has no column of its own. Regions of few rows are no business of this rule (see `min_cell`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss
from fedsolve.numerics.linalg import to_numpy
from fedsolve.sites.few_rows import FewRows
from fedsolve.sites.left_over import left_over
from fedsolve.sites.policy import Policy
from fedsolve.typing import Array

TIMES = 2  # a region has at least so many times `min_rows` rows
# What others than one row have at least of what changed within a region, beside what they have of it among all rows:
# in an honest fit the row of somebody far away may go on moving when most rows of a category stay where they are.
LEFT = 0.2


@dataclass(frozen=True)
class Region:
    """Some rows.

    few      how many of these are few, and what is too much of a sum over the region
    changed  the same for what changed between two points
    """

    rows: NDArray[np.int64]
    few: FewRows
    changed: FewRows


class Regions:
    """The regions of a client's rows, by the columns of its design."""

    def __init__(self, masks: NDArray[np.bool_], policy: Policy) -> None:
        self.masks = masks  # (rows, regions)
        self._weights = masks.astype(np.float32)
        self.few = [FewRows.of(policy, int(count)) for count in masks.sum(axis=0)]
        self.changed = [FewRows(1 - LEFT * (1 - few.most), few.count) for few in self.few]
        self.counts = np.array([few.count for few in self.few])
        self.slacks = np.array([few.slack for few in self.changed])
        self._least = np.array([(few.limits / np.arange(1, few.count + 1)).min() for few in self.few])

    @classmethod
    def of(cls, loss: LinearLoss, client: Client, policy: Policy) -> Regions:
        """Those of a client, kept as long as its design."""

        def compute() -> Regions:
            blocks = [np.asarray(to_numpy(block)) for _, block in loss.design(client).blocks()]
            return cls(_masks(blocks, client.n_samples, TIMES * policy.min_rows), policy)

        return client.cached(("regions", loss.features), compute)

    def __len__(self) -> int:
        return len(self.few)

    @cached_property
    def each(self) -> list[Region]:
        """Every region."""
        places = map(np.flatnonzero, self.masks.T)
        return [Region(*one) for one in zip(places, self.few, self.changed, strict=True)]

    def totals(self, parts: Array, rows: NDArray[np.int64] | slice = slice(None)) -> Array:
        """The sum of each line of parts over every region, as far as it is among some rows."""
        found: Array = parts @ self._weights[rows]
        return found

    def exceeded(self, parts: Array) -> bool:
        """Whether a few rows make up too much of the sum over a region, of any line of `parts`."""
        return self._any(parts, attrgetter("few"))

    def exceeded_widely(self, parts: Array) -> bool:
        """The same by the limit for what changed."""
        return self._any(parts, attrgetter("changed"))

    def _any(self, parts: Array, limit: Callable[[Region], FewRows]) -> bool:
        if not len(self):
            return False
        return any(
            limit(region).exceeded(parts[line, region.rows][None])[0]
            for line, region in self.doubtful(parts, np.ones((len(parts), len(self)), dtype=bool))
        )

    def doubtful(self, parts: Array, asked: NDArray[np.bool_]) -> Iterator[tuple[int, Region]]:
        """The lines of parts and the regions, of those asked for, in which a row has as much of the sum as few rows
        need to have too much."""
        top = parts.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            sums = (parts / top).astype(np.float32) @ self._weights
        for line, place in np.argwhere(asked & ~(0.99 * self._least * sums > 1)):
            yield int(line), self.each[place]


def _masks(blocks: list[Array], rows: int, least: int) -> NDArray[np.bool_]:
    """For each column with a value that half of the rows or more have, which rows have another one, and which do not;
    and what columns of categories leave over. Each set of rows once."""
    found: dict[bytes, NDArray[np.bool_]] = {}
    two: list[NDArray[np.bool_]] = []  # the columns with two values
    for place in range(blocks[0].shape[1] if blocks else 0):
        column = np.concatenate([block[:, place] for block in blocks])
        others = column != np.sort(column)[(rows - 1) // 2]
        if 0 < others.sum() < rows and np.ptp(column[others]) == 0:
            two.append(column == column.max())
        for mask in (others, ~others):
            if least <= mask.sum() <= rows - 1 and 2 * others.sum() <= rows:
                found.setdefault(np.packbits(mask).tobytes(), mask)
    for mask in left_over(two):
        if least <= mask.sum() <= rows - 1:
            found.setdefault(np.packbits(mask).tobytes(), mask)
    return np.stack(list(found.values()), axis=1) if found else np.zeros((rows, 0), dtype=bool)
