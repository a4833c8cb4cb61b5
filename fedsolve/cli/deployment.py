"""`fedsolve submit`: a run between organisations, over NVFlare."""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import Interrupted, emit, in_line, progress_bar, say
from fedsolve.deploy import server_rows
from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import STOPPED
from fedsolve.deploy.kits import Kit, open_kit, soon_expired
from fedsolve.deploy.library import Json
from fedsolve.deploy.submission import Submission, job_left
from fedsolve.deploy.submit_lock import only_one_submit
from fedsolve.errors import OF_POLICY, ConfigError, FedsolveError, TransportError
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import QUORUM
from fedsolve.report import RunFolder, tables
from fedsolve.report.output_folder import CONFIG, REPORT, SUBMITTED, SUMMARY
from fedsolve.runfiles import run_file, server_file
from fedsolve.text import printable
from fedsolve.wire.storage import write_atomically

NEVER_JOINED = "; took no part: "
REFUSALS = ("ClientRefused", "PolicyRefusal")
_RULE = re.compile(rf"\(rule '(\w+)' {OF_POLICY}\)")
ASKED_WRONGLY = frozenset({"columns", "terms"})  # rules that a misspelt name in the run file breaks
NOT_THERE = (
    "The run file asks for something that the site does not have, or does not allow, and --resume does not help. "
    "Correct the run file and submit it again, or ask the site's administrator."
)
REFUSED = (
    "The policy of a site refuses this, and would refuse it again: --resume does not help until the site's "
    "administrator has changed the rule. Ask for that, or submit a run that asks for less."
)


@dataclass(frozen=True)
class Asked:
    """The options of `fedsolve submit`; see there."""

    output: Path | None
    force: bool
    resume: bool
    attempts: int
    wait: float


@dataclass(frozen=True)
class _Prepared:
    """A run file that can be submitted, by whom, with what kit, and where its results go."""

    what: server_file.ServerFile
    text: str
    rows: Json | None
    user: Kit
    kit: Path
    path: Path
    command: str


def submit(file: Path, kit: Path, asked: Asked, as_json: bool) -> int:
    """`fedsolve submit`."""
    if math.isnan(asked.wait):
        raise ConfigError("--wait is a number of seconds")
    text = run_file.read_text(file)
    what = server_file.parse(text, str(file))
    own = server_rows.read(what, file.parent)
    rows = None if own is None else server_rows.to_plain(own)
    user = open_kit(kit, "user")
    if (soon := soon_expired(user)) is not None:
        say(soon)
    _check_role(user)
    path = _folder(what, file, asked)
    command = shlex.join(["fedsolve", "submit", str(file), "--kit", str(kit), "--output", str(path)])
    with only_one_submit(path):
        return _submit(_Prepared(what, text, rows, user, kit, path, command), asked, as_json)


def _submit(it: _Prepared, asked: Asked, as_json: bool) -> int:
    """The same, in a folder that no other `fedsolve submit` writes to."""
    what, text, path, command = it.what, it.text, it.path, it.command
    before = _submitted(path, text) if asked.resume else {}
    if asked.force and not asked.resume and _ended(path, text) is None:
        _check_no_job_left(it)
    elif not asked.resume:
        _check_no_run_to_go_on_with(path, text, command)
    folder = RunFolder.open(path, force=asked.force, resume=asked.resume, submits=True)
    label, _ = what.entry()
    try:
        with Admin(it.user, say=say) as admin, progress_bar() as begin:
            show = begin(label, what.run.rounds)
            run = Submission(admin, what, text, command, _say_line, lambda row: show(Row(**row)), it.rows)
            run.attempts, run.wait, run.phase = asked.attempts, asked.wait, show.say
            run.run, run.first = str(before.get("run", run.run)), int(before.get("jobs", 0)) + 1
            run.saved = bool(before.get("checkpoint", before))
            run.remember = lambda: _remember(folder, run, text)
            try:
                outcome = run.execute(folder.path)
            except KeyboardInterrupt:
                raise Interrupted(_stopped(run, folder)) from None
            except TransportError as error:
                _say_how_to_go_on(error, run, folder)
                raise
    except (KeyboardInterrupt, Interrupted, FedsolveError):
        _take_back(folder)
        raise
    return _tell(outcome, folder, run, as_json)


def _say_how_to_go_on(error: TransportError, run: Submission, folder: RunFolder) -> None:
    """Add it to an error that ended a submission. A run of which nothing goes on and nothing is kept is forgotten, so
    that the same command begins anew."""
    if run.submitted and run.given_up and not run.saved:
        (folder.path / SUBMITTED).unlink(missing_ok=True)
        error.add_note(f"The run had no checkpoint yet, so it begins anew with: {run.command}")
    elif run.submitted and "--resume" not in str(error):
        error.add_note(f"The run may still go on at the server. Go on with: {run.command} --resume")


