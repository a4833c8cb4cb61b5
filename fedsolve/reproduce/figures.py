"""Draws convergence curves: the median over the seeds, with a band between the quartiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.report.figures import Axes, Figure, Look, style
from fedsolve.report.tables import size
from fedsolve.reproduce.result import QUARTILES
from fedsolve.typing import Array

LABELS = {"rounds": "communication rounds", "bytes": "sent, both ways, all clients"}


@dataclass(frozen=True)
class Curve:
    """One sequence of points per seed.

    Sequences may differ in length. The curve ends where half of the seeds have ended, and a seed that ended earlier
    keeps its last value.
    """

    xs: Sequence[Sequence[float]]
    ys: Sequence[Sequence[float]]

    def points(self) -> tuple[Array, Array]:
        """The places of the points, and a row of values per seed."""
        length = sorted(map(len, self.ys))[len(self.ys) // 2]
        x = max(self.xs, key=len)[:length]
        return np.array(x), np.array([[*y, *[y[-1]] * length][:length] for y in map(list, self.ys)])


def over_rounds(ys: Sequence[Sequence[float]]) -> Curve:
    """Values after 0, 1, 2, … rounds."""
    return Curve([list(range(len(y))) for y in ys], ys)


def draw_curves(
    axis: Axes,
    curves: Mapping[str, Curve],
    *,
    over: str = "rounds",
    log: bool = True,
    band: bool = True,
    looks: Mapping[str, Look] | None = None,
) -> None:
    """Draw a line per method, coloured and marked by its position in the mapping, or as `looks` says. `over` labels the
    axis: "rounds", "bytes", or any text. Without `band` there are only the medians, for lines that bands would hide."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for index, (label, curve) in enumerate(curves.items()):
        x, y = curve.points()
        look = looks[label] if looks else style(index)
        every = max(1, len(x) // 10)
        line = {"linewidth": 1.6, "markersize": 4, "markevery": every, "zorder": 3}
        axis.plot(x, np.median(y, axis=0), label=label, **line, **look)
        if band and len(y) > 1:
            low, high = np.quantile(y, QUARTILES, axis=0)
            axis.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0, zorder=1)
    axis.set_xlabel(LABELS.get(over, over))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=over in LABELS))
    if over == "bytes":
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
    if log:
        axis.set_yscale("log")
    axis.grid(True, which="major", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


# Colours for more methods than `style` has; no two of a figure are alike.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#7F3C8D", "#8C564B", "#999999", "#66A61E", "#D7263D"),
)
SYMBOLS = "osD^vPX<>*hd"


def distinct_looks(names: Sequence[str]) -> dict[str, Look]:
    """A colour and a marker of its own for each name."""
    if len(names) > len(PALETTE):
        raise ConfigError(f"a figure has {len(PALETTE)} colours, too few for {len(names)} lines: {', '.join(names)}")
    return {
        name: {"color": PALETTE[j], "marker": SYMBOLS[j], "linestyle": "-" if j < 6 else "--"}
        for j, name in enumerate(names)
    }


def legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    lines = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
