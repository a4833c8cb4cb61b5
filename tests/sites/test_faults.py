"""What can happen to a site while a run goes on, and what is left of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError, FedsolveError, StorageError
from fedsolve.sites import LocalCarrier, Site, SiteTransport, Terms, read_site_file, run_store
from fedsolve.sites.run_store import RunStore, forget_runs
from fedsolve.wire.messages import Failure, decode_answer
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import LOSS, PREPROCESS, Hospitals, hospitals, terms

NEWTON = fs.Newton(LOSS)


class Meddled(LocalCarrier):
    """Does something to the sites before some exchange, and sees that no process is left at the end."""

    def __init__(self, files: list[Path], when: int, what: Callable[[Meddled], None]) -> None:
        super().__init__(files)
        self.when, self.what, self.count = when, what, 0
        self.seen: set[int] = set()

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        self.count += 1
        self.seen |= {pid for pid in self.pids().values() if pid is not None}
        if self.count == self.when:
            self.what(self)
        yield from super().ask(requests, deadline)

    def close(self) -> None:
        self.seen |= {pid for pid in self.pids().values() if pid is not None}
        super().close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stopped(name: str, killed_after: float | None = None) -> Callable[[Meddled], None]:
    """Freeze a site's computation, so that the next request finds it there, and kill it while that is waited for."""

    def do(carrier: Meddled) -> None:
        pid = carrier.pids()[name]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        if killed_after is not None:
            threading.Timer(killed_after, os.kill, (pid, signal.SIGKILL)).start()

    return do


def reasons(run: fs.Run) -> dict[str, str]:
    return dict(one for row in run.history for one in row.missing)


def replayed(run: fs.Run, found: Hospitals) -> fs.Run:
    """The same run in one process, with the absences of that one."""
    replay = fs.Replay(cohorts=run.ledger.cohorts(), quorum=0.5)
    return fs.run(NEWTON, found.clients, preprocess=PREPROCESS, participation=replay)


def test_a_killed_computation_is_one_failed_reply(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    carrier = Meddled(found.paths, 9, stopped("bryn", killed_after=0.5))
    who = fs.Participation(quorum=0.5, deadline=60)
    run = fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS, participation=who)
    missing = reasons(run)
    assert set(missing) == {"bryn"}
    assert "SIGKILL" in missing["bryn"]
    assert run.converged
    assert np.array_equal(run.model.w, replayed(run, found).model.w)
    assert not any(map(is_alive, carrier.seen))


def test_a_frozen_computation_is_waited_for_once_and_replaced(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    carrier = Meddled(found.paths, 9, stopped("dale"))
    who = fs.Participation(quorum=0.5, deadline=8)
    run = fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS, participation=who)
    missing = reasons(run)
    assert "no answer within 8 s" in missing["dale"]
    assert run.converged
    assert np.array_equal(run.model.w, replayed(run, found).model.w)
    assert not any(map(is_alive, carrier.seen))


def test_a_computation_that_dies_between_two_requests_is_not_missed(tmp_path: Path) -> None:
    def kill(carrier: Meddled) -> None:
        for pid in carrier.pids().values():
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)  # until they are dead: one that dies later is one failed reply

    found = hospitals(tmp_path)
    carrier = Meddled(found.paths, 9, kill)
    run = fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS)
    assert reasons(run) == {}
    assert np.array_equal(run.model.w, fs.run(NEWTON, found.clients, preprocess=PREPROCESS).model.w)
    assert len(carrier.seen) == 8


# ── without processes ──


def site(found: Hospitals, asked: Terms, name: str = "arden") -> Site:
    return Site(read_site_file(found.files[name]), asked.asking(PROTOCOLS))


PROTOCOLS = {"algorithm": NEWTON, "algorithm.search": NEWTON.search, "preprocess": PREPROCESS}


