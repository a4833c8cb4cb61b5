"""Ctrl-C: nothing of the finished rounds is lost, and `--resume` goes on where the run stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.cli import run as runs
from fedsolve.loop.history import Row
from fedsolve.loop.interrupts import deferred

from .conftest import Command

RunFile = Callable[..., Path]

# A checkpoint every 30 rounds, if the run is left alone.
LONG = (
    ('name = "Newton"', 'name = "Scaffold"'),
    ("rounds = 20", "rounds = 300"),
    ("tolerance = 1e-9", "tolerance = 0.0"),
)


# Whoever starts the tests in the background starts them with SIGINT ignored, and what they start inherits that.
AS_IN_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedsolve.cli.main import main
main()
"""


@pytest.fixture(autouse=True)
def _terminal() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _rounds(folder: Path) -> list[int]:
    path = folder / "history.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    return [json.loads(line)["round"] for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_sigint_and_resume(
    command: Command, run_file: RunFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    rounds = 300
    replaced = (*LONG[:1], ("rounds = 20", f'rounds = {rounds}\ntransport = "{transport}"'), LONG[2])
    file, folder = run_file(*replaced), tmp_path / "out"
    program = [sys.executable, "-c", AS_IN_A_TERMINAL, "run", str(file), "--output", "out"]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while len(_rounds(folder)) < 15 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "--output out --resume" in said
    seen = _rounds(folder)[-1]
    assert 14 <= seen < rounds - 1

    resumed: list[int] = []
    real = runs.RunFolder.append

    def note(self: runs.RunFolder, row: Row) -> None:
        resumed.append(row.round)
        real(self, row)

    monkeypatch.setattr(runs.RunFolder, "append", note)
    assert command("run", file, "--output", "out", "--resume", "--json").json["rounds"] == rounds
    assert resumed[0] >= seen  # the last row may have been written before its round was saved
    command("run", file, "--output", "whole", "--json")
    a, b = (fs.load_model(tmp_path / name / "model.npz").w for name in ("whole", "out"))
    assert np.array_equal(a, b)
    assert _rounds(folder) == list(range(rounds + 1))


@pytest.mark.parametrize("at", [1, 7, 29])
def test_an_interruption_in_a_callback(
    command: Command, run_file: RunFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    short = (*LONG[:1], ("rounds = 20", "rounds = 40"), LONG[2])
    real, rows = runs.RunFolder.append, []

    def interrupt(self: runs.RunFolder, row: Row) -> None:
        real(self, row)
        rows.append(row.round)
        if row.round == at and len(rows) == at + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs.RunFolder, "append", interrupt)
    assert command("run", run_file(*short), "--output", "out").status == 130
    rows.clear()
    assert command("run", run_file(*short), "--output", "out", "--resume", "--json").json["rounds"] == 40
    assert rows[0] in (at, at + 1)
    command("run", run_file(*short), "--output", "whole", "--json")
    a, b = (fs.load_model(tmp_path / name / "model.npz").w for name in ("whole", "out"))
    assert np.array_equal(a, b)


def test_the_second_ctrl_c_does_not_wait() -> None:
    with deferred(True) as interrupts:
        interrupts.unsaved = True
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.pending
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with deferred(True), pytest.raises(KeyboardInterrupt):  # nothing to lose
        os.kill(os.getpid(), signal.SIGINT)
    with deferred(True) as interrupts:
        interrupts.unsaved = True
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.saved()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_handlers_are_left_alone() -> None:
    def mine(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        with deferred(True):
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    failed: list[BaseException] = []

    def in_a_thread() -> None:
        try:
            with deferred(True):
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert not failed
