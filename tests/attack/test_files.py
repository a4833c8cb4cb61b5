"""Files of other kinds, versions and owners; links, locks, modes, leftovers and full disks."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve import version
from fedsolve.errors import CheckpointError, DataError, FedsolveError, StorageError
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.memory_store import MemoryStore
from fedsolve.report import RunFolder
from fedsolve.report.output_folder import SUBMIT_LOCK
from fedsolve.wire import sealed_files as sealed
from fedsolve.wire.locks import FileLock, is_locked
from fedsolve.wire.messages import Failure, Reply
from fedsolve.wire.storage import read_values, write_atomically, write_values
from tests.attack.test_damaged_files import ALGORITHM, clients, told
from tests.faults.faulty import FaultyRoad

MODEL = fs.LinearModel(np.arange(3.0), True, "identity")


def run(path: Path, rounds: int = 4, **options: Any) -> fs.Run:
    return fs.run(ALGORITHM, clients(), rounds=rounds, tolerance=0, checkpoint=path, **options)


@pytest.fixture(scope="module")
def whole() -> tuple[Any, ...]:
    """What a run of eight rounds says that nothing interrupted."""
    return told(fs.run(ALGORITHM, clients(), rounds=8, tolerance=0))[:3]


def resumed(path: Path) -> tuple[Any, ...]:
    return told(run(path, rounds=8, resume=True))[:3]


def store_of(folder: Path) -> tuple[Path, Any]:
    """The store of a client that has answered some requests, and what it serves."""
    road = FaultyRoad(clients(), folder)
    fs.run(ALGORITHM, road, rounds=2, tolerance=0)
    return folder / "client-0.memory", road.runtimes["client-0"].serves


# ── other files ──


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.mkdir()


def text(path: Path) -> None:
    path.write_text("Dear reader,\n")


def zip_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "Dear reader,")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def values(path: Path) -> None:
    write_values(path, 1, 2)


def model(path: Path) -> None:
    MODEL.save(path)


def checkpoint(path: Path) -> None:
    run(path.with_name("another"))
    path.with_name("another").rename(path)


def ledger(path: Path) -> None:
    run(path.with_name("another"))
    path.with_name("another.ledger").rename(path)


def large_and_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(sealed.MAGIC)
        file.truncate(2**42)


def loop(path: Path) -> None:
    path.symlink_to(path)


OTHERS = [nothing, folder, text, zip_file, pipe, values, model, checkpoint, ledger, large_and_sparse, loop]


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", ["checkpoint", "ledger", "store", "model"])
def test_another_file_in_its_place_is_an_error_that_names_it(tmp_path: Path, kind: str, make: Any) -> None:
    if kind == make.__name__ == "model":
        return
    path = tmp_path / {"ledger": "run.ledger", "store": "client-0.memory"}.get(kind, "run")
    served: Any = None
    if kind in ("checkpoint", "ledger"):
        run(tmp_path / "run")
    if kind == "store":
        path, served = store_of(tmp_path)
    if path.exists():
        path.unlink()
    make(path)
    wanted = {"store": StorageError, "model": DataError}.get(kind, CheckpointError)
    read: dict[str, Callable[[], Any]] = {
        "store": lambda: Runtime(clients()[0], served, MemoryStore(path)),
        "model": lambda: fs.load_model(path),
    }
    with pytest.raises(wanted, match=path.name) as caught:
        read.get(kind, lambda: run(tmp_path / "run", resume=True))()
    assert len(str(caught.value)) < 400 + len(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [folder, text, zip_file, pipe, model], ids=lambda make: make.__name__)
def test_a_new_run_does_not_write_over_a_file_that_is_no_ledger(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "run.ledger")
    with pytest.raises(CheckpointError, match=r"run\.ledger"):
        run(tmp_path / "run")
    assert [one.name for one in tmp_path.iterdir()] == ["run.ledger"]


def test_a_ledger_whose_checkpoint_was_removed_is_replaced(tmp_path: Path, whole: tuple[Any, ...]) -> None:
    run(tmp_path / "run", rounds=5)
    (tmp_path / "run").unlink()
    run(tmp_path / "run", rounds=2)
    assert resumed(tmp_path / "run") == whole


def test_the_ledger_of_another_run_or_of_another_moment_is_noticed(tmp_path: Path) -> None:
    run(tmp_path / "run")
    run(tmp_path / "twin")  # alike in everything but its own mark
    shutil.copy(tmp_path / "twin.ledger", tmp_path / "run.ledger")
    with pytest.raises(CheckpointError, match=r"run\.ledger"):
        run(tmp_path / "run", resume=True)
    early = (tmp_path / "twin.ledger").read_bytes()
    run(tmp_path / "twin", rounds=8, resume=True)
    (tmp_path / "twin.ledger").write_bytes(early)
    with pytest.raises(CheckpointError, match=r"twin\.ledger"):
        run(tmp_path / "twin", resume=True)


def test_a_ledger_that_is_changed_while_the_run_goes_on_is_noticed(tmp_path: Path) -> None:
    def meddle(row: Any) -> None:
        if row.round == 2:
            data = bytearray((tmp_path / "run.ledger").read_bytes())
            data[-1] ^= 1
            (tmp_path / "run.ledger").write_bytes(data)

    with pytest.raises(CheckpointError, match="changed or replaced"):
        run(tmp_path / "run", on_round=meddle)


OLD = (
    b"fsol\x01\x00\x04\x00" + bytes(56),  # a checkpoint
    (72).to_bytes(8, "little") + b"fsol\x01\x00\x04\x00" + bytes(56),  # and a ledger
)


@pytest.mark.parametrize("data", OLD)
def test_files_from_before_checksums_are_rejected_with_the_reason(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "run").write_bytes(data)
    with pytest.raises(CheckpointError, match="earlier fedsolve, before files had checksums"):
        run(tmp_path / "run", resume=True)


def test_models_from_before_checksums_are_read(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:  # NumPy reads ours too
        assert str(file["fedsolve"]) == fs.__version__
        np.savez(tmp_path / "old.npz", w=file["w"], model=file["model"])
    assert fs.load_model(tmp_path / "old.npz").w.tobytes() == MODEL.w.tobytes()
    good = (tmp_path / "old.npz").read_bytes()
    for place in range(0, len(good), 7):  # still never a raw error, nor other weights
        bad = bytearray(good)
        bad[place] ^= 0x21
        (tmp_path / "old.npz").write_bytes(bad)
        try:
            assert fs.load_model(tmp_path / "old.npz").w.tobytes() == MODEL.w.tobytes()
        except DataError:
            continue


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"format": 1', '"format": 2'),
        ('"link": "identity"', '"link": "cubic"'),
        ('"link": "identity"', '"link": []'),
        ('"intercept": true', '"intercept": "yes"'),
        ('"transform": null', '"transform": 3'),
        ('"features": null', '"features": {"name": "RandomFourier"}'),
        ('"features": null', '"features": [1]'),
        ('"classes": null', '"classes": 2'),
        ('"kind": "linear"', '"kind": "' + "[" * 100_000),
        ("{", "[" * 100_000),
    ],
)
def test_a_model_whose_text_makes_no_sense(tmp_path: Path, before: str, after: str) -> None:
    MODEL.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        text = str(file["model"]).replace(before, after)
        np.savez(tmp_path / "model.npz", w=file["w"], model=np.array(text))
    with pytest.raises(DataError, match=r"model\.npz"):
        fs.load_model(tmp_path / "model.npz")


@pytest.mark.parametrize("w", [np.array(["a"]), np.zeros((2, 2, 2)), np.array(1.0), np.zeros(2, dtype="V4")])
def test_a_model_whose_weights_make_no_sense(tmp_path: Path, w: Any) -> None:
    MODEL.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        np.savez(tmp_path / "model.npz", w=w, model=file["model"])
    with pytest.raises(DataError, match=r"model\.npz"):
        fs.load_model(tmp_path / "model.npz")


# ── versions ──


def test_another_version_does_not_go_on_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "run")
    path, served = store_of(tmp_path)
    MODEL.save(tmp_path / "model.npz")
    monkeypatch.setattr(version, "__version__", "9.9.9")
    with pytest.raises(CheckpointError, match=r"written by fedsolve 0\.1\.0, and this is fedsolve 9\.9\.9"):
        run(tmp_path / "run", resume=True)
    with pytest.raises(StorageError, match=r"fedsolve 0\.1\.0 wrote it, and this is fedsolve 9\.9\.9"):
        Runtime(clients()[0], served, MemoryStore(path))
    assert fs.load_model(tmp_path / "model.npz").w.tobytes() == MODEL.w.tobytes()  # models are kept for years


def test_another_format_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sealed, "FORMAT", 2)
        run(tmp_path / "run")
        path, served = store_of(tmp_path)
    with pytest.raises(CheckpointError, match="of format 2 where this version of fedsolve reads 1"):
        run(tmp_path / "run", resume=True)
    with pytest.raises(StorageError, match="of format 2"):
        Runtime(clients()[0], served, MemoryStore(path))
    with monkeypatch.context() as patch:
        patch.setattr("fedsolve.wire.archives._COMMENT", b"fedsolve-npz-2:")
        MODEL.save(tmp_path / "model.npz")
    with pytest.raises(DataError, match="its format is one that this version"):
        fs.load_model(tmp_path / "model.npz")


# ── one run at a time ──


def test_a_second_run_on_a_checkpoint_is_rejected(
    tmp_path: Path, whole: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    said: list[str] = []

    def second(row: Any) -> None:
        for path in (folder / "run", tmp_path / "link" / "run", Path("run"), Path("../link/../folder/run")):
            for resume in (True, False):
                with pytest.raises(CheckpointError, match="in use by another run") as caught:
                    run(path, resume=resume)
                said.append(str(caught.value))

    first = run(folder / "run", rounds=8, on_round=second)
    assert len(said) == 8 * 9
    assert told(first)[:3] == whole
    assert sorted(one.name for one in folder.iterdir()) == ["run", "run.ledger"]
    assert resumed(folder / "run") == whole


def test_a_failed_run_gives_the_lock_back(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(row: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        run(tmp_path / "run", on_round=stop)
    with pytest.raises(fs.errors.ConfigError, match="already a checkpoint"):
        run(tmp_path / "run")
    run(tmp_path / "run", resume=True)


def test_a_change_of_the_working_directory_does_not_move_the_checkpoint(
    tmp_path: Path, whole: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run(Path("run"), on_round=lambda row: os.chdir(tmp_path / "elsewhere"))
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert resumed(tmp_path / "run") == whole


def test_a_lock_whose_file_somebody_removed_is_taken_again(tmp_path: Path) -> None:
    def remove(row: Any) -> None:
        (tmp_path / "run.lock").unlink(missing_ok=True)

    run(tmp_path / "run", on_round=remove)

    def intrude(row: Any) -> None:
        (tmp_path / "run.lock").unlink(missing_ok=True)
        intruder.acquire()

    intruder = FileLock(tmp_path / "run.lock")
    with pytest.raises(CheckpointError, match="in use"):
        run(tmp_path / "run", rounds=6, resume=True, on_round=intrude)
    intruder.release()


HOLDER = """
import os, sys
from pathlib import Path
from fedsolve.wire.locks import FileLock
locks = [FileLock(Path(path)) for path in sys.argv[1:]]
assert all(lock.acquire() for lock in locks)
if os.fork() == 0:  # a worker that outlives us
    sys.stdin.read()
    os._exit(0)