def test_a_file_that_changed_between_two_starts(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    site(found, asked)
    site(found, asked)  # a restart alone changes nothing
    file = tmp_path / "arden.csv"
    file.write_text(file.read_text().replace("yes", "no", 1))
    with pytest.raises(StorageError, match="the data file of this site changed since the run began"):
        site(found, asked)
    site(found, terms())  # another run may begin with it


def test_terms_that_changed_between_two_starts(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    site(found, asked)
    other = fs.Newton(fs.Logistic(l2=1.0, intercept="free"))
    with pytest.raises(StorageError, match="the terms of this site changed"):
        Site(read_site_file(found.files["arden"]), asked.asking({"algorithm": other, "preprocess": PREPROCESS}))


def test_an_orphan_of_an_earlier_start_neither_writes_nor_answers(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    carrier = Direct({"arden": found.files["arden"]})
    with fs.Session(SiteTransport(carrier, asked)) as session:
        session.open(PROTOCOLS)
        session.fed.join()
        orphan = carrier.sites["arden"]
        assert isinstance(orphan, Site)
        lines = (tmp_path / "store-arden" / "audit.jsonl").read_text().count('"sent"')
        Site(read_site_file(found.files["arden"]), asked.asking(PROTOCOLS))  # the site starts again, elsewhere
        with pytest.raises(ClientError, match="another process of this site has taken over"):
            session.fed.join()
    assert (tmp_path / "store-arden" / "audit.jsonl").read_text().count('"sent"') == lines


def test_a_restarted_site_goes_on_from_its_own_memory(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    undisturbed = fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)

    class Restarting(Direct):
        """Every site starts anew before every exchange."""

        text = ""

        def begin(self, terms: str) -> None:
            self.text = terms
            super().begin(terms)

        def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
            super().begin(self.text)
            yield from super().ask(requests, deadline)

    run = fs.run(NEWTON, SiteTransport(Restarting(found.files), terms()), preprocess=PREPROCESS)
    assert np.array_equal(run.model.w, undisturbed.model.w)


@pytest.mark.parametrize("which", ["memory", "owner", "agreed.json"])
def test_a_damaged_store_is_said_and_not_used(which: str, tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    carrier = Direct({"arden": found.files["arden"]})
    with fs.Session(SiteTransport(carrier, asked)) as session:
        session.open(PROTOCOLS)
        session.fed.join()
    path = tmp_path / "store-arden" / "runs" / asked.run / which
    path.write_bytes(b"\x00" + path.read_bytes()[1:-1])
    if which == "owner":  # whoever starts next owns the store
        site(found, asked)
    else:
        with pytest.raises(StorageError):
            site(found, asked)


def test_a_log_that_cannot_be_written_lets_nothing_leave(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    with joined(found, NEWTON) as fed:
        log = tmp_path / "store-corrie" / "audit.jsonl"
        log.unlink()
        log.mkdir()
        with pytest.raises(FedsolveError, match=r"audit.*folder"):
            fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))


@pytest.mark.parametrize("data", [b"", b"garbage", b"\xff" * 200, b"FEDS" + b"\x00" * 100])
def test_garbage_gets_an_answer_that_says_so(data: bytes, tmp_path: Path) -> None:
    answer = decode_answer(site(hospitals(tmp_path), terms()).answer(data), ())
    assert isinstance(answer, Failure)
    assert answer.step == "decode"


def test_runs_are_forgotten_after_some_days(tmp_path: Path) -> None:
    old, new = RunStore(tmp_path / "aa", {}), RunStore(tmp_path / "bb", {})
    for store in (old, new):
        store.write(1, {0: {}})
    (tmp_path / "notes of the administrator").mkdir()
    (tmp_path / ".forgotten-cc").mkdir()  # of a call that was killed
    before = (time.time() - 90 * 86400,) * 2
    for path in (*tmp_path.iterdir(), *old.folder.iterdir()):
        os.utime(path, before)
    for path in new.folder.iterdir():
        os.utime(path, before if path.name != "memory" else None)
    assert forget_runs(tmp_path, 91) == []
    assert forget_runs(tmp_path, 30) == ["aa"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bb", "notes of the administrator"]
    assert forget_runs(tmp_path / "nowhere", 30) == []


def test_a_run_that_is_just_being_written_is_not_forgotten(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "aa", {})
    for path in (*store.folder.iterdir(), store.folder):
        os.utime(path, (0, 0))
    with store.owned():
        os.utime(store.folder, (0, 0))
        os.utime(store.folder / "lock", (0, 0))
        assert forget_runs(tmp_path, 30) == []
    os.utime(store.folder, (0, 0))
    assert forget_runs(tmp_path, 30) == ["aa"]


def test_a_run_that_was_forgotten_begins_anew_and_its_budgets_do_not(tmp_path: Path) -> None:
    """What it was given is counted from the audit log, which stays; its points stay too."""
    found, asked = hospitals(tmp_path), terms()
    carrier = Direct({"arden": found.files["arden"]})
    with fs.Session(SiteTransport(carrier, asked)) as session:
        session.open(PROTOCOLS)
        session.fed.join()
    store = tmp_path / "store-arden"
    kept = {one for one in store.rglob("*") if one.is_file() and "runs" not in one.parts}
    for path in store.rglob("runs/**/*"):
        os.utime(path, (0, 0))
    assert forget_runs(store / "runs", 1) == [asked.run]
    assert kept == {one for one in store.rglob("*") if one.is_file()}
    again = site(found, asked)
    assert again.guard.spent.requests == 1


# ── answers that are none ──


class Spoiled(Direct):
    """One site's answer to one exchange is replaced, and its answer when it is asked once more who sent NaN."""

    def __init__(self, files: Mapping[str, Path], when: int, spoil: Callable[[bytes], bytes | None]) -> None:
        super().__init__(files)
        self.when, self.spoil, self.count = when, spoil, 0

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        self.count += 1
        for name, data in super().ask(requests, deadline):
            spoiled = (
                self.spoil(data)
                if self.when <= self.count <= self.when + (self.spoil is nan_in) and name == "corrie"
                else data
            )
            if spoiled is not None:
                yield name, spoiled
            else:
                self.absences["corrie"] = "no answer within 1 s"


def nan_in(data: bytes) -> bytes:
    """The reply with NaN in the place of its gradient, whose four numbers come before the ten of the Hessian."""
    numbers = np.frombuffer(data[-8 * (len(data) // 8) :], dtype=np.float64).copy()
    numbers[-14:-10] = np.nan
    return data[: len(data) % 8] + numbers.tobytes()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: b"garbage" * 40, "decode"),
        (lambda data: data[: len(data) // 2], "decode"),
        (lambda data: data + b"\x00" * 64, "decode"),
        (nan_in, "NaN"),
        (lambda data: None, "no answer"),
    ],
    ids=["garbage", "cut off", "too long", "NaN", "late"],
)
def test_an_answer_that_is_none_leaves_its_site_out(
    spoil: Callable[[bytes], bytes | None], said: str, tmp_path: Path
) -> None:
    found = hospitals(tmp_path)
    who = fs.Participation(quorum=0.5)
    carrier = Spoiled(found.files, 9, spoil)
    run = fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS, participation=who)
    assert said in reasons(run)["corrie"]
    assert run.converged
    assert np.array_equal(run.model.w, replayed(run, found).model.w)


def test_a_full_disk_at_a_site_is_one_missing_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reply leaves whose memory could not be written; when there is room again the site is back."""
    found = hospitals(tmp_path)
    written: list[Path] = []
    write = run_store.write_atomically

    def full(path: Path, *pieces: bytes) -> None:
        written.append(path)
        if path.name == "memory" and "store-dale" in str(path) and 8 <= sum(one == path for one in written) <= 8:
            raise StorageError(f"{path} cannot be written: No space left on device; make room on the disk")
        write(path, *pieces)

    monkeypatch.setattr(run_store, "write_atomically", full)
    who = fs.Participation(quorum=0.5)
    run = fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS, participation=who)
    assert "No space left on device" in reasons(run)["dale"]
    assert run.converged
    monkeypatch.undo()
    assert np.array_equal(run.model.w, replayed(run, found).model.w)


def test_a_run_resumes_without_a_site_that_is_away(tmp_path: Path) -> None:
    found, asked, saved = hospitals(tmp_path), terms(), tmp_path / "run.ckpt"
    who = fs.Participation(quorum=0.5)
    first = SiteTransport(Direct(found.files), asked)
    fs.run(NEWTON, first, preprocess=PREPROCESS, participation=who, checkpoint=saved, rounds=2)

    class Away(Direct):
        def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
            self.absences = {"arden": "away"} if "arden" in requests else {}
            yield from super().ask({name: one for name, one in requests.items() if name != "arden"}, deadline)

    again = SiteTransport(Away(found.files), asked)
    run = fs.run(NEWTON, again, preprocess=PREPROCESS, participation=who, checkpoint=saved, resume=True)
    assert run.converged
    assert "arden" in run.message
    # The columns were standardised with all four. On raw columns the fit is that of the other three.
    others = fs.run(NEWTON, found.clients[1:], preprocess=PREPROCESS)
    new = found.clients[0].X
    np.testing.assert_allclose(run.model.predict_proba(new), others.model.predict_proba(new), rtol=1e-7)
