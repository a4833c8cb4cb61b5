"""What goes wrong between organisations: processes that are killed, stop, or are not allowed to take part."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from fedsolve.deploy.admin import Admin
from fedsolve.deploy.job_folder import write_job
from fedsolve.deploy.kit_settings import CONTROLLER
from fedsolve.deploy.kits import open_kit
from tests.deploy.events import LONG, SOME, check_replayed, check_undisturbed
from tests.deploy.federation import (
    LEAD,
    MEMBER,
    Federation,
    connected,
    fedsolve,
    finished,
    missing,
    wait_until,
)
from tests.extras import optional

optional("nvflare")
pytestmark = pytest.mark.slow


def kill_computation(running: Federation, name: str) -> None:
    """Kill the process that computes while it has a request."""
    child = running.process(name, "fedsolve.sites.child")
    assert child is not None
    os.kill(child, signal.SIGSTOP)
    time.sleep(1)
    os.kill(child, signal.SIGKILL)


def test_the_computation_of_a_site_is_killed(running: Federation) -> None:
    run = running.write_run("computation", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    kill_computation(running, "bryn")
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 1
    assert not missing(running, run)
    check_undisturbed(running, run)


def test_the_job_process_of_a_site_is_killed(running: Federation) -> None:
    run = running.write_run("job-process", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    process = running.process("corrie", "worker_process")
    assert process is not None
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: running.process("corrie", "worker_process") not in (None, process), "a new process")
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 1  # it has joined the same job again
    check_replayed(running, run)


def test_the_daemon_of_a_site_is_killed(running: Federation) -> None:
    run = running.write_run("daemon", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    daemon = running.process("dale", "client_train")
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 2
    assert "lost a site" in said["account"][0]
    assert "dale (no sign of life" in said["account"][0]
    check_undisturbed(running, run)


def test_the_server_is_killed(running: Federation) -> None:
    run = running.write_run("server", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    daemon = running.process("localhost", "server_train")
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    said = finished(submitted)
    assert said["exit"] == 0, said
    assert said["jobs"] == 2
    assert "has no process at the server any more" in said["account"][0]
    check_undisturbed(running, run)


def test_ctrl_c_stops_the_run_and_resume_goes_on(running: Federation) -> None:
    run = running.write_run("interrupted", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    submitted.send_signal(signal.SIGINT)
    said = finished(submitted)
    assert said["exit"] == 130
    assert "--resume" in said["message"]
    state = json.loads(fedsolve("status", "--kit", running.kit(MEMBER), "--json").stdout)
    assert not any(job["status"] == "running" for job in state["jobs"])
    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    check_undisturbed(running, run)


def test_a_site_refuses_by_its_policy(running: Federation) -> None:
    path = running.hospitals.files["arden"]
    before = path.read_text()
    path.write_text(before.replace("[policy]", '[policy]\nalgorithms = ["FedNewtonCG"]'))
    try:
        said = running.submit(running.write_run("refused", {"name": "Newton"}))
    finally:
        path.write_text(before)
    assert said["exit"] == 1
    assert "the run uses Newton, and this site answers only FedNewtonCG (rule 'algorithms'" in said["message"]
    assert "arden" in said["message"]


def test_a_job_that_names_another_class_does_not_run(running: Federation, tmp_path: Path) -> None:
    """NVFlare's own controller, which is not on the list of these kits."""
    job = write_job(tmp_path, "other", "0123456789abcdef", "", list(running.hospitals.files), "")
    config = job / "app_server" / "config" / "config_fed_server.json"
    config.write_text(config.read_text().replace(CONTROLLER, "nvflare.app_common.workflows.fedavg.FedAvg"))
    with Admin(open_kit(running.kit(LEAD), "user")) as admin:
        found = admin.submit(job, "other-class")
        wait_until(lambda: admin.status(found).startswith("FINISHED"), "the end of the job")
        assert admin.status(found) != "FINISHED:COMPLETED"
        left = admin.fetch(found, tmp_path / "left")
    logs = "".join(one.read_text(errors="replace") for one in left.rglob("*log*.txt"))
    assert "is not in allow_list" in logs


def test_a_site_is_away_when_the_run_goes_on(running: Federation) -> None:
    run = running.write_run("away", {"name": "AGD"}, **LONG, **SOME)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    submitted.send_signal(signal.SIGINT)
    assert finished(submitted)["exit"] == 130
    assert running.stop("arden") == 0
    wait_until(lambda: "arden" not in connected(running), "the server to notice")
    try:
        new = running.submit(running.write_run("new", {"name": "AGD"}, **LONG, **SOME), "--wait", 1)
        again = running.submit(run, "--resume", "--wait", 1)
    finally:
        running.start("arden")
        wait_until(lambda: running.process("arden", "client_train") is not None, "the daemon")
    assert new["exit"] == 1
    assert "arden not connected" in new["message"]
    assert again["exit"] == 0, again
    assert "going on without arden" in again["said"]
    assert "arden" in missing(running, run)
    check_replayed(running, run)
