"""Commands and processes that end at a bad moment, several runs at once, and what is left of them: nothing."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import write_job
from fedsolve.deploy.kit_settings import EXECUTOR
from fedsolve.deploy.kits import open_kit
from fedsolve.deploy.processes import descendants
from tests.deploy.events import LONG, SOME, are_gone, check_replayed, check_undisturbed
from tests.deploy.federation import LEAD, Federation, connected, finished, missing, wait_until
from tests.extras import optional
from tests.sites.hospitals import NAMES, site_text

optional("nvflare")
pytestmark = pytest.mark.slow


def test_submit_is_killed_and_resume_waits_for_its_job(running: Federation) -> None:
    rounds = 400  # so many that the job still runs when the next command has started
    run = running.write_run("killed-submit", {"name": "AGD"}, run={"rounds": rounds, "tolerance": 0.0})
    submitted = running.begin(run)
    running.wait_for_rounds(run, 5)
    submitted.kill()
    submitted.communicate()
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    assert "of this run has not ended: waiting for it" in again["said"]
    assert again["jobs"] == 1
    check_undisturbed(running, run, rounds)


def test_two_runs_at_once(running: Federation) -> None:
    runs = [running.write_run(name, {"name": "AGD"}, **LONG) for name in ("one", "other")]
    submitted = [running.begin(run) for run in runs]
    for run, one in zip(runs, submitted, strict=True):
        ended = finished(one)
        assert ended["exit"] == 0, ended
        assert ended["jobs"] == 1
        check_undisturbed(running, run)


def test_the_job_process_of_the_server_is_killed(running: Federation) -> None:
    run = running.write_run("server-job", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    process = running.process("localhost", "runner_process")
    assert process is not None
    os.kill(process, signal.SIGKILL)
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 2
    assert "before the run did" in ended["account"][0]
    check_undisturbed(running, run)


def test_a_site_is_stopped_in_order_during_a_run_and_started_again(running: Federation) -> None:
    run = running.write_run("stopped-site", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    daemon = running.daemons.pop("corrie")
    below = descendants(daemon.pid)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    assert are_gone(below)
    running.start("corrie")
    ended = finished(submitted)
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 2
    assert "corrie" in ended["account"][0]
    check_undisturbed(running, run)


def test_a_site_that_is_gone_for_good_costs_no_second_job(running: Federation) -> None:
    """NVFlare waits for word from every site before it says that a job has ended; from this one none comes."""
    run = running.write_run("gone", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    below = running.kill("bryn")
    try:
        wait_until(lambda: are_gone(below), "the processes of a site to end whose watching process was killed")
        ended = finished(submitted)
    finally:
        running.start("bryn")
        wait_until(lambda: running.process("bryn", "client_train") is not None, "the daemon")
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 1, ended["account"]
    assert "bryn" in missing(running, run)
    check_replayed(running, run)
    wait_until(lambda: connected(running) == set(NAMES), "all sites")


def test_a_site_that_refuses_is_left_out_where_there_is_a_quorum(running: Federation) -> None:
    path = running.hospitals.files["arden"]
    before = path.read_text()
    path.write_text(site_text("arden", 'algorithms = ["FedNewtonCG"]'))
    run = running.write_run("refused-by-one", {"name": "AGD"}, **LONG, **SOME)
    try:
        ended = running.submit(run)
    finally:
        path.write_text(before)
    assert ended["exit"] == 0, ended
    assert ended["jobs"] == 1
    assert "the run uses AGD, and this site answers only FedNewtonCG" in missing(running, run)["arden"]
    assert "(rule 'algorithms' of this site's policy)" in ended["message"]
    assert [one["name"] for one in ended["clients"]] == ["bryn", "corrie", "dale"]


def test_a_site_runs_no_executor_but_fedsolves(running: Federation, tmp_path: Path) -> None:
    """NVFlare's own, which is not on the list of these kits."""
    job = write_job(tmp_path, "other", "0123456789abcdef", "", list(NAMES), "")
    config = job / "app_site" / "config" / "config_fed_client.json"
    other = "nvflare.app_common.np.np_trainer.NPTrainer"
    config.write_text(config.read_text().replace(EXECUTOR, other))
    with Admin(open_kit(running.kit(LEAD), "user")) as admin:
        found = admin.submit(job, "other-executor")
        wait_until(lambda: admin.status(found).startswith("FINISHED"), "the end of the job")
    logs = "".join(one.read_text(errors="replace") for one in running.kit("arden").glob("**/*log*"))
    assert f"{other} is not in allow_list" in logs or ("NPTrainer" in logs and "is not in allow_list" in logs)


def test_no_room_for_the_results(running: Federation) -> None:
    """The disk has room for checkpoints, and none for the report: the run has ended, and says what it lacks."""
    run = running.write_run("no-room", {"name": "Newton"})

    def let(room: int) -> None:
        watching = running.daemons["localhost"].pid
        for pid in (watching, *descendants(watching)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    let(20_000)
    try:
        ended = running.submit(run)
    finally:
        let(resource.RLIM_INFINITY)
    assert ended["exit"] == 1, ended
    assert "File too large" in ended["message"]
    assert ended["jobs"] == 1, ended["account"]
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    assert (running.output(run) / "report.html").is_file()
