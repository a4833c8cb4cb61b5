"""Processes that stop without ending, and processes that watch and are killed: nothing waits beyond its deadline, and
nothing is left."""

from __future__ import annotations

import time

import pytest

from fedsolve.deploy.processes import descendants
from tests.deploy.events import (
    DEADLINE,
    LONG,
    SOME,
    TOO_LATE,
    are_gone,
    check_deadlines,
    check_replayed,
    check_undisturbed,
    process,
    stopped,
    wait_for_reason,
)
from tests.deploy.federation import (
    LEAD,
    Federation,
    connected,
    fedsolve,
    finished,
    missing,
    wait_until,
)
from tests.extras import optional
from tests.sites.hospitals import NAMES

optional("nvflare")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("marks", [["fedsolve.sites.child"], ["worker_process", "fedsolve.sites.child"]])
def test_a_site_that_stops_is_waited_for_to_the_deadline_and_no_longer(running: Federation, marks: list[str]) -> None:
    """Its computation alone, which its job process notices; and both of them, which the server notices."""
    run = running.write_run(f"stopped-{len(marks)}", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with stopped(*(process(running, "dale", mark) for mark in marks)):
        wait_for_reason(running, run, "dale", TOO_LATE)
        running.wait_for_rounds(run, len(running.history_at_server(run)) + 5)  # the others go on
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert set(missing(running, run)) == {"dale"}
    check_deadlines(running, run)
    check_replayed(running, run)


def test_the_daemon_of_a_site_that_stops_is_not_missed(running: Federation) -> None:
    """The site's job process speaks to the server itself. A new run has to wait for the daemon, and says so."""
    run = running.write_run("stopped-daemon", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with stopped(process(running, "dale", "client_train")):
        said = finished(submitted)
        assert said["exit"] == 0, said
        assert not missing(running, run)
        check_undisturbed(running, run)
        wait_until(lambda: "dale" not in connected(running), "the server to notice")
        new = running.submit(running.write_run("without-dale", {"name": "AGD"}, **LONG), "--wait", 1)
        assert new["exit"] == 1
        assert "dale not connected" in new["message"]
    wait_until(lambda: connected(running) == set(NAMES), "the site to be back")
    wait_until(lambda: running.process("dale", "worker_process") is None, "the end of its job process")


def test_the_server_that_stops_is_said_and_its_run_goes_on(running: Federation) -> None:
    run = running.write_run("stopped-server", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with stopped(process(running, "localhost", "server_train")):
        status = fedsolve("status", "--kit", running.kit(LEAD), "--json")
        assert status.returncode == 1
        assert "does not answer; is it stopped, or very busy" in status.stderr
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert not missing(running, run)
    check_undisturbed(running, run)


def test_a_run_whose_process_at_the_server_stops_blames_no_site(running: Federation) -> None:
    """While it is stopped the deadline of an exchange passes, and nobody hears what the sites have answered."""
    run = running.write_run("stopped-job", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with stopped(process(running, "localhost", "runner_process")):
        time.sleep(DEADLINE + 5)
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 1
    assert not missing(running, run)
    check_undisturbed(running, run)


def test_who_watches_the_server_is_killed(running: Federation) -> None:
    run = running.write_run("killed-server", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    below = running.kill("localhost")
    try:
        wait_until(lambda: are_gone(below), "the processes of a server to end whose watching process was killed")
    finally:
        running.start("localhost")
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 2
    assert "has no process at the server any more" in said["account"][0]
    check_undisturbed(running, run)


def test_who_watches_a_site_is_killed(running: Federation) -> None:
    """Without a quorum: the site is needed, and the rest of the run is submitted again when it is back."""
    run = running.write_run("killed-site", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    below = running.kill("corrie")
    try:
        wait_until(lambda: are_gone(below), "the processes of a site to end whose watching process was killed")
    finally:
        running.start("corrie")
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 2
    assert "corrie" in said["account"][0]
    check_undisturbed(running, run)


def test_who_watches_a_site_is_killed_while_its_processes_are_stopped(running: Federation) -> None:
    """They cannot end by themselves. The daemon ends with who watched it, and what it had started when the kit is used
    again."""
    run = running.write_run("killed-stopped-site", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    daemon = process(running, "bryn", "client_train")
    with stopped(*descendants(running.daemons["bryn"].pid)):
        below = running.kill("bryn")
        try:
            wait_until(lambda: are_gone([daemon]), "the daemon to end")
            left = [pid for pid in below if not are_gone([pid])]
            assert len(left) == 2  # stopped: its job process and its computation
        finally:
            running.start("bryn")
        wait_until(lambda: are_gone(below), "what was left to be ended")
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 2
    check_undisturbed(running, run)
