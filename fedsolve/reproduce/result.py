"""The result of an experiment: a table of our values beside printed ones, claims, notes and a figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fedsolve.report.figures import Figure
from fedsolve.report.tables import number

QUARTILES = (0.25, 0.75)


@dataclass(frozen=True)
class Measured:
    """A cell of a table: our value for each seed, and the printed or reference value to compare with.

    A value is infinite where there is none, such as the rounds of a method that diverges.
    """

    values: tuple[float, ...]
    printed: float | str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        with np.errstate(invalid="ignore"):  # between an infinite value and a finite one
            low, high = (float(np.quantile(self.values, q, method="inverted_cdf")) for q in QUARTILES)
        return low, high

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """The sample standard deviation, 0 for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 and math.isfinite(self.mean) else 0.0


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds that was stated beforehand; None if this form of the experiment cannot decide it."""

    holds: bool | None
    said: str

    def __str__(self) -> str:
        return f"{ {True: 'yes', False: 'NO', None: 'open'}[self.holds] }, {self.said}"


Cell: TypeAlias = str | int | float | Measured | Verdict | None


@dataclass(frozen=True)
class Column:
    """A column: its heading, and how its numbers are written.

    average   "median" (with quartiles) or "mean" (± standard deviation), as in the paper
    infinite  what to print for an infinite value
    """

    heading: str
    text: Callable[[float], str] = lambda value: number(value, 3)
    average: Literal["median", "mean"] = "median"
    infinite: str = "∞"

    def centre(self, cell: Measured) -> float:
        return cell.median if self.average == "median" else cell.mean

    def spread(self, cell: Measured) -> tuple[float, float]:
        """The quartiles, or the mean plus and minus one standard deviation."""
        if self.average == "median":
            return cell.quartiles
        return cell.mean - cell.deviation, cell.mean + cell.deviation

    def write(self, cell: Cell, spread: bool = True) -> str:
        """Our value as text: 24 (24–28), or 77.3 ± 0.8."""
        if cell is None:
            return "–"
        if isinstance(cell, str | Verdict):
            return str(cell)
        if not isinstance(cell, Measured):
            return self._number(float(cell))
        centre = self._number(self.centre(cell))
        if not spread or len(cell.values) == 1:
            return centre
        if self.average == "mean":
            return f"{centre} ± {self._number(cell.deviation)}" if math.isfinite(cell.mean) else centre
        low, high = map(self._number, cell.quartiles)
        return centre if low == high == centre else f"{centre} ({low}–{high})"

    def write_printed(self, cell: Cell) -> str:
        printed = cell.printed if isinstance(cell, Measured) else None
        return self._number(printed) if isinstance(printed, int | float) else printed or "–"

    def _number(self, value: float) -> str:
        return self.text(value) if math.isfinite(value) else self.infinite


@dataclass(frozen=True)
class Result:
    """What an experiment returns.

    columns, rows  the table; each cell is text, a number, a `Measured` or a `Verdict`
    notes          sentences a reader of the table needs, such as where our setting differs from the paper's
    draw           draws on an empty matplotlib Figure
    printed_by     source of the values beside ours: "paper", or "reference" for an independent NumPy implementation
    claims         claims about several rows, each with its verdict
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    draw: Callable[[Figure], None] | None = None
    printed_by: str = "paper"
    claims: Sequence[tuple[str, Verdict]] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns: {row}")

    @property
    def verdicts(self) -> list[Verdict]:
        cells = [cell for row in self.rows for cell in row if isinstance(cell, Verdict)]
        return [*cells, *(verdict for _, verdict in self.claims)]

    @property
    def status(self) -> str:
        """ "missed" if any verdict is no, else "ok"."""
        return "missed" if any(verdict.holds is False for verdict in self.verdicts) else "ok"

    def has_printed(self, index: int) -> bool:
        return any(isinstance(row[index], Measured) and row[index].printed is not None for row in self.rows)  # type: ignore[union-attr]

    def headings(self) -> Iterator[tuple[str, bool]]:
        """The headings, and whether the column is numeric. Printed values have a column of their own."""
        for index, column in enumerate(self.columns):
            numeric = not any(isinstance(row[index], str | Verdict) for row in self.rows)
            yield column.heading, numeric
            if self.has_printed(index):
                yield self.printed_by, numeric

    def lines(self, spread: bool = True) -> Iterator[list[str]]:
        """The rows as text."""
        for row in self.rows:
            line = []
            for index, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
                line.append(column.write(cell, spread))
                if self.has_printed(index):
                    line.append(column.write_printed(cell))
            yield line

    def records(self) -> list[dict[str, object]]:
        """The rows as plain values, by heading; a measured cell has its spread, its printed value and all seeds."""
        return [
            {column.heading: _plain(column, cell) for column, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]


def _plain(column: Column, cell: Cell) -> object:
    if isinstance(cell, Verdict):
        return {"holds": cell.holds, "said": cell.said}
    if not isinstance(cell, Measured):
        return cell
    low, high = column.spread(cell)
    return {
        column.average: column.centre(cell),
        "low": low,
        "high": high,
        "printed": cell.printed,
        "text": column.write(cell),
        "values": cell.values,
    }
