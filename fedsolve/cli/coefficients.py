"""The `[summary]` of a run file, printed."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import escape
from fedsolve.errors import ConfigError
from fedsolve.inference import Summary
from fedsolve.inference.summary_text import as_text
from fedsolve.runfiles import keys


def show(console: Console, found: Summary | str | None) -> None:
    """Print it, with as many columns as there is room for."""
    if found is None:
        return
    console.print()
    if isinstance(found, str):
        console.print(f"[bold red]No standard errors[/bold red]: {escape(found)}.")
    else:
        console.print(escape(as_text(found, console.width)), soft_wrap=True, highlight=False)
    console.print()


def reject(what: keys.Config, file: Path) -> None:
    """Raise ConfigError if a comparison has a [summary]."""
    if what.summary is not None:
        raise ConfigError(
            f"{file}: [summary] is of one model, and this file compares several; use `fedsolve run` for it"
        )