print("held", flush=True)
os.read(0, 1)
"""


@pytest.fixture
def holder() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Another process that holds locks until it is killed, and one that it forked, which lives on."""
    started: list[subprocess.Popen[str]] = []

    def start(*paths: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, *map(str, paths)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()  # which also ends what was forked


def test_a_killed_process_leaves_no_lock(
    tmp_path: Path, whole: tuple[Any, ...], holder: Callable[..., subprocess.Popen[str]]
) -> None:
    run(tmp_path / "run")
    path, served = store_of(tmp_path / "stores")
    other = holder(tmp_path / "run.lock", path.with_name("client-0.memory.lock"))
    with pytest.raises(CheckpointError, match="in use"):
        run(tmp_path / "run", resume=True)
    with pytest.raises(StorageError, match="in use by another process"):
        Runtime(clients()[0], served, MemoryStore(path))
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert resumed(tmp_path / "run") == whole
    assert Runtime(clients()[0], served, MemoryStore(path)).attempt == 1


def test_a_store_that_is_opened_again_in_one_process_goes_to_the_new_client(tmp_path: Path) -> None:
    first, second = MemoryStore(tmp_path / "store"), MemoryStore(tmp_path / "store")
    first.write(1, {0: {}})
    assert second.read(frozenset()) == (1, {0: {}})
    with pytest.raises(StorageError, match="opened again"):
        first.write(2, {0: {}})
    second.write(3, {0: {}})
    first.close()  # not what it has no longer
    assert is_locked(tmp_path / "store.lock")
    second.close()
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


# ── full disks ──


class Disk:
    """A disk that fails from some call on."""

    def __init__(self, patch: pytest.MonkeyPatch, what: str, code: int, after: int, part: bool = False) -> None:
        real: Callable[..., Any] = getattr(os, what)
        self.left = after

        def failing(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                return real(*arguments, **named)
            if part and self.left == -1:  # some of it still fits
                return real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise OSError(code, os.strerror(code))

        patch.setattr(os, what, failing)


FAULTS = [
    ("write", errno.ENOSPC, True),
    ("write", errno.EDQUOT, False),
    ("write", errno.EIO, True),
    ("fsync", errno.EIO, False),
    ("fsync", errno.ENOSPC, False),
    ("replace", errno.EROFS, False),
    ("ftruncate", errno.EIO, False),
    ("open", errno.EACCES, False),
    ("open", errno.EMFILE, False),
]


@pytest.mark.parametrize(("what", "code", "part"), FAULTS)
def test_a_full_disk_is_a_checkpoint_error_and_the_last_checkpoint_holds(
    tmp_path: Path, whole: tuple[Any, ...], what: str, code: int, part: bool
) -> None:
    failed = 0
    for after in range(0, 40, 3):
        path = tmp_path / f"{after}" / "run"
        run(path, rounds=2)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, what, code, after, part)
            try:
                run(path, rounds=8, resume=True)
            except CheckpointError as error:
                failed += 1
                assert os.strerror(code) in str(error), str(error)  # noqa: PT017
        assert resumed(path) == whole
        assert sorted(one.name for one in path.parent.iterdir()) == ["run", "run.ledger"]
    assert failed >= 3


@pytest.mark.skipif(os.name != "posix", reason="limits of the size of files are POSIX")
def test_a_limit_of_the_size_of_files_is_a_checkpoint_error(tmp_path: Path, whole: tuple[Any, ...]) -> None:
    run(tmp_path / "run", rounds=2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "run.ledger").stat().st_size + 100, hard))
    try:
        with pytest.raises(CheckpointError, match="cannot be written"):
            run(tmp_path / "run", rounds=8, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert resumed(tmp_path / "run") == whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 kB, where the tests may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(place)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk is not permitted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path, tmp_path: Path, whole: tuple[Any, ...]) -> None:
    with pytest.raises(CheckpointError, match="No space left on device; make room"):
        run(small_disk / "run", rounds=2000)
    with pytest.raises(StorageError, match="No space left on device; make room"):
        write_atomically(small_disk / "big", bytes(10**6))
    assert sorted(one.name for one in small_disk.iterdir()) == ["run", "run.ledger"]
    for name in ("run", "run.ledger"):
        shutil.copy(small_disk / name, tmp_path / name)
    longer = run(tmp_path / "run", rounds=2100, resume=True)
    assert longer.rounds >= 8
    assert told(longer)[2][:9] == whole[2]


