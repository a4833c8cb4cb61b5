"""What stands for a missing cell: `na = "?"`, `na = [-9, "?"]`, or by column `na = { chol = [0], "*" = ["?"] }`.

A marker that is a number stands for that number however it is written: -9 is -9.0 too. An empty cell is always missing.
A list replaces the usual markers; in a table, columns that it does not name have the list of "*", or the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fedsolve.errors import DataError, UnknownName
from fedsolve.tables.cells import MISSING, key

Marker = str | int | float
Listed = Marker | Sequence[Marker]  # of one column
Na = Listed | Mapping[str, Listed]

ALL = "*"  # in a table of markers: every column that it does not name


@dataclass(frozen=True)
class Markers:
    """The markers of one column: texts, and numbers."""

    texts: frozenset[str]
    numbers: tuple[float, ...] = ()

    @classmethod
    def of(cls, given: Marker | Sequence[Marker]) -> Markers:
        """The markers of a list, or a single one."""
        listed = [given] if isinstance(given, str | int | float) else list(given)
        for one in listed:
            if isinstance(one, bool) or not isinstance(one, str | int | float):
                raise DataError(f"na is a list of texts and numbers, got {one!r}")
        found = [one if isinstance(one, str) else f"{one:g}" for one in listed]
        numbers = [number for one in found if isinstance(number := key(one), float)]
        return cls(frozenset({"", *(one.strip() for one in found)}), tuple(numbers))

    def hold(self, cell: str) -> bool:
        """Whether this cell is missing."""
        return cell in self.texts or (bool(self.numbers) and key(cell) in self.numbers)


USUAL = Markers.of(MISSING)


def markers_for(names: Sequence[str], na: Na | None, whose: str, others: bool = False) -> dict[str, Markers]:
    """The markers of each column. Raises UnknownName for a table that names a column that is not there, unless it may
    name columns of `others`, too."""
    if na is None:
        return dict.fromkeys(names, USUAL)
    if not isinstance(na, Mapping):
        return dict.fromkeys(names, Markers.of(na))
    for name in na:
        if name != ALL and name not in names and not others:
            raise UnknownName(f"column in na of {whose}", name, [*names, ALL])
    default = Markers.of(na[ALL]) if ALL in na else USUAL
    return {name: _with(Markers.of(na[name]), default) if name in na else default for name in names}


def _with(own: Markers, default: Markers) -> Markers:
    """What is missing in every column is missing in this one too."""
    return Markers(own.texts | default.texts, (*own.numbers, *default.numbers))


def merged(na: Na | None, own: Na | None) -> Na | None:
    """The markers of one file: those for all files, and its own in addition, column by column."""
    if own is None:
        return na
    tables = [table_of(one) for one in (MISSING if na is None else na, own)]
    names = {name: None for table in tables for name in table}
    return {name: [marker for table in tables for marker in table.get(name, ())] for name in names}


def without_markers(na: Na | None) -> set[str]:
    """The columns of which it was said that no number marks a missing cell."""
    return {name for name, markers in na.items() if not _listed(markers)} if isinstance(na, Mapping) else set()


def table_of(na: Na) -> dict[str, list[Marker]]:
    """Markers by column; those of all columns are under "*"."""
    if not isinstance(na, Mapping):
        return {ALL: _listed(na)}
    return {name: _listed(one) for name, one in na.items()}


def _listed(markers: Marker | Sequence[Marker]) -> list[Marker]:
    return [markers] if isinstance(markers, str | int | float) else list(markers)


# ── numbers that look like markers ──

_CODES = (-9.0, -99.0, -999.0, -9999.0, -8.0, -88.0, -888.0, -7.0, -77.0)
_HIGH = (99.0, 999.0, 9999.0, 99999.0, 888.0, 8888.0)


def may_have_codes(low: float, high: float) -> bool:
    """Whether `suspected` may find one in a column of this range: a quick look before its values are sorted."""
    return low in _CODES or (high in _HIGH and low >= 0)


def suspected(values: Collection[float]) -> float | None:
    """A value of a column that is as a rule a code for "missing": the only negative number, such as -9, among values
    that are otherwise 0 or more; or 999 where all others are less than a third of it. None if there is none."""
    found = sorted({value for value in values if math.isfinite(value)})
    if len(found) < 2:
        return None
    negative = [value for value in found if value < 0]
    if negative and len(negative) <= 2 and all(value in _CODES for value in negative):
        return negative[0]
    if found[-1] in _HIGH and found[0] >= 0 and found[-2] < found[-1] / 3:
        return found[-1]
    return None
