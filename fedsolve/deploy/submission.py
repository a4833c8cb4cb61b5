"""A run from its submission to its folder: one job, or several where jobs die, each going on from the checkpoint."""

from __future__ import annotations

import difflib
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import LOST, OUTCOME, RESULTS, STOPPED, write_job
from fedsolve.deploy.library import Json
from fedsolve.errors import TransportError
from fedsolve.report.output_folder import SUMMARY
from fedsolve.runfiles.server_file import ServerFile
from fedsolve.wire.storage import write_atomically

LOOK = 0.5  # seconds between two looks at a job
PATIENCE = 90.0  # seconds for NVFlare to note the end of a job whose process has ended
SHORT = 10.0  # the same, where the job has told how the run ended
RUNNING, ENDED, ABORTED = "RUNNING", "FINISHED", "FINISHED:ABORTED"
QUIET = 60.0  # seconds after which it is said that a job does not answer; it needs some to begin
WAIT = 60.0  # seconds
LEFT = "left"  # the folder of what a job left


@dataclass(frozen=True)
class Ended:
    """The last status of a job, in NVFlare's words, how the run ended, if the job itself has told that, and whether it
    was seen running."""

    status: str
    outcome: Json | None
    began: bool = True


@dataclass
class Submission:
    """One run.

    admin     the connection
    what      the server's half of the run file, and its text
    rows      those of the server's own, in plain values; None: the run has none
    run       the id of the run
    say       a sentence on what happens
    on_row    a finished round, in plain values
    phase     what is being done where no round is
    attempts  the most jobs that are tried
    wait      seconds to wait for sites that are not connected
    remember  keeps what `--resume` needs; called before each job, and when there is a checkpoint
    account   what became of each job that came to nothing: the job, and words that go on from it
    saved     whether the server has a checkpoint of this run, as far as is known
    submitted whether a job was submitted
    given_up  whether it was given up, with no job left at the server
    """

    admin: Admin
    what: ServerFile
    text: str
    command: str
    say: Callable[[str], None]
    on_row: Callable[[Json], None]
    rows: Json | None = None
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    attempts: int = 5
    wait: float = WAIT
    first: int = 1  # the number of the first job, where others went before
    remember: Callable[[], None] = lambda: None
    phase: Callable[[str], None] = lambda what: None
    account: list[tuple[str, str]] = field(default_factory=list)
    saved: bool = False
    submitted: bool = False
    given_up: bool = False
    job: str | None = None

    def execute(self, folder: Path) -> Json:
        """Run it to its end and put what it left into `folder`; returns how it ended. Raises TransportError when the
        last of the jobs died too."""
        with tempfile.TemporaryDirectory(prefix="fedsolve-") as temporary:
            for attempt in range(self.first, self.first + self.attempts):
                place = Path(temporary) / str(attempt)
                place.mkdir()
                outcome = self._attempt(place, attempt)
                if outcome is not None:
                    _move(place / LEFT, folder)
                    return outcome
                self.say("job {} {}".format(*self.account[-1]))
        raise self._giving_up(f"the run was given up after {self.attempts} jobs")

    def _giving_up(self, said: str) -> TransportError:
        """The error to raise, with what became of each job."""
        self.given_up = True
        if not self.account:
            return TransportError(said)
        there = f". Go on from its checkpoint with: {self.command} --resume" if self.saved else ""
        return TransportError(f"{said}: {'; '.join(self.all_jobs())}{there}")

    def all_jobs(self) -> list[str]:
        """What became of each job, in sentences; those of which the same is to be said share one."""
        jobs: dict[str, list[str]] = {}
        for job, what in self.account:
            jobs.setdefault(what, []).append(job)
        return [
            f"job {each[0]} {what}" if len(each) == 1 else f"jobs {', '.join(each[:-1])} and {each[-1]} each {what}"
            for what, each in jobs.items()
        ]

    def _attempt(self, place: Path, attempt: int) -> Json | None:
        """One job; None if it died."""
        self.job = job_left(self.admin, self.run) if attempt == self.first > 1 else None
        since = self.admin.running().since
        if self.job is None:
            sites = self._connected_sites()
            name = f"{_prefix(self.run)}{attempt}"
            folder = write_job(place, name, self.run, self.text, sites, self.command, self.rows)
            since = self.admin.running().since
            self.remember()
            self.submitted = True
            self.job = self.admin.submit(folder, name)
            self.say(f"job {self.job} submitted to {', '.join(sites)}")
            self.phase("starting at the sites")
        else:
            self.say(f"job {self.job} of this run has not ended: waiting for it")
        ended = self._watch(self.job, since)
        if not ended.status:
            self.account.append((self.job, "has no process at the server any more, as after a restart"))
            return None
        if ended.status == ABORTED and not ended.began:  # somebody did that: nothing else ends a job that waits
            return {"status": STOPPED, "message": "somebody stopped the run before its job had begun", "error": None}
        self.phase("fetching the results")
        outcome = self._fetch(self.job, place) if ended.status.startswith(ENDED) else None
        outcome = outcome or ended.outcome  # which it told, where the files could not be kept
        self._note_checkpoint(outcome is not None and bool(outcome.get("checkpoint")))
        if outcome is None:
            self.account.append((self.job, f"ended with {_last_word(ended.status)} before the run did"))
        elif outcome["status"] == LOST:
            self.account.append((self.job, f"lost a site: {outcome['message']}"))
            return None
        return outcome

    def _note_checkpoint(self, there: bool) -> None:
        if there and not self.saved:
            self.saved = True
            self.remember()

    def _fetch(self, job: str, place: Path) -> Json | None:
        """What a job left; None if it left nothing, or the server could not keep it."""
        try:
            found = self.admin.fetch(job, place / "fetched") / "workspace" / RESULTS
        except TransportError as error:
            self.say(f"what job {job} left cannot be fetched: {error}")
            return None
        try:
            outcome: Json = json.loads((found / OUTCOME).read_text())
            if {"status", "message"} <= outcome.keys():
                found.rename(place / LEFT)
                return outcome
        except (OSError, ValueError, AttributeError):  # cut off, or not there
            pass
        return None

    def _connected_sites(self) -> list[str]:
        """The sites of the run that are connected: all of them, or after a while those that may be enough to go on.
        Without a checkpoint to go on from, all are needed: they agree on what the columns are."""
        until = time.monotonic() + self.wait
        told = False
        while True:
            connected = {one.name for one in self.admin.sites()}
            present = [name for name in self.what.sites.names if name in connected]
            missing = [name for name in self.what.sites.names if name not in connected]
            if not missing:
                return present
            there = f"connected: {', '.join(sorted(connected)) or 'no site'}"
            meant = [one for name in missing for one in _close(name, connected.difference(self.what.sites.names))]
            there += f"; did you mean {', '.join(dict.fromkeys(meant))}?" if meant else ""
            if time.monotonic() > until:
                break
            if not told:
                self.say(f"waiting for {', '.join(missing)} ({there})")
                told = True
            time.sleep(LOOK)
        if not self.saved or not 0 < self.what.participants().quorum < 1:
            needs = "the run needs all its sites" + ("" if self.saved else " to begin")
            raise self._giving_up(f"{', '.join(missing)} not connected, and {needs} ({there})")
        if not present:
            raise self._giving_up("none of the sites of this run is connected")
        self.say(f"going on without {', '.join(missing)}")
        return present

    def _watch(self, job: str, since: float | None) -> Ended:
        """Wait for the end of a job, telling its rounds. The status is empty if the job is listed as running, and has
        no process any more.

        since  when the server was started, as it was when the job was submitted
        """
        told, outcome, gone, began = 0, None, None, False
        heard: float | None = time.monotonic()
        while True:
            status = self.admin.status(job)
            if status.startswith(ENDED):
                return Ended(status, outcome, began)
            if status == RUNNING:
                began = True
                progress = self.admin.progress(job, told)
                for row in progress.rows:
                    self.on_row(row)
                    told += 1
                if progress.finishing:
                    self.phase("computing the summary and the report")
                outcome = progress.outcome or outcome
                self._note_checkpoint(progress.checkpoint)
                found = self.admin.running()
                gone = None if job in found.jobs else gone or time.monotonic()
                heard = self._note_quiet(heard, progress.heard or gone is not None)
                if gone is not None and outcome is not None and time.monotonic() - gone > SHORT:
                    return Ended(status, outcome)
                if gone is not None and (found.since != since or time.monotonic() - gone > PATIENCE):
                    return Ended("", None)
            time.sleep(LOOK)

    def _note_quiet(self, heard: float | None, answered: bool) -> float | None:
        """When a job was last heard; None once it has been said that it is not, since a stopped process never ends."""
        if answered or heard is None:
            return time.monotonic() if answered else None
        if time.monotonic() - heard < QUIET:
            return heard
        self.say(
            f"job {self.job} has not answered for {QUIET:g} s: its process at the server is very busy, or stopped. "
            "Wait, or end the run with Ctrl-C"
        )
        return None

    def stop(self) -> None:
        """End the job that runs, and wait until it has ended."""
        if self.job is None:
            return
        self._note_checkpoint(self.admin.stop(self.job).checkpoint)
        until = time.monotonic() + 60
        while time.monotonic() < until and not self.admin.status(self.job).startswith(ENDED):
            if self.job not in self.admin.running().jobs:
                return
            time.sleep(LOOK)