def test_a_place_that_cannot_be_written_is_said_before_the_first_round(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    asked: list[Any] = []
    with pytest.raises(CheckpointError, match="cannot be written"):
        run(tmp_path / "file" / "run", on_round=asked.append)
    assert asked == []


@pytest.mark.parametrize("path", ["", ".", "..", "/", "a\0b", "n" * 250, "n" * 400])
def test_a_checkpoint_needs_a_path_that_can_be_one(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((CheckpointError, fs.errors.ConfigError)):
        run(Path(path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("what", "code", "part"), [("write", errno.ENOSPC, True), ("replace", errno.EIO, False)])
def test_a_client_whose_disk_is_full_sends_no_reply(tmp_path: Path, what: str, code: int, part: bool) -> None:
    def asked_until(after: int | None) -> tuple[FaultyRoad, list[Any]]:
        """Two rounds, or as far as the disk of the clients goes; and the requests that client-1 got."""
        road, requests = FaultyRoad(clients(), tmp_path / str(after)), []
        real = Runtime.answer

        def answer(self: Runtime, request: Any) -> Reply | Failure:
            if self.client.name == "client-1":
                requests.append(request)
            return real(self, request)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Runtime, "answer", answer)
            if after is not None:
                Disk(patch, what, code, after, part)
                with pytest.raises(fs.errors.ClientError, match=rf"client-1.*{os.strerror(code)}"):
                    fs.run(ALGORITHM, road, rounds=2, tolerance=0)
            else:
                fs.run(ALGORITHM, road, rounds=2, tolerance=0)
        return road, requests

    _, undisturbed = asked_until(None)
    # The second reply of the second of three clients; a store is written in three pieces.
    road, requests = asked_until(4 if what == "replace" else 3 * 4 + 1)
    runtime, path = road.runtimes["client-1"], road.folder / "client-1.memory"
    assert 1 < len(requests) < len(undisturbed)
    before = path.read_bytes()
    assert MemoryStore(path).read(runtime.types)[1].keys() == runtime.versions.keys()
    assert requests[-1].preamble.number not in runtime.versions
    road.clients["client-1"].forget()
    anew = Runtime(road.clients["client-1"], runtime.serves, MemoryStore(path))
    assert isinstance(anew.answer(requests[-1]), Reply)  # asked again, with room on the disk
    assert path.read_bytes() != before


# ── modes, links, leftovers ──


def made_files(folder: Path) -> list[Path]:
    """One file of every kind."""
    run(folder / "run", rounds=1)
    store = MemoryStore(folder / "store")
    store.write(1, {0: {}})
    store.close()
    MODEL.save(folder / "model.npz")
    RunFolder.open(folder / "report").append(fs.run(ALGORITHM, clients(), rounds=0).history[0])
    RunFolder(folder / "report").write_config("")
    return [one for one in folder.rglob("*") if one.is_file()]


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o007, 0o660)])
def test_modes_follow_the_umask_at_the_time(
    tmp_path: Path, mask: int, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(mask)
    with monkeypatch.context() as patch:
        # Nobody asks for the umask, which means to set it for every thread.
        patch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))
        try:
            found = made_files(tmp_path / "made")
        finally:
            patch.undo()
            os.umask(before)
    assert len(found) == 6
    assert {stat.S_IMODE(one.stat().st_mode) for one in found} == {mode}


