"""A kit's daemon in the foreground: started again when it dies, and ended together with all that it started.

NVFlare starts the process of each job in a session of its own, so a signal to the group of a daemon does not reach
them. Here the process that watches the daemon adopts whatever the daemon leaves behind (Linux: a "subreaper"), and ends
everything below itself before it leaves. If it is itself killed, the daemon gets a signal from the system.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from fedsolve.deploy import kit_settings, library
from fedsolve.deploy.kits import Kit
from fedsolve.deploy.provisioning import write_json
from fedsolve.errors import StorageError, TransportError

SITE_FILE = "FEDSOLVE_SITE_FILE"  # where the executor finds the site file: of the site's environment, never of a job's
RUNS = "FEDSOLVE_RUNS"  # where the server keeps the checkpoints of its runs
LOOK = 0.2  # seconds between two looks
PATIENCE = 5.0  # seconds for processes to leave by themselves
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before it is started again, longer each time
SOUND = 60.0  # after so many seconds the count of restarts begins anew
_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl


class _Stop(Exception):
    """SIGINT or SIGTERM."""


def serve(kit: Kit, more: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run the daemon of a kit until SIGINT or SIGTERM, and leave nothing running.

    more  for the environment of its processes
    """
    library.module("nvflare")
    _prepare(kit)
    command = _command(kit)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **more}
    _prctl(_SUBREAPER, 1)
    os.umask(0o077)  # logs, memories and checkpoints are for this account alone
    handlers = {one: signal.signal(one, _raise) for one in (signal.SIGINT, signal.SIGTERM)}
    log = kit.folder / "daemon.log"
    try:
        _watch(command, environment, log, say, gives_up=kit.kind == "server")
    except _Stop:
        say(f"{kit.name}: stopping")
    finally:
        for one in handlers:
            signal.signal(one, signal.SIG_IGN)  # until everything below has ended
        end_descendants(os.getpid())
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
                    preexec_fn=_with_parent,
                )
        except OSError as error:
            raise StorageError(f"{log} cannot be written: {error.strerror or error}") from error
        while process.poll() is None:
            time.sleep(LOOK)
            _reap(process.pid)
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


# ── processes ──


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _with_parent() -> None:
    """In the daemon, before it begins: not in our group, so that Ctrl-C does not reach it by itself; and it ends when
    we are gone."""
    os.setsid()
    _prctl(_PDEATHSIG, signal.SIGTERM)


def _reap(but: int) -> None:
    """Forget adopted processes that have ended, so that none of them stays as a zombie."""
    for pid, (parent, _) in _processes().items():
        if parent == os.getpid() and pid != but:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _processes() -> dict[int, tuple[int, bool]]:
    """The parent of each process on this machine, and whether it lives: one that has ended waits to be forgotten."""
    found: dict[int, tuple[int, bool]] = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            state, parent = one.read_text().rpartition(")")[2].split()[:2]
            found[int(one.parent.name)] = int(parent), state not in "ZX"
    return found


def descendants(pid: int) -> list[int]:
    """All processes below one that live."""
    known, found = _processes(), {pid}
    while more := {one for one, (parent, _) in known.items() if parent in found} - found:
        found |= more
    return sorted(one for one in found - {pid} if known[one][1])


def end_descendants(pid: int) -> None:
    """End all processes below this one: with a signal they can obey, then without."""
    until = time.monotonic() + PATIENCE
    told: set[int] = set()
    while below := descendants(pid):
        late = time.monotonic() > until
        for one in below:
            if late or one not in told:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)
                    os.kill(one, signal.SIGKILL if late else signal.SIGTERM)
                told.add(one)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
