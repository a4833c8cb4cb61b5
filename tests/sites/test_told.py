"""No folder of a site's disk leaves it, and no hash of its data file."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import FedsolveError, PolicyRefusal, StorageError
from fedsolve.sites import read_site_file, run_store
from fedsolve.sites.told import told_of
from tests.sites.curious import joined
from tests.sites.hospitals import LOSS, hospitals

NEWTON = fs.Newton(LOSS)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{store}/lock has been held by another process", "lock has been held by another process"),
        ("{store}/audit.jsonl cannot be written: No space left on device", "audit.jsonl cannot be written: No space"),
        ("{store}/row-sets-0123456789abcdef0123456789abcdef.json cannot be read", "row-sets-*.json cannot be read"),
        ("{store}/points/0123456789abcdef.f64 cannot be read", "*.f64 cannot be read"),
        ("{store} cannot be written: Permission denied", "store-arden cannot be written: Permission denied"),
        ("{store}/x cannot be read: [Errno 5] I/O error: '{store}/x'; y", "x cannot be read: [Errno 5] I/O error: 'x'"),
        ("/var/lib/other/disk/x cannot be written; choose another place", "x cannot be written; choose another place"),
        ("another process of this site has taken over", "another process of this site has taken over"),
    ],
)
@pytest.mark.parametrize("folder", ["plain", "with some spaces"])
def test_files_are_called_by_their_names_alone(said: str, told: str, folder: str, tmp_path: Path) -> None:
    home = tmp_path / folder
    home.mkdir()
    about = read_site_file(hospitals(home).files["arden"])
    words = told_of(StorageError(said.format(store=about.store)), about)
    assert words.startswith(told)
    assert "/" not in words.replace("I/O", "")


def test_words_of_other_errors_stay_what_they_are() -> None:
    refusal = PolicyRefusal("formulas", "a formula, 'age /pressure + a/b', which is none that this site allows")
    assert told_of(refusal) == str(refusal)


def log_is_a_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    log = folder / "store-corrie" / "audit.jsonl"
    log.unlink()
    log.mkdir()


def disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *pieces: bytes) -> None:
        raise StorageError(f"{path} cannot be written: No space left on device")

    monkeypatch.setattr(run_store, "write_atomically", full)


def memory_is_a_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    (path,) = (folder / "store-corrie" / "runs").glob("*/memory")
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("trouble", [log_is_a_folder, disk_is_full, memory_is_a_folder])
def test_a_reply_that_cannot_leave_names_no_folder(
    trouble: Callable[[Path, pytest.MonkeyPatch], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The site's own log has the whole path, or standard error where there is no log."""
    found = hospitals(tmp_path)
    with joined(found, NEWTON) as fed:
        trouble(tmp_path, monkeypatch)
        with pytest.raises(FedsolveError) as caught:
            fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))
    assert str(tmp_path.parent) not in str(caught.value)
    assert "store-" not in str(caught.value)
    logs = [one.read_text() for one in tmp_path.glob("store-*/audit.jsonl") if one.is_file()]
    assert str(tmp_path) in capsys.readouterr().err + "".join(logs)


def test_an_answer_leaves_also_where_standard_error_is_on_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with joined(hospitals(tmp_path), NEWTON) as fed:
        log_is_a_folder(tmp_path, monkeypatch)
        monkeypatch.setattr(sys, "stderr", Full())
        with pytest.raises(FedsolveError, match=r"audit\.jsonl is a folder"):
            fed.gather(NEWTON.evaluate, w=np.zeros(fed.features + 1))
