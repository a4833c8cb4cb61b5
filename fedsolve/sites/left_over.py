"""What groups of columns leave over, of which no row has two.

The rows of a Hessian for the columns of a category, subtracted from that of the intercept, leave the sum over the rows
that have none of them: the first category, which has no column of its own, or a category that nobody declared. And the
rows of products with a category (women in each ward but the first), subtracted from that of the category, leave a sum
over the rows that have it and none of the products. So a column stands for the rows that have it, and for those that do
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def left_over(columns: list[Mask]) -> Iterator[Mask]:
    """Rows in no set of a group, for groups of sets without a row in common. A set is the rows that have a column, or
    those that do not. Groups are, from each set on, all sets that fit, and the columns that fit one after the other:
    those of a category follow each other, and a column elsewhere may fit into what they leave over."""
    if not columns:
        return
    have = np.stack(columns)
    sets, number = np.concatenate([have, ~have]), len(columns)
    apart = _apart(have)
    for first in range(2 * number):
        follow = (first % number + 1 + np.arange(number - 1)) % number
        yield ~np.any(sets[_all_that_fit(apart, first, np.concatenate([follow, number + follow]))], axis=0)
        if first < number:
            yield ~np.any(sets[_while_they_fit(apart, [], range(first, number))], axis=0)
        else:  # columns of which each row has the column `first` too: products with it
            fitting = np.flatnonzero(apart[first, :number])
            for run in np.split(fitting, np.flatnonzero(np.diff(fitting) > 1) + 1):
                yield ~np.any(sets[_while_they_fit(apart, [first], run.tolist())], axis=0)


def _apart(have: Mask) -> Mask:
    """Whether two sets have no row in common."""
    counts = have.astype(np.float32)
    both = counts @ counts.T
    only = both.diagonal()[:, None] - both
    neither = have.shape[1] - both.diagonal()[:, None] - only.T
    found: Mask = np.block([[both, only], [only.T, neither]]) == 0
    return found


def _all_that_fit(apart: Mask, first: int, others: NDArray[np.int64]) -> list[int]:
    found, fits = [first], apart[first].copy()
    for one in others.tolist():
        if fits[one]:
            found.append(one)
            fits &= apart[one]
    return found


def _while_they_fit(apart: Mask, group: list[int], places: Iterable[int]) -> list[int]:
    found = list(group)
    for one in places:
        if not apart[one, found].all():
            break
        found.append(one)
    return found
