"""What several algorithms cost to reach an accuracy, for people and for files: tables, a figure, a part of a page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.table import Table
from rich.text import Text

from fedsolve.complexity.costs import Contestant, Cost, costs, grouped, one_in_words, tuned_path
from fedsolve.report import html_parts as html
from fedsolve.report.figures import LONGEST_TITLE, MOST_COLOURED, Figure, blank, coloured, in_figure, legend_below
from fedsolve.report.tables import plain_table
from fedsolve.text import printable, spreadsheet_cell

MOST_POINTS = 200  # of a curve in JSON
WIDEST = 14  # letters of a cell, so that six of them fit on a terminal
LOWEST = 1e-16  # drawn at least so high: a share of 0 has no place on a log scale
EXPLAINED = (
    "Γ, the federated oracle complexity (Jadbabaie, Makur and Shah, “Federated Optimization of Smooth Loss Functions”, "
    "Definition 1): in every exchange the gradients of single samples that the busiest client computes, with those of "
    "the server, and φ for each client that is asked. A Hessian of a sample counts as one gradient for each of its "
    "columns. The figures are Γ when (F − F*) / (F(0) − F*) is at most ε for the first time, in one run each; F(0) is "
    "at weights of 0, and F* is from Newton's method at the same clients, which does not count. The least in each "
    "column is marked with *; – was not reached."
)


@dataclass(frozen=True)
class CostComparison:
    """Several runs compared by Γ, and what has to be said with it."""

    contestants: Sequence[Contestant]
    phis: Sequence[float]
    remarks: Sequence[str] = ()

    @cached_property
    def costs(self) -> list[Cost]:
        """What each algorithm costs, by φ and ε."""
        return costs(self.contestants, self.phis)

    @cached_property
    def best(self) -> set[str]:
        """The runs that are the cheapest of their algorithm for some φ and ε; of one that reaches none, the nearest."""
        every = {one.run for one in self.costs if one.run is not None}
        nearest = (
            min(runs, key=lambda run: min(run.shares.values(), default=math.inf)).run
            for runs in grouped(self.contestants).values()
            if not any(run.run in every for run in runs)
        )
        return {*every, *nearest}

    def plain(self) -> dict[str, object]:
        """For JSON: the table, and the curve of each algorithm for each φ, at most so many points of it."""
        curves = [
            {"phi": phi, "algorithm": name, "cost": [a for a, _ in path], "share": [b for _, b in path]}
            for phi in self.phis
            for name, runs in grouped(self.contestants).items()
            for path in [_thinned(tuned_path(runs, phi))]
        ]
        rows = [{**vars(one), "values": dict(one.values)} for one in self.costs]
        return {"phi": list(self.phis), "rows": rows, "curves": curves, "remarks": list(self.remarks)}

    def csv(self) -> str:
        """table.csv: a line for each φ, ε and algorithm."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["phi", "epsilon", "algorithm", "cost", "is_least", "round", "run"])
        for one in self.costs:
            cells = [one.phi, one.epsilon, one.algorithm, one.cost, one.is_least, one.round, one.run]
            writer.writerow(["" if cell is None else spreadsheet_cell(cell) for cell in cells])
        return text.getvalue()


# ── tables ──


def terminal(found: CostComparison) -> Iterator[Table | Text]:
    """A table for each φ, then the values that were chosen, then the remarks."""
    for one in _tables(found):
        made = plain_table()
        for place, heading in enumerate(one.headings):
            made.add_column(heading, justify="right" if place else "left", no_wrap=True)
        for row in one.rows:
            styles = ["bold green" if cell.startswith("*") else "" for cell in row]
            made.add_row(*(Text(printable(cell), style=look) for cell, look in zip(row, styles, strict=True)))
        yield Text(f"\n{printable(one.title)}", style="bold")
        yield made
        yield from (Text(printable(line)) for line in one.legend)
    yield Text("")
    yield from (Text(printable(said)) for said in (EXPLAINED, *found.remarks))


def section(found: CostComparison, figure: bytes | None) -> html.Html:
    """The part of a report."""
    drawn = [] if figure is None else [html.image(figure, "Γ against how far the objective is above its minimum")]
    tables = []
    for one in _tables(found):
        cells = [[_marked(cell) for cell in row] for row in one.rows]
        named = [(heading, place > 0) for place, heading in enumerate(one.headings)]
        legend = [html.paragraph(line, kind="quiet") for line in one.legend]
        tables += [html.element("h3", one.title), html.table(named, cells), *legend]
    said = [html.paragraph(EXPLAINED, kind="quiet"), *map(html.paragraph, found.remarks)]
    return html.section("What an accuracy costs", *drawn, *tables, *said)


