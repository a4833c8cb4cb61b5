"""A comparison as a table, for the terminal, the page and JSON: a line for each algorithm, medians over the seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedsolve.inference.evaluated import Evaluated
from fedsolve.report import html_parts as html
from fedsolve.report.comparison import Comparison, Trace
from fedsolve.report.tables import BAD, GOOD, LIMITS, number, plain_table, size
from fedsolve.text import printable

Number = float | None


@dataclass(frozen=True)
class _Column:
    """key: in JSON; spared: when a narrow terminal goes without it, the lowest first; None: never."""

    key: str
    heading: str
    take: Callable[[Comparison, Trace], Number]
    write: Callable[[Number], str]
    spared: int | None = None


def _whole(value: Number) -> str:
    return "–" if value is None else f"{value:.0f}" if value == round(value) else f"{value:.1f}"


def _share(value: Number) -> str:
    return "–" if value is None else f"{value:.1%}"


def _last(take: Callable[[Trace], Number]) -> Callable[[Comparison, Trace], Number]:
    return lambda _, trace: take(trace) if trace.history else None


def _judged(take: Callable[[Evaluated], Number]) -> Callable[[Comparison, Trace], Number]:
    return lambda _, trace: None if trace.evaluation is None else take(trace.evaluation)


def _reached(name: str) -> Callable[[Comparison, Trace], Number]:
    return lambda _, trace: None if trace.reached is None else getattr(trace.reached, name)


_COLUMNS = (
    _Column("rounds", "rounds", _last(lambda one: one.history[-1].round), _whole),
    _Column("bytes_up", "up", _last(lambda one: one.history[-1].bytes_up), size),
    _Column("bytes_down", "down", _last(lambda one: one.history[-1].bytes_down), size, 4),
    _Column("value", "value", _reached("value"), lambda value: number(value, 6), 3),
    _Column("objective_gap", "above lowest", lambda found, one: found.gap(one, one.reached), number, 5),
    _Column("gradient_norm", "‖gradient‖", _reached("gradient_norm"), number, 2),
    _Column("held_out_error", "held-out error", _judged(lambda one: one.error), lambda value: number(value, 4), 6),
    _Column(
        "held_out_d2",
        "R²",
        _judged(lambda one: one.d2 if one.accuracy is None else None),
        lambda value: number(value, 3),
    ),
    _Column("held_out_accuracy", "accuracy", _judged(lambda one: one.accuracy), _share),
    _Column("held_out_auc", "AUC", _judged(lambda one: one.auc), lambda value: number(value, 4), 7),
    _Column("seconds", "seconds", _last(lambda one: one.history[-1].seconds), lambda value: number(value, 3), 1),
)


def _columns(found: Comparison) -> list[_Column]:
    """Those that at least one run has something in."""
    return [one for one in _COLUMNS if any(one.take(found, trace) is not None for trace in found.traces)]


def _heading(column: _Column, found: Comparison) -> str:
    judged = next((one.evaluation for one in found.traces if one.evaluation is not None), None)
    if judged is None or not column.key.startswith("held_out"):
        return column.heading
    if column.key == "held_out_error":
        return f"held-out {judged.error_name}"
    if column.key == "held_out_d2":
        return "held-out R²" if judged.error_name == "mean squared error" else "held-out D²"
    return f"held-out {column.heading}"


def _cell(column: _Column, found: Comparison, traces: Sequence[Trace]) -> tuple[str, str]:
    """One run: its number. Several: their median, and from the least to the largest, unless they are written alike."""
    taken = [value for one in traces if (value := column.take(found, one)) is not None]
    if not taken:
        return "–", ""
    middle, low, high = (column.write(value) for value in _spread(taken))
    if low == high:
        return middle, ""
    unit = high.lstrip("0123456789.+-e")  # said once: 12.1 – 14.5 kB
    low = low.removesuffix(unit) if unit and low.lstrip("0123456789.+-e") == unit else low
    return middle, f"({low} – {high})"


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and largest; what is not finite counts as infinite."""
    known = [value if math.isfinite(value) else math.inf for value in values]
    return float(np.median(known)), min(known), max(known)


