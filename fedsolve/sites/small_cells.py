"""Cells of few rows: values, categories and classes that tell one person, or two, from all others.

A Hessian has the sum of the rows for which a column of zeros and ones is one, and a gradient, beside its own sum, that
of the rows of a class. If these are a single row, it is the row. So is the difference of two such sums whose columns
differ in one row, and what a constant less two of them leaves: a category that has no column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedsolve.errors import PolicyRefusal
from fedsolve.text import listed
from fedsolve.typing import Array

TOLERANCE = 1e-9  # of the range of a column: values that are nearer to each other count as one
Blocks = Callable[[], Iterable[Array]]  # the rows from the first to the last, some at a time, as often as it is called


@dataclass(frozen=True)
class Part:
    """Columns that are made of one raw column.

    of      what they are of, in words
    values  the columns
    levels  whether they are all of a category's columns, which then also tell of a level without one
    """

    of: str
    values: Array
    levels: bool = False


@dataclass(frozen=True)
class Least:
    """How few rows are too few, and which rows are meant: those to learn from, or those set aside to judge by."""

    rows: int
    held: bool = False

    def refuse(self, told: Iterable[str]) -> NoReturn:
        """Raise PolicyRefusal that names what tells of few rows, all of it at once (whoever submits should not
        have to come back for each), and says no more. Of rows set aside it names one thing: every set of them that is
        tried tells something, and the remedy is the same."""
        named = listed(list(told)[: 1 if self.held else None])
        among = " among the rows that this run sets aside" if self.held else ""
        instead = "set more aside, or none" if self.held else "join what is rare, or leave it out"
        raise PolicyRefusal(
            "min_cell",
            f"too few rows here differ from all others in {named}{among}, and sums would tell of them: {instead}",
        )


def check_parts(parts: Sequence[Part], least: Least) -> None:
    """Raise PolicyRefusal, naming columns and no more, where some rows but too few are told apart."""
    if not parts or least.rows <= 1:
        return
    told = [part.of for part in parts if part.levels and (_patterns(part.values) < least.rows).any()]
    owners = [part.of for part in parts for _ in range(part.values.shape[1])]
    whole = np.concatenate([part.values for part in parts], axis=1)
    told += _told_by_columns(lambda: (whole,), owners, least)
    if told:
        least.refuse(told)


def check_columns(blocks: Blocks, owners: Sequence[str], least: Least) -> None:
    """The same for columns by themselves and for each two of them."""
    told = _told_by_columns(blocks, owners, least) if least.rows > 1 and owners else []
    if told:
        least.refuse(told)


def _told_by_columns(blocks: Blocks, owners: Sequence[str], least: Least) -> list[str]:
    """What tells too few rows apart: columns, and each two of the others."""
    low, high = _ranges(blocks)
    near = TOLERANCE * (high - low)
    usual = _usual(blocks, least.rows)
    differ, binary = np.zeros(len(owners), dtype=np.int64), high > low
    for block in blocks():
        differ += (np.abs(block - usual) > near).sum(axis=0)
        binary &= ((block - low <= near) | (high - block <= near)).all(axis=0)
    few = (differ > 0) & (differ < least.rows)
    told = [owners[int(place)] for place in np.flatnonzero(few)]
    chosen = np.flatnonzero(binary & ~few)
    ones = (np.abs(high - block)[:, chosen] <= near[chosen] for block in blocks())
    for pair in np.argwhere(np.triu(close(ones, least.rows), 1)):
        one, other = (owners[chosen[place]] for place in pair)
        told.append(f"what {one} and {other} have in common" if one != other else one)
    return told


def _patterns(values: Array) -> Array:
    """How many rows have each combination of values that occurs."""
    counts: Array
    if values.shape[1] <= 50 and ((values == 0) | (values == 1)).all():  # then a number says which: much faster
        counts = np.unique(values @ 2.0 ** np.arange(values.shape[1]), return_counts=True)[1]
    else:
        counts = np.unique(values, axis=0, return_counts=True)[1]
    return counts


def close(blocks: Iterable[Array], least: int) -> Array:
    """`few_of` of columns of true and false, some rows at a time."""
    rows, both = 0, None
    for block in blocks:
        ones = block.astype(np.float32)  # whole numbers, exact for up to 2^24 rows of a block
        product = (ones.T @ ones).astype(np.float64)
        rows, both = rows + len(block), product if both is None else both + product
    return np.zeros((0, 0), dtype=bool) if both is None else few_of(rows, both, least)


def few_of(rows: int, both: Array, least: int) -> Array:
    """For each two columns of true and false, whether they (or one and the opposite of the other) differ in some rows,
    but in fewer than `least`; on the diagonal, whether a column is true, or false, in so few. `both` has the rows in
    which two columns are true."""
    counts = np.diag(both)
    apart = counts[:, None] + counts[None, :] - 2 * both
    np.fill_diagonal(apart, counts)
    few: Array = ((apart > 0) & (apart < least)) | ((rows - apart > 0) & (rows - apart < least))
    return few


def _ranges(blocks: Blocks) -> tuple[Array, Array]:
    """The least and the largest value of each column."""
    each = [(block.min(axis=0), block.max(axis=0)) for block in blocks() if len(block)]
    return np.min([low for low, _ in each], axis=0), np.max([high for _, high in each], axis=0)


def _usual(blocks: Blocks, least: int) -> Array:
    """The value of each column that all rows but fewer than `least` have, if there is one: it is then the middle one
    of any 2 · least − 1 rows."""
    head: list[Array] = []
    wanted = 2 * least - 1
    for block in blocks():
        head.append(block[: wanted - sum(map(len, head))])
        if sum(map(len, head)) >= wanted:
            break
    found = np.sort(np.concatenate(head), axis=0)
    usual: Array = found[(len(found) - 1) // 2]
    return usual
