"""A summary as text and as LaTeX."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedsolve.inference.summary_rows import Coefficient
from fedsolve.text import printable

if TYPE_CHECKING:
    from fedsolve.inference.summarised import Summary

HEADS = {"model": "std. error", "robust": "robust s.e.", "clustered": "clustered s.e."}
SAID = {"model": "model-based", "robust": "robust (HC0)", "clustered": "robust, clustered by site"}
LEAST_COLUMNS = 6  # up to the interval
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    one: "\\" + one for one in "&%$#_{}"
}


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−") if value == 0 or 1e-4 <= abs(value) < 1e6 else _scientific(value)


def _scientific(value: float) -> str:
    return f"{value:.2e}".replace("-", "−")


def p_value(value: float | None) -> str:
    """As statisticians write it."""
    return "–" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends."""
    return "–" if low is None or math.isnan(low) else f"{number(low)} to {number(high)}"


def headings(summary: Summary) -> list[str]:
    """Of the table."""
    level = f"{100 * summary.level:g} % interval"
    heads = ["", "estimate", HEADS[summary.errors], "t" if summary.use_t else "z", "p", level]
    if summary.ratio_name is not None:
        heads += [summary.ratio_name, level]
    others = [HEADS[kind] for kind in HEADS if kind in summary.covariances and kind != summary.errors]
    return [*heads, *others, "standardised"]


def cells(summary: Summary, one: Coefficient) -> list[str]:
    """One line of the table."""
    found = [printable(one.name), number(one.estimate), number(one.error), number(one.z, 3), p_value(one.p)]
    found.append(interval(one.low, one.high))
    if summary.ratio_name is not None:
        found += [number(one.ratio), interval(one.ratio_low, one.ratio_high)]
    found += [number(one.errors[kind]) for kind in HEADS if kind in one.errors and kind != summary.errors]
    return [*found, number(one.standardised)]


def groups(summary: Summary) -> list[tuple[str, list[Coefficient]]]:
    """The lines of each outcome, with a heading where there are several."""
    every, size = summary.coefficients(), len(summary.names)
    return [
        (printable(f"{outcome} against {summary.reference}") if outcome else "", every[a * size : (a + 1) * size])
        for a, outcome in enumerate(summary.outcomes)
    ]


def fit_figures(summary: Summary) -> list[tuple[str, str]]:
    """The figures of the fit, with their names."""
    fit = summary.fit
    missing = "fewer than 5" if summary.missing_cells is None else f"{summary.missing_cells:,}"
    found = [
        ("rows", f"{summary.rows:,}"),
        ("missing cells imputed", missing),
        ("sites", str(len(summary.sites))),
        ("parameters" if not summary.l2 else "effective parameters", number(fit.parameters, 6)),
        ("residual degrees of freedom", number(fit.residual_df, 9)),
        ("log-likelihood", number(fit.log_likelihood, 8)),
        ("deviance", number(fit.deviance, 8)),
        ("null deviance", number(fit.null_deviance, 8)),
        ("AIC", number(fit.aic, 8)),
        ("BIC", number(fit.bic, 8)),
    ]
    if summary.family == "Gaussian":
        found += [("scale (residual variance)", number(fit.scale, 6)), ("R²", number(fit.r_squared))]
        found += [("adjusted R²", number(fit.adjusted_r_squared))]
    else:
        found += [("McFadden's R²", number(fit.mcfadden))]
    return found


def as_text(summary: Summary, width: int | None = None) -> str:
    """The whole summary; where it would be wider than `width`, without its last columns."""
    title = f"{summary.family} model, {SAID[summary.errors]} standard errors"
    figures = fit_figures(summary)
    half = (len(figures) + 1) // 2
    widths = [max(len(name) for name, _ in part) for part in (figures[:half], figures[half:])]
    most = max(len(value) for _, value in figures[:half])
    lines = []
    for place, (name, value) in enumerate(figures[:half]):
        line = f"{name:<{widths[0]}}  {value:>{most}}"
        if half + place < len(figures):
            other, written = figures[half + place]
            line += f"    {other:<{widths[1]}}  {written:>12}"
        lines.append(line)
    parts = [title, "=" * len(title), *lines, "", *_aligned(summary, width), *map(printable, summary.legend)]
    return "\n".join([*parts, *([""] if summary.notes else []), *(f"• {note}" for note in summary.notes)])


def _aligned(summary: Summary, width: int | None) -> list[str]:
    heads, parts = headings(summary), groups(summary)
    bodies = [[cells(summary, one) for one in part] for _, part in parts]
    widths = [max(len(row[i]) for row in (heads, *(row for body in bodies for row in body))) for i in range(len(heads))]
    shown = len(widths)
    while width is not None and shown > LEAST_COLUMNS and sum(widths[:shown]) + 2 * (shown - 1) > width:
        shown -= 1
    heads, widths, bodies = heads[:shown], widths[:shown], [[row[:shown] for row in body] for body in bodies]

    def line(row: list[str]) -> str:
        first, *rest = (
            f"{one:<{w}}" if i == 0 else f"{one:>{w}}" for i, (one, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join([first, *rest]).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [line(heads), rule]
    for (said, _), body in zip(parts, bodies, strict=True):
        lines += [said] * bool(said) + [line(row) for row in body] + [rule]
    return lines


def as_latex(summary: Summary) -> str:
    """A tabular with booktabs rules."""
    heads = headings(summary)
    lines = [r"\begin{tabular}{l" + "r" * (len(heads) - 1) + "}", r"\toprule", _row(heads), r"\midrule"]
    for place, (said, part) in enumerate(groups(summary)):
        lines += [r"\midrule"] * (place > 0)
        if said:
            lines.append(rf"\multicolumn{{{len(heads)}}}{{l}}{{{_escaped(said)}}} \\")
        lines += [_row(cells(summary, one)) for one in part]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _row(row: list[str]) -> str:
    return " & ".join(map(_escaped, row)) + r" \\"


def _escaped(text: str) -> str:
    found = "".join(_LATEX.get(one, one) for one in text)
    for plain, written in (("−", "$-$"), ("–", "--"), ("∞", r"$\infty$"), ("²", "$^2$"), ("<", "$<$")):
        found = found.replace(plain, written)
    return found