def _ended(traces: Sequence[Trace]) -> tuple[str, str]:
    """How the runs of an algorithm ended, and whether that is good, bad or neither."""
    counts = Counter(one.status for one in traces)
    words = [(LIMITS.get(status, status), count) for status, count in counts.items()]
    said = words[0][0] if len(words) == 1 else ", ".join(f"{word} ×{count}" for word, count in words)
    bad, good = any(status in BAD for status in counts), all(status in GOOD for status in counts)
    return said, "bad" if bad else "good" if good else ""


# ── for people ──

_STYLES = {"bad": "bold red", "good": "green", "": "yellow"}


def terminal(found: Comparison, console: Console) -> Table:
    """As many columns as the console is wide enough for; on a very narrow one, medians without their ranges."""

    def fits(table: Table) -> bool:
        return Measurement.get(console, console.options.update(width=10_000), table).maximum <= console.width

    columns = _columns(found)
    for spared in sorted(one.spared for one in columns if one.spared is not None):
        if fits(table := _terminal(found, columns)):
            return table
        columns = [one for one in columns if one.spared != spared]
    return table if fits(table := _terminal(found, columns)) else _terminal(found, columns, ranges=False)


def _terminal(found: Comparison, columns: Sequence[_Column], ranges: bool = True) -> Table:
    table = plain_table()
    table.add_column("algorithm", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for one in columns:
        table.add_column(_heading(one, found), justify="right", no_wrap=True)
    for name in found.algorithms:
        traces = found.of(name)
        said, look = _ended(traces)
        written = (_cell(one, found, traces) for one in columns)
        cells = (Text(f"{middle} {spread}" if spread and ranges else middle) for middle, spread in written)
        table.add_row(Text(printable(name)), Text(said, style=_STYLES[look]), *cells)
    return table


def explained(found: Comparison) -> list[str]:
    """What a reader of the table has to know."""
    said = []
    if (count := len(found.seeds)) > 1:
        bands = "from the least to the largest" if found.spread == "range" else "from quartile to quartile"
        said.append(
            f"Medians over {count} seeds, with the least and the largest in brackets; bands in the figure go {bands}. "
            "A run that has ended stays where it ended."
        )
    if found.is_all_alike:
        said.append("All seeds gave the same: nothing in this run file is drawn at random.")
    if any(found.gap(one, one.reached) is not None for one in found.traces):
        said.append(
            "Above lowest: the value less the lowest that any of the algorithms with the same loss reached "
            f"{'with this seed' if len(found.seeds) > 1 else 'here'}."
        )
    return said


def section(found: Comparison) -> html.Html:
    """The part of a page. What held-out rows say stands beside the costs."""
    columns = sorted(_columns(found), key=_place)
    headings = [("algorithm", False), ("ended", False), *((_heading(one, found), True) for one in columns)]
    rows = [[name, *_html_cells(found, columns, name)] for name in found.algorithms]
    quiet = html.paragraph(" ".join([*explained(found), "Every round of every run is in rounds.csv."]), kind="quiet")
    return html.section("Side by side", html.table(headings, rows), quiet)


def _place(column: _Column) -> int:
    return 0 if column.key in ("rounds", "bytes_up", "bytes_down") else 1 if column.key.startswith("held_out") else 2


def _html_cells(found: Comparison, columns: Sequence[_Column], name: str) -> Iterator[html.Html | str]:
    traces = found.of(name)
    said, look = _ended(traces)
    yield html.element("span", said, class_=look or None)
    for middle, spread in (_cell(one, found, traces) for one in columns):
        yield html.markup([middle, html.element("small", spread)]) if spread else middle


# ── for machines ──


def plain(found: Comparison) -> list[dict[str, object]]:
    """For JSON, a table for each algorithm: how often it ended how, and of each column median, least and largest."""
    made: list[dict[str, object]] = []
    for name in found.algorithms:
        traces = found.of(name)
        row: dict[str, object] = {"algorithm": name, "ended": dict(Counter(one.status for one in traces))}
        for column in _columns(found):
            taken = [value for one in traces if (value := column.take(found, one)) is not None]
            middle, low, high = _spread(taken) if taken else (None, None, None)
            row[column.key] = {"median": middle, "least": low, "largest": high}
        made.append(row)
    return made
