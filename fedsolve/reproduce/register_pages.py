"""The register as pages of the documentation: a table for each paper, from its statements and the saved results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedsolve.reproduce.register import PACKAGES, Answer, Judged, judged
from fedsolve.reproduce.saved_results import Saved
from fedsolve.wire.storage import write_atomically

ORDER: tuple[Answer, ...] = ("yes", "NO", "open", "not run", "not testable")


def counted(found: Sequence[Judged]) -> str:
    """How many statements, and what came of them: "12 statements: 8 yes, 2 NO, 2 not testable"."""
    answers = Counter(one.answer for one in found)
    parts = ", ".join(f"{answers[answer]} {answer}" for answer in ORDER if answers[answer])
    return f"{len(found)} statements" + (f": {parts}" if parts else "")


def page(paper: str) -> str:
    """The page of a paper, in Markdown."""
    found, short = judged(paper), PACKAGES[paper]
    lines = [
        f"# {paper}: every claim",
        "",
        f"{counted(found)}. `fedsolve reproduce --claims {short}` prints this from saved results. The last column has",
        "the experiment, which `fedsolve reproduce NAME` repeats. How the results came about is described in",
        f"[{short}.md]({short}.md). This page is made by `fedsolve reproduce --claims --output docs/reproduce`.",
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
    runs = {one.statement.experiment: one.saved for one in found if one.saved is not None}
    if runs:
        lines += [
            "",
            "Seconds are processor time; “elapsed” marks older runs, whose seconds were taken from the clock.",
            "",
            "| experiment | command | seeds | seconds | version | date |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {name} | `{run.command}` | {run.seeds} | {_seconds(run)} | {run.version} | {run.date} |"
            for name, run in runs.items()
        ]
    return "\n".join(lines) + "\n"


def write_pages(folder: Path) -> list[Path]:
    """Write the page of every paper that has a register."""
    paths = []
    for paper, package in PACKAGES.items():
        if judged(paper):
            path = folder / f"{package}-claims.md"
            write_atomically(path, page(paper).encode())
            paths.append(path)
    return paths


def _seconds(run: Saved) -> str:
    return f"{run.seconds:g}" + ("" if run.clock == "processor" else " elapsed")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