NAMES = ["run", "run.ledger", "run.lock", "store", "store.lock", "model.npz", "report/history.jsonl"]


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str, dangling: bool) -> None:
    victim, link = tmp_path / "victim", tmp_path / "made" / name
    if not dangling:
        victim.write_text("mine")
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    with pytest.raises(FedsolveError, match="link" if not name.endswith(".lock") else "symbolic links"):
        _make(tmp_path / "made", name.split("/")[-1])
    assert link.is_symlink()
    assert not victim.exists() if dangling else victim.read_text() == "mine"


def _make(folder: Path, name: str) -> None:
    if name == "history.jsonl":
        row = fs.run(ALGORITHM, clients(), rounds=0).history[0]
        RunFolder(folder / "report").append(row)
    elif name.startswith("store"):
        MemoryStore(folder / "store").write(1, {0: {}})
    elif name == "model.npz":
        MODEL.save(folder / name)
    else:
        run(folder / "run", rounds=1)


def test_links_are_not_read_into_a_resumed_history(tmp_path: Path) -> None:
    """The history of a run folder that is continued is replaced, not written through a link."""
    victim = tmp_path / "victim"
    victim.write_text('{"round": 0}\n{"round": 1}\n')
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "history.jsonl").symlink_to(victim)
    row = fs.run(ALGORITHM, clients(), rounds=0).history[0]
    with pytest.raises(StorageError, match="symbolic link"):
        RunFolder.open(folder, resume=True).append(row)
    assert victim.read_text() == '{"round": 0}\n{"round": 1}\n'


