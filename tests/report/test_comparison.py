"""What a comparison says of runs, from rows made by hand."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from rich.console import Console

from fedsolve.loop.history import Row
from fedsolve.report import comparison_table
from fedsolve.report.comparison import Comparison, Trace
from fedsolve.report.comparison_figure import draw


def trace(name: str, seed: int, values: list[float], status: str = "rounds", objective: str = "") -> Trace:
    rows = [
        Row(place, value=value, gradient_norm=value / 2, seconds=0.5 * place, bytes_up=10 * place, bytes_down=place)
        for place, value in enumerate(values)
    ]
    return Trace(name, seed, seed, status, "", objective, rows, rows[-1] if rows else None)


BOTH = Comparison(
    [trace("a", 0, [4.0, 2.0]), trace("a", 1, [5.0, 3.0]), trace("b", 0, [4.0, 1.0]), trace("b", 1, [5.0, 4.5])]
)


def test_gaps_are_to_the_lowest_of_the_seed() -> None:
    gaps = [[BOTH.gap(one, row) for row in one.history] for one in BOTH.traces]
    assert gaps == [[3, 1], [2, 0], [3, 0], [2, 1.5]]
    apart = Comparison([trace("a", 0, [4.0, 2.0], objective="f"), trace("b", 0, [4.0, 1.0], objective="g")])
    assert [[apart.gap(one, row) for row in one.history] for one in apart.traces] == [[2, 0], [3, 0]]


@pytest.mark.parametrize(("spent", "places"), [("round", [0, 1]), ("bytes", [0, 11]), ("seconds", [0, 0.5])])
def test_paths(spent: str, places: list[float]) -> None:
    assert BOTH.path(BOTH.traces[0], "gap", spent) == list(zip(places, [3, 1], strict=True))


def test_a_run_that_diverged_does_not_stay_where_it_was_given_up() -> None:
    found = Comparison([trace("a", 0, [1.0, 8.0], status="diverged")])
    path = found.path(found.traces[0], "gap", "round")
    assert path[:2] == [(0, 0), (1, 7)]
    assert path[2][1] == math.inf
    assert 1 < path[2][0] < 1 + 1e-12


def test_values_that_are_not_finite_are_no_lowest() -> None:
    found = Comparison([trace("a", 0, [4.0, math.nan, -math.inf]), trace("b", 0, [4.0, 3.0])])
    assert found.gap(found.traces[0], found.traces[0].history[0]) == 1
    assert found.gap(found.traces[1], found.traces[1].history[1]) == 0


def test_cells() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(comparison_table.terminal(BOTH, console))
    lines = console.export_text().splitlines()
    assert "2.5 (2 – 3)" in lines[1]
    assert "0.5 (0 – 1)" in lines[1]
    assert "2.75 (1 – 4.5)" in lines[2]
    narrow = Console(width=60, record=True, file=io.StringIO())
    narrow.print(comparison_table.terminal(BOTH, narrow))
    assert max(map(len, narrow.export_text().splitlines())) <= 60


def test_names_that_a_spreadsheet_would_compute() -> None:
    text = Comparison([trace("=1+1", 0, [1.0])]).csv()
    assert next(csv.DictReader(text.splitlines()))["algorithm"] == "'=1+1"


@pytest.mark.parametrize("spread", ["range", "quartiles"])
def test_lines_lie_above_bands_and_within_them(spread: str) -> None:
    """Also where one run has diverged, and where another is the lowest."""
    traces = [
        trace("a", 0, [4.0, 2.0, 1.0]),
        trace("a", 1, [4.0, 9.0], status="diverged"),
        trace("a", 2, [4.0, 3.0, 2.0]),
        Trace("none", 0, 0, "error", "could not start", ""),
    ]
    figure = draw(Comparison(traces, spread))  # type: ignore[arg-type]
    for axis in figure.axes:
        bands, lines = axis.collections, axis.get_lines()
        assert max((one.get_zorder() for one in bands), default=0) < min(one.get_zorder() for one in lines)
        for one in bands:
            heights = one.get_paths()[0].vertices[:, 1] if one.get_paths() else np.zeros(0)
            assert np.isfinite(heights).all()
            shown = [height for line in lines for height in line.get_ydata() if np.isfinite(height)]
            assert not shown or max(shown) <= heights.max(initial=-np.inf) + 1e-12


def test_nothing_was_measured() -> None:
    draw(Comparison([Trace("a", 0, None, "rounds", "", "", [Row(0), Row(1)], Row(1))]))
    assert comparison_table.plain(Comparison([Trace("a", 0, None, "error", "", "")]))[0]["ended"] == {"error": 1}
