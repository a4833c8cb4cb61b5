"""The report of a run, and of a comparison, as one page each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsolve.inference import FederationGains, Summary
from fedsolve.inference.legend import replaced_by
from fedsolve.loop.history import Row, Run
from fedsolve.loop.stopping import rounds_in_words
from fedsolve.models import Model
from fedsolve.report import accounts, sent_words
from fedsolve.report.coefficients_section import coefficients_section
from fedsolve.report.evaluation import page_section
from fedsolve.report.figures import MOST_COLOURED, shows_slope
from fedsolve.report.fitted import lost_at_the_end, what_was_fitted, who_took_part
from fedsolve.report.gain_section import gain_section
from fedsolve.report.html_parts import (
    Html,
    badge,
    code,
    element,
    figures,
    folded,
    image,
    page,
    paragraph,
    section,
    table,
)
from fedsolve.report.result_words import result_sentences
from fedsolve.report.tables import BAD, COLUMNS, GOOD, LIMITS, number, size

MOST_ROWS = 25
SLOPE = (
    "The dotted “slope of ∏ cₜ” is the algorithm's own theory: the factors cₜ = 1 − λ̄_n/ρ̄_t, from the eigenvalues that "
    "the sites sent, multiplied up. For least squares it bounds how fast the distance to the solution falls, for "
    "other losses in the limit; it begins at the first gradient norm, so that only slopes compare."
)

DIVERGED = "Do not use this model: the run diverged, so its coefficients and predictions mean nothing."


@dataclass(frozen=True)
class About:
    """What a page says besides the runs themselves."""

    title: str
    described: str  # the data and the clients, in a few words
    command: str  # that makes it again
    figure: bytes | None = None
    config: str | None = None  # the run file
    feature_names: Sequence[str] | None = None
    held_out: bytes | None = None  # the figure of held-out rows
    inferred: Summary | str | None = None  # standard errors, or why there are none
    forest: bytes | None = None  # their figure
    outcome: str | Sequence[str] | None = None  # what is predicted, by name
    story: Sequence[str] = ()  # of a comparison: what came out, in sentences before its table
    drawn: Sequence[str] = ()  # and the lines of its figure in their order, where it is not that of the table
    shows: str = "Gradient norm and value against rounds and bytes"  # the figure, for those who do not see it


def run_page(about: About, run: Run, summary: Mapping[str, Any], gains: FederationGains | str | None = None) -> str:
    """One run, for people who have to answer for it: what was fitted, by whom, what left each site, what came out and
    how good it is; then what engineers ask. `gains` may be the reason why there are none."""
    clients = summary.get("clients") or ()
    listed = isinstance(
        about.inferred, Summary
    )  # then the coefficients are in the units of the columns, and come first
    rows, lost = sum(one["samples"] for one in clients), lost_at_the_end(run)
    kept = sum(one["samples"] for one in clients if one["name"] not in lost)
    return page(
        about.title,
        paragraph(about.described, kind="quiet"),
        *map(paragraph, result_sentences(run, rows, about.inferred, about.outcome)),
        _ending(run.status, run.message),
        paragraph(DIVERGED, kind="warning") if run.status == "diverged" else "",
        *_warnings([run]),
        figures(_first_numbers(summary, run)),
        what_was_fitted(run, about.outcome, rows, kept),
        who_took_part(run, clients),
        section(
            "What left each site",
            *sent_words.section_parts(run),
        ),
        *(() if listed else (section("Model", *_model(run.model, about.feature_names)),)),
        "" if about.inferred is None else coefficients_section(about.inferred, about.forest),
        "" if run.evaluation is None else page_section(run.evaluation, about.held_out),
        "" if gains is None else gain_section(gains),
        _columns([run]),
        _technical(about, run, summary, listed),
        _making(about, [(summary["algorithm"], summary["hyper_parameters"])], run.seed),
    )


def _technical(about: About, run: Run, summary: Mapping[str, Any], listed: bool) -> Html:
    """What engineers ask: how far the run got and what it took. `listed`: the weights are in no table above."""
    return section(
        "Technical details",
        figures(_technical_numbers(summary)),
        section("How close to the best fit", paragraph(certificate_sentence(run)), level=3),
        _convergence(about, {summary["algorithm"]: run}, level=3),
        section("History", *_history(run.history), level=3),
        section("What was sent, in bytes", *accounts.tables(run.all_sent(), level=4), level=3),
        *((section("Weights", *_model(run.model, about.feature_names), level=3),) if listed else ()),
    )


def comparison_page(
    about: About,
    rows: Sequence[Mapping[str, Any]],
    runs: Mapping[str, Run],
    columns: Sequence[str],
    said: str = "",
    costs: Html | str = "",
    side_by_side: Html | None = None,
) -> str:
    """Several runs on one problem: `rows` are those of the table, `runs` the finished ones by label. `costs` is a
    section of its own (`report.costs`), and so is `side_by_side` (`report.comparison_table`), which takes the place of
    the table."""
    failed = [row for row in rows if row["algorithm"] not in runs]
    inner = [
        folded(
            label,
            _ending(run.status, run.message),
            paragraph(certificate_sentence(run)),
            "" if run.evaluation is None else page_section(run.evaluation, None, level=3),
            element("h3", "History"),
            *_history(run.history),
            element("h3", "What left each site"),
            *sent_words.section_parts(run, level=4),
            element("h3", "What was sent, in bytes"),
            *accounts.tables(run.all_sent(), level=4),
            element("h3", "Model"),
            *_model(run.model, about.feature_names),
        )
        for label, run in runs.items()
    ]
    headings = [(COLUMNS[key][0], COLUMNS[key][2] == "right") for key in columns]
    cells = [[_cell(key, row.get(key)) for key in columns] for row in rows]
    return page(
        about.title,
        paragraph(about.described, kind="quiet"),
        *map(paragraph, about.story),
        *_warnings(runs.values()),
        side_by_side
        or section("Side by side", table(headings, cells, label="All runs"), paragraph(said) if said else ""),
        *(_failed(row) for row in failed),
        costs,
        _convergence(about, runs),
        section("One by one", *inner),
        _columns(runs.values()),
        _making(
            about,
            [(row["algorithm"], row["hyper_parameters"]) for row in rows if "hyper_parameters" in row],
            next((run.seed for run in runs.values()), None),
        ),
    )


def certificate_sentence(run: Run) -> str:
    """What is known of the distance to the optimum, and no more."""
    measured = next((row for row in reversed(run.history) if row.gradient_norm is not None), None)
    if measured is None or measured.gradient_norm is None:
        valued = next((row for row in reversed(run.history) if row.value is not None), None)
        if valued is None:
            return "Nothing was measured, so nothing is known of the distance to the optimum."
        return (
            f"The value is {number(valued.value, 6)} after round {valued.round}. No gradient was measured, so nothing "
            "is known of the distance to the optimum."
        )
    if run.status == "diverged" or not math.isfinite(measured.gradient_norm):
        return "The run did not end at an optimum, so nothing is certified."
    said = f"The norm of the gradient is {number(measured.gradient_norm)} after round {measured.round}"
    if measured.measured_share < 1 - 1e-12:
        return (
            f"{said}, but only sites with {measured.measured_share:.0%} of the weight were asked or answered: "
            "it certifies nothing about the objective of all."
        )
    proof = run.certificate
    if proof is None:
        return (
            f"{said}. There is no certificate for the value: the penalty does not reach every coordinate, and this "
            "algorithm does not know the Newton decrement."
        )
    if proof.is_bound:
        return (
            f"{said}, so the objective is at most {number(proof.gap)} above its minimum: a bound, by strong convexity "
            "(‖g‖²/2μ), up to the rounding of the gradient itself."
        )
    return (
        f"{said}, and half the squared Newton decrement says that the objective is about {number(proof.gap)} above its "
        "minimum: an estimate, exact for a quadratic, otherwise to second order near the optimum, and no bound."
    )


def thinned(rows: Sequence[Row], most: int = MOST_ROWS) -> list[Row]:
    """At most so many rows: the first ones, the last, and others at even distances."""
    if len(rows) <= most:
        return list(rows)
    first = most // 3
    rest = most - first
    picked = [*range(first), *(first + round(k * (len(rows) - 1 - first) / (rest - 1)) for k in range(rest))]
    return [rows[index] for index in picked]


# ── parts ──


def _cell(key: str, value: object) -> Html | str:
    text = str(COLUMNS[key][1](value))
    look = "good" if value in GOOD else "bad" if value in BAD else None
    return element("span", text, class_=look) if key == "status" else text


def _failed(row: Mapping[str, Any]) -> Html:
    """Why an algorithm of a comparison has no run; that a problem is not for it is no fault."""
    good = False if row["status"] in BAD else None
    name, message = str(row["algorithm"]), str(row["message"])
    said = message if message.startswith(f"{name} ") else f"{name}: {message}"
    return paragraph(badge(row["status"], good), f" {said}.")


def _ending(status: str, message: str) -> Html:
    good = True if status in GOOD else False if status in BAD else None
    return paragraph(badge(LIMITS.get(status, status), good), f" {message[:1].upper()}{message[1:]}.")


def _warnings(runs: Iterable[Run]) -> list[Html]:
    """What to know before the results are used, each sentence once."""
    said = dict.fromkeys(notice for run in runs for notice in run.notices)
    return [paragraph(f"{one[:1].upper()}{one[1:]}.", kind="warning") for one in said]


def _first_numbers(summary: Mapping[str, Any], run: Run) -> list[tuple[str, str]]:
    clients, model, lost = summary.get("clients") or (), run.model, lost_at_the_end(run)
    found = []
    for name, sizes in (("sites", [1 for _ in clients]), ("rows", [one["samples"] for one in clients])):
        fitted = sum(size for size, one in zip(sizes, clients, strict=True) if one["name"] not in lost)
        found.append((name, f"{fitted:,} of {sum(sizes):,}" if fitted < sum(sizes) else f"{fitted:,}"))
    found = found if clients else []
    found += [
        ("rounds", str(summary["rounds"])),
        ("sent by the sites, in all", size(summary["sent"]["all"]["bytes_up"])),
        ("received by them", size(summary["sent"]["all"]["bytes_down"])),
    ]
    for where, value in (summary.get("scores") or {}).items():
        if value is not None:
            kind = model.score_name if isinstance(model, Model) else "score"
            found.append((f"{kind}, {where}ing data", f"{value:.4g}"))
    return [(name, said) for name, said in found if said != "–"]


def _technical_numbers(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [
        ("value of the objective", number(summary["value"], 6)),
        ("‖gradient‖", number(summary["gradient_norm"])),
        ("sent up, to fit", size(summary["bytes_up"])),
        ("sent down, to fit", size(summary["bytes_down"])),
        ("seconds", f"{summary['seconds']:.2f}"),
    ]
    return [(name, said) for name, said in found if said != "–"]


def _convergence(about: About, runs: Mapping[str, Run], level: int = 2) -> Html | str:
    """The figure, what it says for those who do not see it, and whose lines are grey."""
    if about.figure is None:
        return ""
    order = list(about.drawn or runs)
    ends = "; ".join(_end_in_words(label, runs[label]) for label in order[:MOST_COLOURED] if label in runs)
    drawn = image(about.figure, f"{about.shows}. {about.title}.{f' {ends}.' if ends else ''}")
    grey = order[MOST_COLOURED:]
    others = paragraph(f"In grey: {', '.join(grey)}.", kind="quiet") if grey else ""
    told = not grey and any(shows_slope(run.history) for run in runs.values())
    return section("Convergence", drawn, others, paragraph(SLOPE, kind="quiet") if told else "", level=level)


def _end_in_words(label: str, run: Run) -> str:
    norms = [row.gradient_norm for row in run.history if row.gradient_norm is not None]
    fall = f", gradient norm from {number(norms[0])} to {number(norms[-1])}" if norms else ""
    return f"{label}: {LIMITS.get(run.status, run.status)} after {rounds_in_words(run.rounds)}{fall}"


def _model(model: object, names: Sequence[str] | None) -> list[Html]:
    if not isinstance(model, Model):
        return [paragraph(f"A {type(model).__name__}.")]
    found = model.described(names)
    parts = [paragraph(sentence) for sentence in found.sentences]
    if found.rows:
        headings = [(heading, place > 0) for place, heading in enumerate(found.headings)]
        return [*parts, table(headings, [list(row) for row in found.rows])]
    return [*parts, paragraph("It is in model.npz.")]


def _columns(runs: Iterable[Run]) -> Html | str:
    """What the clients' raw columns lack: the same for all runs on one problem."""
    transforms = (getattr(run.model, "transform", None) for run in runs)
    transform = next((one for one in transforms if one is not None), None)
    gaps = [] if transform is None else transform.gaps()
    if not gaps:
        return ""
    known = {column.name: replaced_by(column) for column in getattr(transform, "columns", ())}
    rows = [
        [name, f"{missing:.1%}", (known.get(name) or "–") if missing else "–", f"{unseen:.1%}"]
        for name, missing, unseen in gaps
    ]
    said = (
        "Shares of all rows, by their weights where they have any; columns without gaps are left out. Computed from "
        "sums over the sites."
    )
    headings = [("column", False), ("missing", True), ("replaced by", False), ("in no declared category", True)]
    return section("Missing and unseen cells", table(headings, rows), paragraph(said, kind="quiet"))


