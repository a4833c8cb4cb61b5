"""Draws convergence curves: the median over the seeds, with a band between the quartiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.report.figures import Axes, style
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
    axis: Axes, curves: Mapping[str, Curve], *, over: str = "rounds", log: bool = True, band: bool = True
) -> None:
    """Draw a line per method, coloured and marked by its position in the mapping. `over` labels the axis: "rounds",
    "bytes", or any text. Without `band` there are only the medians, for lines that bands would hide."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for index, (label, curve) in enumerate(curves.items()):
        x, y = curve.points()
        look = style(index)
        every = max(1, len(x) // 10)
        axis.plot(x, np.median(y, axis=0), label=label, linewidth=1.6, markersize=4, markevery=every, **look)
        if band and len(y) > 1:
            low, high = np.quantile(y, QUARTILES, axis=0)
            axis.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
    axis.set_xlabel(LABELS.get(over, over))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=over in LABELS))
    if over == "bytes":
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
    if log:
        axis.set_yscale("log")
    axis.grid(True, which="major", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
