"""`fedsolve provision`, `server`, `site`, `submit`, `status` and `stop`: runs between organisations, over NVFlare."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsolve.cli.console import Interrupted, emit, escape, progress_bar, say
from fedsolve.deploy import daemon, kit_settings, ports
from fedsolve.deploy.admin import SHORT, Admin, Stopped
from fedsolve.deploy.job_folder import STOPPED
from fedsolve.deploy.kit_lock import only_one
from fedsolve.deploy.kits import Kit, open_kit
from fedsolve.deploy.library import Json
from fedsolve.deploy.project_file import read_project
from fedsolve.deploy.provisioning import AUTHORITY, provision
from fedsolve.deploy.submission import Submission
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.loop.history import Row
from fedsolve.report import RunFolder, tables
from fedsolve.report.output_folder import CONFIG, REPORT, SUBMITTED, SUMMARY
from fedsolve.runfiles import run_file, server_file
from fedsolve.sites import read_site_file
from fedsolve.wire.storage import write_atomically


def make_kits(file: Path, output: Path, as_json: bool) -> int:
    """`fedsolve provision`."""
    project = read_project(file)
    made = provision(project, output)

    def show(console: Console) -> None:
        for kit in made:
            console.print(escape(f"{kit.name}: {kit}"), soft_wrap=True)
        console.print(
            f"Give each folder to its owner by a safe way: it holds a private key. {escape(str(output / AUTHORITY))} "
            "stays with you: whoever has it can make kits.",
            soft_wrap=True,
        )

    emit({"status": "ok", "kits": {kit.name: kit for kit in made}, "authority": output / AUTHORITY}, as_json, show)
    return 0


def serve(folder: Path) -> int:
    """`fedsolve server`."""
    kit = open_kit(folder, "server")
    with only_one(kit):
        ports.check_free(kit)
        say(
            f"the server of {kit.project} runs as {kit.name} on port {kit.port}; Ctrl-C ends it. Its log is "
            f"{kit.folder / 'daemon.log'}"
        )
        daemon.serve(kit, {**kit_settings.SERVER_ENVIRONMENT, daemon.RUNS: str(kit.folder / "runs")}, say)
    return 0


def join(folder: Path, site_file: Path) -> int:
    """`fedsolve site`."""
    kit = open_kit(folder, "site")
    about = read_site_file(site_file)
    if about.name != kit.name:
        raise ConfigError(
            f"{site_file} is of {about.name!r}, and the certificate of the kit {folder} is of {kit.name!r}"
        )
    if not about.file.is_file():
        raise ConfigError(f"{site_file}: there is no data file {about.file}")
    with only_one(kit):
        say(f"{kit.name} is a site of {kit.project}; Ctrl-C ends it. What leaves is in {about.audit_log}")
        daemon.serve(kit, {daemon.SITE_FILE: str(site_file.resolve())}, say)
    return 0


@dataclass(frozen=True)
class Asked:
    """The options of `fedsolve submit`; see there."""

    output: Path | None
    force: bool
    resume: bool
    attempts: int
    wait: float


def submit(file: Path, kit: Path, asked: Asked, as_json: bool) -> int:
    """`fedsolve submit`."""
    output, resume, attempts = asked.output, asked.resume, asked.attempts
    text = run_file.read_text(file)
    what = server_file.parse(text, str(file))
    user = open_kit(kit, "user")
    _check_role(user)
    path = _folder(what, file, output, resume)
    command = shlex.join(["fedsolve", "submit", str(file), "--kit", str(kit), "--output", str(path)])
    before = _submitted(path, text) if resume else {}
    folder = RunFolder.open(path, force=asked.force, resume=resume)
    label, _ = what.entry()
    try:
        with Admin(user) as admin, progress_bar() as begin:
            show = begin(label, what.run.rounds)
            run = Submission(admin, what, text, command, say, lambda row: show(Row(**row)))
            run.attempts, run.wait = attempts, asked.wait
            run.run, run.first = str(before.get("run", run.run)), int(before.get("jobs", 0)) + 1
            run.saved = bool(before.get("checkpoint", before))
            run.remember = lambda: _remember(folder, run, text)
            try:
                outcome = run.execute(folder.path)
            except KeyboardInterrupt:
                run.stop()
                raise Interrupted(_how_to_go_on(run, folder)) from None
    except (KeyboardInterrupt, Interrupted, FedsolveError):
        _take_back(folder)
        raise
    return _tell(outcome, folder, run, as_json)


def _check_role(user: Kit) -> None:
    """Say it here, before a folder is made: the server's words for it are a table of rights."""
    if user.role and user.role != "lead":
        raise ConfigError(
            f"{user.name} has the role {user.role!r} in {user.project} and cannot submit runs; that needs the role "
            "'lead', which whoever provisions the project gives in project.toml"
        )


def _how_to_go_on(run: Submission, folder: RunFolder) -> str:
    """What is said after Ctrl-C. A run without a checkpoint is forgotten, so that the same command begins anew."""
    if run.saved:
        return f"stopped; the checkpoint is at the server. Go on with: {run.command} --resume"
    (folder.path / SUBMITTED).unlink(missing_ok=True)
    when = "before the first checkpoint" if run.submitted else "before a job was submitted"
    return f"stopped {when}, so there is nothing to go on with. Begin again with: {run.command}"


