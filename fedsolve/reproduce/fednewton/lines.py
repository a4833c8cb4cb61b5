"""Figures of FedNewton: a line for each method, each with its own colour, on the paper's axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedsolve.report.figures import Axes, Figure

# No colour stands for two methods; FedNewton's rounds are shades of blue, from light to dark.
LOOKS = {
    "KRR": {"color": "#000000", "linestyle": ":", "marker": ""},
    "DKRR": {"color": "#E69F00", "linestyle": "-", "marker": "s"},
    "FedAvg": {"color": "#CC79A7", "linestyle": "--", "marker": "v"},
    "FedProx": {"color": "#009E73", "linestyle": "-.", "marker": "D"},
    "#1": {"color": "#A6CEE3", "linestyle": "-", "marker": "o"},
    "#2": {"color": "#56B4E9", "linestyle": "-", "marker": "^"},
    "#4": {"color": "#0072B2", "linestyle": "-", "marker": "P"},
    "#8": {"color": "#08306B", "linestyle": "-", "marker": "X"},
    "CG #8": {"color": "#D55E00", "linestyle": "--", "marker": ""},
    "FedNewton": {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    "FedNewtonCG": {"color": "#D55E00", "linestyle": "--", "marker": "P"},
}

# Horizontal lines of figures by rounds: where all methods begin, under them, and where they should end, above.
ONE_SHOT: dict[str, Any] = {"color": LOOKS["DKRR"]["color"], "linewidth": 3.5, "alpha": 0.5, "zorder": 1}
POOLED: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": ":", "zorder": 5}


def draw_lines(axis: Axes, xs: Sequence[float], medians: Mapping[str, Sequence[float]], xlabel: str) -> None:
    """A line of medians for each method."""
    for name, ys in medians.items():
        # KRR lies under FedNewtonCG and DKRR under FedAvg unless one is above and the other larger.
        above = {"zorder": 5} if name == "KRR" else {}
        marks = {"markersize": 8, "fillstyle": "none"} if name == "DKRR" else {"markersize": 5}
        axis.plot(xs, ys, label=name, linewidth=1.6, **marks, **above, **LOOKS[name])
    axis.set_xlabel(xlabel)
    axis.grid(True, alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def legend_outside(figure: Figure, axis: Axes) -> None:
    """One legend below all panels, where it hides no curve."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 9), frameon=False)
