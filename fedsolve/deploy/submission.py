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
from typing import Any

from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import OUTCOME, RESULTS, write_job
from fedsolve.errors import ConfigError, TransportError
from fedsolve.runfiles.server_file import ServerFile

LOOK = 0.5  # seconds between two looks at a job
GONE = 6  # looks at which a job that is listed as running is at no process, before it is given up
ENDED = "FINISHED"
STOPPED = "stopped"  # the outcome of a run that somebody stopped
WAIT = 60.0  # seconds to wait for the sites before the first job


@dataclass
class Submission:
    """One run.

    admin     the connection
    what      the server's half of the run file, and its text
    run       the id of the run
    say       a sentence on what happens
    on_row    a finished round, in plain values
    attempts  the most jobs that are tried
    account   what became of each job, in sentences
    """

    admin: Admin
    what: ServerFile
    text: str
    command: str
    say: Callable[[str], None]
    on_row: Callable[[dict[str, Any]], None]
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    attempts: int = 5
    first: int = 1  # the number of the first job, where others went before
    account: list[str] = field(default_factory=list)
    job: str | None = None

    def execute(self, folder: Path) -> dict[str, Any]:
        """Run it to its end and put what it left into `folder`; returns how it ended. Raises TransportError when the
        last of the jobs died too."""
        with tempfile.TemporaryDirectory(prefix="fedsolve-") as temporary:
            for attempt in range(self.first, self.first + self.attempts):
                place = Path(temporary) / str(attempt)
                place.mkdir()
                outcome = self._attempt(place, attempt)
                if outcome is not None:
                    _move(place / "left", folder)
                    return outcome
                self.say(self.account[-1])
        raise TransportError(
            f"the run was given up after {self.attempts} jobs: {'; '.join(self.account)}. Its checkpoint is at the "
            "server: `fedsolve submit … --resume` goes on from there"
        )

    def _attempt(self, place: Path, attempt: int) -> dict[str, Any] | None:
        """One job; None if it died."""
        sites = self._connected_sites()
        name = f"fedsolve-{self.run}-{attempt}"
        folder = write_job(place, name, self.run, self.text, sites, self.command)
        self.job = self.admin.submit(folder, name)
        self.say(f"job {self.job} submitted to {', '.join(sites)}")
        ended = self._watch(self.job)
        if ended is None:
            self.account.append(f"job {self.job} is gone, as if the server was started again")
            return None
        found = self.admin.fetch(self.job, place / "fetched") / "workspace" / RESULTS
        outcome = found / OUTCOME
        if not outcome.is_file():
            self.account.append(f"job {self.job} ended with {ended.partition(':')[2] or ended} before the run did")
            return None
        found.rename(place / "left")
        plain: dict[str, Any] = json.loads((place / "left" / OUTCOME).read_text())
        return plain

    def _connected_sites(self) -> list[str]:
        """The sites of the run that are connected: all of them, or after a while those that are enough."""
        until = time.monotonic() + WAIT
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
        some = self.what.participants()
        if some is None or not 0 < some.quorum < 1:
            raise ConfigError(
                f"{', '.join(missing)} not connected, and this run needs all its sites; a quorum in [participation] "
                "lets it begin with fewer"
            )
        if not present:
            raise ConfigError("none of the sites of this run is connected")
        self.say(f"going on without {', '.join(missing)}")
        return present

    def _watch(self, job: str) -> str | None:
        """Wait for the end of a job, telling its rounds; None if it is listed, but at no process any more."""
        told = absent = 0
        while True:
            status = self.admin.status(job)
            for row in self.admin.progress(job, told) if status == "RUNNING" else ():
                self.on_row(row)
                told += 1
            if status.startswith(ENDED):
                return status
            absent = absent + 1 if status == "RUNNING" and job not in self.admin.running() else 0
            if absent > GONE:
                return None
            time.sleep(LOOK)

    def stop(self) -> None:
        """End the job that runs, and wait until it has ended."""
        if self.job is None:
            return
        self.admin.stop(self.job)
        until = time.monotonic() + 60
        while time.monotonic() < until and not self.admin.status(self.job).startswith(ENDED):
            if self.job not in self.admin.running():
                return
            time.sleep(LOOK)


def _move(left: Path, folder: Path) -> None:
    """Put the files of a run into its folder."""
    (left / OUTCOME).unlink()
    for one in left.iterdir():
        if one.is_file():
            shutil.copy(one, folder / one.name)
