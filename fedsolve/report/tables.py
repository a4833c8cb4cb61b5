"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedsolve.text import printable

BAD = ("diverged", "no quorum", "error")
GOOD = ("converged", "finished", "patience", "early stopping")


def size(count: float | None) -> str:
    """Bytes for people: 831 B, 12.4 kB, 3.07 MB."""
    if count is None:
        return "–"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def number(value: float | None, digits: int = 2) -> str:
    """A number that may be missing or not finite."""
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{digits}g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.{max(digits - 1, 0)}e}"


# A run that ends by its budget has the name of the budget for a status.
LIMITS = {"rounds": "round limit", "bytes": "byte limit", "seconds": "time limit"}


def _status(status: str) -> Text:
    said = LIMITS.get(status, status)
    return Text(said, style="bold red" if status in BAD else "green" if status in GOOD else "yellow")


# key: (heading, how it is written, alignment)
COLUMNS: dict[str, tuple[str, Callable[[Any], str | Text], str]] = {
    "algorithm": ("algorithm", str, "left"),
    "status": ("ended", _status, "left"),
    "rounds": ("rounds", lambda value: "–" if value is None else str(value), "right"),
    "bytes_up": ("up", size, "right"),
    "bytes_down": ("down", size, "right"),
    "value": ("value", lambda value: number(value, 6), "right"),
    "gradient_norm": ("‖gradient‖", number, "right"),
    "distance_to_pooled": ("distance", number, "right"),
    "accuracy": ("accuracy", lambda value: "–" if value is None else f"{value:.1%}", "right"),
    "seconds": ("seconds", lambda value: "–" if value is None else f"{value:.2f}", "right"),
}
RESULTS = ("algorithm", "status", "rounds", "bytes_up", "bytes_down", "value", "gradient_norm", "seconds")


# What a narrow terminal goes without, in this order.
SPARED = ("seconds", "gradient_norm", "value", "accuracy")


def fitting(console: Console, rows: Sequence[Mapping[str, object]], columns: Sequence[str] = RESULTS) -> Table:
    """`results` in as many columns as the console is wide enough for: none is cut off."""
    kept = list(columns)
    for key in SPARED:
        table = results(rows, kept)
        if Measurement.get(console, console.options.update(width=10_000), table).maximum <= console.width:
            break
        if key in kept:
            kept.remove(key)
    return results(rows, kept)


def results(rows: Sequence[Mapping[str, object]], columns: Sequence[str] = RESULTS) -> Table:
    """One line per run."""
    table = plain_table()
    for key in columns:
        heading, _, alignment = COLUMNS[key]
        table.add_column(heading, justify="right" if alignment == "right" else "left", no_wrap=True)
    for row in rows:
        cells = [COLUMNS[key][1](row.get(key)) for key in columns]
        table.add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells))
    return table


def clients(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Table:
    """One line per client; the columns are keys of the rows."""
    table = plain_table()
    for key in columns:
        table.add_column(key, justify="left" if key == columns[0] else "right", no_wrap=True)
    for row in rows:
        said = [f"{row[key]:.0%}" if isinstance(row[key], float) else str(row[key]) for key in columns]
        table.add_row(*(Text(printable(cell)) for cell in said))  # as Text, in which markup is not obeyed
    return table


def plain_table() -> Table:
    """The one look all tables share."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence: "a, b and c"; of more than `most`, the first ones and how many others there are."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1:,} other sites"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
