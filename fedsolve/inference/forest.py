"""Coefficients with their intervals, drawn: a forest plot."""

from __future__ import annotations

import io
import math
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.inference.summary_text import SAID
from fedsolve.text import printable

if TYPE_CHECKING:
    from fedsolve.inference.summarised import Summary

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's
GREY, MARKERS = "#777777", "osD^vPX"  # of further outcomes
LONGEST_NAME = 34  # letters beside a line
FORMATS = ("png", "svg", "pdf")
MOST_LINES = 60
UNLIKE = 10.0  # raw units differ by more: effects of one standard deviation are drawn instead
MOST_REACH = 20.0  # on a log scale: what reaches further is cut off with an arrow

Axes: TypeAlias = Any  # of matplotlib, whose own types do not say what `subplots` returns
Figure: TypeAlias = Any
Line = tuple[str, int, float, float, float]  # name, outcome, estimate, low, high


def draw(summary: Summary, standardised: bool | None = None, kind: str = "png") -> bytes:
    """The plot as a file of this kind. Intercepts and columns without an estimate are left out."""
    if kind not in FORMATS:
        raise ConfigError(f"a forest plot is written as {', '.join(FORMATS)}, got {kind!r}")
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box; the table beside has the name
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn(summary, standardised).savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def drawn(summary: Summary, standardised: bool | None = None) -> Figure:
    """The plot as a figure."""
    from matplotlib import figure as figures
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if standardised is None:
        standardised = _units_differ(_lines(summary, False))
    every = _lines(summary, standardised)
    lines = every[:MOST_LINES]
    figure = figures.Figure(figsize=(8, 1.4 + 0.28 * max(len(lines), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    _draw_lines(axis, summary, lines)
    unit = "of one standard deviation (or category)" if standardised else "of one raw unit"
    name = summary.ratio_name
    effect = f"{name[0].upper()}{name[1:]}" if name is not None else "Change of the target"
    said = f"{effect} {unit}\n{100 * summary.level:g} % intervals, {SAID[summary.errors]} standard errors"
    left_out = f"\nThe first {len(lines)} of {len(every):,} coefficients" if len(every) > len(lines) else ""
    axis.set_xlabel(said + left_out)
    return figure


def _lines(summary: Summary, standardised: bool) -> list[Line]:
    found: list[Line] = []
    estimates = summary.standardised if standardised else summary.estimates
    errors = summary.standard_errors(standardised=standardised)
    reach = summary._quantile()
    for j, name in enumerate(summary.names):
        for a in range(len(summary.outcomes)):
            value, error = float(estimates[a, j]), float(errors[a, j])
            if name != "(intercept)" and math.isfinite(value):
                found.append((name, a, value, value - reach * error, value + reach * error))
    return found


def _units_differ(lines: list[Line]) -> bool:
    widths = np.array([high - low for *_, low, high in lines if high > low])
    return len(widths) > 1 and bool(widths.max() > UNLIKE * widths.min())


def _draw_lines(axis: Axes, summary: Summary, lines: list[Line]) -> None:
    ratios, several = summary.ratio_name is not None, len(summary.outcomes) > 1
    seen: set[int] = set()
    for place, (_, a, value, low, high) in enumerate(lines):
        ends = [max(-MOST_REACH, min(MOST_REACH, one)) for one in (low, value, high)] if ratios else [low, value, high]
        left, middle, right = (math.exp(one) for one in ends) if ratios else ends
        colour = COLOURS[a] if a < len(COLOURS) else GREY  # no colour is used twice
        against = _shown(f"{summary.outcomes[a]} against {summary.reference}")
        label = against if several and a not in seen else None
        seen.add(a)
        axis.plot([left, right], [place, place], color=colour, linewidth=1.6)
        marker = MARKERS[max(0, a - len(COLOURS) + 1) % len(MARKERS)]  # grey ones are told apart by these
        axis.plot([middle], [place], marker, color=colour, markersize=5, linestyle="", label=label)
    _dress(axis, lines, ratios, several)


def _dress(axis: Axes, lines: list[Line], ratios: bool, several: bool) -> None:
    axis.axvline(1.0 if ratios else 0.0, color="#666666", linewidth=1, linestyle="--")
    if ratios:
        _log_scale(axis)
    names = [name if place == 0 or lines[place - 1][0] != name else "" for place, (name, *_) in enumerate(lines)]
    axis.set_yticks(range(len(lines)), [_shown(name) for name in names])
    axis.set_ylim(len(lines) - 0.4, -0.6)
    axis.grid(True, axis="x", alpha=0.25)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    if several:
        axis.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)


def _shown(name: str) -> str:
    """A name that leaves room for its line, and is not read as a formula."""
    return printable(name, LONGEST_NAME).replace("$", r"\$")


def _log_scale(axis: Axes) -> None:
    """Ratios on a log scale; over few powers of ten more of its ticks are labelled."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    decades = math.log10(high / low)
    subs: tuple[float, ...] = (1.0,)
    if decades < 3:
        subs = (1.0, 2.0, 5.0) if decades > 1 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.xaxis.set_major_locator(LogLocator(base=10.0, subs=subs, numticks=12))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
