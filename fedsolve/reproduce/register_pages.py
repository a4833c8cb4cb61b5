"""The register as pages of the documentation: a table for each paper, from its statements and the saved results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsolve.reproduce.register import FULL, PACKAGES, Answer, Judged, judged, runs_beside, runs_of
from fedsolve.reproduce.saved_results import Saved
from fedsolve.wire.storage import write_atomically

CLOCK = (
    "Seconds are processor time; “elapsed” marks older runs, whose seconds were taken from the clock. “+” behind a "
    "commit marks a library that had been changed since; commits are not known of older runs."
)
FROM_PARTS = (
    "The table of a full form is made from its parts in [parts](parts/), each of which has its own seconds; "
    "`scripts/claims` copies them to where the command looks for them."
)
ORDER: tuple[Answer, ...] = ("yes", "NO", "open", "not run", "not testable")


def counted(found: Sequence[Judged]) -> str:
    """How many statements, and what came of them: "12 statements: 8 yes, 2 NO, 2 not testable"."""
    answers = Counter(one.answer for one in found)
    parts = ", ".join(f"{answers[answer]} {answer}" for answer in ORDER if answers[answer])
    return f"{len(found)} statements" + (f": {parts}" if parts else "")


def changed(found: Sequence[Judged]) -> str:
    """How many rules are not as they were before the first run, in a sentence."""
    count = sum(one.statement.was_changed for one in found)
    if not count:
        return "All rules are as they were before the first run."
    if count == 1:
        return "One rule was changed when a result was known, and says so."
    return f"{count} rules were changed when a result was known, and say so."


def page(paper: str) -> str:
    """The page of a paper, in Markdown."""
    found, short = judged(paper), PACKAGES[paper]
    lines = [
        f"# {paper}: every claim",
        "",
        f"{counted(found)}. {changed(found)}",
        f"`fedsolve reproduce --claims {short}` prints this from saved results. The last column has the experiment,",
        "which `fedsolve reproduce NAME` repeats; [the table of runs](#runs) has its seeds, seconds, version and date.",
        f"How the results came about is described in [{short}.md]({short}.md). This page is made by",
        "`fedsolve reproduce --claims --output docs/reproduce`.",
        "",
        "| place | statement | rule | answer | found | experiment |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        it = one.statement
        said = "; ".join(dict.fromkeys(one.said)) or it.untestable
        said = f"{said}. {it.explanation}" if it.explanation else said
        answer = f"**{one.answer}**" if one.answer == "NO" else one.answer
        lines.append("| " + " | ".join(map(_cell, (it.place, it.says, it.rule, answer, said, it.experiment))) + " |")
    if runs := runs_of(found):
        lines += ["", "## Runs", "", CLOCK, *([FROM_PARTS] if any(name.endswith(FULL) for name in runs) else []), ""]
        lines += _runs_table(runs)
    if beside := runs_beside(paper):
        lines += ["", "## Beyond the paper", "", "These runs judge no statement; the text says what they are for.", ""]
        lines += _runs_table(beside)
    return "\n".join(lines) + "\n"


def _runs_table(runs: Mapping[str, Saved]) -> list[str]:
    lines = ["| experiment | command | seeds | seconds | version | commit | date |", "|---|---|---|---|---|---|---|"]
    for name, run in runs.items():
        facts = (name, f"`{run.command}`", run.seeds, seconds(run), run.version, run.commit or "–", run.date)
        lines.append("| " + " | ".join(map(str, facts)) + " |")
    return lines


def write_pages(folder: Path) -> list[Path]:
    """Write the page of every paper that has a register."""
    paths = []
    for paper, package in PACKAGES.items():
        if judged(paper):
            path = folder / f"{package}-claims.md"
            write_atomically(path, page(paper).encode())
            paths.append(path)
    return paths


def seconds(run: Saved) -> str:
    """The seconds of a run, and by which clock."""
    return f"{run.seconds:g}" + ("" if run.clock == "processor" else " elapsed")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
