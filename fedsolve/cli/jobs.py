"""`fedsolve status` and `stop`: looks at the runs between organisations, and ends them."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsolve.cli.console import emit, in_line
from fedsolve.deploy.admin import SHORT, Admin, NotAllowed, Stopped
from fedsolve.deploy.kits import open_kit
from fedsolve.errors import ConfigError
from fedsolve.text import printable

STARTING = 60.0  # seconds in which a job that is just starting can answer, on a machine that is busy

WORDS = {  # for NVFlare's, which are of a job's processes and not of its run
    **dict.fromkeys(("SUBMITTED", "APPROVED", "DISPATCHED"), "waiting"),
    "RUNNING": "running",
    "FINISHED:COMPLETED": "ended",
    "FINISHED:ABORTED": "broken off",
    **dict.fromkeys(("FINISHED:CAN_NOT_SCHEDULE", "FINISHED:FAILED_TO_RUN", "FINISHED:ABANDONED"), "could not start"),
}


def status(kit: Path, as_json: bool) -> int:
    """`fedsolve status`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=SHORT) as admin:
        sites, jobs, running = admin.sites(), admin.jobs(), admin.running().jobs
        rounds = {job: _rounds(admin, job) for job in running}
    shown = [
        {
            "job": str(one.get("job_id")),
            "name": str(one.get("job_name", one.get("name", ""))),
            "status": _in_words(str(one.get("status", "")), str(one.get("job_id")) in running),
            "rounds": rounds.get(str(one.get("job_id"))),
            "submitted": str(one.get("submit_time", ""))[:19].replace("T", " "),
        }
        for one in jobs
    ]

    def show(console: Console) -> None:
        console.print(in_line(f"Connected: {', '.join(sorted(one.name for one in sites)) or 'no site'}."))
        table = Table("job", "name", "status", "rounds", "submitted", box=None)
        for one in shown:
            table.add_row(*(in_line("" if value is None else str(value)) for value in one.values()))
        console.print(table if shown else "No run has been submitted.")

    emit(
        {"status": "ok", "sites": [{"name": one.name, "seen": one.seen} for one in sites], "jobs": shown}, as_json, show
    )
    return 0


def _rounds(admin: Admin, job: str) -> int | None:
    """How many rounds have finished, for whoever submitted the job; the first row is of the beginning. None if the job
    does not answer."""
    try:
        found = admin.progress(job, 0)
    except NotAllowed:
        return None
    return max((int(row["round"]) for row in found.rows), default=0) if found.heard else None


def _in_words(status: str, is_running: bool) -> str:
    """What has become of a job. A run that was refused or stopped in order has ended, too."""
    if status == "RUNNING" and not is_running:
        return "died with the server"
    return WORDS.get(status, "ended badly" if status.startswith("FINISHED") else printable(status.lower()))


def stop(kit: Path, job: str | None, as_json: bool) -> int:
    """`fedsolve stop`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=SHORT) as admin:
        running = (*admin.running().jobs, *admin.queued())
        if job is not None and job not in running:
            raise ConfigError(f"no job {job} is running; `fedsolve status` lists all")
        told: dict[str, Stopped] = {}
        for one in running if job is None else [job]:
            try:
                told[one] = admin.stop(one, wait=STARTING)
            except NotAllowed:  # somebody else's, which is no matter where all of one's own are meant
                if job is not None:
                    raise
        stopped = list(told)
        until = time.monotonic() + 60
        while (left := [one for one in stopped if one in admin.running().jobs]) and time.monotonic() < until:
            time.sleep(0.5)

    def show(console: Console) -> None:
        if not stopped:
            console.print("No run of yours was going on.")
        for one in stopped:
            said = f"{one} has not ended after 60 s." if one in left else f"Stopped {one}. {_after_stop(told[one])}"
            console.print(in_line(said.rstrip()), soft_wrap=True)

    emit(
        {
            "status": "error" if left else "ok",
            "stopped": stopped,
            "still_running": left,
            "resume": {one: f"{each.command} --resume" for one, each in told.items() if each.checkpoint},
        },
        as_json,
        show,
    )
    return 1 if left else 0


def _after_stop(told: Stopped) -> str:
    """How a run that was stopped can be gone on with."""
    if not told.in_order:
        return (
            "It did not answer, so the server ended it: if a `fedsolve submit` still waits for it, stop that one too."
        )
    if told.checkpoint:
        return f"Go on with: {told.command} --resume"
    return f"It had no checkpoint yet. Begin again with: {told.command}" if told.command else ""
