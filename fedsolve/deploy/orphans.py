"""Job processes end with the daemon that started them, also where it was killed while they were starting.

NVFlare looks for the parent too, but only for the one that a process has when it begins to look; and one that cannot
tell its daemon that it has started tries that for ever, in a busy loop.
"""

from __future__ import annotations

import os
import threading
import time

DAEMON = "FEDSOLVE_DAEMON"  # the daemon's process, in the environment of the processes that it starts
LOOK = 1.0  # seconds between two looks


def name_daemon() -> None:
    """In the daemon: tell the processes that it will start who it is."""
    os.environ[DAEMON] = str(os.getpid())


def end_with_daemon() -> None:
    """In the process of a job: end it as soon as its daemon has gone."""
    daemon = os.environ.get(DAEMON, "")
    if daemon.isdigit():
        threading.Thread(target=_watch, args=[int(daemon)], daemon=True).start()


def _watch(daemon: int) -> None:
    while os.getppid() == daemon:
        time.sleep(LOOK)
    os._exit(1)  # not in order: whatever would be told has nobody to hear it
