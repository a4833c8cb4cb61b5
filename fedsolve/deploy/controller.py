"""The server's workflow of a job: it runs one run of fedsolve over the job's tasks.

The job says which run, by its id, and has the server's half of the run file as JSON. What came of it is left in the
job's own folder, which whoever submitted it can fetch. A run goes on for nobody else than who submitted it.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.impl.controller import Controller
from nvflare.apis.job_def import JobMetaKey

from fedsolve.deploy import engine_log, large_messages, many_messages, messages, orphans
from fedsolve.deploy.carrier import NVFlareCarrier
from fedsolve.deploy.daemon import RUNS
from fedsolve.deploy.job_folder import LOST, OUTCOME, RESULTS, RUN_FILE, SERVER_ROWS
from fedsolve.deploy.library import Flare, Json
from fedsolve.deploy.run_owner import claim
from fedsolve.deploy.server_run import ServerRun, explained, row_in_words, stopped, unwritten
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import QUORUM
from fedsolve.report.output_folder import CHECKPOINT, CHECKPOINT_LEDGER, CHECKPOINT_LOCK, OWNER
from fedsolve.runfiles import server_file
from fedsolve.sites.terms import check_run

CHECK_PERIOD = 0.02  # seconds between NVFlare's looks at its tasks
# Seconds for whoever submitted a run to be told how it ended, before its process ends: where that was written down, so
# that a failure is known also if NVFlare cannot keep the files; and where it was not, and would be lost.
HEARD, NEEDED = 3.0, 20.0


class RunController(Controller):  # type: ignore[misc]  # NVFlare's types are not looked at
    """Runs one run."""

    def __init__(self) -> None:
        super().__init__()
        engine_log.let_messages_pass()
        large_messages.show_sizes_only()
        many_messages.forget_by_one_thread()
        orphans.end_with_daemon()
        self._rows: list[Json] = []
        self._outcome: Json | None = None
        self._told = threading.Event()
        self._lock = threading.Lock()
        self._carrier: NVFlareCarrier | None = None
        self._here: Path | None = None  # the run's folder
        self._command = ""
        self._stopped = threading.Event()
        self._ending = threading.Event()  # after the last round

    def start_controller(self, fl_ctx: Flare) -> None:
        """NVFlare sets the period of its checks on the wrong object, so it is set here."""
        self.communicator._task_check_period = CHECK_PERIOD
        self._engine.register_app_command(messages.PROGRESS, self._progress)
        self._engine.register_app_command(messages.STOP, self._stop)
        self._listen()

    def _listen(self) -> None:
        """Tell the carrier when a site asks for a task, and when it gives any sign of life."""
        handle, is_active = self.communicator.process_task_request, self.communicator.client_is_active

        def asked(client: Flare, fl_ctx: Flare) -> Flare:
            if self._carrier is not None:
                self._carrier.see(client.name)
            return handle(client, fl_ctx)

        def alive(client_name: str, *rest: Flare, **named: Flare) -> Flare:
            if self._carrier is not None:
                self._carrier.note_alive(client_name)
            return is_active(client_name, *rest, **named)

        self.communicator.process_task_request, self.communicator.client_is_active = asked, alive

    def stop_controller(self, fl_ctx: Flare) -> None:
        """Nothing is left to do."""

    def control_flow(self, abort_signal: Flare, fl_ctx: Flare) -> None:
        """The whole run."""
        job = fl_ctx.get_job_id()
        workspace = self._engine.get_workspace()
        config = Path(workspace.get_app_config_dir(job))
        asked = json.loads((config / RUN_FILE).read_text())
        try:
            self._command = str(asked["command"])
            here = Path(os.environ[RUNS]) / check_run(asked["run"])  # nothing that leads out of the folder
            claim(here, _submitter(fl_ctx))
            self._here = here  # not before: nobody is told of another's run, or gets its files
            names = server_file.parse(asked["file"]).sites.names
            self._carrier = NVFlareCarrier(
                names,
                schedule=lambda task, targets: self.broadcast(task, fl_ctx, targets=targets, min_responses=0),
                cancel=lambda task: self.cancel_task(task, fl_ctx=fl_ctx),
                is_aborted=lambda: bool(abort_signal.triggered) or self._stopped.is_set(),
                present=lambda: {client.name for client in self._engine.get_clients()},
            )
            rows = json.loads((config / SERVER_ROWS).read_text()) if (config / SERVER_ROWS).is_file() else None
            run = ServerRun(asked["run"], asked["file"], asked["command"], here, rows)
            outcome = run.execute(self._carrier, self._note, self._ending.set)
        except Exception as error:  # reported: NVFlare would say no more than that there was one, and try again
            if abort_signal.triggered:
                raise  # the checkpoint stays, and another job can go on from it
            outcome = stopped(self._has_checkpoint()) if self._stopped.is_set() else explained(error)
        if outcome["status"] == QUORUM and self._carrier is not None and self._carrier.silent(self._carrier.names):
            outcome["status"] = LOST  # a site whose processes were started again is part of the next job
        told = {name: outcome.get(name) for name in ("status", "message", "error")}
        told["checkpoint"] = self._has_checkpoint()
        try:
            _leave(Path(workspace.get_run_dir(job)) / RESULTS, self._here, told)
        except OSError as error:
            self._outcome = told if told["error"] else unwritten(error)
            if not self._told.wait(NEEDED):
                raise
        else:
            if told["error"]:
                self._outcome = told
                self._told.wait(HEARD)

    def _note(self, row: Row) -> None:
        with self._lock:
            self._rows.append(row_in_words(row))

    def _progress(self, topic: str, data: Flare, fl_ctx: Flare) -> Json:
        """The rounds after those that the one who asks has seen."""
        since = data.get("since") if isinstance(data, dict) else 0
        since = since if isinstance(since, int) and since >= 0 else 0
        if self._outcome is not None:
            self._told.set()
        with self._lock:
            rows, count = self._rows[since:], len(self._rows)
        told = {"rows": rows, "count": count, "outcome": self._outcome, "checkpoint": self._has_checkpoint()}
        return {**told, "finishing": self._ending.is_set()}

    def _stop(self, topic: str, data: Flare, fl_ctx: Flare) -> Json:
        """End the run in order; says how it was submitted, and whether another job can go on with it."""
        self._stopped.set()
        return {"stopping": True, "command": self._command, "checkpoint": self._has_checkpoint()}

    def _has_checkpoint(self) -> bool:
        return self._here is not None and (self._here / CHECKPOINT).is_file()


def _submitter(fl_ctx: Flare) -> str:
    """Who submitted the job: the server has written that down, from the certificate of the connection."""
    meta = fl_ctx.get_prop(FLContextKey.JOB_META)
    return str(meta.get(JobMetaKey.SUBMITTER_NAME.value) or "") if isinstance(meta, dict) else ""


def _leave(results: Path, here: Path | None, outcome: Json) -> None:
    """Leave what came of a run for whoever submitted it: its files, without its checkpoint, and how it ended. A run
    that failed needs no files. Raises OSError if there is no room."""
    results.mkdir(exist_ok=True)
    without = shutil.ignore_patterns(CHECKPOINT, CHECKPOINT_LEDGER, CHECKPOINT_LOCK, OWNER)
    if here is not None and here.is_dir():
        try:
            shutil.copytree(here, results, ignore=without, dirs_exist_ok=True)
        except OSError:
            if not outcome["error"]:
                raise
    # Last, so that where it is the files are there too.
    (results / OUTCOME).write_text(json.dumps(outcome))
