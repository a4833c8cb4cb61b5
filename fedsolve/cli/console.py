"""How commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape as rich_escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fedsolve.loop.history import Row
from fedsolve.report.json_values import to_json
from fedsolve.report.tables import number, size
from fedsolve.text import printable

OnRound = Callable[[Row], None]


class Interrupted(Exception):
    """Ctrl-C, with a sentence on how to go on."""


def output() -> Console:
    """Standard output, wide enough for every table where it is not a terminal."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)


def emit(result: Mapping[str, object], as_json: bool, show: Callable[[Console], None]) -> None:
    """One JSON object for machines, or what `show` prints for people."""
    if as_json:
        print(to_json(result))
    else:
        show(output())


def say(text: str) -> None:
    """A sentence on standard error."""
    print(printable(text, lines=True), file=sys.stderr)


def tell(notes: Sequence[str]) -> None:
    """What was recognised in the files of a run, a sentence each, on standard error."""
    for note in notes:
        say(note)


def escape(text: str) -> str:
    """Text for a rich console, in which neither markup nor control characters are obeyed."""
    return rich_escape(printable(text, lines=True))


def in_line(text: str) -> str:
    """The same for what must not look like more than one line: words of others, who may have written line breaks."""
    return rich_escape(printable(text))


def warned(notice: str) -> str:
    """A notice as markup: a sentence that stands out."""
    said = notice[:1].upper() + notice[1:]
    return f"[yellow]{escape(said if said.endswith('.') else said + '.')}[/yellow]"


@contextmanager
def steps_bar(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar for work that is done step by step: call it with how many are done, of how many, and what is next."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=1, note="")
        yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)


@dataclass(frozen=True)
class RunBar:
    """The bar of one run: called with each finished round."""

    progress: Progress
    task: TaskID

    def __call__(self, row: Row) -> None:
        norm = "" if row.gradient_norm is None else f"‖gradient‖ {number(row.gradient_norm)}  "
        self.progress.update(self.task, completed=row.round, note=norm + size(row.bytes_up + row.bytes_down))

    def say(self, what: str) -> None:
        """What is being done where no round is."""
        self.progress.update(self.task, note=what)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int], RunBar]]:
    """A bar per run on standard error, if a person sits there; `begin(label, rounds)` starts one."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def begin(label: str, rounds: int) -> RunBar:
            for done in progress.task_ids:  # its clock too
                progress.stop_task(done)
            return RunBar(progress, progress.add_task(label, total=rounds, note=""))

        yield begin
