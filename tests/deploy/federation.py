"""A federation on this machine, by the commands that a user has: a server, four hospitals, four users."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fedsolve as fs
from fedsolve.deploy.processes import descendants, prctl
from fedsolve.federation.participation import Replay
from fedsolve.runfiles.toml_writer import dumps
from tests.sites.hospitals import COLUMNS, LOSS, NAMES, PREPROCESS, Hospitals, hospitals

LEAD, MEMBER = "ann@example.org", "bob@example.org"
OTHER_LEAD, ORG_ADMIN = "eve@example.org", "cat@example.org"
LOSS_TABLE = {"name": "Logistic", "intercept": "free"}
PATIENCE = 600.0  # seconds, after which a test has failed however busy the machine is
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(sys.path),
}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "fedsolve", *map(str, arguments)]


def fedsolve(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command, to its end."""
    return subprocess.run(
        command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, f"waited {PATIENCE:g} s for {what}"
        time.sleep(0.05)


def with_the_tests() -> None:
    """In a process before it begins: it is not in our group, and it is asked to end when the tests are killed."""
    os.setsid()
    prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@dataclass
class Federation:
    """What runs."""

    folder: Path
    hospitals: Hospitals
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # where some differ
    port: int = 0  # of the server

    def kit(self, name: str) -> Path:
        return self.folder / "kits" / name

    def start(self, name: str) -> None:
        """The server, or a site."""
        which = (
            ["server", self.kit(name)] if name == "localhost" else ["site", self.kit(name), self.hospitals.files[name]]
        )
        environment = {**ENVIRONMENT, **self.environments.get(name, {})}
        # In a session of its own, and ended with this process, also when the tests are interrupted.
        self.daemons[name] = subprocess.Popen(command(*which), env=environment, preexec_fn=with_the_tests)

    def stop(self, name: str) -> int:
        """End a daemon as Ctrl-C does; returns its exit status."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(signal.SIGINT)
        try:
            return daemon.wait(PATIENCE)
        finally:
            daemon.kill()

    def process(self, name: str, marked: str) -> int | None:
        """The process of a participant whose command has this in it."""
        return next((pid for pid in descendants(self.daemons[name].pid) if marked in command_line(pid)), None)

    def kill(self, name: str) -> list[int]:
        """Kill the process that watches a daemon, which then can end nothing; returns those that were below it."""
        daemon = self.daemons.pop(name)
        below = descendants(daemon.pid)
        daemon.kill()
        daemon.wait()
        return below

    def write_run(self, name: str, algorithm: Mapping[str, Any], **tables: Any) -> Path:
        """The server's half of a run file."""
        path = self.folder / f"{name}.toml"
        whole = {
            "sites": {"names": list(NAMES), "target": "ill"},
            "preprocess": {"schema": COLUMNS},
            "algorithm": {**algorithm, "loss": LOSS_TABLE},
            **tables,
        }
        path.write_text(dumps(whole))
        return path

    def begin(self, run: Path, *more: object, user: str = LEAD) -> subprocess.Popen[str]:
        """Submit a run, and do not wait for it. Sites have all the time they need to connect, unless it is given."""
        more = more if "--wait" in more else (*more, "--wait", PATIENCE)
        given = command("submit", run, "--kit", self.kit(user), "--output", self.output(run), "--json", *more)
        return subprocess.Popen(given, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def submit(self, run: Path, *more: object) -> dict[str, Any]:
        """Submit a run, and wait for its summary."""
        return finished(self.begin(run, *more))

    def output(self, run: Path) -> Path:
        return self.folder / "runs" / run.stem

    def wait_for_rounds(self, run: Path, rounds: int) -> None:
        """Until a run has finished so many rounds, by what the server wrote down."""

        wait_until(lambda: len(self.history_at_server(run)) > rounds, f"{rounds} rounds")

    def run_at_server(self, run: Path) -> Path:
        """The folder in which the server keeps a run."""
        known = json.loads((self.output(run) / "submitted.json").read_text())
        return self.kit("localhost") / "runs" / str(known["run"])

    def history_at_server(self, run: Path) -> list[dict[str, Any]]:
        """The rounds that the server has written down so far."""
        if not (self.output(run) / "submitted.json").is_file():
            return []
        history = self.run_at_server(run) / "history.jsonl"
        whole = history.read_text().rpartition("\n")[0] if history.is_file() else ""
        return [json.loads(line) for line in whole.splitlines()]


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a submitted run says when it has ended, with the exit status and what it said meanwhile."""
    try:
        out, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert out, said
    return {**json.loads(out), "exit": process.returncode, "said": said}


@contextmanager
def federation(
    folder: Path,
    environments: Mapping[str, Mapping[str, str]] | None = None,
    counts: Sequence[int] = (60, 80, 50, 70),
) -> Iterator[Federation]:
    """A federation that has started, and of which nothing is left afterwards.

    environments  what some participants have in theirs
    counts        the rows of each site
    """
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        port = end.getsockname()[1]
    project = {
        "name": "hospitals",
        "server": {"host": "localhost", "port": port},
        "sites": [{"name": name} for name in NAMES],
        "users": [
            {"name": LEAD},
            {"name": OTHER_LEAD},
            {"name": MEMBER, "role": "member"},
            {"name": ORG_ADMIN, "role": "org_admin"},
        ],
    }
    (folder / "project.toml").write_text(dumps(project))
    made = fedsolve("provision", folder / "project.toml", "--output", folder / "kits")
    assert made.returncode == 0, made.stderr
    found = Federation(folder, hospitals(folder, counts), environments=environments or {}, port=port)
    try:
        for name in ("localhost", *NAMES):
            found.start(name)
        yield found
    finally:
        below = [pid for daemon in found.daemons.values() for pid in descendants(daemon.pid)]
        statuses = {name: found.stop(name) for name in list(found.daemons)}
        left = [command_line(pid) for pid in below if command_line(pid)]
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left, left
    assert set(statuses.values()) == {0}, statuses


# ── what came out, and what should have ──


def model_of(running: Federation, run: Path) -> Any:
    return fs.load_model(running.output(run) / "model.npz")


def missing(running: Federation, run: Path) -> dict[str, str]:
    """Who was missing from some round, and why."""
    rows = [json.loads(line) for line in (running.output(run) / "history.jsonl").read_text().splitlines()]
    return {name: reason for row in rows for name, reason in row["missing"]}


def connected(running: Federation) -> set[str]:
    """The sites that are connected, as `fedsolve status` says."""
    said = json.loads(fedsolve("status", "--kit", running.kit(MEMBER), "--json").stdout)
    return {one["name"] for one in said["sites"]}


class Answered(dict[tuple[int, int], tuple[str, ...]]):
    """Who answered which exchange, by a ledger on disk, and who was asked in which round."""

    def __init__(self, ledger: Path) -> None:
        super().__init__()
        self.invited: dict[int, tuple[str, ...]] = {}
        with ledger.open(newline="") as file:
            for line in csv.DictReader(file):
                round, exchange, name = int(line["round"]), int(line["exchange"]), line["client"]
                found = self.setdefault((round, exchange), ())
                if line["direction"] == "up" and name not in found:
                    self[round, exchange] = (*found, name)
                if line["purpose"] == "setup":  # a lost site that was asked to join again, and may not have answered
                    continue
                asked = self.invited.setdefault(round, ())
                if name not in asked:
                    self.invited[round] = (*asked, name)


def in_process(algorithm: Any, hospitals: Hospitals, ledger: Path | None = None, **more: Any) -> fs.Run:
    """The same run in this process, with those who answered by a ledger."""
    if ledger is not None:
        more["participation"] = Replay(quorum=0.5, cohorts=Answered(ledger))
    return fs.run(algorithm(LOSS), hospitals.clients, preprocess=PREPROCESS, **more)
