"""Convergence, drawn: gradient norm and value, against rounds and against bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from fedsolve.loop.history import Row
from fedsolve.report.tables import size
from fedsolve.text import printable

# Okabe and Ito's colours, told apart by people who see colours differently.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES = ("-", "--", ":", "-.")
MOST_COLOURED = 6  # lines of a figure; no colour is used twice, so that further lines are grey
GREY = "#9a9a9a"
RUNAWAY = 100.0  # times the largest start: above it a panel ends where there are several lines
ROOM = 50  # letters below an axis
LONGEST_LABEL = 40  # letters of a name in a legend
LONGEST_TITLE = 90
LETTERS = 11.0  # of a legend to an inch; beside each name there are a line and a gap, worth some
GAP = 8

Figure: TypeAlias = Any  # of matplotlib, whose own types do not say what `subplots` returns
Axes: TypeAlias = Any
Look: TypeAlias = dict[str, str]  # of a line


def convergence(
    histories: Mapping[str, Sequence[Row]],
    *,
    title: str = "",
    best: float | None = None,
    best_name: str = "best",
) -> bytes:
    """A PNG with a line per run. `best` is the value to compare with; without it, the lowest of all."""
    figure = blank()
    draw_convergence(figure, histories, best=best, best_name=best_name)
    if title:
        figure.suptitle(in_figure(title, LONGEST_TITLE))
    return png(figure)


def blank(width: float = 10, height: float = 7) -> Figure:
    """An empty figure that belongs to no window."""
    from matplotlib import figure as figures
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figures.Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    return saved(figure, "png", dpi=150)


def saved(figure: Figure, kind: str, **how: object) -> bytes:
    """A figure as a file of this kind. A letter that the font lacks is drawn as a box: the page beside has the name."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, **how)
    return buffer.getvalue()


def in_figure(name: str, most: int = LONGEST_LABEL) -> str:
    """A name or title that leaves room for the figure, and is not read as a formula."""
    return printable(name, most).replace("$", r"\$")


def legend_below(figure: Figure, axis: Axes, grey: Collection[str] = ()) -> None:
    """One legend for all panels, below them; lines in `grey` share an entry."""
    pairs = list(zip(*axis.get_legend_handles_labels(), strict=True))
    shown = [(handle, in_figure(label)) for handle, label in pairs if label not in grey]
    others = [handle for handle, label in pairs if label in grey]
    if others:
        shown.append((others[0], f"{len(grey)} other{'' if len(grey) == 1 else 's'}"))
    if not shown:
        return
    room = LETTERS * figure.get_figwidth() / (GAP + max(len(label) for _, label in shown))
    columns = max(1, min(len(shown), 5, int(room)))
    figure.legend(*zip(*shown, strict=True), loc="outside lower center", ncols=columns, frameon=False)


def rendered(figure: Figure) -> dict[str, bytes]:
    """A figure as a PNG, for pages and slides, and as PDF and SVG, for papers: by the ending of a file. The same figure
    gives the same bytes."""
    from matplotlib import rc_context

    found = {"png": png(figure)}
    figure.set_layout_engine("none")  # what the first has found serves all: finding it takes most of the time
    with rc_context({"svg.hashsalt": "fedsolve"}):
        for kind, metadata in (("pdf", {"CreationDate": None}), ("svg", {"Date": None})):
            found[kind] = saved(figure, kind, metadata=metadata)
    return found


def style(index: int) -> Look:
    """The look of the line in this place, the same in every figure; after the last colour, the same with other dashes.
    For figures of papers, in which every line has its name."""
    which = index % len(COLOURS)
    return {
        "color": COLOURS[which],
        "marker": MARKERS[which],
        "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
    }


def coloured(index: int) -> Look:
    """The look of the line in this place of a report's figure: the first six have a colour each, others are grey."""
    return style(index) if index < MOST_COLOURED else {"color": GREY, "marker": "", "linestyle": "-"}


def draw_convergence(
    figure: Figure, histories: Mapping[str, Sequence[Row]], *, best: float | None, best_name: str
) -> None:
    """Gradient norm and value, against rounds and against bytes: four panels. The first six lines have a colour."""
    if best is None:
        seen = [_number(row.value) for rows in histories.values() for row in rows]
        best = min((value for value in seen if math.isfinite(value)), default=0.0)
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    for index, (label, rows) in enumerate(histories.items()):
        look = coloured(index)
        norms = [_number(row.gradient_norm) for row in rows]
        gaps = [_number(row.value) - best for row in rows]
        places: list[list[int]] = [[row.round for row in rows], [_sent(row) for row in rows]]
        for line, values in enumerate((norms, gaps)):
            for column, positions in enumerate(places):
                _draw(axes[line][column], positions, values, label, look)
        if len(histories) <= MOST_COLOURED:  # among more lines nobody finds it
            draw_bound(axes[0][0], rows, label if len(histories) > 1 else "", look)
    _dress(axes, histories, best_name)
    if len(histories) > 1:
        legend_below(figure, axes[0][0], list(histories)[MOST_COLOURED:])


