"""`fedsolve datasets` and `fedsolve algorithms`."""

from __future__ import annotations

import inspect
import sys

from rich.console import Console

from fedsolve import data
from fedsolve.cli.console import emit
from fedsolve.report.tables import plain_table
from fedsolve.runfiles import registry


def datasets(as_json: bool) -> int:
    """Every data set with a name."""
    found = data.datasets()

    def show(console: Console) -> None:
        table = plain_table()
        for heading in ("name", "rows", "features", "task", "here", "what it is"):
            table.add_column(heading, justify="right" if heading in ("rows", "features") else "left")
        for one in found:
            here = "yes" if one.available else "[dim]no[/dim]"
            table.add_row(one.name, str(one.rows), str(one.features), one.task, here, one.description)
        console.print(table)
        if any(not one.available for one in found):
            console.print("\nThose that are not here are looked for in the folder named by FEDSOLVE_DATA.")

    emit({"status": "ok", "datasets": found}, as_json, show)
    return 0


def algorithms(as_json: bool) -> int:
    """Every algorithm with what it needs and takes."""
    rows = [_describe(name, value) for name, value in registry.names("algorithm").items()]

    def show(console: Console) -> None:
        table = plain_table()
        for heading in ("name", "what it does", "hyper-parameters"):
            table.add_column(heading)
        for row in rows:
            table.add_row(*(str(row[key]) for key in ("name", "summary", "hyper_parameters")))
        console.print(table)
        for kind in registry.ROOMS:
            if kind == "algorithm":
                continue
            console.print(f"\n[bold]{kind}[/bold]", end="")
            for name, value in registry.names(kind).items():
                taken = registry.describe_fields(value)
                console.print(f"\n  {name}" + (f": {taken}" if taken != "none" else ""), end="")
            console.print()

    emit({"status": "ok", "algorithms": rows}, as_json, show)
    return 0


def _describe(name: str, value: type) -> dict[str, str | list[str]]:
    module = inspect.getdoc(sys.modules[value.__module__]) or ""
    first = module.split("\n", 1)[0].split(": ", 1)[-1].rstrip(".")
    return {
        "name": name,
        "summary": first[:1].upper() + first[1:],
        "needs": sorted(getattr(value, "needs", ())),
        "hyper_parameters": registry.describe_fields(value),
    }
