"""Convergence, drawn: gradient norm and value, against rounds and against bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedsolve.history import Row
from fedsolve.report.tables import size

# Okabe and Ito's colours, told apart by people who see colours differently; then the same with other dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES = ("-", "--", ":", "-.")


def convergence(
    histories: Mapping[str, Sequence[Row]],
    *,
    title: str = "",
    best: float | None = None,
    best_name: str = "best",
) -> bytes:
    """A PNG with a line per run. `best` is the value to compare with; without it, the lowest of all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if best is None:
        seen = [_number(row.value) for rows in histories.values() for row in rows]
        best = min((value for value in seen if math.isfinite(value)), default=0.0)
    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    for index, (label, rows) in enumerate(histories.items()):
        style = _style(index)
        norms = [_number(row.gradient_norm) for row in rows]
        gaps = [_number(row.value) - best for row in rows]
        places: list[list[int]] = [[row.round for row in rows], [_sent(row) for row in rows]]
        for line, values in enumerate((norms, gaps)):
            for column, positions in enumerate(places):
                _draw(axes[line][column], positions, values, label, style)
    _dress(axes, histories, best_name)
    if len(histories) > 1:
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
    if title:
        figure.suptitle(title)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value


def _sent(row: Row) -> int:
    return row.bytes_up + row.bytes_down


def _style(index: int) -> dict[str, Any]:
    which = index % len(COLOURS)
    return {
        "color": COLOURS[which],
        "marker": MARKERS[which],
        "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
    }


def _draw(axis: Any, positions: Sequence[float], values: Sequence[float], label: str, style: dict[str, Any]) -> None:
    """What is not positive has no place on a log scale and is left out."""
    kept = [(position, value) for position, value in zip(positions, values, strict=True) if value > 0]
    x, y = [position for position, _ in kept], [value for _, value in kept]
    few = len(kept) <= 30
    axis.plot(x, y, label=label, linewidth=1.6, markersize=5 if few else 4, markevery=None if few else 0.1, **style)


def _dress(axes: Any, histories: Mapping[str, Sequence[Row]], best_name: str) -> None:
    axes[0][0].set_ylabel("norm of the pooled gradient")
    axes[1][0].set_ylabel(f"value − {best_name} value")
    axes[1][0].set_xlabel("communication rounds")
    axes[1][1].set_xlabel("sent, both ways, all clients")
    rounds = [rows[-1].round for rows in histories.values() if rows]
    sent = [_sent(rows[-1]) for rows in histories.values() if rows]
    for line in axes:
        for axis in line:
            axis.set_yscale("log")
            axis.grid(True, which="major", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    # The columns share their axes, so that one of each sets both.
    _scale(axes[1][0], rounds, lambda value: f"{value:g}", zero=True)
    _scale(axes[1][1], sent, size, zero=False)


def _scale(axis: Any, ends: Sequence[int], text: Callable[[float], str], zero: bool) -> None:
    """Rounds in the hundreds would squash those in the tens: then a log scale, with a place for round 0."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if len(ends) > 1 and max(ends) > 20 * max(min(ends), 1):
        axis.set_xscale("symlog" if zero else "log", **({"linthresh": 1} if zero else {}))
        powers = range(math.ceil(math.log10(max(ends))) + 1)
        ticks = [step * 10**power for power in powers for step in (1, 2, 5)]
        axis.xaxis.set_major_locator(FixedLocator([0, *ticks] if zero else ticks))
        axis.xaxis.set_minor_locator(NullLocator())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if zero:
        axis.set_xlim(left=-0.2 if axis.get_xscale() == "symlog" else -0.02 * max(*ends, 1))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
