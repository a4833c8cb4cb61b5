"""`fedsolve forget`: removes what a site remembers of runs that nobody has gone on with for long."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, in_line
from fedsolve.runfiles import run_file
from fedsolve.sites.run_store import forget_runs
from fedsolve.sites.site_file import parse_site_file

KEPT = (
    "The audit log, the site's secret, its sets of rows and its points are kept: later runs are compared with them, "
    "whichever runs they came from."
)


def forget(site_file: Path, days: float, as_json: bool) -> int:
    """Remove the memory of runs in which nothing was written for so many days."""
    store = parse_site_file(run_file.read_text(site_file, "site file"), site_file).store
    gone = forget_runs(store / "runs", days)

    def show(console: Console) -> None:
        if gone:
            console.print(in_line(f"Forgot {len(gone)} run{'s' * (len(gone) > 1)}: {', '.join(gone)}."), soft_wrap=True)
        else:
            console.print(in_line(f"No run in {store} has been idle for {days:g} days."), soft_wrap=True)
        console.print(KEPT, soft_wrap=True)

    emit({"status": "ok", "store": store, "days": days, "forgotten": gone}, as_json, show)
    return 0