def job_left(admin: Admin, run: str) -> str | None:
    """A job of a run that whoever submitted it has left behind, being killed, and that has not ended. It holds the
    checkpoint, so it is waited for: another job could not go on."""
    alive = admin.running().jobs
    for one in admin.jobs():
        job, status = str(one.get("job_id")), str(one.get("status", ""))
        died = status == RUNNING and job not in alive
        name = str(one.get("job_name", one.get("name", "")))
        if name.startswith(_prefix(run)) and not status.startswith(ENDED) and not died:
            return job
    return None


def _prefix(run: str) -> str:
    """What the names of a run's jobs begin with."""
    return f"fedsolve-{run}-"


def _close(name: str, others: Iterable[str]) -> list[str]:
    """The one of these names that a misspelt one may stand for, if there is one."""
    return difflib.get_close_matches(name, sorted(others), n=1)


def _last_word(status: str) -> str:
    return status.partition(":")[2] or status


def _move(left: Path, folder: Path) -> None:
    """Put the files of a run into its folder, each as a whole; the summary last, which says that all are there."""
    if not left.is_dir():  # a run that ended without any
        return
    (left / OUTCOME).unlink()
    for one in sorted(left.iterdir(), key=lambda each: each.name == SUMMARY):
        if one.is_file():
            write_atomically(folder / one.name, one.read_bytes())
