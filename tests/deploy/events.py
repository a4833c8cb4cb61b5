"""What happens during a run between organisations: waiting for it, and what it may have changed."""

from __future__ import annotations

import csv
import itertools
import json
import os
import resource
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import fedsolve as fs
from fedsolve.deploy.processes import descendants
from tests.deploy.federation import Federation, command_line, in_process, model_of, wait_until

# ── a run that is long enough for something to happen, and may do without some ──

ROUNDS = 60
LONG: dict[str, Any] = {"run": {"rounds": ROUNDS, "tolerance": 0.0}}
DEADLINE = 10.0  # seconds; honest answers take much less, also on a machine that is busy with other work
SOME: dict[str, Any] = {"participation": {"quorum": 0.5, "deadline": DEADLINE}}
TOO_LATE = f"no answer within {DEADLINE:g} s"


def check_replayed(running: Federation, run: Path, rounds: int = ROUNDS) -> None:
    """The model is that of a run in this process in which the same sites answered."""
    again = in_process(fs.AGD, running.hospitals, running.output(run) / "ledger.csv", rounds=rounds, tolerance=0.0)
    assert np.array_equal(model_of(running, run).w, again.model.w)


def check_undisturbed(running: Federation, run: Path, rounds: int = ROUNDS) -> None:
    """The model is that of a run in this process in which nothing happened."""
    again = in_process(fs.AGD, running.hospitals, rounds=rounds, tolerance=0.0)
    assert np.array_equal(model_of(running, run).w, again.model.w)


# ── processes ──


def process(running: Federation, name: str, marked: str) -> int:
    """The process of a participant whose command has this in it."""
    found = running.process(name, marked)
    assert found is not None, (name, marked)
    return found


def are_gone(pids: list[int]) -> bool:
    return not any(command_line(pid) for pid in pids)


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that are there, and do nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def full_disk(running: Federation, name: str, room: int = 0) -> Iterator[None]:
    """No process of a participant can make a file longer than this, as on a disk that is full: those of NVFlare and
    those of fedsolve, and those that they start meanwhile. What does not fit is written in part."""
    watching = running.daemons[name].pid

    def let(length: int) -> None:
        for pid in (watching, *descendants(watching)):
            with suppress(ProcessLookupError):  # it has ended
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (length, resource.RLIM_INFINITY))

    let(room)
    try:
        yield
    finally:
        let(resource.RLIM_INFINITY)


# ── who is missing, and for how long ──


def wait_for_reason(running: Federation, run: Path, name: str, said: str) -> None:
    """Until the server has written down that a site was missing from now on, with this reason."""
    since = len(running.history_at_server(run))

    def there() -> bool:
        rows = running.history_at_server(run)[since:]
        return any(one == name and said in reason for row in rows for one, reason in row["missing"])

    wait_until(there, f"{name} to be missing: {said}")


def wait_until_back(running: Federation, run: Path) -> None:
    """Until nobody is missing: a site that was lost has the first reason until it has joined again."""

    def there() -> bool:
        return not running.history_at_server(run)[-1]["missing"]

    wait_until(there, "everybody to be back")


MARGIN = 5.0  # seconds beyond its deadline in which an exchange must have ended, whoever did not answer


def check_deadlines(running: Federation, run: Path) -> None:
    """No exchange took longer than its deadline and a margin, by what the run itself has written down: the seconds of
    each round, and its exchanges, also those in which somebody was asked to join again."""
    exchanges: dict[int, set[int]] = defaultdict(set)
    with (running.output(run) / "ledger.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            exchanges[int(line["round"])].add(int(line["exchange"]))
    rows = [json.loads(line) for line in (running.output(run) / "history.jsonl").read_text().splitlines()]
    for before, row in itertools.pairwise(rows):
        took, most = row["seconds"] - before["seconds"], len(exchanges[row["round"]]) * (DEADLINE + MARGIN)
        assert 0 < took <= most, (row["round"], took, most)
