"""The file of the audit log: a disk that fills in the middle of a line, several writers, a clock that was wrong."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

import fedsolve as fs
from fedsolve.errors import DataError, StorageError
from fedsolve.sites import SiteTransport
from fedsolve.sites.audit import AuditLog, read_log
from fedsolve.wire import lines, storage
from fedsolve.wire.messages import MOST_TEXT
from tests.sites.curious import Direct
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, terms


@contextmanager
def room(path: Path, more: int) -> Iterator[None]:
    """Files of this process may become as long as this one and a few bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("more", [0, 1, 20, 90])
def test_a_disk_that_fills_in_the_middle_of_a_line_leaves_no_part_of_it(more: int, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("run", "aa")
    before = log.path.read_bytes()
    with room(log.path, more), pytest.raises(StorageError, match="cannot be written: File too large"):
        log.write("sent", "aa", calls=[], bytes=5)
    assert log.path.read_bytes() == before
    log.write("sent", "aa", calls=[], bytes=7)
    assert log.spent("aa").bytes == 7
    assert log.recent_runs() == {"aa"}


def test_what_cannot_be_taken_back_spoils_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that neither takes the rest of a line nor lets go of its beginning."""
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("run", "aa")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", broken)
    with room(log.path, 40), pytest.raises(StorageError):
        log.write("sent", "aa", calls=[], bytes=5)
    monkeypatch.undo()
    assert not log.path.read_bytes().endswith(b"\n")
    log.write("sent", "aa", calls=[], bytes=7)
    log.write("refused", "aa", said="no")
    assert [line["event"] for line in read_log(log.path)] == ["run", "sent", "refused"]
    assert (log.spent("aa").bytes, log.spent("aa").refusals) == (7, 1)
    assert log.recent_runs() == {"aa"}


def test_a_line_behind_an_unfinished_one_counts(tmp_path: Path) -> None:
    """As in logs of earlier versions, which did not end it; also where the cut is within a letter."""
    log = AuditLog(tmp_path / "audit.jsonl")
    whole = log.path
    log.write("sent", "aa", calls=[], bytes=7, said='é {"time": "')
    line = whole.read_bytes()
    whole.write_bytes(line[: line.index("é".encode()) + 1] + line + b'{"ti\n' + line)
    assert log.spent("aa").bytes == 14
    whole.write_text("event,time\n")
    with pytest.raises(DataError, match="line 1: this is no line of an audit log"):
        log.spent("aa")


def test_several_writers_keep_each_others_lines(tmp_path: Path) -> None:
    """While one of them meets a full disk again and again, and takes back what it wrote."""
    path = tmp_path / "audit.jsonl"
    writer = (
        "import resource, sys; from pathlib import Path; from fedsolve.errors import StorageError\n"
        "from fedsolve.sites.audit import AuditLog\n"
        "log, full = AuditLog(Path(sys.argv[1])), sys.argv[2] == 'full'\n"
        "for k in range(200):\n"
        "    size = log.path.stat().st_size if full else resource.RLIM_INFINITY\n"
        "    if full: resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, resource.RLIM_INFINITY))\n"
        "    try: log.write('sent', sys.argv[2], calls=[], bytes=1)\n"
        "    except StorageError: pass\n"
    )
    AuditLog(path).write("run", "aa")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", writer, str(path)]
    processes = [subprocess.Popen([*command, how], env=environment) for how in ("aa", "full", "aa")]
    assert [one.wait() for one in processes] == [0, 0, 0]
    assert AuditLog(path).spent("aa").bytes == 400
    assert not AuditLog(path).spent("full").bytes
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_writer_that_is_stopped_is_not_waited_for_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PATIENCE", 0.2)
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.write("run", "aa")
    handle = os.open(path, os.O_RDWR)
    try:
        assert storage.try_lock(handle)
        with pytest.raises(StorageError, match=r"has been held by another process for 0\.2 s"):
            log.write("sent", "aa", calls=[], bytes=5)
    finally:
        os.close(handle)
    log.write("sent", "aa", calls=[], bytes=5)
    assert log.spent("aa").bytes == 5


def test_a_disk_that_fills_during_a_run_is_one_missing_answer(tmp_path: Path) -> None:
    """The answer whose line did not fit has not left, and the site goes on when there is room."""
    found, asked = hospitals(tmp_path), terms()

    class Filling(Direct):
        came: ClassVar[list[str]] = []  # hashes of what dale sent

        def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
            for name in requests:
                full = room(log, 100) if name == "dale" and len(self.came) == 8 else nullcontext()
                with full:
                    ((_, data),) = super().ask({name: requests[name]}, deadline)
                if name == "dale":
                    self.came.append(hashlib.sha256(data).hexdigest())
                yield name, data

    log = tmp_path / "store-dale" / "audit.jsonl"
    who = fs.Participation(quorum=0.5)
    run = fs.run(fs.Newton(LOSS), SiteTransport(Filling(found.files), asked), preprocess=PREPROCESS, participation=who)
    (said,) = [reason for row in run.history for name, reason in row.missing if name == "dale"]
    assert "audit.jsonl cannot be written: File too large" in said
    assert run.converged
    sent = [line["hash"] for line in read_log(log) if line["event"] == "sent"]
    del Filling.came[8]  # the words that it could not write
    assert sent == Filling.came


@pytest.mark.parametrize(
    "later", [None, 2.0, 30.0], ids=["nothing since", "a line two hours ago", "a line 30 hours ago"]
)
def test_runs_of_a_clock_that_was_ahead_count_for_a_day_and_not_for_good(later: float | None, tmp_path: Path) -> None:
    log, now = AuditLog(tmp_path / "audit.jsonl"), datetime.now(UTC)

    def note(time: datetime, event: str, run: str) -> None:
        line = {"time": time.isoformat(timespec="milliseconds"), "event": event, "run": run}
        lines.append_lines(log.path, json.dumps(line) + "\n")

    note(now - timedelta(hours=40), "run", "old")
    note(now + timedelta(days=900), "run", "ahead")
    note(now + timedelta(days=900), "sent", "ahead")
    if later is not None:
        note(now - timedelta(hours=later), "sent", "other")
        note(now - timedelta(hours=1), "run", "new")
    expected = {None: {"ahead"}, 2.0: {"ahead", "new"}, 30.0: {"new"}}
    assert log.recent_runs() == expected[later]


def test_texts_of_a_log_have_a_bound_and_no_controls(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("refused", "aa", said="x" * 10**6, may_send=["\x1b[2J\n" + "y" * 10**6])
    assert log.path.stat().st_size < 3 * MOST_TEXT
    (line,) = read_log(log.path)
    assert str(line["may_send"]).startswith(r"['\\x1b[2J\\ny")
