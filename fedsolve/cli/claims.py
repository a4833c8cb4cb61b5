"""`fedsolve reproduce --claims`: every statement of the papers, and what came of it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from fedsolve.cli.console import emit, escape
from fedsolve.report.tables import plain_table
from fedsolve.reproduce.register import PACKAGES, Judged, find_paper, judged
from fedsolve.reproduce.register_pages import counted, write_pages

STYLES = {"yes": "green", "NO": "bold red", "open": "yellow", "not run": "yellow", "not testable": "dim"}


def claims(paper: str | None, pages: Path | None, as_json: bool) -> int:
    """Print the register of a paper, or of all; with `pages` also write it as Markdown. A NO is a result: status 0."""
    papers = list(PACKAGES) if paper is None else [find_paper(paper)]
    found = {one: judged(one) for one in papers}
    written = [] if pages is None else write_pages(pages)

    def show(console: Console) -> None:
        for name, register in found.items():
            console.print(f"[bold]{escape(name)}[/bold]: {escape(counted(register))}")
            if register:
                _show(console, register)
        for path in written:
            console.print(f"Written: {escape(str(path))}", soft_wrap=True)

    plain = {
        name: {"counts": counted(register), "statements": [one.plain() for one in register]}
        for name, register in found.items()
    }
    emit({"status": "ok", "papers": plain, "pages": written}, as_json, show)
    return 0


def _show(console: Console, register: list[Judged]) -> None:
    table = plain_table()
    for heading in ("place", "statement", "answer", "found"):
        table.add_column(heading, no_wrap=heading == "answer", overflow="fold")
    for one in register:
        said = "; ".join(dict.fromkeys(one.said)) or one.statement.untestable
        said = f"{said}. {one.statement.explanation}" if one.statement.explanation else said
        table.add_row(
            Text(one.statement.place), Text(one.statement.says), Text(one.answer, STYLES[one.answer]), Text(said)
        )
    console.print(table)
