"""Results of full runs, saved as small files with the library: tables and verdicts, no data.

`fedsolve reproduce NAME --save FOLDER` writes one; `scripts/claims` runs every experiment of the register and saves it
where the library looks for it. The full form of an experiment has a file of its own, NAME-full.json.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path

from fedsolve.errors import ConfigError
from fedsolve.report.json_values import to_json
from fedsolve.reproduce.harness import Outcome
from fedsolve.reproduce.result import Verdict
from fedsolve.version import __version__
from fedsolve.wire.storage import write_atomically

_FULL = "-full"  # ends the file names of full forms


@dataclass(frozen=True)
class Saved:
    """What is kept of a run of an experiment.

    seconds   of processor time, of all threads and child processes, and of what it shared with earlier experiments
    clock     "processor"; in older files, which do not say, "wall": their seconds are those on the clock
    commit    the commit of the library, with "+" where it had been changed since; empty if that is not known
    verdicts  by claim; of a verdict in the table, "first cell of its row: heading of its column"
    """

    name: str
    command: str
    seeds: int
    seconds: float
    version: str
    date: str
    verdicts: dict[str, Verdict]
    headings: list[str]
    lines: list[list[str]]
    notes: list[str]
    clock: str = "wall"
    commit: str = ""


def save(outcome: Outcome, folder: Path, command: str) -> Path:
    """Write what is kept of a run. A quick run is no result."""
    if outcome.quick:
        raise ConfigError("--save keeps results, and --quick gives none: leave one of both out")
    result = outcome.result
    verdicts = dict(result.claims)
    for row in result.rows:
        for column, cell in zip(result.columns, row, strict=True):
            if isinstance(cell, Verdict):
                verdicts[f"{row[0]}: {column.heading}"] = cell
    kept = {
        "name": outcome.experiment.name,
        "command": command,
        "seeds": len(outcome.seeds),
        "seconds": float(f"{outcome.processor:.3g}"),
        "clock": "processor",
        "version": __version__,
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "verdicts": {claim: {"holds": one.holds, "said": one.said} for claim, one in verdicts.items()},
        "headings": [heading for heading, _ in result.headings()],
        "lines": list(result.lines()),
        "notes": list(result.notes),
    }
    path = folder / _file_name(outcome.experiment.name, outcome.full)
    write_atomically(path, (to_json(kept, indent=1) + "\n").encode())
    return path


def _commit() -> str:
    """The commit of the checkout that the library lies in; saved results themselves do not count as changes."""
    package = Path(str(resources.files("fedsolve")))
    git = ["git", "-C", str(package)]
    try:
        found = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", ".", ":!reproduce/saved"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout: an installed package
        return ""
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _file_name(name: str, full: bool) -> str:
    return f"{name}{_FULL}.json" if full else f"{name}.json"


def all_saved() -> list[tuple[str, bool]]:
    """What has saved results: the name of an experiment, and whether they are of its full form."""
    folder = resources.files("fedsolve.reproduce") / "saved"
    stems = sorted(one.name.removesuffix(".json") for one in folder.iterdir() if one.name.endswith(".json"))
    return [(one.removesuffix(_FULL), one.endswith(_FULL)) for one in stems]


@cache
def read_saved(name: str, full: bool = False) -> Saved | None:
    """The saved results of an experiment, or of its full form; None if there are none."""
    file = resources.files("fedsolve.reproduce") / "saved" / _file_name(name, full)
    if not file.is_file():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    verdicts = {claim: Verdict(one["holds"], one["said"]) for claim, one in kept.pop("verdicts").items()}
    return Saved(verdicts=verdicts, **kept)
