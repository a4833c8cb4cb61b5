"""Coefficients with their intervals: the section of a report."""

from __future__ import annotations

from fedsolve.inference import Summary
from fedsolve.inference.summarised import ERRORS
from fedsolve.inference.summary_text import cells, fit_figures, groups, headings
from fedsolve.report.html_parts import (
    MOST_SHOWN,
    Html,
    badge,
    element,
    figures,
    folded,
    image,
    long_table,
    paragraph,
    section,
    table,
)
from fedsolve.text import printable

TITLE = "Coefficients"


def coefficients_section(found: Summary | str, forest: bytes | None = None) -> Html:
    """For a report; of a text, that it is why there is no summary."""
    if isinstance(found, str):
        said = printable(found)
        return section(TITLE, paragraph(badge("not known", False), f" {said[:1].upper()}{said[1:]}."))
    said = (
        f"A {found.family} model in the units of the raw columns; standard errors are {ERRORS[found.errors]}. "
        "“standardised” is the change that one standard deviation of a numeric column makes."
    )
    heads = [(name or "column", place > 0) for place, name in enumerate(headings(found))]
    parts: list[Html] = []
    for place, (heading, lines) in enumerate(groups(found)):
        rows = [cells(found, one) for one in lines]
        label = f"Coefficients, {heading}" if heading else "Coefficients"
        if place and len(found.outcomes) * len(rows) > MOST_SHOWN:  # of many outcomes the first is open
            parts.append(folded(heading, table(heads, rows, label=label)))
            continue
        parts += [element("h3", heading)] if heading else []
        parts.append(long_table(heads, rows, label=label, more="coefficients"))
    told = [paragraph(printable(one)) for one in found.legend]
    notes = element("ul", *(element("li", printable(note)) for note in found.notes)) if found.notes else ""
    drawn = "" if forest is None else image(forest, f"Forest plot: coefficients of a {found.family} model")
    return section(TITLE, paragraph(said, kind="quiet"), figures(fit_figures(found)), drawn, *parts, *told, notes)
