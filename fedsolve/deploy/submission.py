"""A run from its submission to its folder: one job, or several where jobs die, each going on from the checkpoint."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import LOST, OUTCOME, RESULTS, write_job
from fedsolve.deploy.library import Json
from fedsolve.errors import TransportError
from fedsolve.runfiles.server_file import ServerFile

LOOK = 0.5  # seconds between two looks at a job
PATIENCE = 90.0  # seconds for NVFlare to note the end of a job whose process has ended
SHORT = 10.0  # the same, where the job has told how the run ended
RUNNING, ENDED = "RUNNING", "FINISHED"
WAIT = 60.0  # seconds
LEFT = "left"  # the folder of what a job left


@dataclass(frozen=True)
class Ended:
    """The last status of a job, in NVFlare's words, and how the run ended, if the job itself has told that."""

    status: str
    outcome: Json | None


@dataclass
class Submission:
    """One run.

    admin     the connection
    what      the server's half of the run file, and its text
    run       the id of the run
    say       a sentence on what happens
    on_row    a finished round, in plain values
    attempts  the most jobs that are tried
    wait      seconds to wait for sites that are not connected
    remember  keeps what `--resume` needs; called before each job, and when there is a checkpoint
    account   what became of each job, in sentences
    saved     whether the server has a checkpoint of this run, as far as is known
    submitted whether a job was submitted
    """

    admin: Admin
    what: ServerFile
    text: str
    command: str
    say: Callable[[str], None]
    on_row: Callable[[Json], None]
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    attempts: int = 5
    wait: float = WAIT
    first: int = 1  # the number of the first job, where others went before
    remember: Callable[[], None] = lambda: None
    account: list[str] = field(default_factory=list)
    saved: bool = False
    submitted: bool = False
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
                self.say(self.account[-1])
        raise TransportError(self._with_account(f"the run was given up after {self.attempts} jobs"))

    def _with_account(self, said: str) -> str:
        if not self.account:
            return said
        there = f". Go on from its checkpoint with: {self.command} --resume" if self.saved else ""
        return f"{said}: {'; '.join(self.account)}{there}"

    def _attempt(self, place: Path, attempt: int) -> Json | None:
        """One job; None if it died."""
        self.job = self._orphan() if attempt == self.first > 1 else None
        since = self.admin.running().since
        if self.job is None:
            sites = self._connected_sites()
            name = f"{self._prefix}{attempt}"
            folder = write_job(place, name, self.run, self.text, sites, self.command)
            since = self.admin.running().since
            self.remember()
            self.submitted = True
            self.job = self.admin.submit(folder, name)
            self.say(f"job {self.job} submitted to {', '.join(sites)}")
        else:
            self.say(f"job {self.job} of this run has not ended: waiting for it")
        ended = self._watch(self.job, since)
        if not ended.status:
            self.account.append(f"job {self.job} has no process at the server any more, as after a restart")
            return None
        outcome = self._fetch(self.job, place) if ended.status.startswith(ENDED) else None
        outcome = outcome or ended.outcome  # which it told, where the files could not be kept
        self._note_checkpoint(outcome is not None and bool(outcome.get("checkpoint")))
        if outcome is None:
            self.account.append(f"job {self.job} ended with {_last_word(ended.status)} before the run did")
        elif outcome["status"] == LOST:
            self.account.append(f"job {self.job} lost a site: {outcome['message']}")
            return None
        return outcome

    def _note_checkpoint(self, there: bool) -> None:
        if there and not self.saved:
            self.saved = True
            self.remember()

    @property
    def _prefix(self) -> str:
        """What the names of this run's jobs begin with."""
        return f"fedsolve-{self.run}-"

    def _orphan(self) -> str | None:
        """A job of this run that whoever submitted it has left behind, being killed, and that has not ended. It holds
        the checkpoint, so it is waited for: another job could not go on."""
        alive = self.admin.running().jobs
        for one in self.admin.jobs():
            job, status = str(one.get("job_id")), str(one.get("status", ""))
            died = status == RUNNING and job not in alive
            name = str(one.get("job_name", one.get("name", "")))
            if name.startswith(self._prefix) and not status.startswith(ENDED) and not died:
                return job
        return None

    def _fetch(self, job: str, place: Path) -> Json | None:
        """What a job left; None if it left nothing, or the server could not keep it."""
        try:
            found = self.admin.fetch(job, place / "fetched") / "workspace" / RESULTS
        except TransportError as error:
            self.say(f"what job {job} left cannot be fetched: {error}")
            return None
        if not (found / OUTCOME).is_file():
            return None
        found.rename(place / LEFT)
        outcome: Json = json.loads((place / LEFT / OUTCOME).read_text())
        return outcome

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
            if time.monotonic() > until:
                break
            if not told:
                self.say(f"waiting for {', '.join(missing)} ({there})")
                told = True
            time.sleep(LOOK)
        if not self.saved or not 0 < self.what.participants().quorum < 1:
            needs = "the run needs all its sites" + ("" if self.saved else " to begin")
            raise TransportError(self._with_account(f"{', '.join(missing)} not connected, and {needs} ({there})"))
        if not present:
            raise TransportError(self._with_account("none of the sites of this run is connected"))
        self.say(f"going on without {', '.join(missing)}")
        return present

    def _watch(self, job: str, since: float | None) -> Ended:
        """Wait for the end of a job, telling its rounds. The status is empty if the job is listed as running, and has
        no process any more.

        since  when the server was started, as it was when the job was submitted
        """
        told, outcome, gone = 0, None, None
        while True:
            status = self.admin.status(job)
            if status.startswith(ENDED):
                return Ended(status, outcome)
            if status == RUNNING:
                progress = self.admin.progress(job, told)
                for row in progress.rows:
                    self.on_row(row)
                    told += 1
                outcome = progress.outcome or outcome
                self._note_checkpoint(progress.checkpoint)
                found = self.admin.running()
                gone = None if job in found.jobs else gone or time.monotonic()
                if gone is not None and outcome is not None and time.monotonic() - gone > SHORT:
                    return Ended(status, outcome)
                if gone is not None and (found.since != since or time.monotonic() - gone > PATIENCE):
                    return Ended("", None)
            time.sleep(LOOK)

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


def _last_word(status: str) -> str:
    return status.partition(":")[2] or status


def _move(left: Path, folder: Path) -> None:
    """Put the files of a run into its folder."""
    if not left.is_dir():  # a run that ended without any
        return
    (left / OUTCOME).unlink()
    for one in left.iterdir():
        if one.is_file():
            shutil.copy(one, folder / one.name)
