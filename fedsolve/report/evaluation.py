"""What held-out rows say of a model, as a table for the terminal and the page, and as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_UP, Decimal
from typing import Any

from rich.table import Table
from rich.text import Text

from fedsolve.inference.evaluated import Evaluated, Figures
from fedsolve.inference.held_intervals import Interval, accuracy_interval, auc_interval
from fedsolve.report.figures import COLOURS, Axes, Figure, blank, legend_below, png
from fedsolve.report.html_parts import Html, element, image, long_table, paragraph, section
from fedsolve.report.tables import number, plain_table
from fedsolve.text import printable

ALL = "all sites"
_Write = Callable[[Figures], str]
MOST_LETTERS = 26  # of a name in the legend, which has the AUC too
MOST_CURVES = 6  # that a figure shows beside the one of all sites

EXPLAINED = (
    "Figures of rows that the model was not learned from, from sums over these rows. The AUC counts scores in bins: it "
    "is at most ± its error away from the exact one. Calibration is the mean distance of predicted from observed "
    "shares; a slope below 1 says that predictions are too extreme. A dash stands for what is not defined, such as the "
    "AUC of a client with one class only."
)
INTERVALS = (
    "95 % confidence intervals are in brackets: Wilson's for the accuracy, DeLong's for the AUC. They say how far "
    "chance in the held-out rows may go; small sites have wide ones."
)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _auc(one: Figures) -> str:
    if one.auc is None or one.auc_error is None:
        return "–"
    return f"{one.auc:.4f}" if one.auc_error < 5e-5 else f"{one.auc:.4f} ± {_rounded_up(one.auc_error)}"


def _rounded_up(bound: float) -> str:
    """A bound in one digit, rounded up: it is to stay one. What is shown of the AUC adds its own rounding, 5e-5."""
    exact = Decimal(bound + 5e-5)
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted()), rounding=ROUND_UP)):.1g}"


# A heading, how it is written, and whether a kind of loss has it.
_COLUMNS: tuple[tuple[str, Callable[[Figures], str], Callable[[Figures], bool]], ...] = (
    ("accuracy", lambda one: _share(one.accuracy), lambda all_: all_.accuracy is not None),
    ("AUC", _auc, lambda all_: all_.accuracy is not None),
    ("Brier", lambda one: number(one.brier, 3), lambda all_: all_.brier is not None),
    ("calibration", lambda one: number(one.calibration_error, 3), lambda all_: all_.accuracy is not None),
    ("slope", lambda one: number(one.calibration_slope, 3), lambda all_: all_.calibration_slope is not None),
)


def _with_interval(
    write: Callable[[Figures], str], interval: Callable[[Figures], Interval | None], digits: int
) -> _Write:
    """What is written, with its interval in brackets where there is one."""

    def written(one: Figures) -> str:
        found = interval(one)
        if found is None:
            return write(one)
        low, high = (f"{end:.0%}" if digits == 0 else f"{end:.{digits}f}" for end in found)
        return f"{write(one)} ({low} to {high})"

    return written


_INTERVALS: dict[str, tuple[Callable[[Figures], Interval | None], int]] = {
    "accuracy": (accuracy_interval, 0),
    "AUC": (auc_interval, 3),
}


def lines(found: Evaluated, intervals: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings, and a line for each client and one for all of them, which comes last; also intervals, if wanted."""
    shown = [(heading, write) for heading, write, has in _COLUMNS if has(found)]
    if intervals:
        shown = [
            (heading, _with_interval(write, *_INTERVALS[heading]) if heading in _INTERVALS else write)
            for heading, write in shown
        ]
    middle: list[tuple[str, Callable[[Figures], str]]] = [(found.error_name, lambda one: number(one.error, 4))]
    if found.d2 is not None:
        name = "R²" if found.error_name == "mean squared error" else "D²"
        middle.append((name, lambda one: number(one.d2, 3)))
    columns = [*middle, *shown]
    rows = [
        [name, str(one.samples), *(write(one) for _, write in columns)]
        for name, one in (*found.clients.items(), (ALL, found))
    ]
    return ["held-out rows of", "rows", *(heading for heading, _ in columns)], rows


