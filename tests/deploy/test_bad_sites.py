"""Sites that answer nonsense, whose data or disk is not as it was, or that are not what the run expects."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fedsolve.deploy.daemon import descendants
from fedsolve.version import __version__
from tests.deploy import other_code
from tests.deploy.federation import (
    ENVIRONMENT,
    SOME,
    Federation,
    check_replayed,
    check_undisturbed,
    federation,
    finished,
    missing,
    wait_until,
)
from tests.extras import optional

optional("nvflare")
pytestmark = pytest.mark.slow

ROUNDS = 150
LONG: dict[str, Any] = {"run": {"rounds": ROUNDS, "tolerance": 0.0}}
ODD = "corrie"  # the site that runs other code


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    odd = {ODD: other_code.environment(tmp_path_factory.mktemp("odd"), ENVIRONMENT["PYTHONPATH"])}
    with federation(tmp_path_factory.mktemp("federation"), odd) as found:
        yield found


@contextmanager
def order(running: Federation, what: str) -> Iterator[None]:
    """Let the odd site do something else."""
    path = Path(running.environments[ODD][other_code.ORDER])
    path.write_text(what)
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def full_disk(running: Federation, name: str) -> Iterator[None]:
    """No process of a participant can write a byte to any file, as on a full disk: those of NVFlare and those of
    fedsolve, and those that they start meanwhile."""
    watching = running.daemons[name].pid

    def let(room: int) -> None:
        for pid in (watching, *descendants(watching)):
            with suppress(ProcessLookupError):  # it has ended
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    let(0)
    try:
        yield
    finally:
        let(resource.RLIM_INFINITY)


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


def process(running: Federation, name: str, marked: str) -> int:
    found = running.process(name, marked)
    assert found is not None
    return found


def test_nonsense_leaves_its_site_out(running: Federation) -> None:
    run = running.write_run("nonsense", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 5)
    for how, said in [
        ("garbage", "decode"),
        ("cut", "decode"),
        ("long", "declares"),
        ("nan", "NaN"),
        ("shape", "shape"),
        ("late", "no answer within 5 s"),
    ]:
        with order(running, how):
            wait_for_reason(running, run, ODD, said)
        wait_until_back(running, run)
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 1
    assert set(missing(running, run)) == {ODD}
    check_replayed(running, run, ROUNDS)


def test_a_full_disk_at_a_site_leaves_it_out_until_there_is_room(running: Federation) -> None:
    run = running.write_run("site-disk", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 5)
    with full_disk(running, "bryn"):
        wait_for_reason(running, run, "bryn", "cannot be written: File too large")
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert set(missing(running, run)) == {"bryn"}
    last = running.history_at_server(run)[-1]
    assert not last["missing"]  # it was back
    check_replayed(running, run, ROUNDS)


def test_a_full_disk_at_the_checkpoint_ends_the_run_and_resume_goes_on(running: Federation) -> None:
    run = running.write_run("server-disk", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with full_disk(running, "localhost"):
        ended = finished(submitted)
    assert ended["exit"] == 1, ended
    assert ended["jobs"] == 1
    assert "cannot be written: File too large" in ended["message"]
    assert "localhost" in ended["message"]  # the path of a file in the server's kit
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    check_undisturbed(running, run, ROUNDS)


def test_a_data_file_that_changed_between_two_starts(running: Federation) -> None:
    run = running.write_run("changed", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    file = running.folder / "arden.csv"
    before = file.read_bytes()
    file.write_bytes(before.replace(b"yes", b"no", 1))
    try:
        os.kill(process(running, "arden", "fedsolve.sites.child"), signal.SIGKILL)
        ended = finished(submitted)
    finally:
        file.write_bytes(before)
    assert ended["exit"] == 1, ended
    assert "the data file of this site changed since the run began" in ended["message"]
    assert "arden" in ended["message"]
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    check_undisturbed(running, run, ROUNDS)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["f", "m"]', '["m", "f"]', "column 'sex' has other categories in the run than at this site"),
        ('name = "pressure"', 'name = "weight"', "asks for column 'pressure', which this site does not declare"),
    ],
    ids=["categories", "column"],
)
def test_columns_that_differ(running: Federation, old: str, new: str, said: str) -> None:
    path = running.hospitals.files["dale"]
    before = path.read_text()
    path.write_text(before.replace(old, new))
    try:
        ended = running.submit(running.write_run(f"columns-{len(said)}", {"name": "Newton"}))
    finally:
        path.write_text(before)
    assert ended["exit"] == 1
    assert said in ended["message"]
    assert "dale" in ended["message"]


def test_another_version_of_the_library(running: Federation) -> None:
    with order(running, "version"):
        ended = running.submit(running.write_run("version", {"name": "Newton"}))
    assert ended["exit"] == 1
    assert f"the run is of fedsolve {__version__}, this site has {other_code.OTHER_VERSION}" in ended["message"]
    assert ODD in ended["message"]
