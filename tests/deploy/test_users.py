"""Who may do what, by the server's own judgement: the commands are asked, and the connection that they use itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedsolve.deploy.admin import Admin, NotAllowed
from fedsolve.deploy.job_folder import write_job
from fedsolve.deploy.kits import open_kit
from tests.deploy.events import LONG, check_undisturbed, process, stopped
from tests.deploy.federation import (
    LEAD,
    MEMBER,
    ORG_ADMIN,
    OTHER_LEAD,
    Federation,
    connected,
    fedsolve,
    finished,
    wait_until,
)
from tests.extras import optional
from tests.sites.hospitals import NAMES

optional("nvflare")
pytestmark = pytest.mark.slow

ENDLESS = {"run": {"rounds": 100_000, "tolerance": 0.0}}


def test_a_member_looks_and_does_nothing_else(running: Federation, tmp_path: Path) -> None:
    """The command refuses before it asks the server; the server refuses whoever asks it without the command."""
    run = running.write_run("member", {"name": "AGD"}, **ENDLESS)
    said = fedsolve("submit", run, "--kit", running.kit(MEMBER), "--output", running.folder / "none", "--json")
    assert said.returncode == 2
    assert "bob@example.org has the role 'member' in hospitals and cannot submit runs" in said.stderr
    assert not (running.folder / "none").exists()

    submitted = running.begin(run)
    running.wait_for_rounds(run, 5)
    job = write_job(tmp_path, "job", "0123456789abcdef", run.read_text(), NAMES, "")
    with Admin(open_kit(running.kit(MEMBER), "user")) as admin:
        (alive,) = admin.running().jobs
        for ask, right in [
            (lambda: admin.submit(job, "job"), "submit_job"),
            (lambda: admin.fetch(alive, tmp_path / "left"), "download_job"),
            (lambda: admin.progress(alive, 0), "app_command"),
            (lambda: admin.stop(alive), "app_command"),
        ]:
            with pytest.raises(
                NotAllowed, match=f"bob@example.org may not do this with the role 'member': .*'{right}'"
            ):
                ask()
        assert [one["job_id"] for one in admin.jobs()] == [alive]
        assert admin.running().jobs == (alive,)
    state = json.loads(fedsolve("status", "--kit", running.kit(MEMBER), "--json").stdout)
    assert [(one["status"], one["rounds"]) for one in state["jobs"]] == [("running", None)]
    assert connected(running) == set(NAMES)
    said = fedsolve("stop", "--kit", running.kit(MEMBER), "--job", alive)
    assert said.returncode == 2
    assert "bob@example.org may not do this" in said.stderr

    # Whoever administers an organisation stops what its people have submitted, for good.
    said = fedsolve("stop", "--kit", running.kit(ORG_ADMIN), "--json")
    assert json.loads(said.stdout)["stopped"] == [alive], said.stderr
    ended = finished(submitted)
    assert (ended["exit"], ended["status"]) == (1, "stopped"), ended


def test_a_run_is_stopped_while_its_job_is_starting(running: Federation) -> None:
    """It has no controller yet that could be asked; and it is not submitted again."""
    run = running.write_run("early", {"name": "AGD"}, **ENDLESS)
    submitted = running.begin(run)
    with Admin(open_kit(running.kit(LEAD), "user")) as admin:
        wait_until(lambda: bool(admin.queued() or admin.running().jobs), "the job")
        (job,) = (*admin.queued(), *admin.running().jobs)
    said = fedsolve("stop", "--kit", running.kit(LEAD), "--json")
    assert json.loads(said.stdout)["stopped"] == [job], said.stderr
    ended = finished(submitted)
    assert (ended["exit"], ended["status"]) == (1, "stopped"), ended
    with Admin(open_kit(running.kit(LEAD), "user")) as admin:
        assert not [one for one in admin.jobs() if str(one["job_id"]) != job and one["status"] == "RUNNING"]


def test_a_run_goes_on_for_nobody_but_who_submitted_it(running: Federation) -> None:
    """Its id is in the names of its jobs, which everybody sees. Not before its first checkpoint, nor afterwards."""
    run = running.write_run("anns", {"name": "AGD"}, **LONG)
    submitted = running.begin(run)
    running.wait_for_rounds(run, 10)
    with stopped(process(running, "dale", "fedsolve.sites.child")):  # the run waits, however long the command takes
        said = json.loads(fedsolve("stop", "--kit", running.kit(LEAD), "--json").stdout)
        assert len(said["stopped"]) == 1
        ended = finished(submitted)
    assert (ended["exit"], ended["status"]) == (1, "stopped")
    assert [ended["resume"]] == list(said["resume"].values())
    at_server = running.run_at_server(run)
    before = {one.name: one.read_bytes() for one in at_server.iterdir()}

    # Another lead takes the id, as if the run were theirs: to resume it, and to begin it anew.
    theirs = running.write_run("eves", {"name": "AGD"}, **LONG)
    shutil.copytree(running.output(run), running.output(theirs))
    for name in ("summary.json", "report.html"):
        (running.output(theirs) / name).unlink(missing_ok=True)
    ended = finished(running.begin(theirs, "--resume", user=OTHER_LEAD))
    assert ended["exit"] == 1, ended
    assert f"the run {at_server.name} was submitted by somebody else" in ended["message"]
    assert ended["resume"] is None
    (at_server / "checkpoint.bin").rename(at_server / "aside")  # as before the first one, when a run is begun anew
    with Admin(open_kit(running.kit(OTHER_LEAD), "user")) as admin:
        job = write_job(running.folder, "taken", at_server.name, theirs.read_text(), NAMES, "")
        found = admin.submit(job, "taken")
        wait_until(lambda: admin.status(found).startswith("FINISHED"), "the end of the job")
        left = admin.fetch(found, running.folder / "left") / "workspace" / "fedsolve"
    assert sorted(one.name for one in left.iterdir()) == ["outcome.json"]  # nothing of the other's run
    assert "was submitted by somebody else" in (left / "outcome.json").read_text()
    (at_server / "aside").rename(at_server / "checkpoint.bin")
    assert {one.name: one.read_bytes() for one in at_server.iterdir()} == before

    again = running.submit(run, "--resume")
    assert again["exit"] == 0, again
    check_undisturbed(running, run)


def test_a_kit_whose_certificate_is_not_trusted(running: Federation, tmp_path: Path) -> None:
    """Users and sites with the same names and the same port. First everything is of another authority; then the
    authority is the project's own, which is public, and the certificate is forged."""
    project = tmp_path / "project.toml"
    project.write_text((running.folder / "project.toml").read_text())
    assert fedsolve("provision", project, "--output", tmp_path / "kits").returncode == 0
    kits = {name: tmp_path / "kits" / name for name in (LEAD, "arden")}
    for expected in (
        "has a certificate that the authority of the kit",
        "does not accept the certificate of the kit",
    ):
        said = fedsolve("status", "--kit", kits[LEAD], "--json")
        assert said.returncode == 2, said.stderr
        assert expected in said.stderr
        assert str(kits[LEAD]) in said.stderr
        assert len(said.stderr.splitlines()) == 1
        assert json.loads(said.stdout)["status"] == "error"
        said = fedsolve("site", kits["arden"], running.hospitals.files["arden"])
        assert said.returncode == 2, said.stderr
        assert expected in said.stderr
        for name, kit in kits.items():
            shutil.copy(running.kit(name) / "startup" / "rootCA.pem", kit / "startup" / "rootCA.pem")
    assert connected(running) == set(NAMES)


def test_a_server_that_is_not_there_is_said_otherwise(running: Federation, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(running.kit(LEAD), kit)
    settings = kit / "startup" / "fed_admin.json"
    settings.write_text(settings.read_text().replace(str(running.port), "1"))
    said = fedsolve("status", "--kit", kit)
    assert said.returncode == 1
    assert "at localhost:1 cannot be reached: connection refused; is `fedsolve server` running there?" in said.stderr
