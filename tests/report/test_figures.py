"""Figures: tick labels that can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fedsolve.loop.history import Row
from fedsolve.report.figures import GREY, MOST_COLOURED, blank, coloured, convergence, draw_convergence, log_ticks


def _history(rounds: int, start: int, each: int) -> list[Row]:
    return [Row(t, value=1.0 + 0.5**t, gradient_norm=0.5**t, bytes_up=start + each * t) for t in range(rounds + 1)]


@pytest.mark.parametrize(
    "ends",
    [
        [(8, 20_000), (200, 1500)],
        [(0, 1600), (200, 1700), (155, 5000)],
        [(5, 100), (3000, 100_000)],
        [(3, 10), (90_000, 12_345_678)],
        [(8, 22_345)],
        [(100, 5), (110, 7)],
        [(0, 0)],
    ],
)
@pytest.mark.parametrize("start", [0, 700])
def test_tick_labels_do_not_touch(ends: list[tuple[int, int]], start: int) -> None:
    figure = blank()
    histories = {f"method {i}": _history(min(rounds, 50), start, each) for i, (rounds, each) in enumerate(ends)}
    for i, (rounds, each) in enumerate(ends):  # without a row for each of many rounds
        histories[f"method {i}"].append(Row(rounds, 1.0, 1e-9, bytes_up=start + each * rounds))
    draw_convergence(figure, histories, best=None, best_name="lowest")
    figure.draw_without_rendering()
    for axis in figure.axes[2:]:
        low, high = sorted(axis.get_xlim())
        shown = [
            label
            for place, label in zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
            if low <= place <= high
        ]
        boxes = sorted((box.x0, box.x1) for box in (label.get_window_extent() for label in shown))
        assert all(right[0] > left[1] for left, right in pairwise(boxes)), [label.get_text() for label in shown]


def test_log_ticks() -> None:
    assert log_ticks(1, 60, 12) == [1, 2, 5, 10, 20, 50]
    assert log_ticks(2_000, 900_000, 6) == [3e3, 1e4, 3e4, 1e5, 3e5]
    assert log_ticks(100, 10**8, 7) == [10.0**k for k in range(2, 9)]
    assert len(log_ticks(1, 10**12, 7)) <= 7


@pytest.mark.parametrize("norm", [0.5, 0.0, None])
def test_a_run_of_no_rounds_is_drawn(norm: float | None) -> None:
    rows = [Row(0, value=1.0, gradient_norm=norm)]
    assert convergence({"one": rows}).startswith(b"\x89PNG")
    assert convergence({"one": rows, "two": rows}).startswith(b"\x89PNG")


def test_no_colour_is_used_twice() -> None:
    looks = [coloured(index) for index in range(20)]
    kept = [look["color"] for look in looks if look["color"] != GREY]
    assert len(kept) == len(set(kept)) == MOST_COLOURED
    assert all(look["color"] == GREY for look in looks[MOST_COLOURED:])


def test_what_comes_after_six_is_grey_and_one_line_of_the_legend() -> None:
    rows = [Row(0, 2.0, 1.0), Row(1, 1.5, 0.1)]
    figure = blank()
    draw_convergence(figure, {f"run {i}": rows for i in range(9)}, best=1.0, best_name="x")
    lines = figure.axes[0].get_lines()
    assert [line.get_color() for line in lines].count(GREY) == 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*(f"run {i}" for i in range(6)), "3 others"]


def test_a_line_that_diverges_does_not_squash_the_others() -> None:
    rows = [Row(0, 2.0, 1.0), Row(1, 1.5, 0.1)]
    away = [Row(0, 2.0, 1.0), Row(1, 1e14, 1e14)]
    figure = blank()
    draw_convergence(figure, {"good": rows, "bad": away}, best=1.0, best_name="x")
    assert all(axis.get_ylim()[1] <= 100.0 for axis in figure.axes)
    alone = blank()
    draw_convergence(alone, {"bad": away}, best=1.0, best_name="x")
    assert alone.axes[0].get_ylim()[1] >= 1e14