def test_a_linked_folder_is_as_good_as_the_folder(tmp_path: Path, whole: tuple[Any, ...]) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    run(tmp_path / "link" / "run")
    assert resumed(tmp_path / "real" / "run") == whole


def _leftovers(folder: Path, names: list[str]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    found = [folder / f".{name}.{number:016x}.fedsolve-tmp" for number, name in enumerate(names)]
    for one in found:
        one.write_bytes(b"half")
    return found


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ours = _leftovers(tmp_path, ["run", "run.ledger", "store", "model.npz"])
    report = _leftovers(
        tmp_path / "report", ["history.jsonl", "report.html", "checkpoint.bin", "checkpoint.bin.ledger"]
    )
    names = [".run.notes", ".run.12.fedsolve-tmp", "run.0000000000000000.fedsolve-tmp", ".another.tmp"]
    others = [tmp_path / name for name in names]
    others += _leftovers(tmp_path, ["runner", "another.npz"])
    for one in others:
        one.write_bytes(b"mine")
    linked = tmp_path / f".run.{99:016x}.fedsolve-tmp"
    linked.symlink_to(others[0])
    run(tmp_path / "run", rounds=1)
    MemoryStore(tmp_path / "store").read(frozenset())
    MODEL.save(tmp_path / "model.npz")
    RunFolder.open(tmp_path / "report", force=True)
    assert [one for one in ours + report if one.exists()] == []
    assert [one for one in others if not one.exists()] == []
    assert linked.is_symlink()


def test_what_is_being_written_is_not_taken_for_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def slow(source: Any, target: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", real)
            MODEL.save(tmp_path / "model.npz")  # somebody else, at the same time
        assert Path(source).exists()
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", slow)
        fs.LinearModel(np.zeros(2), False, "identity").save(tmp_path / "model.npz")
    assert fs.load_model(tmp_path / "model.npz").w.tobytes() == bytes(16)
    assert [one.name for one in tmp_path.iterdir()] == ["model.npz"]


def test_a_folder_whose_run_goes_on_is_not_cleared(tmp_path: Path) -> None:
    folder = RunFolder.open(tmp_path / "out")
    folder.write_config("mine")

    def second(row: Any) -> None:
        for how in ({"force": True}, {"resume": True}):
            with pytest.raises(CheckpointError, match="a run is going on"):
                RunFolder.open(tmp_path / "out", **how)

    run(folder.checkpoint, on_round=second)
    assert (tmp_path / "out/config.toml").read_text() == "mine"
    assert RunFolder.open(tmp_path / "out", force=True).path.is_dir()
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
def test_a_folder_into_which_a_run_is_submitted_is_left_alone(how: dict[str, bool], tmp_path: Path) -> None:
    """Only the `fedsolve submit` that holds it writes there; what a killed one leaves is not in the way."""
    folder = tmp_path / "out"
    RunFolder.open(folder).write_config("theirs")
    lock = FileLock(folder / SUBMIT_LOCK)
    assert lock.acquire()
    with pytest.raises(CheckpointError, match=r"`fedsolve submit` writes into the folder .*; wait until it has ended"):
        RunFolder.open(folder, **how)
    assert sorted(one.name for one in folder.iterdir()) == ["config.toml", SUBMIT_LOCK]
    assert RunFolder.open(folder, submits=True, force=True).path == folder
    lock.release()
    (folder / SUBMIT_LOCK).touch()
    assert RunFolder.open(folder, **how).path == folder


def test_a_folder_above_one_into_which_a_run_is_submitted_is_left_alone(tmp_path: Path) -> None:
    RunFolder.open(tmp_path / "out" / "one").append(fs.run(ALGORITHM, clients(), rounds=0).history[0])
    lock = FileLock(tmp_path / "out" / "one" / SUBMIT_LOCK)
    assert lock.acquire()
    with pytest.raises(CheckpointError, match=r"writes into the folder .*one now"):
        RunFolder.open(tmp_path / "out", force=True)
    assert (tmp_path / "out/one/history.jsonl").is_file()
    lock.release()


def test_a_damaged_history_of_a_run_folder_is_no_obstacle(tmp_path: Path) -> None:
    """Its rows are written again from the checkpoint, so what cannot be read of it is left out."""
    folder, row = tmp_path / "out", fs.run(ALGORITHM, clients(), rounds=0).history[0]
    RunFolder.open(folder).append(row)
    good = (folder / "history.jsonl").read_bytes()
    (folder / "history.jsonl").write_bytes(b"\xff\xfe\n" + b"[" * 200_000 + b"\n3\n" + good + good[:9])
    RunFolder.open(folder, resume=True).append(replace(row, round=1))
    assert [json.loads(line)["round"] for line in (folder / "history.jsonl").read_text().splitlines()] == [0, 1]


# ── what a save costs ──


def test_a_save_writes_what_is_new_whatever_was_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, sizes, real = [0], [], os.write

    def count(handle: int, data: Any) -> int:
        written[0] += len(data)
        return real(handle, data)

    def note(row: Any) -> None:
        sizes.append(written[0])

    monkeypatch.setattr(os, "write", count)
    run(tmp_path / "run", rounds=300, on_round=note)
    costs = np.diff(sizes)
    assert costs[:20].min() > 1000
    assert costs[-30:-5].mean() < 1.05 * costs[10:30].mean()  # numbers of more digits take some bytes more


def test_values_of_a_file_are_read_after_its_checksum(tmp_path: Path) -> None:
    write_values(tmp_path / "file", np.arange(3.0))
    data = bytearray((tmp_path / "file").read_bytes())
    data[-40] ^= 1
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(fs.errors.WireError, match="checksum does not match"):
        read_values(tmp_path / "file")
