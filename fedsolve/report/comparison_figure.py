"""A comparison, drawn: accuracy against rounds, bytes and seconds, with a band where there are several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedsolve.report.bands import Band, band
from fedsolve.report.comparison import HELD_OUT, SPENT, Comparison, Trace
from fedsolve.report.figures import (
    LONGEST_TITLE,
    MOST_COLOURED,
    Axes,
    Figure,
    Look,
    blank,
    coloured,
    draw_bound,
    in_figure,
    legend_below,
    scale_axis,
)
from fedsolve.report.tables import BAD, size

_LABELS = {"round": "communication rounds", "bytes": "sent, both ways, all sites", "seconds": "seconds"}
_WRITTEN: dict[str, Callable[[float], str]] = {
    "round": lambda value: f"{value:.0f}",
    "bytes": size,
    "seconds": lambda value: f"{value:.3g}",
}
FEW = 30  # points of a line that all get a marker


def draw(found: Comparison, title: str = "") -> Figure:
    """A line of panels for each measure (objective gap, gradient norm and, where there are held-out rows, their score),
    with a panel for each of rounds, bytes and seconds."""
    measures, names = found.measures(), found.drawn
    figure = blank(12.5, 1.2 + 2.9 * len(measures))
    axes = figure.subplots(len(measures), len(SPENT), sharex="col", sharey="row", squeeze=False)
    looks = {name: coloured(place) for place, name in enumerate(names)}
    for line, measure in zip(axes, measures, strict=True):
        for axis, spent in zip(line, SPENT, strict=True):
            for name in names:
                _draw(axis, found, found.of(name), measure, spent, name, looks[name])
    # The slope of theory, of the first seed; among more lines nobody finds it.
    for name in names if len(names) <= MOST_COLOURED else ():
        first = next(one for one in found.of(name) if one.history)
        draw_bound(axes[1][0], first.history, name if len(names) > 1 else "", looks[name])
    _dress(axes, found, measures)
    if len(names) > 1:
        legend_below(figure, axes[1][0], names[MOST_COLOURED:])
    if title:
        figure.suptitle(in_figure(title, LONGEST_TITLE))
    return figure


def _draw(
    axis: Axes, found: Comparison, traces: Sequence[Trace], measure: str, spent: str, label: str, look: Look
) -> None:
    drawn = band([found.path(one, measure, spent) for one in traces], found.spread)
    logarithmic = measure != HELD_OUT
    # A run that has diverged has no place in a figure, and what is not positive none on a log scale.
    shown = np.isfinite(drawn.middle) & ((drawn.middle > 0) | (not logarithmic))
    count = int(shown.sum())
    markers = {"markersize": 4, "markevery": None if count <= FEW else 0.1}
    steps = {"drawstyle": "steps-post"} if len(traces) > 1 and spent != "round" else {}
    middle = np.where(shown, drawn.middle, np.nan)
    # Lines lie above all bands, so that no band hides one.
    axis.plot(drawn.places, middle, label=label, linewidth=1.6, zorder=3, **markers, **steps, **look)
    if len(traces) > 1:
        _fill(axis, drawn, logarithmic, look, "post" if steps else None)


def _fill(axis: Axes, drawn: Band, logarithmic: bool, look: Look, step: str | None) -> None:
    every = np.concatenate([drawn.low, drawn.middle, drawn.high])
    top = every[np.isfinite(every)].max(initial=-np.inf)  # where a run has diverged the band goes up to the highest
    low, high = drawn.low, np.minimum(drawn.high, top)
    if logarithmic:  # where 0 has no place, down to the least that there is
        low = np.maximum(low, every[every > 0].min(initial=np.inf))
        high = np.where(high > 0, high, np.nan)
    axis.fill_between(drawn.places, low, high, color=look["color"], alpha=0.18, linewidth=0, step=step, zorder=1)


def _dress(axes: Axes, found: Comparison, measures: Sequence[str]) -> None:
    names = {
        "gap": "value − lowest value",
        "gradient norm": "norm of the pooled gradient",
        HELD_OUT: f"held-out {found.score_name}",
    }
    for line, measure in zip(axes, measures, strict=True):
        line[0].set_ylabel(names[measure])
        drawn = any(np.isfinite(curve.get_ydata()).any() for axis in line for curve in axis.get_lines())
        for axis in line:
            if not drawn:
                axis.set_yticks([])
                axis.text(0.5, 0.5, "nothing above 0 to draw", transform=axis.transAxes, ha="center", alpha=0.6)
            elif measure != HELD_OUT:  # a log scale needs something to show
                axis.set_yscale("log")
            axis.grid(True, which="major", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    if HELD_OUT in measures:
        _zoom(axes[measures.index(HELD_OUT)][0], found)
    for axis, spent in zip(axes[-1], SPENT, strict=True):
        axis.set_xlabel(_LABELS[spent])
        paths = [[place for place, _ in found.path(one, "gap", spent)] for one in found.traces]
        places = [place for path in paths for place in path]
        scale_axis(axis, places, [path[-1] for path in paths if path], _WRITTEN[spent], whole=spent != "seconds")


def _zoom(axis: Axes, found: Comparison) -> None:
    """Held-out scores from the first round on, of runs that went well: the start, and a run that has diverged, may lie
    so far away that all others would be one line."""
    sound = (found.path(one, HELD_OUT, "round") for one in found.traces if one.status not in BAD)
    values = [value for path in sound for place, value in path if place > 0 and np.isfinite(value)]
    if values and max(values) > min(values):
        margin = 0.08 * (max(values) - min(values))
        axis.set_ylim(min(values) - margin, max(values) + margin)
