"""Sites that answer nonsense, whose data or disk is not as it was, or that are not what the run expects."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedsolve.version import __version__
from tests.deploy import other_code
from tests.deploy.events import (
    SOME,
    TOO_LATE,
    check_deadlines,
    check_replayed,
    check_undisturbed,
    full_disk,
    process,
    wait_for_reason,
    wait_until_back,
)
from tests.deploy.federation import ENVIRONMENT, Federation, federation, fedsolve, finished, missing
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
        ("late", TOO_LATE),
    ]:
        with order(running, how):
            wait_for_reason(running, run, ODD, said)
        wait_until_back(running, run)
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 1
    assert set(missing(running, run)) == {ODD}
    check_replayed(running, run, ROUNDS)


@pytest.mark.parametrize("room", [None, 100], ids=["not a byte", "in the middle of a line"])
def test_a_full_disk_at_a_site_leaves_it_out_until_there_is_room(running: Federation, room: int | None) -> None:
    run = running.write_run(f"site-disk-{room}", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 5)
    log = running.folder / "store-bryn" / "audit.jsonl"
    with full_disk(running, "bryn", 0 if room is None else log.stat().st_size + room):
        wait_for_reason(running, run, "bryn", "cannot be written: File too large")
    wait_until_back(running, run)
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert set(missing(running, run)) == {"bryn"}
    check_deadlines(running, run)
    check_replayed(running, run, ROUNDS)
    assert all(json.loads(line) for line in log.read_text().splitlines())  # no line is there in part
    assert fedsolve("audit", log).returncode == 0


@pytest.mark.parametrize("room", [None, 30], ids=["not a byte", "in the middle of a line"])
def test_a_full_disk_at_the_checkpoint_ends_the_run_and_resume_goes_on(running: Federation, room: int | None) -> None:
    run = running.write_run(f"server-disk-{room}", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    history = running.run_at_server(run) / "history.jsonl"
    with full_disk(running, "localhost", 0 if room is None else history.stat().st_size + room):
        ended = finished(submitted)
    assert ended["exit"] == 1, ended
    assert ended["jobs"] == 1
    assert "cannot be written: File too large" in ended["message"]
    assert "localhost" in ended["message"]  # the path of a file in the server's kit
    assert ended["resume"] is not None
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    rounds = [json.loads(line)["round"] for line in (running.output(run) / "history.jsonl").read_text().splitlines()]
    assert rounds == list(range(ROUNDS + 1))
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
