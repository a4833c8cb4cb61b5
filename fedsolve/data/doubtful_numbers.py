"""A second look at columns that were read as numbers: was that how their cells were meant?

    1.234  56.789  950      thousands that are grouped by points, taken for decimals
    01067  09111            codes, such as postal codes, whose zeros are lost
    9007199254740993        identifiers with more digits than a float64 keeps

The values say which columns to look at, and only those cells are looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedsolve.data import advice
from fedsolve.data.dataset import Array
from fedsolve.errors import DataError

EXACT = 2.0**53  # whole numbers up to here are float64 numbers
LONG = 16  # digits that such a number has at least
FEWEST = 3  # different cells with a point below which three digits behind it are chance
_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_DIGITS = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Doubts:
    """What is said of a file's numbers, and the columns whose whole numbers were rounded."""

    facts: tuple[str, ...] = ()
    rounded: frozenset[str] = frozenset()


def doubts(
    path: object,
    columns: Mapping[str, Array],
    rows: Iterable[tuple[int, list[str]]],
    *,
    zeros: bool = True,
    points: bool = True,
) -> Doubts:
    """Look again at the cells of numeric columns that may have been meant otherwise.

    Args:
        columns: The columns, in the order of the cells.
        rows: The line and the cells of each row.
        zeros: Whether leading zeros may occur.
        points: Whether a point may group thousands: not if someone has said what it is.

    Raises DataError if points group thousands by all signs: in some cells, with three digits behind them, and not in
    numbers below 1,000.
    """
    numbers = {name: values[~np.isnan(values)] for name, values in columns.items() if values.dtype != object}
    looked = {name: _Cells(name) for name, values in numbers.items() if _is_doubtful(values, zeros, points)}
    places = [(list(columns).index(name), cells) for name, cells in looked.items()]
    if places:
        for line, row in rows:
            for place, cells in places:
                cells.add(row[place], line)
    facts = [fact for one in looked.values() if points and (fact := one.grouped(path)) is not None]
    facts += [
        f"{one.name} has whole numbers that are too long to be kept exactly" for one in looked.values() if one.rounded
    ]
    facts += [
        f"{one.name} has leading zeros ({one.coded}), as codes have, and is read as numbers"
        for one in looked.values()
        if one.coded and not one.rounded
    ]
    return Doubts(tuple(facts), frozenset(one.name for one in looked.values() if one.rounded))


def _is_doubtful(values: Array, zeros: bool, points: bool) -> bool:
    """Whether the cells of these values are worth a second look."""
    if not len(values):
        return False
    whole = bool((values == np.floor(values)).all())
    return (points and _may_be_grouped(values)) or (whole and (zeros or float(np.abs(values).max()) >= EXACT))


def _may_be_grouped(values: Array) -> bool:
    """Whether all values may be cells such as 1.234 and 950, by their size and decimals."""
    size = np.abs(values)
    with_point = size[size != np.floor(size)]
    if not len(with_point) or with_point.min() < 1 or size.max() >= 1000:
        return False
    return bool((np.abs(with_point * 1000 - np.round(with_point * 1000)) < 1e-6).all())


@dataclass
class _Cells:
    """What is noticed of the cells of one column, one after the other.

    points    the first different cells that may be thousands grouped by a point, with their lines
    decimal   whether another number of digits behind a point has occurred
    hundreds  whether a number from 100 to 999 has no point
    coded     the first cell with leading zeros
    rounded   whether a whole number is too long to be kept exactly
    """

    name: str
    points: dict[str, int] = field(default_factory=dict)
    decimal: bool = False
    hundreds: bool = False
    coded: str = ""
    rounded: bool = False

    def add(self, cell: str, line: int) -> None:
        if "." in cell:
            if _GROUP.fullmatch(cell) is None:
                self.decimal = True
            elif len(self.points) < FEWEST:
                self.points.setdefault(cell, line)
        elif _DIGITS.fullmatch(cell) is not None:
            digits = cell.lstrip("+-")
            self.hundreds = self.hundreds or (len(digits) == 3 and digits[0] != "0")
            if len(digits) > 1 and digits[0] == "0":
                self.coded = self.coded or cell
            self.rounded = self.rounded or (len(digits) >= LONG and int(cell) != int(float(cell)))

    def grouped(self, path: object) -> str | None:
        """What is to be said of points that may group thousands. Raises DataError if it seems that they do."""
        if self.decimal or len(self.points) < FEWEST:
            return None
        first, line = next(iter(self.points.items()))
        if self.hundreds:
            raise DataError(
                f"{path}, line {line}, column {self.name}: {first!r}, which is {first.replace('.', '')} or {first}? "
                "All points of the column are followed by three digits, and numbers below 1,000 have none; write "
                f'thousands = "." or decimal = "."{advice.where()} to say what the point is'
            )
        return (
            f'points in {self.name} ({first}) taken for decimal points, not thousands (write thousands = "."'
            f"{advice.where()} if they are)"
        )


def rounded_integers(columns: Mapping[str, Iterable[object]]) -> Iterator[str]:
    """The columns with whole numbers that a float64 does not keep, of values that are no texts."""
    for name, values in columns.items():
        if any(isinstance(one, int) and abs(one) >= EXACT and int(float(one)) != one for one in values):
            yield name
