"""Starts the processes of jobs. At a site one that is killed is started again, so that it joins the running job again.

NVFlare's own launcher reports a killed process to the server, which then ends the job at all sites. Launchers are the
one part of fedsolve in the daemons' own processes, so these also see to NVFlare's audit file and its threads there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from fedsolve.deploy import engine_log, many_messages, orphans
from fedsolve.deploy.library import Flare, Json

MOST = 5  # times that one job's process is started again
PAUSE = 0.5  # seconds before each


class RelaunchingHandle:
    """The process of a job, whichever it is by now.

    launch  starts it, and returns NVFlare's own handle of it
    """

    def __init__(self, launch: Callable[[], Flare]) -> None:
        self._launch = launch
        self._current = launch()
        self._ended = False

    def terminate(self) -> None:
        """End it for good."""
        self._ended = True
        self._current.terminate()

    def poll(self) -> Flare:
        """The return code, in NVFlare's words."""
        return self._current.poll()

    def wait(self) -> None:
        """Wait until it has ended by itself, or was told to; one that was killed is started again."""
        for left in range(MOST, -1, -1):
            self._current.wait()
            status = self._current.adapter.poll()
            if self._ended or status is None or status >= 0 or not left:  # a negative status is a signal
                return
            time.sleep(PAUSE)
            if self._ended:
                return
            self._current = self._launch()
            if self._ended:  # told meanwhile
                self._current.terminate()


class RelaunchingLauncher(ClientProcessJobLauncher):  # type: ignore[misc]  # NVFlare's types are not looked at
    """The launcher of a site: set in the `local/resources.json` of its kit, not by a job."""

    def __init__(self) -> None:
        super().__init__()
        engine_log.let_messages_pass()
        many_messages.forget_by_one_thread()

    def launch_job(self, job_meta: Json, fl_ctx: Flare) -> RelaunchingHandle:
        """Start the process of a job."""
        orphans.name_daemon()  # not before: job processes make launchers too, and are no daemons
        launch = super().launch_job
        return RelaunchingHandle(lambda: launch(job_meta, fl_ctx))


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]  # NVFlare's types are not looked at
    """The launcher of a server: NVFlare's own."""

    def __init__(self) -> None:
        super().__init__()
        engine_log.let_messages_pass()
        many_messages.forget_by_one_thread()

    def launch_job(self, job_meta: Json, fl_ctx: Flare) -> Flare:
        """Start the process of a job."""
        orphans.name_daemon()
        return super().launch_job(job_meta, fl_ctx)
