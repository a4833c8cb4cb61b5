"""Starts the process of a job at a site, and starts it again when it is killed, so that it joins the running job again.

NVFlare's own launcher reports a killed process to the server, which then ends the job at all sites.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher

MOST = 5  # times that one job's process is started again
PAUSE = 0.5  # seconds before each


class RelaunchingHandle:
    """The process of a job, whichever it is by now.

    launch  starts it, and returns NVFlare's own handle of it
    """

    def __init__(self, launch: Callable[[], Any]) -> None:
        self._launch = launch
        self._current = launch()
        self._ended = False

    def terminate(self) -> None:
        """End it for good."""
        self._ended = True
        self._current.terminate()

    def poll(self) -> Any:
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

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: Any) -> RelaunchingHandle:
        """Start the process of a job."""
        launch = super().launch_job
        return RelaunchingHandle(lambda: launch(job_meta, fl_ctx))
