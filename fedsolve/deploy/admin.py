"""A user's connection to the server of a federation: submits jobs, looks at them, fetches what they left."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedsolve.deploy import library, many_messages, messages
from fedsolve.deploy.kits import Kit
from fedsolve.deploy.knocking import KNOCK, SURE, Trouble, knock
from fedsolve.deploy.library import Flare, Json
from fedsolve.errors import ConfigError, TransportError

T = TypeVar("T")
PATIENCE = 60.0  # seconds to try to reach the server, or to reach it again
SHORT = 1.0  # seconds to try to reach the server for a look
FRESH = 25.0  # seconds; a connected site gives a sign of life every 10
LOOK = 0.5  # seconds between two looks at whether a job answers
QUEUED = ("SUBMITTED", "DISPATCHED")  # a job that has not begun, in NVFlare's words
_API, _SPEC = "nvflare.fuel.flare_api.flare_api", "nvflare.fuel.flare_api.api_spec"


@dataclass(frozen=True)
class SiteSeen:
    """A site that is connected, and when it last spoke, in seconds since the epoch."""

    name: str
    seen: float | None


@dataclass(frozen=True)
class Running:
    """The ids of the jobs that run, and when the server was started."""

    jobs: tuple[str, ...]
    since: float | None


@dataclass(frozen=True)
class Progress:
    """The rounds of a job that are new, how it ended, if it could not write that down, whether the server has a
    checkpoint of the run, whether the job has answered at all, and whether no more rounds come."""

    rows: list[Json]
    outcome: Json | None = None
    checkpoint: bool = False
    heard: bool = True
    finishing: bool = False


@dataclass(frozen=True)
class Stopped:
    """How a job that was stopped had been submitted, empty if it did not say, whether the server has a checkpoint of
    its run, and whether the job ended by itself."""

    command: str = ""
    checkpoint: bool = False
    in_order: bool = True


class NotAllowed(ConfigError):
    """The server does not let this user do this."""


class _CouldNot(TransportError):
    """The server was reached, and failed."""


class Admin:
    """A session at the server. After an interruption it connects again by itself.

    Args:
        kit: A user's kit.
        patience: Seconds after which a server that cannot be reached is given up.
        say: Told when it waits for a server.
    """

    def __init__(self, kit: Kit, patience: float = PATIENCE, say: Callable[[str], None] = lambda text: None) -> None:
        self.kit, self.patience, self._say = kit, patience, say
        self._session: Flare = None
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # which writes to standard error by itself
        self._spec = library.module(_SPEC)

    def __enter__(self) -> Admin:
        self._connect(time.monotonic() + self.patience)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    # ── what can be asked ──

    def submit(self, folder: Path, token: str) -> str:
        """Submit a job; returns its id. The same token gives the same job, so that asking twice is safe."""
        return str(self._do(lambda session: session.submit_job(str(folder), submit_token=token)))

    def status(self, job: str) -> str:
        """The status of a job, in NVFlare's words."""
        found: Mapping[str, object] = self._do(lambda session: session.get_job_meta(job))
        return str(found.get("status", ""))

    def jobs(self) -> list[Json]:
        """All jobs at the server, the newest first."""
        found: list[Json] = self._do(lambda session: session.list_jobs(reverse=True))
        return found

    def sites(self) -> list[SiteSeen]:
        """The sites that are connected. NVFlare lists a site long after it has gone, so one that was not heard for a
        while is left out, by the server's clock: the newest sign of any of them."""
        info = self._do(lambda session: session.get_system_info())
        found = [SiteSeen(str(one.name), one.last_connect_time) for one in info.client_info]
        newest = max((one.seen or 0.0 for one in found), default=0.0)
        return [one for one in found if newest - (one.seen or 0.0) < FRESH]

    def running(self) -> Running:
        """What runs at the server. A job that is listed as running, and not here, has ended or died with the server."""
        info = self._do(lambda session: session.get_system_info())
        return Running(tuple(str(one.job_id) for one in info.job_info), info.server_info.start_time)

    def progress(self, job: str, since: int) -> Progress:
        """How far a job is; nothing if it does not answer. Raises NotAllowed for a job of somebody else."""
        found = self._tell(job, messages.PROGRESS, {"since": since})
        if not found:
            return Progress([], heard=False)
        rows, finishing = list(found.get("rows") or ()), bool(found.get("finishing"))
        return Progress(rows, found.get("outcome"), bool(found.get("checkpoint")), finishing=finishing)

    def stop(self, job: str, wait: float = 0.0) -> Stopped:
        """Ask a job to end: in order if it answers within `wait` seconds, else by NVFlare's own command. Its checkpoint
        stays. Raises NotAllowed for a job that this user cannot stop.

        A job that ends in order tells whoever waits for it that it was stopped. One that NVFlare ends looks like one
        that died, and the `submit` that waits for it submits the rest again. So a job that is just starting, and cannot
        answer yet, is worth waiting for.
        """
        if self.status(job) in QUEUED:
            self._abort(job)
            return Stopped()
        until = time.monotonic() + wait
        while not (found := self._tell(job, messages.STOP, {"stop": True})):
            if job not in self.running().jobs:  # it has ended meanwhile
                return Stopped()
            if time.monotonic() > until:
                self._abort(job)
                return Stopped(in_order=False)
            time.sleep(LOOK)
        return Stopped(str(found.get("command", "")), bool(found.get("checkpoint")))

    def _abort(self, job: str) -> None:
        with suppress(self._spec.JobNotRunning, self._spec.JobNotFound):
            self._do(lambda session: session.abort_job(job))

    def queued(self) -> list[str]:
        """The jobs that have not begun: NVFlare runs four at a time."""
        return [str(one.get("job_id")) for one in self.jobs() if one.get("status") in QUEUED]

    def fetch(self, job: str, folder: Path) -> Path:
        """Fetch what a job left; returns its folder."""
        return Path(str(self._do(lambda session: session.download_job_result(job, str(folder)))))

    def _tell(self, job: str, topic: str, data: Mapping[str, object]) -> Json | None:
        """A command to a job's controller; None if it is not there yet, or not any more."""
        try:
            found: Json = self._do(lambda session: session.do_app_command(job, topic, dict(data)))
        except (self._spec.JobNotRunning, self._spec.JobNotFound, self._spec.NoReply, _CouldNot):
            return None
        return found

    # ── the connection ──

    def _do(self, ask: Callable[[Flare], T]) -> T:
        until = time.monotonic() + self.patience
        while True:
            try:
                with _quietly():
                    return ask(self._session)
            except self._spec.AuthorizationError as error:
                right = _line(error).rpartition(": ")[2].rstrip("'")  # before it the whole command
                raise NotAllowed(f"{self.kit.name} may not do this with the role {self.kit.role!r}: {right}'") from None
            except (self._spec.NoConnection, self._spec.SessionClosed, self._spec.AuthenticationError) as error:
                if time.monotonic() > until:
                    raise TransportError(f"the server cannot be reached any more: {_line(error)}") from None
            except self._spec.InvalidJobDefinition as error:
                raise ConfigError(f"the server refused the job: {_line(error)}") from None
            except (self._spec.InternalError, self._spec.CommandError) as error:  # of a server that cannot write, say
                raise _CouldNot(f"the server could not do this: {_line(error)}") from error
            self._close()
            self._connect(until)

    def _connect(self, until: float) -> None:
        api = library.module(_API)
        many_messages.forget_by_one_thread()
        refused, told = 0, False
        while True:
            trouble = knock(self.kit, KNOCK)
            refused = refused + 1 if trouble is not None and trouble.certificate else 0
            if trouble is None:
                try:
                    with _quietly():
                        self._session = api.new_secure_session(self.kit.name, str(self.kit.folder), timeout=5.0)
                    return
                except self._spec.AuthenticationError as error:
                    raise ConfigError(f"the server did not accept {self.kit.name}: {_line(error)}") from None
                except Exception as error:  # whatever a server that is starting says
                    at = f"the server of {self.kit.project} at {self.kit.address}"
                    trouble = Trouble(f"{at} is there, and does not let {self.kit.name} in: {_line(error)}")
            late = time.monotonic() > until
            if trouble.certificate and (late or refused >= SURE):
                raise ConfigError(trouble.said)
            if late:
                raise TransportError(trouble.said)
            if not (told or trouble.certificate):
                told = True
                left = max(1.0, until - time.monotonic())
                self._say(f"waiting for the server at {self.kit.address}, up to {left:.0f} s")
            time.sleep(0.5)

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception), _quietly():  # a server that is gone cannot be told
                session.close()


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """NVFlare prints and logs as it goes; what matters comes as an exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
