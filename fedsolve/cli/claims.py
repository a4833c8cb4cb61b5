"""`fedsolve reproduce --claims`: every statement of the papers, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedsolve.cli.console import emit, escape
from fedsolve.report.tables import plain_table
from fedsolve.reproduce.register import PACKAGES, Judged, find_paper, judged, runs_beside, runs_of
from fedsolve.reproduce.register_pages import changed, counted, seconds, write_pages
from fedsolve.reproduce.saved_results import Saved

STYLES = {"yes": "green", "NO": "bold red", "open": "yellow", "not run": "yellow", "not testable": "dim"}


def claims(paper: str | None, pages: Path | None, as_json: bool) -> int:
    """Print the register of a paper, or of all; with `pages` also write it as Markdown. A NO is a result: status 0."""
    papers = list(PACKAGES) if paper is None else [find_paper(paper)]
    found = {one: judged(one) for one in papers}
    written = [] if pages is None else write_pages(pages)

    def show(console: Console) -> None:
        for name, register in found.items():
            if register:
                _show(console, register)
            console.print(f"[bold]{escape(name)}[/bold]: {escape(counted(register))}. {escape(changed(register))}")
            for runs in (runs_of(register), runs_beside(name)):
                if runs:
                    _show_runs(console, runs)
        for path in written:
            console.print(f"Written: {escape(str(path))}", soft_wrap=True)

    plain = {
        name: {
            "counts": counted(register),
            "changed": sum(one.statement.was_changed for one in register),
            "statements": [one.plain() for one in register],
        }
        for name, register in found.items()
    }
    emit({"status": "ok", "papers": plain, "pages": written}, as_json, show)
    return 0


def _show(console: Console, register: list[Judged]) -> None:
    for one in register:
        it = one.statement
        heading = Text.assemble((one.answer, STYLES[one.answer]), "  ", (it.place, "bold"))
        console.print(heading.append(f"  ({it.experiment})" if it.experiment else ""), soft_wrap=True)
        table = plain_table()
        table.show_header = False
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        said = "; ".join(dict.fromkeys(one.said)) or it.untestable
        told = {"says": it.says, "rule": it.rule, "found": said, "why": it.explanation}
        for name, words in told.items():
            if words:
                table.add_row(name, Text(words))
        console.print(Padding(table, (0, 0, 1, 2)))


def _show_runs(console: Console, runs: Mapping[str, Saved]) -> None:
    table = plain_table()
    for heading in ("command", "seeds", "seconds", "version", "commit", "date"):
        table.add_column(heading, overflow="fold")
    for run in runs.values():
        table.add_row(Text(run.command), str(run.seeds), seconds(run), run.version, run.commit or "–", run.date)
    console.print(Padding(table, (0, 0, 1, 0)))
