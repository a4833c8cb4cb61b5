"""`fedsolve reproduce`: the figures and tables of the papers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedsolve import reproduce as experiments
from fedsolve.cli.console import Interrupted, emit, escape, steps_bar
from fedsolve.errors import ConfigError
from fedsolve.report.tables import plain_table
from fedsolve.reproduce import files, saved_results
from fedsolve.reproduce.result import Result


def listing(as_json: bool) -> int:
    """Every experiment with a name."""
    found = list(experiments.names().values())
    rows = [
        {"name": one.name, "paper": one.paper, "place": one.place, "title": one.title, "takes": one.takes}
        for one in found
    ]

    def show(console: Console) -> None:
        table = plain_table()
        for heading in ("name", "paper", "place", "takes about", "title"):
            table.add_column(heading, no_wrap=heading == "name")
        for row in rows:
            table.add_row(*(escape(row[key]) for key in ("name", "paper", "place", "takes", "title")))
        console.print(table)

    emit({"status": "ok", "experiments": rows}, as_json, show)
    return 0


@dataclass(frozen=True)
class Wanted:
    """The options of the command."""

    quick: bool = False
    full: bool = False
    seeds: int | None = None
    settings: str | None = None
    minutes: float | None = None
    output: Path | None = None
    save: Path | None = None

    def __post_init__(self) -> None:
        if self.quick and self.save is not None:
            raise ConfigError("--save keeps results, and --quick gives none: leave one of both out")
        if not self.full and (self.settings is not None or self.minutes is not None):
            raise ConfigError("--settings and --minutes are for the full form: add --full")

    @property
    def suffix(self) -> str:
        return "-quick" if self.quick else "-full" if self.full else ""

    def form(self, folder: Path) -> experiments.Full | None:
        """The full form, if it is asked for."""
        if not self.full:
            return None
        chosen = tuple(one.strip() for one in (self.settings or "").split(",") if one.strip())
        return experiments.Full(folder / files.PARTS, chosen, self.minutes)


def reproduce(name: str | None, wanted: Wanted, as_json: bool) -> int:
    """One experiment; exit status 1 if a verdict that was stated is no."""
    if name is None:
        raise ConfigError("which experiment? fedsolve reproduce --list shows them")
    what = experiments.find(name)
    folder = files.open_folder(wanted.output or Path("runs") / f"reproduce-{name}{wanted.suffix}")
    command = _command(name, wanted)
    try:
        with steps_bar(name) as on_step:
            form = wanted.form(folder)
            outcome = experiments.perform(what, quick=wanted.quick, seeds=wanted.seeds, full=form, on_step=on_step)
    except BaseException as error:
        if not any(folder.iterdir()):
            folder.rmdir()
        if isinstance(error, KeyboardInterrupt):
            then = "goes on with what is not finished" if wanted.full else "begins anew"
            raise Interrupted(f"stopped; {name} {then} next time") from None
        raise
    described = files.write(outcome, folder, command)
    if wanted.save is not None:
        # Where the report went does not matter later, except that the full form reads its parts there.
        again = wanted if wanted.full else replace(wanted, output=None)
        saved_results.save(outcome, wanted.save, _command(name, again))

    def show(console: Console) -> None:
        console.print(f"[bold]{escape(what.title)}[/bold]  [dim]{escape(what.source)}[/dim]")
        _print_table(console, outcome.result)
        for claim, verdict in outcome.result.claims:
            console.print(f"{escape(claim)}: [bold]{escape(str(verdict))}[/bold]")
        for note in outcome.result.notes:
            console.print(f"• {escape(note)}")
        if wanted.quick:
            console.print(f"[bold yellow]{escape(files.QUICK)}[/bold yellow]")
        console.print(f"{len(outcome.seeds)} seed(s), {outcome.seconds:.1f} seconds.")
        console.print(f"The report is [bold]{escape(str(folder / files.REPORT))}[/bold]", soft_wrap=True)

    emit({**described, "folder": folder, "report": folder / files.REPORT}, as_json, show)
    return 0 if outcome.result.status == "ok" else 1


def _command(name: str, wanted: Wanted) -> str:
    given: list[object] = ["fedsolve", "reproduce", name]
    given += ["--quick"] * wanted.quick + ["--full"] * wanted.full
    options = {"seeds": wanted.seeds, "settings": wanted.settings, "minutes": wanted.minutes, "output": wanted.output}
    for option, value in options.items():
        given += [] if value is None else [f"--{option}", value]
    return shlex.join(map(str, given))


def _print_table(console: Console, result: Result) -> None:
    """With the spread over the seeds if the console is wide enough; a file or a pipe is as wide as the table."""
    table = _table(result, spread=True)
    needed = Measurement.get(console, console.options.update(width=10_000), table).maximum
    width = console.width
    if needed > width and console.is_terminal:
        table = _table(result, spread=False)
    elif needed > width:
        console.width = needed
    console.print(table)
    console.width = width


def _table(result: Result, spread: bool) -> Table:
    table = plain_table()
    for heading, numeric in result.headings():
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=True)
    for line in result.lines(spread):
        table.add_row(*map(Text, line))
    return table