def _check_role(user: Kit) -> None:
    """Say it here, before a folder is made: the server's words for it are a table of rights."""
    if user.role and user.role != "lead":
        raise ConfigError(
            f"{user.name} has the role {user.role!r} in {user.project} and cannot submit runs; that needs the role "
            "'lead', which whoever provisions the project gives in project.toml"
        )


def _say_line(text: str) -> None:
    """A sentence with words of the server or of sites in it."""
    say(printable(text))


def _stopped(run: Submission, folder: RunFolder) -> str:
    """End a run after Ctrl-C; returns what is said then. A run without a checkpoint is forgotten, so that the same
    command begins anew."""
    try:
        run.stop()
    except TransportError as error:
        return f"{error}; the run may still go on there. Go on with: {run.command} --resume"
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
    unfinished = outcome.get("checkpoint") and (not whole or status == QUORUM)
    refused = status in ("error", QUORUM) and _is_refusal(outcome)
    resume = f"{run.command} --resume" if unfinished and not refused else None
    summary |= {"jobs": len(run.account) + 1, "account": run.all_jobs(), "resume": resume}

    def show(console: Console) -> None:
        if whole:
            console.print(tables.fitting(console, [summary]))
        ended = f"[bold red]{in_line(status)}[/bold red]: " if status in tables.BAD or not whole else ""
        console.print(f"\n{ended}{in_line(message)}.")
        for sentence in run.all_jobs():
            console.print(in_line(f"{sentence[:1].upper()}{sentence[1:]}."))
        if refused:
            console.print(_of_refusal(str(outcome["message"])), soft_wrap=True)
        if resume is not None:
            console.print(f"Go on from its checkpoint with: {in_line(resume)}", soft_wrap=True)
        if whole:
            console.print(f"The report is [bold]{in_line(str(folder.report))}[/bold]", soft_wrap=True)

    emit({**summary, "folder": folder.path, "report": folder.report if whole else None}, as_json, show)
    if not whole and not run.saved:  # nothing to go on with, so nothing in the way of the next attempt
        (folder.path / SUBMITTED).unlink(missing_ok=True)
        folder.discard()
    return 0 if whole and status not in tables.BAD else 1


def _is_refusal(outcome: Json) -> bool:
    """Whether a run ended because the policy of a site refuses what it asks: by the kind of its error, or, where too
    few were left, by the rule that is among the reasons. Sites that never joined are no reason for its end."""
    said, _, _ = str(outcome["message"]).partition(NEVER_JOINED)
    return outcome.get("error") in REFUSALS or OF_POLICY in said


def _of_refusal(message: str) -> str:
    """What to do about a refusal, by the rules that it names."""
    rules = _RULE.findall(message.partition(NEVER_JOINED)[0])
    return NOT_THERE if rules and ASKED_WRONGLY.issuperset(rules) else REFUSED


def _folder(what: server_file.ServerFile, file: Path, asked: Asked) -> Path:
    if asked.output is not None or what.output.folder is not None:
        return asked.output or Path(str(what.output.folder)).expanduser()
    if asked.resume:
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
    found = _known(folder)
    if not found:
        raise ConfigError(f"{folder} has no run between sites to go on with; leave --resume out to begin")
    return found


def _known(folder: Path) -> Json:
    """What was noted of the run in a folder; nothing if there is none."""
    try:
        found = json.loads((folder / SUBMITTED).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _check_no_job_left(it: _Prepared) -> None:
    """Raise ConfigError where a job of the run that --force would replace goes on: its `fedsolve submit` was killed."""
    run = _known(it.path).get("run")
    if run is None:
        return
    with Admin(it.user, say=say) as admin:
        job = job_left(admin, str(run))
    if job is None:
        return
    end = shlex.join(["fedsolve", "stop", "--kit", str(it.kit), "--job", job])
    how = f"End it first: {end}"
    if (it.path / CONFIG).is_file() and (it.path / CONFIG).read_text() == it.text:
        how += f". Or wait for it, and get its results: {it.command} --resume"
    raise ConfigError(
        f"job {job} of the run in {it.path} has not ended at the server, and --force would leave it there. {how}"
    )


def _check_no_run_to_go_on_with(folder: Path, text: str, command: str) -> None:
    """Raise ConfigError where a folder has a run that `--resume` goes on with, as it may have been meant."""
    if (folder / SUBMITTED).is_file() and _ended(folder, text) is None:
        raise ConfigError(
            f"the output folder {folder} has a run that has not finished. Go on with it: {command} --resume. Or "
            "choose another folder with --output, or replace its results with --force"
        )


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
