"""What keeps a site from starting for a run: what passes is tried again with the next request, what lasts is not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.errors import PolicyRefusal, StorageError
from fedsolve.sites import HeldOut, Site, SiteProcess, Terms, alone, read_site_file
from fedsolve.sites.column_guard import ColumnGuard
from fedsolve.sites.row_sets import known_sets
from fedsolve.wire.locks import FileLock, is_locked
from fedsolve.wire.messages import Failure, decode_answer
from tests.sites.hospitals import LOSS, PREPROCESS, Hospitals, hospitals, terms
from tests.sites.test_faults import is_alive

NEWTON = fs.Newton(LOSS)
PROTOCOLS = {"algorithm": NEWTON, "algorithm.search": NEWTON.search, "preprocess": PREPROCESS}
REQUEST = b"none"  # a site that has started says so
LONG = 120.0  # seconds for what takes two, on a busy machine


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


@contextmanager
def process(found: Hospitals) -> Iterator[SiteProcess]:
    made = SiteProcess(found.files["arden"], terms().asking(PROTOCOLS).to_json())
    try:
        yield made
    finally:
        made.close()


def said(site: SiteProcess, deadline: float = LONG) -> Failure:
    data = site.answer(REQUEST, deadline)
    assert data is not None
    answer = decode_answer(data, ())
    assert isinstance(answer, Failure)
    return answer


def has_started(site: SiteProcess) -> bool:
    return said(site).step == "decode"


# ── what passes ──


def test_a_lock_that_is_held_is_one_missing_answer(found: Hospitals, tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "store-arden" / "lock")
    lock.path.parent.mkdir()
    assert lock.acquire()
    with process(found) as site:
        answer = said(site, deadline=15)
        assert answer.kind == "StorageError"
        assert answer.text.startswith("lock has been held by another process of this site for")
        lock.release()
        assert has_started(site)


def away(path: Path) -> Callable[[], object]:
    moved = path.rename(path.with_suffix(".away"))
    return lambda: moved.rename(path)


def spoilt(path: Path) -> Callable[[], object]:
    """As while it is exported anew."""
    whole = path.read_text()
    path.write_text(whole.replace("yes", "ye", 1))
    return lambda: path.write_text(whole)


def blocked(path: Path) -> Callable[[], object]:
    """Something stands where a file is to be written."""
    path.mkdir(parents=True)
    return path.rmdir


@pytest.mark.parametrize(
    ("break_", "name", "kind", "words"),
    [
        (away, "arden.csv", "StorageError", "the data file of this site cannot be read: No such file"),
        (away, "arden.toml", "StorageError", "the site file arden.toml cannot be read: No such file"),
        (spoilt, "arden.csv", "DataError", "DataError when this site started"),
        (blocked, "store-arden/audit.jsonl", "StorageError", "audit.jsonl is a folder where a file is to be written"),
        (blocked, "store-arden/secret", "StorageError", "secret cannot be read: Is a directory"),
    ],
    ids=["data file", "site file", "half a data file", "audit log", "secret"],
)
def test_a_file_that_cannot_be_used_now_is_tried_again(
    break_: Callable[[Path], Callable[[], object]], name: str, kind: str, words: str, found: Hospitals, tmp_path: Path
) -> None:
    mend = break_(tmp_path / name)
    with process(found) as site:
        answer = said(site)
        assert (answer.kind, answer.step) == (kind, "session")
        assert answer.text.startswith(words)
        assert str(tmp_path) not in answer.text
        assert said(site).kind == kind
        mend()
        assert has_started(site)


# ── what lasts ──


def test_a_refusal_lasts(found: Hospitals) -> None:
    path = found.files["arden"]
    before = path.read_text()
    path.write_text(before + 'algorithms = ["SHED"]\n')
    with process(found) as site:
        assert said(site).kind == "PolicyRefusal"
        path.write_text(before)
        assert said(site).kind == "PolicyRefusal"
        assert site.pid is None


def test_data_that_changed_lasts(found: Hospitals, tmp_path: Path) -> None:
    file = tmp_path / "arden.csv"
    before = file.read_text()
    with process(found) as site:
        assert has_started(site)
        assert site.pid is not None
        os.kill(site.pid, signal.SIGKILL)
        time.sleep(0.5)
        file.write_text(before.replace("yes", "no", 1))
        assert "the data file of this site changed since the run began" in said(site).text
        file.write_text(before)
        assert "the data file of this site changed since the run began" in said(site).text
        assert site.pid is None


# ── processes that do not get ready ──


class Frozen(SiteProcess):
    """Its first process is stopped as soon as it is there."""

    frozen: int | None = None

    def _start(self, until: float | None) -> None:
        super()._start(until)
        if self.frozen is None:
            assert self.pid is not None
            self.frozen = self.pid
            os.kill(self.pid, signal.SIGSTOP)


def test_a_process_that_is_frozen_while_it_starts_is_replaced(found: Hospitals) -> None:
    site = Frozen(found.files["arden"], terms().asking(PROTOCOLS).to_json())
    try:
        assert site.answer(REQUEST, 0.5) is None
        assert has_started(site)
        assert site.pid != site.frozen
        assert site.frozen is not None
        assert not is_alive(site.frozen)
    finally:
        site.close()


def test_a_start_that_takes_longer_than_a_deadline_comes_to_an_end(found: Hospitals) -> None:
    """A new process would need as long as the one that it replaces, so each gets more time."""
    with process(found) as site:
        until, pids = time.monotonic() + LONG, set[int | None]()
        while (answer := site.answer(REQUEST, 0.2)) is None and time.monotonic() < until:
            pids.add(site.pid)
        assert answer is not None
        assert 1 < len(pids) < 10


def test_what_a_late_start_came_to_is_heard_with_the_next_request(found: Hospitals, tmp_path: Path) -> None:
    path = found.files["arden"]
    path.write_text(path.read_text() + 'algorithms = ["SHED"]\n')
    with process(found) as site:
        assert site.answer(REQUEST, 0.05) is None
        first = site.pid
        assert first is not None
        until = time.monotonic() + LONG
        while site._process is not None and site._process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert said(site).kind == "PolicyRefusal"
        assert (tmp_path / "store-arden" / "audit.jsonl").read_text().count('"refused"') == 1


# ── runs that begin at once ──


def begins(found: Hospitals, seed: int | None = None) -> Site:
    asked = Terms(terms().run, held_out=None if seed is None else HeldOut(0.3, seed))
    return Site(read_site_file(found.files["arden"]), asked.asking(PROTOCOLS))


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens while a site judges; once."""
    happens: list[Callable[[], object]] = []
    begin = ColumnGuard.begin

    def slow(self: ColumnGuard, *sets: object) -> None:
        if happens:
            happens.pop()()
        begin(self, *sets)  # type: ignore[arg-type]

    monkeypatch.setattr(ColumnGuard, "begin", slow)
    return happens


