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
PATIENCE = 60.0  # seconds for NVFlare to note the end of a job whose process has ended
ENDED = "FINISHED"
WAIT = 60.0  # seconds
LEFT = "left"  # the folder of what a job left


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
    account   what became of each job, in sentences
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
    account: list[str] = field(default_factory=list)
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
        return f"{said}: {'; '.join(self.account)}. `fedsolve submit … --resume` goes on from its checkpoint"

    def _attempt(self, place: Path, attempt: int) -> Json | None:
        """One job; None if it died."""
        sites = self._connected_sites(begins=attempt == 1)
        name = f"fedsolve-{self.run}-{attempt}"
        folder = write_job(place, name, self.run, self.text, sites, self.command)
        since = self.admin.running().since
        self.job = self.admin.submit(folder, name)
        self.say(f"job {self.job} submitted to {', '.join(sites)}")
        ended = self._watch(self.job, since)
        if ended is None:
            self.account.append(f"job {self.job} has no process at the server any more, as after a restart")
            return None
        outcome = ended if isinstance(ended, dict) else self._fetch(self.job, place)
        if outcome is None:
            self.account.append(f"job {self.job} ended with {str(ended).partition(':')[2] or ended} before the run did")
        elif outcome["status"] == LOST:
            self.account.append(f"job {self.job} lost a site: {outcome['message']}")
            return None
        return outcome

    def _fetch(self, job: str, place: Path) -> Json | None:
        """What a job left; None if it left nothing."""
        found = self.admin.fetch(job, place / "fetched") / "workspace" / RESULTS
        if not (found / OUTCOME).is_file():
            return None
        found.rename(place / LEFT)
        outcome: Json = json.loads((place / LEFT / OUTCOME).read_text())
        return outcome

    def _connected_sites(self, begins: bool) -> list[str]:
        """The sites of the run that are connected: all of them, or after a while those that may be enough to go on.
        To begin, all are needed: they agree on what the columns are."""
        until = time.monotonic() + self.wait
        told = False
        while True:
            connected = {one.name for one in self.admin.sites()}
            present = [name for name in self.what.sites.names if name in connected]
            missing = [name for name in self.what.sites.names if name not in connected]
            if not missing:
                return present
            if time.monotonic() > until:
                break
            if not told:
                self.say(f"waiting for {', '.join(missing)}")
                told = True
            time.sleep(LOOK)
        if begins or not 0 < self.what.participants().quorum < 1:
            raise TransportError(
                self._with_account(f"{', '.join(missing)} not connected, and the run needs all its sites")
            )
        if not present:
            raise TransportError(self._with_account("none of the sites of this run is connected"))
        self.say(f"going on without {', '.join(missing)}")
        return present

    def _watch(self, job: str, since: float | None) -> str | Json | None:
        """Wait for the end of a job, telling its rounds. Returns its status; how it ended, where the server could not
        write that down; or None if it is listed as running, and has no process any more.

        since  when the server was started, as it was when the job was submitted
        """
        told, patience = 0, PATIENCE
        while True:
            status = self.admin.status(job)
            if status == "RUNNING":
                progress = self.admin.progress(job, told)
                for row in progress.rows:
                    self.on_row(row)
                    told += 1
                if progress.outcome is not None:
                    return progress.outcome
            if status.startswith(ENDED):
                return status
            if status == "RUNNING":
                found = self.admin.running()
                patience = PATIENCE if job in found.jobs else patience - LOOK
                if job not in found.jobs and (found.since != since or patience < 0):
                    return None
            time.sleep(LOOK)

    def stop(self) -> None:
        """End the job that runs, and wait until it has ended."""
        if self.job is None:
            return
        self.admin.stop(self.job)
        until = time.monotonic() + 60
        while time.monotonic() < until and not self.admin.status(self.job).startswith(ENDED):
            if self.job not in self.admin.running().jobs:
                return
            time.sleep(LOOK)


def _move(left: Path, folder: Path) -> None:
    """Put the files of a run into its folder."""
    if not left.is_dir():  # a run that ended without any
        return
    (left / OUTCOME).unlink()
    for one in left.iterdir():
        if one.is_file():
            shutil.copy(one, folder / one.name)
