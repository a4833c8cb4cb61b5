"""The files of a federation, without NVFlare: projects, the server's half of a run file, jobs, settings of kits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsolve as fs
from fedsolve.cli import daemons
from fedsolve.cli.main import app
from fedsolve.deploy import kit_settings, library, provisioning
from fedsolve.deploy.job_folder import write_job
from fedsolve.deploy.kits import Kit, open_kit
from fedsolve.deploy.processes import descendants, end_descendants
from fedsolve.deploy.project_file import read_project
from fedsolve.errors import ConfigError
from fedsolve.runfiles import server_file
from tests.extras import optional

PROJECT = """name = "hearts"
[server]
host = "fl.example.org"
[[sites]]
name = "arden"
[[users]]
name = "ann@example.org"
"""
RUN = """[sites]
names = ["arden", "bryn"]
target = "ill"
[algorithm]
name = "Newton"
loss = { name = "Logistic", intercept = "free" }
"""


def test_a_project(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text(PROJECT)
    found = read_project(tmp_path / "project.toml")
    assert found.participants() == ["fl.example.org", "arden", "ann@example.org"]
    assert found.server.port == 8002


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "arden"', 'name = "../arden"', "no name of a project or site"),
        ('name = "arden"', 'name = "arden"\n[[sites]]\nname = "arden"', "two participants are called 'arden'"),
        ('name = "arden"', 'name = "arden"\n[[sites]]\nname = "Arden"', "two participants are called 'arden'"),
        ('name = "arden"', 'name = "authority"', "a site cannot be called 'authority'"),
        ('name = "arden"', 'name = "Server"', "a site cannot be called 'Server'"),
        ("fl.example.org", "authority", "server.host cannot be 'authority'"),
        ("ann@example.org", "ann", "no name of a user"),
        ("fl.example.org", "fl example", "neither the name of a computer nor an address"),
        ("[server]", "[servers]", "servers"),
        (
            'name = "ann@example.org"',
            'name = "ann@example.org"\norg = "a"',
            r"users\[0\]\.org is not known, known: name, role, organisation$",
        ),
        (
            'name = "ann@example.org"',
            'name = "ann@example.org"\nrole = "boss"',
            r"users\[0\]\.role must be one of 'lead', 'member' or 'org_admin'",
        ),
        ('name = "arden"', 'name = "arden"\nport = 1', r"sites\[0\]\.port is not known, known: name, organisation"),
        ('name = "ann@example.org"', 'name = "ann@example.org"\nrole = "project_admin"', "role"),
        ('name = "arden"', 'name = "arden"\norganisation = "a b"', "no name of an organisation"),
    ],
)
def test_a_project_that_is_none(old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text(PROJECT.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read_project(tmp_path / "project.toml")


def test_a_file_that_is_not_there_is_called_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(tmp_path, "site", "arden", "arden", "hearts", "localhost", 1)
    monkeypatch.setattr(daemons, "_opened", lambda folder, kind: kit)
    for command, what in (
        (["provision", "nop.toml"], "project file"),
        (["site", "kit", "nop.toml"], "site file"),
        (["forget", "nop.toml"], "site file"),
        (["submit", "nop.toml", "--kit", "kit"], "run file"),
    ):
        said = CliRunner().invoke(app, command)
        assert said.exit_code == 2
        assert f"there is no {what} nop.toml" in said.stderr
    (tmp_path / "rows.csv").write_text("a,b\n")
    said = CliRunner().invoke(app, ["site", "kit", str(tmp_path / "rows.csv")])
    assert "is a data file, and this command takes a site file" in said.stderr


def test_the_servers_half_of_a_run_file() -> None:
    found = server_file.parse(RUN)
    label, entry = found.entry()
    assert label == "Newton"
    assert entry.algorithm == fs.Newton(fs.Logistic(intercept="free"))
    assert found.preprocessing() is None
    assert (found.participants().quorum, found.participants().retries) == (1.0, 1)


def test_site_intercepts_declare_the_sites() -> None:
    more = '[preprocess]\nsite_intercepts = "bryn"\nschema = [{ name = "age" }]\n'
    preprocess = server_file.parse(RUN + more).preprocessing()
    assert preprocess is not None
    assert preprocess.schema is not None
    *_, site = preprocess.schema.columns
    assert (site.name, getattr(site, "categories", None)) == ("site", ("bryn", "arden"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[data]\ndataset = "breast_cancer"', r"has \[data\]"),
        ('[run]\ntransport = "processes"', "are for simulations"),
        ('[run]\nwarm_start = "model.npz"', "warm_start"),
        ("[run]\ncheckpoint = false", "checkpoint"),
        ("[participation]\ndropout = 0.1", "simulate losses"),
        ("[participation]\nlatency = 1.0", "simulate losses"),
        ("[preprocess]\nsite_intercepts = true", "needs a schema"),
        ('[partition]\nscheme = "iid"', r"has \[partition\], which a run between sites has not: each site has its own"),
        ('[link]\nname = "Link"', r"has \[link\], .* here they are real"),
        ("[select]\nl2 = [0.1]", r"has \[select\], .*cross-validation.* simulations"),
        ("[gain]", r"has \[gain\], .*`fedsolve gain`.* simulations"),
        ("[compare]\nseeds = 2", r"has \[compare\], .*a file for each"),
        ('[[algorithms]]\nname = "SHED"', r"has \[\[algorithms\]\], .*a file for each"),
        ('[loggers]\ntensorboard = "logs"', r"has \[loggers\]"),
        ('[modules]\nfolder = "."', r"has \[modules\], .*import nothing"),
        ("[preproces]", r"preproces is not known, did you mean 'preprocess'"),
        ("[partitions]", "partitions is not known, did you mean 'participation'"),
    ],
)
def test_a_run_file_that_is_no_servers_half(more: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        server_file.parse(RUN + more + "\n")


@pytest.mark.parametrize("command", ["run", "compare", "select", "gain", "diagnose"])
def test_commands_for_simulations_know_the_servers_half(command: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    said = CliRunner().invoke(app, [command, str(tmp_path / "run.toml")])
    assert said.exit_code == 2
    assert "the server's half of a run between sites, for `fedsolve submit`" in said.stderr


def test_a_job_is_json_and_the_run_file_is_for_the_server_alone(tmp_path: Path) -> None:
    job = write_job(tmp_path, "job", "0123456789abcdef", RUN, ["arden", "bryn"], "fedsolve submit run.toml")
    files = sorted(str(one.relative_to(job)) for one in job.rglob("*") if one.is_file())
    assert files == [
        "app_server/config/config_fed_server.json",
        "app_server/config/run.json",
        "app_site/config/config_fed_client.json",
        "meta.json",
    ]
    for name in files:
        json.loads((job / name).read_text())
    assert json.loads((job / "meta.json").read_text())["deploy_map"]["app_site"] == ["arden", "bryn"]
    assert "Newton" not in (job / "app_site/config/config_fed_client.json").read_text()


def test_no_role_may_send_code_or_open_a_shell() -> None:
    for role, rights in kit_settings.authorization()["permissions"].items():
        assert isinstance(rights, dict), role  # a text would be for all rights there are
        assert (rights["byoc"], rights["shell_commands"], rights["operate"]) == ("none", "none", "none")
        assert (rights["submit_job"] == "any") == (role == "lead")


def test_a_folder_that_is_no_kit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no start-up kit"):
        open_kit(tmp_path, "site")
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_admin.json").write_text("{}")
    with pytest.raises(ConfigError, match="is the kit of a user, and this command needs that of a site"):
        open_kit(tmp_path, "site")


def test_without_nvflare_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedsolve\[nvflare\]'"):
        library.module("nvflare")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_descendants_end_also_when_they_are_stopped_or_ignore_signals() -> None:
    inner = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
    )
    outer = (
        "import os, signal, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {inner!r}], stdout=subprocess.PIPE, start_new_session=True)\n"
        "child.stdout.readline(); print('ready', flush=True); os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    below = descendants(process.pid)
    assert len(below) == 1
    end_descendants(process.pid)
    assert descendants(process.pid) == []
    process.kill()
    process.wait()
    process.stdout.close()


def test_site_intercepts_are_a_term_of_the_formula() -> None:
    optional("formulaic")
    more = (
        '[preprocess]\nsite_intercepts = true\nformula = "age * sex"\nschema = [{ name = "age" }, { name = "sex" }]\n'
    )
    preprocess = server_file.parse(RUN + more).preprocessing()
    assert preprocess is not None
    assert preprocess.formula == "age * sex + `site`"


@pytest.mark.parametrize("damage", ["gone", "cut", "garbage"])
def test_a_kit_without_a_sound_certificate(damage: str, tmp_path: Path) -> None:
    optional("nvflare")
    startup = tmp_path / "startup"
    startup.mkdir()
    (startup / "fed_client.json").write_text('{"servers": [{"name": "hearts", "service": {"target": "a:1"}}]}')
    if damage == "cut":
        (startup / "client.crt").write_text("-----BEGIN CERTIFICATE-----\nMIIC\n")
    elif damage == "garbage":
        (startup / "client.crt").write_bytes(b"\x00\xff" * 100)
    with pytest.raises(ConfigError, match=r"is damaged .*; ask for a new one"):
        open_kit(tmp_path, "site")


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_provisioning_that_is_cut_short_is_done_again(
    copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kit is there whole or not at all, so the next call makes what is missing, with the same authority."""
    optional("nvflare")
    (tmp_path / "project.toml").write_text(PROJECT)
    project, kits = read_project(tmp_path / "project.toml"), tmp_path / "kits"
    settle, done = provisioning._settle, []

    def cut_short(kit: Path, server: bool) -> None:
        done.append(kit)
        if len(done) > copies:
            (kit / "startup" / "rootCA.pem").unlink()
            raise KeyboardInterrupt
        settle(kit, server)

    monkeypatch.setattr(provisioning, "_settle", cut_short)
    try:
        provisioning.provision(project, kits)
    except KeyboardInterrupt:
        assert copies < 3
    else:
        assert copies == 3
    monkeypatch.undo()
    if copies < 3:
        assert len(provisioning.provision(project, kits)) == 3 - copies
    for name, kind in (("fl.example.org", "server"), ("arden", "site"), ("ann@example.org", "user")):
        assert open_kit(kits / name, kind).name == name
    authorities = {(kits / name / "startup" / "rootCA.pem").read_bytes() for name in project.participants()}
    assert len(authorities) == 1
    assert not list(kits.glob("authority/half-*"))
    assert not list(kits.glob("authority/*/prod_*"))
    holders = [one for one in kits.glob("authority/*/state/*") if "PRIVATE KEY" in one.read_text()]
    assert holders
    assert {one.stat().st_mode & 0o077 for one in holders} == {0}, "keys are for their owner alone"
    with pytest.raises(ConfigError, match="has kits for all participants"):
        provisioning.provision(project, kits)
