"""Numbers as people write them: 1.5, 1,5, 1,234.5, 1.234,5, 1 234,5.

A mark between digits is a decimal mark or groups thousands, and "1,234" alone does not say which. What a file's columns
settle is recognised; what they leave open is for the user to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedsolve.data import advice
from fedsolve.errors import DataError

GROUPERS = ",.' \u00a0\u202f"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_GROUPED = {
    mark: {
        decimal: re.compile(rf"[+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d*)?")
        for decimal in ".,"
        if decimal != mark
    }
    for mark in GROUPERS
}
_COMMA = re.compile(rf"[+-]?\d*,\d+{_EXPONENT}|[+-]?\d+,")
_ONE_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # 1,234: thousands, or a decimal mark
_POINT = re.compile(rf"[+-]?(\d+\.\d*|\.\d+){_EXPONENT}")


@dataclass(frozen=True)
class Marks:
    """The decimal mark, and what groups thousands: None for nothing."""

    decimal: str = "."
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise DataError(f'decimal is "." or ",", got {self.decimal!r}')
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands not in GROUPERS):
            raise DataError(f"thousands is one of , . ' or a blank, got {self.thousands!r}")
        if self.thousands == self.decimal:
            raise DataError(f"decimal and thousands are both {self.decimal!r}; a mark is one of them")

    @property
    def are_plain(self) -> bool:
        """Whether numbers are as Python writes them."""
        return self == Marks()

    def number(self, cell: str) -> float:
        """The number of this cell. Raises ValueError if it is none."""
        if cell.startswith("\u2212"):  # a minus sign as typographers write it
            cell = "-" + cell[1:]
        if "_" in cell:  # Python reads "12_3" as 123; in a table it is a name
            raise ValueError(cell)
        if self.thousands is not None and self.thousands in cell:
            if not _GROUPED[self.thousands][self.decimal].fullmatch(cell):
                raise ValueError(cell)
            cell = cell.replace(self.thousands, "")
        if self.decimal == ",":
            if "." in cell:
                raise ValueError(cell)
            cell = cell.replace(",", ".")
        return float(cell)

    def said(self) -> list[str]:
        """What is unusual about them."""
        found = ["decimal comma"] if self.decimal == "," else []
        if self.thousands is not None:
            shown = "blanks" if self.thousands.isspace() else repr(self.thousands)
            found.append(f"thousands grouped by {shown}")
        return found


@dataclass(frozen=True)
class Odd:
    """Cells of one column that are no numbers as Python writes them, each with the line it was first seen in, and
    whether other cells of the column are numbers."""

    cells: Mapping[str, int]
    has_numbers: bool = False


def recognised_marks(whose: str, columns: Mapping[str, Odd]) -> Marks:
    """The marks that make numbers of whole columns, where they are no numbers without.

    Raises DataError where the cells leave open what a mark means, and where columns contradict each other.
    """
    decimals = [name for name, odd in columns.items() if _all(odd.cells, _with_comma)]
    if decimals:
        return _comma_marks(whose, {name: columns[name] for name in decimals})
    for mark in GROUPERS.replace(".", ""):
        grouped = [name for name, odd in columns.items() if _all(odd.cells, _GROUPED[mark]["."].fullmatch)]
        if grouped:
            return Marks(".", mark)
    if any(_all(odd.cells, _GROUPED["."][","].fullmatch) for odd in columns.values()):  # 1.234.567
        return Marks(",", ".")
    return Marks()


def _comma_marks(whose: str, columns: Mapping[str, Odd]) -> Marks:
    """The marks of a file in which all odd cells of some columns are numbers with a comma."""
    cells = {cell: (line, name) for name, odd in columns.items() for cell, line in odd.cells.items()}
    decimal = {cell for cell in cells if not _GROUPED[","]["."].fullmatch(cell)}
    grouping = {cell for cell in cells if cell.count(",") > 1 or ("," in cell and "." in cell.split(",")[-1])}
    if not decimal and grouping:
        return Marks(".", ",")
    if decimal and not grouping:
        for mark in GROUPERS.replace(",", ""):
            if any(_GROUPED[mark][","].fullmatch(cell) for cell in cells):
                return Marks(",", mark)
        return Marks(",")
    cell = next(iter(grouping or cells))
    line, name = cells[cell]
    also = ""
    if decimal and grouping:
        other = next(iter(decimal))
        also = f" and {other!r} in line {cells[other][0]}, column {cells[other][1]}"
    elif _ONE_GROUP.fullmatch(cell):
        also = f", which is {cell.replace(',', '')} or {cell.replace(',', '.')}"
    raise DataError(
        f'{whose}, line {line}, column {name}: {cell!r}{also}; write thousands = "," or decimal = ","'
        f"{advice.where()} to say what the comma is"
    )


def check_points(whose: str, columns: Mapping[str, Odd], before: Mapping[str, Odd]) -> None:
    """Raise DataError for a file with decimal commas in which a column has decimal points: a contradiction.

    columns   what are no numbers if commas are decimal commas
    before    what were none if points are decimal points
    """
    cells = [(cell, line, name) for name, odd in before.items() for cell, line in odd.cells.items()]
    has = "other columns have decimal commas"
    for pattern, what in ((_GROUPED["."][","], "points that group thousands"), (_COMMA, "a decimal comma")):
        for cell, at, name in [one for one in cells if pattern.fullmatch(one[0])][:1]:
            has = f"{cell!r} in line {at}, column {name} has {what}"
    for name, odd in columns.items():
        points = {cell: line for cell, line in odd.cells.items() if _POINT.fullmatch(cell)}
        for cell, line in points.items():
            raise DataError(
                f"{whose}, line {line}, column {name}: {cell!r} has a decimal point, and {has}; "
                f'write decimal = "." or decimal = ","{advice.where()}, and thousands = "." if the point groups '
                "thousands"
            )


def _with_comma(cell: str) -> object:
    return _COMMA.fullmatch(cell) or any(
        pattern.fullmatch(cell) for mark in GROUPERS for pattern in _GROUPED[mark].values() if "," in cell
    )


def _all(cells: Iterable[str], test: object) -> bool:
    found = list(cells)
    return bool(found) and all(test(cell) for cell in found)  # type: ignore[operator]
