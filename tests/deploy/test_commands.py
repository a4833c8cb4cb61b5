"""What commands say of runs between organisations, without NVFlare: one JSON object whatever happens, no line that
somebody else has made, and always what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import fedsolve as fs
from fedsolve.cli import console, deployment, jobs
from fedsolve.cli.main import app
from fedsolve.deploy import admin as admin_module
from fedsolve.deploy import submission
from fedsolve.deploy.admin import Admin, NotAllowed, Progress, Running, SiteSeen, Stopped
from fedsolve.deploy.job_folder import OUTCOME, RESULTS
from fedsolve.deploy.kits import Kit
from fedsolve.deploy.knocking import Trouble
from fedsolve.deploy.submission import Submission
from fedsolve.deploy.submit_lock import only_one_submit
from fedsolve.errors import ConfigError, StorageError, TransportError
from fedsolve.loop.history import Row
from fedsolve.report import RunFolder
from fedsolve.runfiles import server_file
from tests.deploy.test_files import RUN
from tests.sites.hospitals import LOSS

NEWTON = fs.Newton(LOSS)
LEAD = Kit(Path("kit"), "user", "ann@example.org", "server", "hearts", "localhost", 1, "lead")


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.mark.parametrize("command", ["status", "stop"])
def test_ctrl_c_is_one_json_object_too(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Kit:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "open_kit", interrupted)
    said = invoke(command, "--kit", "kit", "--json")
    assert said.exit_code == 130
    assert json.loads(said.stdout)["status"] == "interrupted"
    plain = invoke(command, "--kit", "kit")
    assert (plain.exit_code, plain.stdout) == (130, "")
    assert "stopped by Ctrl-C" in plain.stderr


# ── a fake server ──


class FakeAdmin:
    """A server with jobs of two users, of which one is of the user who asks."""

    def __init__(self, *_: object, **__: object) -> None:
        self.left = ["mine", "theirs"]

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def sites(self) -> list[SiteSeen]:
        return [SiteSeen("arden\n\x1b[2J", 1.0)]

    def jobs(self) -> list[dict[str, Any]]:
        return [{"job_id": one, "job_name": f"{one}\nforged", "status": "RUNNING"} for one in ("mine", "theirs")]

    def running(self) -> Running:
        return Running(tuple(self.left), 1.0)

    def queued(self) -> list[str]:
        return []

    def progress(self, job: str, since: int) -> Progress:
        if job == "theirs":
            raise NotAllowed("ann may not do this")
        return Progress([{"round": 0}, {"round": 1}])

    def stop(self, job: str, wait: float = 0.0) -> Stopped:
        assert wait > 10  # a job that is just starting can answer
        if job == "theirs":
            raise NotAllowed("ann may not do this")
        self.left.remove(job)
        return Stopped("fedsolve submit run.toml", True)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "open_kit", lambda folder, kind: LEAD)
    monkeypatch.setattr(jobs, "Admin", FakeAdmin)


def test_status_shows_the_runs_of_others_without_their_rounds(fake: None) -> None:
    shown = json.loads(invoke("status", "--kit", "kit", "--json").stdout)["jobs"]
    assert [one["rounds"] for one in shown] == [1, None]
    said = invoke("status", "--kit", "kit").stdout
    assert "\x1b" not in said
    assert not any(line.strip().startswith("forged") for line in said.splitlines())


def test_status_shows_no_rounds_of_a_job_that_does_not_answer(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeAdmin, "progress", lambda self, job, since: Progress([], heard=job == "mine"))
    shown = json.loads(invoke("status", "--kit", "kit", "--json").stdout)["jobs"]
    assert [one["rounds"] for one in shown] == [0, None]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("SUBMITTED", "waiting"),
        ("DISPATCHED", "waiting"),
        ("RUNNING", "running"),
        ("FINISHED:COMPLETED", "ended"),
        ("FINISHED:ABORTED", "broken off"),
        ("FINISHED:ABNORMAL", "ended badly"),
        ("FINISHED:EXECUTION_EXCEPTION", "ended badly"),
        ("FINISHED:CAN_NOT_SCHEDULE", "could not start"),
    ],
)
def test_status_says_what_became_of_a_job(theirs: str, ours: str, fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeAdmin, "jobs", lambda self: [{"job_id": "mine", "status": theirs}])
    (shown,) = json.loads(invoke("status", "--kit", "kit", "--json").stdout)["jobs"]
    assert shown["status"] == ours
    monkeypatch.setattr(FakeAdmin, "running", lambda self: Running((), 1.0))
    (shown,) = json.loads(invoke("status", "--kit", "kit", "--json").stdout)["jobs"]
    assert shown["status"] == ("died with the server" if theirs == "RUNNING" else ours)


def test_stop_ends_ones_own_runs_and_says_whose_it_cannot(fake: None) -> None:
    said = json.loads(invoke("stop", "--kit", "kit", "--json").stdout)
    assert said["stopped"] == ["mine"]
    assert said["resume"] == {"mine": "fedsolve submit run.toml --resume"}
    other = invoke("stop", "--kit", "kit", "--job", "theirs")
    assert (other.exit_code, other.stderr) == (2, "fedsolve: ann may not do this\n")


class Spec:
    """The exceptions of NVFlare's connection."""

    class JobNotRunning(Exception):
        pass

    class JobNotFound(Exception):
        pass