def shows_slope(rows: Sequence[Row]) -> bool:
    """Whether a run has what the slope of theory is drawn from."""
    return any(row.contraction is not None for row in rows) and _number(rows[0].gradient_norm) > 0


def draw_bound(axis: Axes, rows: Sequence[Row], label: str, look: Look) -> None:
    """The slope of theory: ∏ c_t from where the gradient norm began; over a period of renewals it is that of the bound
    for periodic renewals. The theorems are about the distance to the solution, so only slopes compare; for losses
    other than the squared they hold in the end."""
    if not shows_slope(rows):
        return
    norms = [_number(row.gradient_norm) for row in rows]
    bound, places, heights = norms[0], [rows[0].round], [norms[0]]
    for row in rows[1:]:
        bound *= 1.0 if row.contraction is None else row.contraction
        places.append(row.round)
        heights.append(bound)
    # Where c_t = 0 all is known of the Hessians: the bound ends there.
    shown = [(place, height) for place, height in zip(places, heights, strict=True) if height > 0]
    name = f"slope of ∏ cₜ{', ' + label if label else ''}"
    colour = look["color"] if label else COLOURS[1]  # among several, it is known by its line
    axis.plot(*zip(*shown, strict=True), label=name, color=colour, linestyle=":", linewidth=1.2)
    if not label:
        axis.legend(frameon=False)


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value


def _sent(row: Row) -> int:
    return row.bytes_up + row.bytes_down


def _draw(axis: Axes, positions: Sequence[float], values: Sequence[float], label: str, look: Look) -> None:
    """What is not positive has no place on a log scale and is left out."""
    kept = [(position, value) for position, value in zip(positions, values, strict=True) if value > 0]
    x, y = [position for position, _ in kept], [value for _, value in kept]
    few, grey = len(kept) <= 30, look["color"] == GREY
    width, order = (1.0, 1.5) if grey else (1.6, 2.0)  # what is grey is drawn below what is not
    marks = {"markersize": 5 if few else 4, "markevery": None if few else 0.1}
    axis.plot(x, y, label=label, linewidth=width, zorder=order, **marks, **look)


def _dress(axes: Axes, histories: Mapping[str, Sequence[Row]], best_name: str) -> None:
    axes[0][0].set_ylabel("norm of the pooled gradient")
    axes[1][0].set_ylabel(f"value − {best_name} value")
    axes[1][0].set_xlabel("communication rounds")
    axes[1][1].set_xlabel("sent, both ways, all sites")
    rounds = [row.round for rows in histories.values() for row in rows]
    sent = [_sent(row) for rows in histories.values() for row in rows]
    ends = [rows[-1] for rows in histories.values() if rows]
    for line in axes:
        drawn = any(len(curve.get_xdata()) for axis in line for curve in axis.get_lines())
        for axis in line:
            if drawn:
                axis.set_yscale("log")
                _cap(axis)
            else:  # a log scale needs something to show
                axis.set_yticks([])
                axis.text(0.5, 0.5, "nothing above 0 to draw", transform=axis.transAxes, ha="center", alpha=0.6)
            axis.grid(True, which="major", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    # The columns share their axes, so that one of each sets both.
    scale_axis(axes[1][0], rounds, [row.round for row in ends], lambda value: f"{value:.0f}")
    scale_axis(axes[1][1], sent, [_sent(row) for row in ends], size)


def _cap(axis: Axes) -> None:
    """Let a line that leaves for infinity leave the panel, so that the others keep theirs."""
    lines = [line.get_ydata() for line in axis.get_lines() if len(line.get_ydata())]
    start = max((line[0] for line in lines), default=0.0)
    if len(lines) > 1 and max(max(line) for line in lines) > RUNAWAY * start:
        axis.set_ylim(top=RUNAWAY * start)


def scale_axis(
    axis: Axes, places: Sequence[float], ends: Sequence[float], text: Callable[[float], str], *, whole: bool = True
) -> None:
    """Rounds in the hundreds would squash those in the tens: then a log scale, with a place for 0 if it is there. No
    more labels than there is room for. `whole`: places are whole numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = min((place for place in places if place > 0), default=1), max(places, default=1)
    zero = min(places, default=0) == 0
    labels = ROOM // (max(len(text(low)), len(text(high))) + 2)
    if len(ends) > 1 and max(ends) > 20 * max(min(ends), 1 if whole else low):
        axis.set_xscale("symlog" if zero else "log", **({"linthresh": low} if zero else {}))
        ticks = log_ticks(low, high, labels - zero)
        axis.xaxis.set_major_locator(FixedLocator([0, *ticks] if zero else ticks))
        axis.xaxis.set_minor_locator(NullLocator())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(nbins=max(1, min(labels - 1, 6)), integer=whole))
    if zero:
        axis.set_xlim(left=-0.2 * low if axis.get_xscale() == "symlog" else -0.02 * (max(high, 1) if whole else high))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high: 1, 2, 5, 10 over few decades, then 1, 3, 10, then powers of ten, or some."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps, every in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        ticks = [step * 10.0**power for power in powers[::every] for step in steps if low <= step * 10.0**power <= high]
        if len(ticks) <= most:
            break
    return ticks