def _history(rows: Sequence[Row]) -> list[Html]:
    shown = thinned(rows)
    names = ["round", "value", "‖gradient‖", "gap", "up", "down", "seconds", "sites", "weight"]
    watched = any(row.held_out is not None for row in rows)
    lines = [
        (
            str(row.round),
            number(row.value, 8),
            number(row.gradient_norm),
            "–" if row.gap is None else f"{'≤' if row.gap_is_bound else '≈'} {number(row.gap)}",
            size(row.bytes_up),
            size(row.bytes_down),
            f"{row.seconds:.2f}",
            str(row.cohort),
            f"{row.share:.0%}",
            *((_held_out(row),) if watched else ()),
        )
        for row in shown
    ]
    names += ["held-out loss"] if watched else []
    left_out = f" {len(shown)} of {len(rows)} rounds; all are in history.jsonl." if len(shown) < len(rows) else ""
    said = "Bytes are the algorithm's, of all sites, from the start; gap is the certificate for f − f*."
    return [table([(name, True) for name in names], lines), paragraph(said + left_out, kind="quiet")]


def _held_out(row: Row) -> str:
    """The loss on held-out rows, and the AUC where there is one."""
    found = row.held_out or {}
    area = f" (AUC {found['auc']:.3f})" if "auc" in found else ""
    return number(found.get("value"), 4) + area


def _making(about: About, made: Sequence[tuple[str, str]], seed: int | None) -> Html:
    parts: list[Html] = [element("h3", "To repeat it"), code(about.command)]
    if about.config is not None:
        parts += [element("h3", "Run file"), code(about.config)]
    if made:
        parts.append(element("h3", "Hyper-parameters"))
        parts.append(code("\n".join(f"{label}: {described}" for label, described in made)))
    if seed is not None:
        parts.append(paragraph(f"Seed {seed}.", kind="quiet"))
    return section("How it was made", *parts)