def test_no_other_run_waits_while_a_site_judges(
    found: Hospitals, tmp_path: Path, meanwhile: list[Callable[[], object]]
) -> None:
    seen: list[bool] = []
    meanwhile.append(lambda: seen.append(is_locked(tmp_path / "store-arden" / "lock")))
    begins(found)
    assert seen == [False]


def test_rows_of_a_run_that_began_meanwhile_are_judged_too(
    tmp_path: Path, meanwhile: list[Callable[[], object]]
) -> None:
    found = hospitals(tmp_path, policy="row_sets = 2")
    meanwhile.append(lambda: begins(found, seed=0))
    with pytest.raises(PolicyRefusal, match="'row_sets'"):
        begins(found, seed=1)
    (mark,) = (one.stem.removeprefix("row-sets-") for one in (tmp_path / "store-arden").glob("row-sets-*.json"))
    assert len(known_sets(tmp_path / "store-arden", mark)) == 2


def test_rows_that_both_use_are_remembered_once(
    found: Hospitals, tmp_path: Path, meanwhile: list[Callable[[], object]]
) -> None:
    meanwhile.append(lambda: begins(found, seed=0))
    begins(found)
    begins(found, seed=0)
    (mark,) = (one.stem.removeprefix("row-sets-") for one in (tmp_path / "store-arden").glob("row-sets-*.json"))
    assert len(known_sets(tmp_path / "store-arden", mark)) == 3


def test_of_runs_that_begin_at_once_so_many_go_on_as_may(tmp_path: Path, meanwhile: list[Callable[[], object]]) -> None:
    found = hospitals(tmp_path, policy="runs = 1")
    meanwhile.append(lambda: begins(found))
    with pytest.raises(PolicyRefusal, match="'runs'"):
        begins(found)


def test_of_refusals_that_rows_have_a_part_in_so_many_are_told_as_may(
    tmp_path: Path, meanwhile: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise runs that begin at once would be answers to more questions than a day has."""
    found = hospitals(tmp_path, policy="runs = 1")
    begin = ColumnGuard.begin
    meanwhile.append(lambda: begins(found))

    def refused(self: ColumnGuard, *sets: object) -> None:
        first = bool(meanwhile)
        begin(self, *sets)  # type: ignore[arg-type]
        if first:
            raise PolicyRefusal("min_cell", "a person")

    monkeypatch.setattr(ColumnGuard, "begin", refused)
    with pytest.raises(PolicyRefusal, match="'runs'"):
        begins(found)
    assert "a person" not in (tmp_path / "store-arden" / "audit.jsonl").read_text()


# ── turns ──


def test_a_turn_is_waited_for_as_long_as_there_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "PATIENCE", 0.05)
    held = FileLock(tmp_path / "lock")
    assert held.acquire()
    with pytest.raises(StorageError, match="held by another process"), alone.alone(tmp_path / "lock"):
        pass
    with pytest.raises(StorageError), alone.waiting_until(time.monotonic() + 0.1), alone.alone(tmp_path / "lock"):
        pass
    threading.Timer(0.3, held.release).start()
    with alone.waiting_until(time.monotonic() + LONG), alone.alone(tmp_path / "lock"):
        assert is_locked(tmp_path / "lock")
