"""`fedsolve audit`: what left a site, from its own log."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, escape
from fedsolve.errors import UnknownName
from fedsolve.sites.audit import read_log
from fedsolve.sites.audit_summary import AuditedRun, audited


def audit(log: Path, run: str | None, as_json: bool) -> int:
    """Say for each run in the log what left, how often, and what was refused."""
    found = audited(read_log(log))
    if run is not None:
        chosen = [one for one in found if one.run.startswith(run)]
        if not chosen:
            raise UnknownName("run in this log", run, (one.run for one in found))
        found = chosen

    def show(console: Console) -> None:
        if not found:
            console.print("Nothing has left: the log is empty.")
        for one in found:
            _show(console, one)

    emit({"log": log, "runs": [one.plain() for one in found]}, as_json, show)
    return 0


def _show(console: Console, one: AuditedRun) -> None:
    console.print(f"[bold]{escape(f'Run {one.run}' if one.run else 'Without a run')}[/bold], {escape(one.title())}")
    for line in one.sentences():
        console.print(f"  {escape(line)}", soft_wrap=True)
    if one.starts > 1:
        console.print(f"  The site's computation started {one.starts} times.")
    for what, said in (("Refused", one.refused), ("Failed", one.failed)):
        for text, times in said.items():
            often = "" if times == 1 else f" ({times} times)"
            console.print(f"  [yellow]{what}{often}[/yellow]: {escape(text)}", soft_wrap=True)
