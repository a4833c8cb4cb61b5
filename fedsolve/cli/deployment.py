"""`fedsolve provision`, `server`, `site`, `submit`, `status` and `stop`: runs between organisations, over NVFlare."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsolve.cli.console import Interrupted, emit, escape, progress_bar, say
from fedsolve.deploy import daemon, kit_settings, ports
from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import STOPPED
from fedsolve.deploy.kit_lock import only_one
from fedsolve.deploy.kits import open_kit
from fedsolve.deploy.library import Json
from fedsolve.deploy.project_file import read_project
from fedsolve.deploy.provisioning import AUTHORITY, provision
from fedsolve.deploy.submission import Submission
from fedsolve.errors import ConfigError
from fedsolve.loop.history import Row
from fedsolve.report import RunFolder, tables
from fedsolve.report.output_folder import SUBMITTED, SUMMARY
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
    path = _folder(what, file, output, resume)
    given = ["--kit", str(kit), *(() if output is None else ("--output", str(output)))]
    command = shlex.join(["fedsolve", "submit", str(file), *given])
    before = _submitted(path) if resume else {}
    folder = RunFolder.open(path, force=asked.force, resume=resume)
    folder.write_config(text)
    label, _ = what.entry()
    with Admin(user) as admin, progress_bar() as begin:
        show = begin(label, what.run.rounds)
        run = Submission(admin, what, text, command, say, lambda row: show(Row(**row)))
        run.attempts, run.wait = attempts, asked.wait
        run.run, run.first = str(before.get("run", run.run)), int(before.get("jobs", 0)) + 1
        _remember(folder, run.run, run.first + attempts - 1)
        try:
            outcome = run.execute(folder.path)
        except KeyboardInterrupt:
            run.stop()
            raise Interrupted(f"stopped; the checkpoint is at the server. Go on with: {command} --resume") from None
    return _tell(outcome, folder, run, as_json)


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
    return 0 if whole and status not in tables.BAD else 1


def _folder(what: server_file.ServerFile, file: Path, output: Path | None, resume: bool) -> Path:
    if output is not None or what.output.folder is not None:
        return output or Path(str(what.output.folder)).expanduser()
    if resume:
        raise ConfigError("--resume needs the folder of the run to go on with: --output FOLDER")
    return Path("runs") / f"{file.stem}-{time.strftime('%Y%m%d-%H%M%S')}"


def _submitted(folder: Path) -> Json:
    try:
        found = json.loads((folder / SUBMITTED).read_text())
    except (OSError, ValueError):
        raise ConfigError(f"{folder} has no run between sites to go on with; leave --resume out to begin") from None
    return found if isinstance(found, dict) else {}


def _remember(folder: RunFolder, run: str, jobs: int) -> None:
    """So that `--resume` finds the run at the server, under numbers of jobs that are not taken."""
    write_atomically(folder.path / SUBMITTED, (json.dumps({"run": run, "jobs": jobs}) + "\n").encode())


def status(kit: Path, as_json: bool) -> int:
    """`fedsolve status`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=10.0) as admin:
        sites, jobs, running = admin.sites(), admin.jobs(), admin.running().jobs
        rounds = {job: len(admin.progress(job, 0).rows) for job in running}
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


def _in_words(status: str, is_running: bool) -> str:
    if status == "RUNNING" and not is_running:
        return "died with the server"
    return status.replace("FINISHED:", "").lower().replace("_", " ")


def stop(kit: Path, job: str | None, as_json: bool) -> int:
    """`fedsolve stop`."""
    user = open_kit(kit, "user")
    with Admin(user, patience=10.0) as admin:
        running = admin.running().jobs
        if job is not None and job not in running:
            raise ConfigError(f"no job {job} is running; `fedsolve status` lists all")
        stopped = list(running) if job is None else [job]
        for one in stopped:
            admin.stop(one)
        until = time.monotonic() + 60
        while (left := [one for one in stopped if one in admin.running().jobs]) and time.monotonic() < until:
            time.sleep(0.5)

    def show(console: Console) -> None:
        console.print(f"Stopped {', '.join(stopped)}." if stopped else "No run was going on.")

    emit({"status": "error" if left else "ok", "stopped": stopped, "still_running": left}, as_json, show)
    return 1 if left else 0