def _marked(cell: str) -> html.Html | str:
    return html.element("strong", cell, class_="good") if cell.startswith("*") else cell


@dataclass(frozen=True)
class _Shown:
    """A table with its title, and what its cells stand for."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: Sequence[str] = ()


def _tables(found: CostComparison) -> Iterator[_Shown]:
    """Γ by algorithm and ε for each φ; and for each algorithm that was tuned what was chosen, by φ and ε."""
    groups = grouped(found.contestants)
    headings = [f"ε = {epsilon:.0e}" for epsilon in dict.fromkeys(one.epsilon for one in found.costs)]
    for phi in found.phis:
        rows = [[name, *(_cell(one) for one in _along(found, phi, name))] for name in groups]
        yield _Shown(f"Γ, φ = {phi:g}", ["algorithm", *headings], rows)
    for name, runs in groups.items():
        if runs[0].values:
            yield _chosen(found, name, runs, headings)


def _along(found: CostComparison, phi: float, algorithm: str) -> list[Cost]:
    return [one for one in found.costs if one.phi == phi and one.algorithm == algorithm]


def _cell(one: Cost) -> str:
    if one.cost is None:
        return "–"
    return f"{'*' if one.is_least else ''}{one.cost:,.0f}"


def _chosen(found: CostComparison, name: str, runs: Sequence[Contestant], headings: Sequence[str]) -> _Shown:
    """The best values in each place; by number, with a legend, where they are too long for a cell."""
    words = {run.run: " / ".join(map(one_in_words, run.values.values())) for run in runs}
    numbers: dict[str, str] = {}
    if max(map(len, words.values())) > WIDEST:
        chosen = dict.fromkeys(one.run for one in found.costs if one.algorithm == name and one.run is not None)
        numbers = {run: f"#{place}" for place, run in enumerate(chosen, start=1)}
    said = {**words, **numbers}
    rows = [
        [f"φ = {phi:g}", *("–" if one.run is None else said[one.run] for one in _along(found, phi, name))]
        for phi in found.phis
    ]
    legend = [f"{number}: {words[run]}" for run, number in numbers.items()]
    of = f"the best of {len(runs)} runs" if len(runs) > 1 else "one run"
    return _Shown(f"{name}: {' / '.join(runs[0].values)}, {of}", ["", *headings], rows, legend)


# ── curves ──


def draw(found: CostComparison, title: str = "") -> Figure:
    """A panel for each φ, and a line in it for each algorithm."""
    columns = min(2, len(found.phis))
    lines = -(-len(found.phis) // columns)
    drawn = blank(10, 1 + 3.2 * lines)
    axes = drawn.subplots(lines, columns, sharey=True, squeeze=False)
    for axis in axes.flat[len(found.phis) :]:
        axis.set_visible(False)
    for phi, axis in zip(found.phis, axes.flat, strict=False):
        for place, (name, runs) in enumerate(grouped(found.contestants).items()):
            path = [(gamma, max(share, LOWEST)) for gamma, share in tuned_path(runs, phi) if gamma > 0]
            look = {**coloured(place), "markersize": 4, "markevery": max(1, len(path) // 12)}
            axis.plot([a for a, _ in path], [b for _, b in path], label=name, drawstyle="steps-post", **look)
        axis.set_title(f"φ = {phi:g}", fontsize="medium")
        if any(len(line.get_xdata()) for line in axis.get_lines()):  # a log scale needs something to show
            axis.set_yscale("log")
            axis.set_xscale("log")
        axis.set_xlabel("Γ")
        axis.grid(True, which="major", alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for line in axes:
        line[0].set_ylabel("(F − F*) / (F(0) − F*)")
    legend_below(drawn, axes.flat[0], list(grouped(found.contestants))[MOST_COLOURED:])
    if title:
        drawn.suptitle(in_figure(title, LONGEST_TITLE))
    return drawn


def _thinned(path: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points at even distances, the first and the last among them."""
    if len(path) <= MOST_POINTS:
        return list(path)
    return [path[round(place * (len(path) - 1) / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]
