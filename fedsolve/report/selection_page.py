"""A selection for people: the table of errors, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from fedsolve.report import accounts
from fedsolve.report import html_parts as html
from fedsolve.report.tables import number, plain_table, size
from fedsolve.selection import Candidate, Selection


@dataclass(frozen=True)
class Row:
    """One point of the grid."""

    values: Mapping[str, object]  # of what was chosen between
    error: float
    standard_error: float
    accuracy: float | None
    errors: tuple[float, ...]
    trouble: str | None
    best: bool
    simplest: bool

    @classmethod
    def of(cls, values: Mapping[str, object], found: Candidate, best: bool, simplest: bool) -> Row:
        """What is shown of a candidate."""
        errors = found.error, found.standard_error, found.accuracy, found.errors
        return cls(values, *errors, found.trouble, best, simplest)

    @property
    def mark(self) -> str:
        if self.best:
            return "best"
        return "largest l2 within one standard error" if self.simplest else ""


def heading(found: Selection) -> str:
    """What was done, and what the columns mean."""
    return (
        f"{type(found.best).__name__}, {len(found.candidates)} points, {found.folds} folds, seed {found.seed}. "
        f"Error: {found.best.error_name} on the fold left out, mean of all; ±: its standard error"
    )


def table(rows: Sequence[Row]) -> Table:
    """For the terminal."""
    made = plain_table()
    for name, right in _headings(rows):
        made.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*map(Text, _cells(row)), style="bold green" if row.best else None)
    return made


def selection_page(
    title: str, command: str, config: str, found: Selection, rows: Sequence[Row], notices: Sequence[str]
) -> str:
    """The report of a selection, as one page."""
    cost = found.ledger.total()
    best = next(row for row in rows if row.best)
    return html.page(
        f"Cross-validation on {title}",
        html.paragraph(heading(found), kind="quiet"),
        html.figures(
            [
                *((name, _value(value)) for name, value in best.values.items()),
                (found.best.error_name, number(best.error, 4)),
                ("exchanges", str(cost.exchanges)),
                ("sent up, all sites", size(cost.bytes_up)),
                ("sent down, all sites", size(cost.bytes_down)),
            ]
        ),
        *(html.paragraph(notice, kind="warning") for notice in notices),
        html.section("Errors", html.table(_headings(rows), [_cells(row) for row in rows])),
        html.section("What was sent", *accounts.tables(found.ledger)),
        html.section(
            "How it was made",
            html.element("h3", "To repeat it"),
            html.code(command),
            html.element("h3", "Run file"),
            html.code(config),
        ),
    )


def _headings(rows: Sequence[Row]) -> list[tuple[str, bool]]:
    accuracy = [("accuracy", True)] if rows[0].accuracy is not None else []
    return [*((name, True) for name in rows[0].values), ("error", True), ("±", True), *accuracy, ("", False)]


def _cells(row: Row) -> list[str]:
    accuracy = [] if row.accuracy is None else [f"{row.accuracy:.1%}"]
    # So many digits that neighbours on the grid differ, where they do.
    error = "none" if row.trouble else number(row.error, 5)
    spread = "" if row.trouble else number(row.standard_error, 3)
    return [*map(_value, row.values.values()), error, spread, *accuracy, row.mark]


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