def _take_back(folder: RunFolder) -> None:
    """Leave no folder of a run that no server knows: it would be in the way of the next attempt."""
    if not (folder.path / SUBMITTED).is_file():
        folder.discard()


def _tell(outcome: Json, folder: RunFolder, run: Submission, as_json: bool) -> int:
    """What came of a run: its summary, or why there is none."""
    status, message = str(outcome["status"]), str(outcome["message"])
    summary_file = folder.path / SUMMARY
    whole = summary_file.is_file() and status not in ("error", STOPPED) and outcome.get("error") is None
    summary: Json = json.loads(summary_file.read_text()) if whole else {"status": status, "message": message}
    summary |= {"jobs": len(run.account) + 1, "account": run.account}

    def show(console: Console) -> None:
        if whole:
            console.print(tables.fitting(console, [summary]))
        ended = f"[bold red]{escape(status)}[/bold red]: " if status in tables.BAD or not whole else ""
        console.print(f"\n{ended}{escape(message)}.")
        for sentence in run.account:
            console.print(escape(f"{sentence[:1].upper()}{sentence[1:]}."))
        if whole:
            console.print(f"The report is [bold]{escape(str(folder.report))}[/bold]", soft_wrap=True)

    emit({**summary, "folder": folder.path, "report": folder.report if whole else None}, as_json, show)
    if not whole and not run.saved:  # nothing to go on with, so nothing in the way of the next attempt
        (folder.path / SUBMITTED).unlink(missing_ok=True)
        folder.discard()
    return 0 if whole and status not in tables.BAD else 1


def _folder(what: server_file.ServerFile, file: Path, output: Path | None, resume: bool) -> Path:
    if output is not None or what.output.folder is not None:
        return output or Path(str(what.output.folder)).expanduser()
    if resume:
        raise ConfigError("--resume needs the folder of the run to go on with: --output FOLDER")
    return Path("runs") / f"{file.stem}-{time.strftime('%Y%m%d-%H%M%S')}"


def _submitted(folder: Path, text: str) -> Json:
    """What is known of the run in a folder. Raises ConfigError if there is none, or if it has finished."""
    ended = _ended(folder, text)
    if ended is not None:
        raise ConfigError(
            f"the run in {folder} has already finished ({ended}); its report is {folder / REPORT}. To run it again, "
            "leave --resume out and choose another --output"
        )
    try:
        found = json.loads((folder / SUBMITTED).read_text())
    except (OSError, ValueError):
        raise ConfigError(f"{folder} has no run between sites to go on with; leave --resume out to begin") from None
    return found if isinstance(found, dict) else {}


def _ended(folder: Path, text: str) -> str | None:
    """How the run in a folder ended; None if more can come of it, also because the run file has changed since."""
    try:
        summary, config = json.loads((folder / SUMMARY).read_text()), (folder / CONFIG).read_text()
        status = str(summary["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = (folder / REPORT).is_file() and config == text and status not in (*tables.BAD, STOPPED)
    return status if whole else None


def _remember(folder: RunFolder, run: Submission, text: str) -> None:
    """So that `--resume` finds the run at the server, under numbers of jobs that are not taken."""
    folder.write_config(text)
    known = {"run": run.run, "jobs": run.first + run.attempts - 1, "checkpoint": run.saved}
    write_atomically(folder.path / SUBMITTED, (json.dumps(known) + "\n").encode())


def status(kit: Path, as_json: bool) -> int:
    """`fedsolve status`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=SHORT) as admin:
        sites, jobs, running = admin.sites(), admin.jobs(), admin.running().jobs
        rounds = {job: _rounds(admin.progress(job, 0).rows) for job in running}
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
        console.print(escape(f"Connected: {', '.join(sorted(one.name for one in sites)) or 'no site'}."))
        table = Table("job", "name", "status", "rounds", "submitted", box=None)
        for one in shown:
            table.add_row(*(escape("" if value is None else str(value)) for value in one.values()))
        console.print(table if shown else "No run has been submitted.")

    emit(
        {"status": "ok", "sites": [{"name": one.name, "seen": one.seen} for one in sites], "jobs": shown}, as_json, show
    )
    return 0


def _rounds(rows: Sequence[Json]) -> int:
    """How many rounds have finished; the first row is of the beginning."""
    return max((int(row["round"]) for row in rows), default=0)


def _in_words(status: str, is_running: bool) -> str:
    if status == "RUNNING" and not is_running:
        return "died with the server"
    return status.replace("FINISHED:", "").lower().replace("_", " ")


def stop(kit: Path, job: str | None, as_json: bool) -> int:
    """`fedsolve stop`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=SHORT) as admin:
        running = admin.running().jobs
        if job is not None and job not in running:
            raise ConfigError(f"no job {job} is running; `fedsolve status` lists all")
        stopped = list(running) if job is None else [job]
        told = {one: admin.stop(one) for one in stopped}
        until = time.monotonic() + 60
        while (left := [one for one in stopped if one in admin.running().jobs]) and time.monotonic() < until:
            time.sleep(0.5)

    def show(console: Console) -> None:
        if not stopped:
            console.print("No run was going on.")
        for one in stopped:
            console.print(escape(f"Stopped {one}. {_after_stop(told[one])}".rstrip()), soft_wrap=True)

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
    if told.checkpoint:
        return f"Go on with: {told.command} --resume"
    return f"It had no checkpoint yet. Begin again with: {told.command}" if told.command else ""
