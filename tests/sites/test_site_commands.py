"""What commands at a site show: no line of a server's making, and what they have removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.errors import ConfigError
from fedsolve.plain import to_plain
from fedsolve.sites import Site, SiteTransport, Terms, child, read_site_file
from fedsolve.sites.known_protocols import described
from tests.sites.curious import Direct
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, terms

NEWTON = fs.Newton(LOSS)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


def test_a_name_of_the_servers_making_forges_no_line_of_the_audit(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    protocols = described({"algorithm": NEWTON, "preprocess": PREPROCESS})
    name = "x)\n\nRun 0123456789abcdef, 2026-01-01 10:00: 3 replies\n  Its loss (1 numbers), 3 times\x1b[2J\n\n("
    protocols[name] = to_plain(fs.diagnose.Heterogeneity(LOSS))
    with pytest.raises(fs.errors.FedsolveError):
        Site(read_site_file(found.files["arden"]), Terms.from_json(Terms(terms().run, protocols).to_json()))
    said = invoke("audit", tmp_path / "store-arden" / "audit.jsonl").stdout
    assert "\x1b" not in said
    assert not any(
        line.startswith("Run 0123456789abcdef") or line.startswith("  Its loss") for line in said.splitlines()
    )
    assert "Its loss" in said  # within the line of the refusal


def test_what_a_site_writes_of_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    child._note(None, ConfigError("\x1b[2J\nConfigError: all is well" + "x" * 10**6))
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert len(err) < 5000


def test_forget_removes_what_is_idle_and_says_what_stays(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    fs.run(NEWTON, SiteTransport(Direct(found.files), asked), preprocess=PREPROCESS)
    file = found.files["arden"]
    assert "has been idle for 90 days" in invoke("forget", file).stdout
    before = time.time() - 91 * 86400
    for path in (tmp_path / "store-arden" / "runs").rglob("*"):
        os.utime(path, (before, before))
    shown = json.loads(invoke("forget", file, "--days", 92, "--json").stdout)
    assert shown["forgotten"] == []
    said = invoke("forget", file).stdout
    assert f"Forgot 1 run: {asked.run}." in said
    assert "The audit log, the site's secret, its sets of rows and its points are kept" in said
    assert not list((tmp_path / "store-arden" / "runs").iterdir())
    assert (tmp_path / "store-arden" / "audit.jsonl").is_file()
    assert invoke("forget", file, "--days", 0).exit_code == 2
