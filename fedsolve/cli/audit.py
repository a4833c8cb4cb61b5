"""`fedsolve audit`: what left a site, from its own log."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, in_line
from fedsolve.errors import DataError, UnknownName
from fedsolve.sites.audit import read_log
from fedsolve.sites.audit_summary import AuditedRun, audited

LOG = "audit.jsonl"  # in the store of a site
COUNTED = (
    "Counts are of all numbers, whole ones too, and of text by its length. The report of a run counts entries of "
    "arrays and floating-point numbers only, so that its counts can be smaller."
)
WHERE = f"What fedsolve writes down lies in {LOG}, in the folder that the site file names as its store"


def audit(log: Path, run: str | None, as_json: bool) -> int:
    """Say for each run in the log what left, how often, and what was refused. `log` may be the folder of the log."""
    log = log / LOG if log.is_dir() else log
    try:
        found = audited(read_log(log))
    except DataError as error:
        if _is_of_others(log):
            raise DataError(f"{error}. The file is not fedsolve's; NVFlare has an audit.log too. {WHERE}") from None
        if not log.exists():
            raise DataError(f"{error}. {WHERE}") from None
        raise
    if run is not None:
        chosen = [one for one in found if one.run.startswith(run)]
        if not chosen:
            raise UnknownName("run in this log", run, (one.run for one in found))
        found = chosen

    def show(console: Console) -> None:
        if not found:
            console.print("Nothing has left: the log is empty.")
        for before, one in zip([None, *found], found, strict=False):
            _show(console, one, before)
        if any(one.sent for one in found):
            console.print(f"[dim]{COUNTED}[/dim]", soft_wrap=True)

    emit({"log": log, "runs": [one.plain() for one in found]}, as_json, show)
    return 0


def _is_of_others(log: Path) -> bool:
    """Whether the first line of a file has nothing of a log of ours: each line of these is a JSON object."""
    try:
        with log.open("rb") as file:
            return not file.readline(1000).lstrip().startswith(b"{")
    except OSError:
        return False


def _show(console: Console, one: AuditedRun, before: AuditedRun | None) -> None:
    console.print(f"[bold]{in_line(f'Run {one.run}' if one.run else 'Without a run')}[/bold], {in_line(one.title())}")
    if about := one.about():
        console.print(f"  {in_line(about)}", soft_wrap=True)
    for title, lines, same in (
        ("Sent", one.sentences(), None),
        ("May ask for", one.may_send, before and before.may_send),
        ("Never leaves", one.stays, before and before.stays),
    ):
        if lines and lines == same:
            console.print(f"  {title}: as for the run before")
            continue
        if lines:
            console.print(f"  {title}:")
        for line in lines:
            console.print(f"    {in_line(line)}", soft_wrap=True)
    if one.starts > 1:
        console.print(f"  The site's computation started {one.starts} times.")
    for what, said in (("Refused", one.refused), ("Failed", one.failed)):
        for text, times in said.items():
            often = "" if times == 1 else f" ({times} times)"
            console.print(f"  [yellow]{what}{often}[/yellow]: {in_line(text)}", soft_wrap=True)
