"""Cells of few rows between the sets of rows that runs have used.

A run may set rows aside that another one learned from. The sums of both are subtracted, and what is left is a sum over
the rows that were set aside: if somebody among these is alone in a category, it is that row. `row_sets` sees that these
rows are not few; here they are judged as the rows of a run are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.sites.small_cells import Part, few_of
from fedsolve.typing import Array

MOST = 8  # sets of which all combinations are looked at; of more, the differences of each two


def check_sets(parts: Sequence[Part], sets: Sequence[Array], least: int, earlier: bool = True) -> None:
    """Raise PolicyRefusal where some combination of these sets of rows has a cell of fewer than `least`.

    Args:
        parts: The columns of all rows there are.
        sets: Which of them each run used.
        least: How few are too few.
        earlier: Whether sets of earlier runs are among these, and not only those of one run.
    """
    of, cells = _cells(parts)
    if least <= 1 or not of or len(sets) < 2:
        return
    different = np.unique(np.stack(sets), axis=0)
    patterns, region = np.unique(different, axis=1, return_inverse=True)
    both, rows = [], []
    for place in range(patterns.shape[1]):
        ones = cells[region == place].astype(np.float32)
        both.append((ones.T @ ones).astype(np.float64))
        rows.append(len(ones))
    counts, products = np.array(rows), np.stack(both)
    for chosen in _left(patterns):
        few = few_of(int(counts[chosen].sum()), products[chosen].sum(axis=0), least)
        if few.any():
            column = of[int(np.argwhere(few)[0][0])]
            if earlier:
                raise PolicyRefusal(
                    "row_sets",
                    f"beside the rows that earlier runs used, those of this run leave too few that differ in {column}: "
                    "use the same held_out as before, and impute the same way",
                )
            raise PolicyRefusal(
                "min_cell",
                f"too few rows here differ from all others in {column} among those that this run sets aside, or among "
                "the others, and sums would tell of them: set more aside, by another seed, or none",
            )


def _left(patterns: Array) -> Iterator[Array]:
    """Which rows are left of each sum and difference of the sets, by the regions into which the sets divide them."""
    count = len(patterns)
    if count <= MOST:
        signs = np.array(list(itertools.product((-1, 0, 1), repeat=count)))
    else:
        signs = np.array([np.eye(count)[a] - np.eye(count)[b] for a, b in itertools.combinations(range(count), 2)])
    combined = signs.astype(np.int64) @ patterns.astype(np.int64)
    yield from (one for one in np.unique(combined != 0, axis=0) if one.any())


def _cells(parts: Sequence[Part]) -> tuple[list[str], Array]:
    """Columns of true and false, and what each is of: categories, numbers of two values, and numbers that nearly all
    rows have."""
    of, found = list[str](), list[Array]()
    for part in parts:
        for values in part.values.T:
            distinct, counts = np.unique(values, return_counts=True)
            most = int(np.argmax(counts))
            if len(distinct) > 1 and (len(distinct) == 2 or 2 * counts[most] > len(values)):
                of.append(part.of)
                found.append(values != distinct[most])
    return of, np.stack(found, axis=1) if found else np.zeros((0, 0), dtype=bool)
