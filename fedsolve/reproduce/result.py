"""What an experiment leaves: a table of our values beside the printed ones, sentences, and a figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fedsolve.report.tables import number

QUARTILES = (0.25, 0.75)


@dataclass(frozen=True)
class Measured:
    """Our value, one per seed, beside what the paper prints. Infinite where there is none, such as the rounds of a
    method that diverges."""

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
    """Whether a claim that was stated beforehand holds; None where this form of the experiment cannot say."""

    holds: bool | None
    said: str

    def __str__(self) -> str:
        return f"{ {True: 'yes', False: 'NO', None: 'not said'}[self.holds] }, {self.said}"


Cell: TypeAlias = str | int | float | Measured | Verdict | None


@dataclass(frozen=True)
class Column:
    """A heading, and how the numbers under it are written.

    average   "median" (quartiles beside it) or "mean" (± standard deviation), as the paper does it
    infinite  what an infinite value means here
    """

    heading: str
    text: Callable[[float], str] = lambda value: number(value, 3)
    average: Literal["median", "mean"] = "median"
    infinite: str = "∞"

    def centre(self, cell: Measured) -> float:
        return cell.median if self.average == "median" else cell.mean

    def spread(self, cell: Measured) -> tuple[float, float]:
        """The quartiles, or one deviation to either side."""
        if self.average == "median":
            return cell.quartiles
        return cell.mean - cell.deviation, cell.mean + cell.deviation

    def write(self, cell: Cell, spread: bool = True) -> str:
        """Our value as people read it: 24 (24–28), or 77.3 ± 0.8."""
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
    """A table, what was claimed beforehand of it as a whole and whether that holds, what must be said about it, and a
    function that draws on an empty matplotlib Figure."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    draw: Callable[[Any], None] | None = None
    printed_by: str = "paper"  # who printed the values beside ours
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
        """ok, or missed where a verdict is no."""
        return "missed" if any(verdict.holds is False for verdict in self.verdicts) else "ok"

    def has_printed(self, index: int) -> bool:
        return any(isinstance(row[index], Measured) and row[index].printed is not None for row in self.rows)  # type: ignore[union-attr]

    def headings(self) -> Iterator[tuple[str, bool]]:
        """The headings as people read them, and whether numbers stand below: a printed value has a column itself."""
        for index, column in enumerate(self.columns):
            numeric = not any(isinstance(row[index], str | Verdict) for row in self.rows)
            yield column.heading, numeric
            if self.has_printed(index):
                yield self.printed_by, numeric

    def lines(self, spread: bool = True) -> Iterator[list[str]]:
        """The rows as people read them."""
        for row in self.rows:
            line = []
            for index, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
                line.append(column.write(cell, spread))
                if self.has_printed(index):
                    line.append(column.write_printed(cell))
            yield line

    def records(self) -> list[dict[str, Any]]:
        """The rows for machines: under each heading a plain value, or what was measured with what was printed."""
        return [
            {column.heading: _plain(column, cell) for column, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]


def _plain(column: Column, cell: Cell) -> Any:
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