class Jobs(Admin):
    """A connection to a server with one job, which answers after it has been asked a few times."""

    def __init__(self, status: str, deaf: int, ends_after: int = 99) -> None:
        self.deaf, self.ends_after, self.asked, self.aborted = deaf, ends_after, 0, False
        self.state, self._spec = status, Spec

    def status(self, job: str) -> str:
        return self.state

    def running(self) -> Running:
        return Running(("job",) if self.asked < self.ends_after else (), 1.0)

    def _tell(self, job: str, topic: str, data: Mapping[str, object]) -> dict[str, Any] | None:
        self.asked += 1
        return {"stopping": True, "command": "again", "checkpoint": True} if self.asked > self.deaf else None

    def _abort(self, job: str) -> None:
        self.aborted = True


@pytest.mark.parametrize(
    ("server", "found", "aborted"),
    [
        (Jobs("RUNNING", deaf=0), Stopped("again", True), False),
        (Jobs("RUNNING", deaf=3), Stopped("again", True), False),  # it was just starting
        (Jobs("RUNNING", deaf=99), Stopped(in_order=False), True),
        (Jobs("RUNNING", deaf=99, ends_after=2), Stopped(), False),
        (Jobs("SUBMITTED", deaf=99), Stopped(), True),
    ],
)
def test_a_job_is_asked_before_it_is_aborted(
    server: Jobs, found: Stopped, aborted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is aborted looks like one that died, and whoever waits for it submits the rest again."""
    clock = iter(range(1000))
    monkeypatch.setattr("fedsolve.deploy.admin.time", SimpleNamespace(monotonic=lambda: next(clock), sleep=print))
    assert server.stop("job", wait=6.0) == found
    assert server.aborted == aborted


# ── a submission ──


class OneJob(FakeAdmin):
    """A server with one job, which has ended, and what it left."""

    def __init__(self, leave: Callable[[Path], None], quiet: int = 0) -> None:
        self.leave, self.quiet, self.asked = leave, quiet, 0
        self.last = "FINISHED:COMPLETED"

    def sites(self) -> list[SiteSeen]:
        return [SiteSeen("arden", 1.0), SiteSeen("bryn", 1.0)]

    def running(self) -> Running:
        return Running(("job",), 1.0)

    def submit(self, folder: Path, token: str) -> str:
        return "job"

    def status(self, job: str) -> str:
        return "RUNNING" if self.asked < self.quiet else self.last

    def progress(self, job: str, since: int) -> Progress:
        self.asked += 1
        return Progress([], heard=False)

    def fetch(self, job: str, folder: Path) -> Path:
        results = folder / "workspace" / RESULTS
        results.mkdir(parents=True)
        self.leave(results)
        return folder


def submitted(admin: OneJob, said: list[str], **more: Any) -> Submission:
    whole: Any = admin
    return Submission(whole, server_file.parse(RUN), RUN, "fedsolve submit run.toml", said.append, print, **more)


def test_a_run_that_is_aborted_before_it_begins_is_not_submitted_again(tmp_path: Path) -> None:
    """NVFlare says the same of a job that was aborted and one that lost a site; but one that waits has no sites yet."""
    server = OneJob(leave)
    server.last = "FINISHED:ABORTED"
    found = submitted(server, []).execute(tmp_path)
    assert found["status"] == "stopped"
    assert "before its job had begun" in found["message"]


def leave(results: Path, outcome: str = '{"status": "converged", "message": "done", "error": null}') -> None:
    for name in ("summary.json", "model.npz", "report.html"):
        (results / name).write_text(name)
    (results / OUTCOME).write_text(outcome)


def test_the_summary_is_there_last_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has it is taken for a whole one, so a command that is killed before must not leave it."""
    written: list[str] = []
    write = submission.write_atomically

    def full(path: Path, *pieces: bytes) -> None:
        if len(written) == 2:
            raise StorageError(f"{path} cannot be written: No space left on device; make room on the disk")
        written.append(path.name)
        write(path, *pieces)

    monkeypatch.setattr(submission, "write_atomically", full)
    with pytest.raises(StorageError, match="make room"):
        submitted(OneJob(leave), []).execute(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.npz", "report.html"]
    monkeypatch.undo()
    assert submitted(OneJob(leave), []).execute(tmp_path)["status"] == "converged"
    assert (tmp_path / "summary.json").read_text() == "summary.json"


@pytest.mark.parametrize("outcome", ["", '{"status": "conv', "[]", "{}", "null"])
def test_an_outcome_that_is_none_is_not_one(outcome: str, tmp_path: Path) -> None:
    run = submitted(OneJob(lambda results: leave(results, outcome)), [], attempts=1)
    with pytest.raises(TransportError, match="job job ended with COMPLETED before the run did"):
        run.execute(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_job_that_does_not_answer_is_mentioned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "QUIET", 0.05)
    monkeypatch.setattr(submission, "LOOK", 0.02)
    said: list[str] = []
    submitted(OneJob(leave, quiet=20), said).execute(tmp_path)
    (line,) = [one for one in said if "has not answered" in one]
    assert "Wait, or end the run with Ctrl-C" in line


@pytest.mark.parametrize(
    ("status", "checkpoint", "hint"),
    [("no quorum", True, True), ("error", True, True), ("no quorum", False, False), ("converged", True, False)],
)
def test_a_run_that_can_be_gone_on_with_says_how(
    status: str, checkpoint: bool, hint: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.open(tmp_path / "out")
    folder.write_summary({"algorithm": "Newton", "status": status, "message": "as it is"})
    run = submitted(OneJob(leave), [], saved=checkpoint)
    error = "ClientError" if status == "error" else None
    outcome = {"status": status, "message": "bryn\n\x1b[2Jsaid so", "error": error, "checkpoint": checkpoint}
    code = deployment._tell(outcome, folder, run, as_json=True)
    assert code == (0 if status == "converged" else 1)
    shown = json.loads(capsys.readouterr().out)
    assert shown["resume"] == ("fedsolve submit run.toml --resume" if hint else None)
    if checkpoint:
        deployment._tell(outcome, folder, run, as_json=False)
        said = capsys.readouterr().out
        assert ("Go on from its checkpoint with: fedsolve submit run.toml --resume" in said) == hint
        assert "\x1b" not in said
        assert r"bryn\n\x1b[2Jsaid so" in said


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ("error", "ClientRefused", "client 'bryn', step session: the run has been answered 7 times, and no more are"),
        (
            "no quorum",
            None,
            "round 3: 1 of 2 clients answered. Missing: bryn (no (rule 'bytes' of this site's policy))",
        ),
        ("no quorum", "QuorumNotReached", "Missing: bryn (no more (rule 'requests' of this site's policy))"),
    ],
)
def test_resuming_is_not_advised_where_a_policy_refuses(
    status: str, error: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.open(tmp_path / "out")
    folder.write_summary({"algorithm": "Newton", "status": status, "message": message})
    run = submitted(OneJob(leave), [], saved=True)
    outcome = {"status": status, "message": message, "error": error, "checkpoint": True}
    assert deployment._tell(outcome, folder, run, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["resume"] is None
    deployment._tell(outcome, folder, run, as_json=False)
    said = capsys.readouterr().out
    assert "Go on from its checkpoint" not in said
    assert "until the site's administrator has changed the rule" in said
    assert "submit a run that asks for less" in said


@pytest.mark.parametrize(("rules", "own_fault"), [("columns", True), ("terms", True), ("columns algorithms", False)])
def test_a_misspelt_name_in_a_run_file_is_for_the_user_to_correct(
    rules: str, own_fault: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "; ".join(f"bryn (no (rule '{rule}' of this site's policy))" for rule in rules.split())
    outcome = {"status": "no quorum", "message": f"Missing: {why}", "error": "QuorumNotReached", "checkpoint": False}
    deployment._tell(outcome, RunFolder.open(tmp_path / "out"), submitted(OneJob(leave), []), as_json=False)
    said = capsys.readouterr().out
    assert ("Correct the run file and submit it again" in said) == own_fault
    assert ("until the site's administrator has changed the rule" in said) != own_fault


@pytest.mark.parametrize("status", ["converged", "diverged", "no quorum"])
def test_a_site_that_never_joined_is_no_reason_why_a_run_ended(
    status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.open(tmp_path / "out")
    message = "it ended; took no part: bryn (no (rule 'columns' of this site's policy))"
    folder.write_summary({"algorithm": "Newton", "status": status, "message": message})
    outcome = {"status": status, "message": message, "error": None, "checkpoint": True}
    deployment._tell(outcome, folder, submitted(OneJob(leave), [], saved=True), as_json=False)
    said = capsys.readouterr().out
    assert "would refuse it again" not in said
    assert ("Go on from its checkpoint" in said) == (status == "no quorum")


def test_a_folder_with_a_run_that_can_go_on_is_said_to_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN)
    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    folder = RunFolder.open(out)
    folder.write_config(RUN)
    (out / "submitted.json").write_text('{"run": "ab", "jobs": 5, "checkpoint": true}\n')
    said = invoke("submit", file, "--kit", "kit", "--output", out)
    assert said.exit_code == 2
    assert (
        f"has not finished. Go on with it: fedsolve submit {file} --kit kit --output {out} --resume. Or choose"
        in said.stderr
    )
    folder.write_summary({"status": "converged"})
    folder.write_report("")
    said = invoke("submit", file, "--kit", "kit", "--output", out)
    assert said.exit_code == 2
    assert "--resume" not in said.stderr
    assert "is not empty" in said.stderr


@pytest.mark.parametrize("option", [(), ("--force",), ("--resume",)])
def test_two_submissions_do_not_write_into_one_folder(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN)
    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    with only_one_submit(out):
        (out / "submitted.json").write_text('{"run": "ab", "jobs": 5, "checkpoint": true}\n')
        said = invoke("submit", file, "--kit", "kit", "--output", out, *option)
        assert sorted(one.name for one in out.iterdir()) == ["submit.lock", "submitted.json"]
    assert said.exit_code == 2
    assert (
        f"another `fedsolve submit` writes into the output folder {out} now, as process {os.getpid()};" in said.stderr
    )
    assert [one.name for one in out.iterdir()] == ["submitted.json"]


def test_a_submission_that_was_killed_holds_no_folder(tmp_path: Path) -> None:
    hold = (
        "import pathlib, sys\nfrom fedsolve.deploy.submit_lock import only_one_submit\n"
        "with only_one_submit(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, tmp_path / "out"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"as process {other.pid};"), only_one_submit(tmp_path / "out"):
            pass
        other.kill()
    assert (tmp_path / "out" / "submit.lock").is_file()
    with only_one_submit(tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("same", [True, False])
def test_force_leaves_no_job_behind(same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `fedsolve submit` was killed, and the job goes on at the server."""

    def whole(results: Path) -> None:
        leave(results)
        (results / "summary.json").write_text('{"status": "converged"}')

    class Left(OneJob):
        def jobs(self) -> list[dict[str, Any]]:
            return [{"job_id": "job", "job_name": "fedsolve-ab-1", "status": "RUNNING"}]

    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN)
    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    monkeypatch.setattr(deployment, "Admin", lambda user, **_: Left(whole))
    RunFolder.open(out).write_config(RUN if same else RUN + "# otherwise\n")
    (out / "submitted.json").write_text('{"run": "ab", "jobs": 5, "checkpoint": true}\n')
    said = invoke("submit", file, "--kit", "kit", "--output", out, "--force")
    assert said.exit_code == 2
    assert f"job job of the run in {out} has not ended at the server" in said.stderr
    assert "End it first: fedsolve stop --kit kit --job job" in said.stderr
    assert ("--resume" in said.stderr) == same
    assert (out / "submitted.json").is_file()
    monkeypatch.setattr(Left, "running", lambda self: Running((), 1.0))  # it died with the server
    said = invoke("submit", file, "--kit", "kit", "--output", out, "--force", "--json")
    assert said.exit_code == 0, said.output
    assert (out / "model.npz").is_file()
    assert not (out / "submit.lock").exists()


def test_waiting_for_a_server_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(Admin):
        def __init__(self, say: Callable[[str], None]) -> None:
            self.kit, self.patience, self._say, self._spec = LEAD, 5.0, say, Spec

    clock = iter(range(1000))
    monkeypatch.setattr(admin_module, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda s: None))
    monkeypatch.setattr(admin_module.library, "module", lambda name: None)
    monkeypatch.setattr(admin_module.many_messages, "forget_by_one_thread", lambda: None)
    monkeypatch.setattr(admin_module, "knock", lambda kit, seconds: Trouble("it is not there"))
    said: list[str] = []
    with pytest.raises(TransportError, match="it is not there"):
        Waiting(said.append)._connect(until=20.0)
    assert len(said) == 1
    assert said[0].startswith("waiting for the server at localhost:1, up to ")


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_whose_jobs_all_lost_a_site(saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkpoint there is nothing to go on with; and the same is said of two jobs once."""

    class Lost(OneJob):
        def __init__(self) -> None:
            outcome = {"status": "lost", "message": "bryn is gone", "error": None, "checkpoint": saved}
            super().__init__(lambda results: leave(results, json.dumps(outcome)))
            self.count = 0

        def submit(self, folder: Path, token: str) -> str:
            self.count += 1
            return f"job-{self.count}"

        def sites(self) -> list[SiteSeen]:
            return super().sites()[: 2 if self.count < 2 else 1]

    file, out = tmp_path / "run.toml", tmp_path / "out"
    file.write_text(RUN)
    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    server = Lost()
    monkeypatch.setattr(deployment, "Admin", lambda user, **_: server)
    said = invoke("submit", file, "--kit", "kit", "--output", out, "--wait", "0")
    assert said.exit_code == 1
    last = said.stderr[said.stderr.index("fedsolve: ") :]
    assert last.count("bryn is gone") == 1
    assert "jobs job-1 and job-2 each lost a site: bryn is gone" in last
    assert "may still go on" not in last
    assert (f"--output {out} --resume" in last) == saved
    assert ("had no checkpoint yet, so it begins anew with: fedsolve submit" in last) != saved
    assert out.exists() == saved


def test_a_misspelt_site_is_recognised(tmp_path: Path) -> None:
    said: list[str] = []
    what = server_file.parse(RUN.replace('"bryn"', '"brin"'))
    whole: Any = OneJob(leave)
    run = Submission(whole, what, RUN, "fedsolve submit run.toml", said.append, print, wait=0.01)
    with pytest.raises(TransportError, match="connected: arden, bryn; did you mean bryn"):
        run.execute(tmp_path)
    assert said == ["waiting for brin (connected: arden, bryn; did you mean bryn?)"]
    run.what = server_file.parse(RUN.replace('"bryn"', '"corrie"'))
    with pytest.raises(TransportError, match=r"\(connected: arden, bryn\)"):
        run.execute(tmp_path)


def test_what_is_done_where_no_round_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that stands still says why."""

    class Slow(OneJob):
        def progress(self, job: str, since: int) -> Progress:
            self.asked += 1
            return Progress([], finishing=self.asked > 2)

    monkeypatch.setattr(submission, "LOOK", 0.01)
    done: list[str] = []
    submitted(Slow(leave, quiet=4), [], phase=done.append).execute(tmp_path)
    assert list(dict.fromkeys(done)) == [
        "starting at the sites",
        "computing the summary and the report",
        "fetching the results",
    ]
    with console.progress_bar() as begin:
        bar = begin("Newton", 100)
        bar.say("starting at the sites")
        assert bar.progress.tasks[0].fields["note"] == "starting at the sites"
        bar(Row(3))
        assert (bar.progress.tasks[0].completed, bar.progress.tasks[0].fields["note"]) == (3, "0 B")


def test_a_server_that_is_gone_is_said_with_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(OneJob):
        def status(self, job: str) -> str:
            raise TransportError("the server cannot be reached any more: no connection")

    class Interrupted(Gone):
        def status(self, job: str) -> str:
            raise KeyboardInterrupt

        def stop(self, job: str) -> Stopped:
            raise TransportError("the server cannot be reached any more: no connection")

    file = tmp_path / "run.toml"
    file.write_text(RUN)
    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    for kind, code, how in ((Gone, 1, "may still go on at the server"), (Interrupted, 130, "may still go on there")):
        monkeypatch.setattr(deployment, "Admin", lambda user, kind=kind, **_: kind(leave))
        said = invoke("submit", file, "--kit", "kit", "--output", tmp_path / kind.__name__, "--json")
        assert said.exit_code == code, said.output
        assert len(said.stdout.splitlines()) == 1
        assert json.loads(said.stdout)["message"]
        assert how in said.stderr
        assert f"--output {tmp_path / kind.__name__} --resume" in said.stderr
        assert (tmp_path / kind.__name__ / "submitted.json").is_file()


def test_a_wait_that_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    said = invoke("submit", tmp_path / "run.toml", "--kit", "kit", "--wait", "nan")
    assert said.exit_code == 2
    assert "--wait" in said.stderr


@pytest.mark.parametrize("deadline", ["nan", "inf", "-1.0", "0.0"])
def test_a_deadline_that_is_none(deadline: str) -> None:
    with pytest.raises(ConfigError, match="deadline is a positive number of seconds"):
        server_file.parse(f"{RUN}[participation]\ndeadline = {deadline}\n").participants()
