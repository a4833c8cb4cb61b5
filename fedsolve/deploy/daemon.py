"""A kit's daemon in the foreground: started again when it dies, and ended together with all that it started.

NVFlare starts the process of each job in a session of its own, so a signal to the group of a daemon does not reach
them. Here the process that watches the daemon adopts whatever the daemon leaves behind (a "subreaper"), and ends
everything below itself before it leaves. If it is itself killed, the system kills the daemon, and the processes of jobs
end by themselves when they notice. One that cannot, because it is stopped, is ended when the kit is used again.

All of this is Linux. Elsewhere nobody could be sure that nothing is left running with somebody's data, so other systems
are refused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType

from fedsolve.deploy import kit_settings, library
from fedsolve.deploy.kits import Kit
from fedsolve.deploy.processes import end_all, end_descendants, leftovers, prctl, reap
from fedsolve.deploy.provisioning import write_json
from fedsolve.errors import ConfigError, StorageError, TransportError

SITE_FILE = "FEDSOLVE_SITE_FILE"  # where the executor finds the site file: of the site's environment, never of a job's
RUNS = "FEDSOLVE_RUNS"  # where the server keeps the checkpoints of its runs
# Memory that is freed is kept for the next message (glibc; elsewhere nobody reads these). Without them most copies of a
# message of 32 MB are 8,000 new pages, which take the kernel five times as long as the copying.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",  # several arenas would each keep pages of their own
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # larger pieces come and go as before; glibc below 2.35 takes no more
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
LOOK = 0.2  # seconds between two looks
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before it is started again, longer each time
SOUND = 60.0  # after so many seconds the count of restarts begins anew
_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl


class _Stop(Exception):
    """SIGINT or SIGTERM, or the end of the terminal."""


def check_platform() -> None:
    """Raise ConfigError where the processes of jobs could not be found and ended."""
    if sys.platform != "linux" or not Path("/proc/self/stat").exists():
        raise ConfigError(
            "`fedsolve server` and `fedsolve site` run on Linux alone, with /proc: elsewhere they could leave "
            "processes behind. Use a Linux machine, a virtual one or a container"
        )


def serve(kit: Kit, more: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run the daemon of a kit until SIGINT or SIGTERM, and leave nothing running.

    more  for the environment of its processes
    """
    library.module("nvflare")
    _prepare(kit)
    if left := leftovers(kit.folder):
        say(f"ending {len(left)} processes that were left when an earlier `fedsolve {kit.kind}` was killed")
        end_all(left)
    command = _command(kit)
    environment = {**KEPT_MEMORY, **os.environ, "PYTHONUNBUFFERED": "1", **more}
    prctl(_SUBREAPER, 1)
    os.umask(0o077)  # logs, memories and checkpoints are for this account alone
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        ends.append(signal.SIGHUP)
    handlers = {one: signal.signal(one, _raise) for one in ends}
    log = kit.folder / "daemon.log"
    try:
        _watch(command, environment, log, say, gives_up=kit.kind == "server")
    except _Stop:
        say(f"{kit.name}: stopping")
    finally:
        for one in handlers:
            signal.signal(one, signal.SIG_IGN)  # until everything below has ended
        if left := end_descendants(os.getpid()):
            say(f"{kit.name}: processes {', '.join(map(str, left))} do not end; is there a disk that does not answer?")
        for one, handler in handlers.items():
            signal.signal(one, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    raise _Stop


def _watch(
    command: list[str], environment: Mapping[str, str], log: Path, say: Callable[[str], None], gives_up: bool
) -> None:
    """Start the daemon, and start it again when it ends. A site waits for its server as long as it takes; a server that
    cannot start, because its port is taken, say, is given up."""
    restarts = 0
    while True:
        began = time.monotonic()
        try:
            with log.open("ab") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=environment,
                    preexec_fn=partial(_with_parent, os.getpid()),
                )
        except OSError as error:
            raise StorageError(f"{log} cannot be written: {error.strerror or error}") from error
        while process.poll() is None:
            time.sleep(LOOK)
            reap(process.pid)
        if time.monotonic() - began > SOUND:
            restarts = 0
        if gives_up and restarts >= len(PAUSES):
            raise TransportError(f"the daemon ended {restarts + 1} times in a row; {log} says why")
        pause = PAUSES[min(restarts, len(PAUSES) - 1)]
        say(f"the daemon ended with status {process.returncode}; it is started again in {pause:g} s ({log} says more)")
        end_descendants(os.getpid())
        time.sleep(pause)
        restarts += 1


def _command(kit: Kit) -> list[str]:
    package = "nvflare.private.fed.app"
    if kit.kind == "server":
        module, file, who = f"{package}.server.server_train", "fed_server.json", []
    else:
        module, file, who = f"{package}.client.client_train", "fed_client.json", [f"uid={kit.name}"]
    settings = ["secure_train=true", *who, f"org={kit.organisation}", "config_folder=config"]
    return [sys.executable, "-u", "-m", module, "-m", str(kit.folder), "-s", file, "--set", *settings]


def _prepare(kit: Kit) -> None:
    """What depends on where the kit is."""
    try:
        (kit.folder / "transfer").mkdir(exist_ok=True)
        if kit.kind == "server":
            folders = [str(kit.folder / name) for name in ("jobs", "snapshots")]
            write_json(kit.folder / "local" / "resources.json", kit_settings.server_resources(*folders))
    except OSError as error:
        raise StorageError(f"the kit {kit.folder} cannot be written to: {error.strerror or error}") from error


def _with_parent(parent: int) -> None:
    """In the daemon, before it begins: not in our group, so that Ctrl-C does not reach it by itself; and it ends when
    we are gone, also if it is stopped then."""
    os.setsid()
    prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # we were gone before it had said so
        os._exit(1)