def terminal(found: Evaluated) -> Table:
    """The table for a terminal."""
    headings, rows = lines(found)
    made = plain_table()
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        last = row is rows[-1]
        made.add_row(*(Text(printable(cell), style="bold" if last else "") for cell in row))
    if found.missing:
        made.caption = Text(printable(_without(found)))
    return made


def _without(found: Evaluated) -> str:
    """Whose rows are not in these figures."""
    said = ", ".join(f"{name} ({why})" if (why := found.reasons.get(name)) else name for name in found.missing)
    return f"Not in these figures: {said}."


def page_section(found: Evaluated, figure: bytes | None, level: int = 2) -> Html:
    """The section of a report, with a heading of this level."""
    headings, rows = lines(found, intervals=True)
    named = [(heading, place > 0) for place, heading in enumerate(headings)]
    parts = [long_table(named, rows[:-1], rows[-1], label="Figures on held-out rows, by site")]
    if figure is not None:
        parts.append(image(figure, _described(found)))
        if (others := len(found.clients) - MOST_CURVES) > 0:
            drawn = f"The figure has the curves of all sites together and of the first {MOST_CURVES}."
            parts.append(paragraph(f"{drawn} It leaves out {others:,}.", kind="quiet"))
    parts += [paragraph(element("strong", _without(found)))] if found.missing else []
    intervals = f" {INTERVALS}" if found.accuracy is not None else ""
    return section("Held-out rows", *parts, paragraph(EXPLAINED + intervals, kind="quiet"), level=level)


def _described(found: Evaluated) -> str:
    """What the figure shows, for those who do not see it."""
    area = "" if found.auc is None else f" The area under the ROC curve is {found.auc:.3f} for all sites together."
    error = found.calibration_error
    apart = "" if error is None else f" Predicted and observed shares are {error:.3f} apart on average."
    return f"ROC curves and calibration on held-out rows, of all sites and by site.{area}{apart}"


def figure(found: Evaluated) -> bytes | None:
    """ROC curve (of two classes) and calibration as a PNG; None where there are no classes."""
    return png(draw(found)) if found.calibration else None


def draw(found: Evaluated) -> Figure:
    """The same as a figure."""
    made = blank(10, 5.2)
    left, right = made.subplots(1, 2)
    every: Mapping[str, Figures] = {ALL: found, **dict(list(found.clients.items())[:MOST_CURVES])}
    for index, (name, one) in enumerate(every.items()):
        look = {"color": COLOURS[index], "linewidth": 2.2 if index == 0 else 1.0}
        if one.curve:
            left.plot(*zip(*_thinned(one.curve), strict=True), **look)
        if one.calibration:
            _, said, seen = zip(*one.calibration, strict=True)
            area = "" if one.auc is None else f" (AUC {one.auc:.3f})"
            right.plot(
                said,
                seen,
                marker="o",
                markersize=5 if index == 0 else 3,
                label=printable(name, MOST_LETTERS) + area,
                **look,
            )
    _dress(left, "false positive rate", "true positive rate")
    _dress(right, "predicted probability", "observed share")
    if not found.curve:
        left.text(0.5, 0.5, "a ROC curve is that of two classes", ha="center", va="center", alpha=0.6)
    legend_below(made, right)
    return made


def _thinned(curve: tuple[tuple[float, float], ...], most: int = 800) -> tuple[tuple[float, float], ...]:
    step = max(1, len(curve) // most)
    return (*curve[:-1:step], curve[-1])


def _dress(axis: Axes, x: str, y: str) -> None:
    axis.plot([0, 1], [0, 1], linestyle=":", color="#888888", linewidth=1.0)
    axis.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axis.grid(True, alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def for_summary(found: Evaluated | None) -> dict[str, Any] | None:
    """What summary.json and `--json` hold of it."""
    return None if found is None else found.plain()
