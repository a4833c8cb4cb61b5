"""The site's own log says everything that left, and nothing of the rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.errors import DataError
from fedsolve.sites import SiteTransport
from fedsolve.sites.audit import AuditLog, read_log
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, terms

NEWTON = fs.Newton(LOSS)


class Recorded(Direct):
    """Keeps a hash of everything that came back."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__(files)
        self.came: list[tuple[str, int, str]] = []

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        for name, data in super().ask(requests, deadline):
            self.came.append((name, len(data), hashlib.sha256(data).hexdigest()))
            yield name, data


def test_the_log_has_every_reply_that_came(tmp_path: Path) -> None:
    found, carrier = hospitals(tmp_path), None
    carrier = Recorded(found.files)
    run = fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS)
    for name in found.files:
        lines = list(read_log(tmp_path / f"store-{name}" / "audit.jsonl"))
        sent = [line for line in lines if line["event"] == "sent"]
        assert [(name, line["bytes"], line["hash"]) for line in sent] == [one for one in carrier.came if one[0] == name]
        assert sum(line["bytes"] for line in sent) == sum(  # type: ignore[misc]
            run.ledger.by_client(purpose)[name].bytes_up for purpose in ("algorithm", "measure", "setup")
        )
        numbers = {call["numbers"] for line in sent for call in line["calls"] if call["step"] == "Newton.evaluate"}  # type: ignore[attr-defined]
        assert numbers == {1 + 4 + 4 * 5 // 2}  # value, gradient, Hessian of four coefficients


def test_the_log_holds_no_cell_of_the_data(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
    cells = {line.split(",")[0] for line in (tmp_path / "arden.csv").read_text().splitlines()[1:]}
    text = (tmp_path / "store-arden" / "audit.jsonl").read_text()
    assert not [cell for cell in cells if f" {cell}," in text or f"[{cell}" in text]


def test_audit_in_words(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    run = fs.run(NEWTON, SiteTransport(Direct(found.files), asked), preprocess=PREPROCESS)
    with joined(found, NEWTON) as fed, pytest.raises(fs.errors.ClientRefused):
        fed.gather(NEWTON.evaluate, w=np.full(fed.features + 1, 1e6))
    log = str(tmp_path / "store-arden" / "audit.jsonl")
    said = CliRunner().invoke(app, ["audit", log], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.output
    assert f"Its loss, gradient and Hessian (15 numbers), {run.rounds + 1} times" in said.stdout
    page = Path("docs/site-administrator.md").read_text()  # which quotes these two lines
    quoted = [line.removeprefix("> ").removesuffix("<br>") for line in page.splitlines() if line.startswith("> ")]
    assert len(quoted) == 2
    assert all(line in said.stdout for line in quoted)
    assert run.rounds == 4
    assert "rule 'largest_loss'" in said.stdout
    plain = CliRunner().invoke(app, ["audit", log, "--run", asked.run[:6], "--json"])
    (one,) = json.loads(plain.stdout)["runs"]
    assert one["run"] == asked.run
    assert one["rows"] == 60
    assert one["bytes"] == sum(run.ledger.by_client(p)["arden"].bytes_up for p in ("algorithm", "measure", "setup"))
    assert CliRunner().invoke(app, ["audit", log, "--run", "ffff"]).exit_code == 2


def test_what_is_no_log_is_said(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "new" / "audit.jsonl")
    log.write("sent", "aa", calls=[], bytes=5)
    with log.path.open("a") as file:
        file.write('{"event": "se')  # as when the power failed
    assert [line["event"] for line in read_log(log.path)] == ["sent"]
    assert log.spent("aa").bytes == 5
    (tmp_path / "other").write_text("time,event\n1,2\n")
    with pytest.raises(DataError, match="line 1: this is no line of an audit log"):
        list(read_log(tmp_path / "other"))
    assert CliRunner().invoke(app, ["audit", str(tmp_path / "nowhere")]).exit_code == 2


def test_a_log_of_another_program_and_a_folder(tmp_path: Path) -> None:
    """NVFlare writes an audit.log into the kit of a site, and a site file names a folder as its store."""
    log = AuditLog(tmp_path / "store-dale" / "audit.jsonl")
    log.write("sent", "aa", calls=[{"step": "Newton.evaluate", "what": "its loss", "numbers": 1}], bytes=5)
    said = CliRunner().invoke(app, ["audit", str(log.path.parent)])
    assert said.exit_code == 0, said.output
    assert "Its loss (one number), once" in said.stdout
    assert "The report of a run counts" in said.stdout
    (tmp_path / "audit.log").write_text("[E:0f][T:2026-01-01][U:admin] check_status\n")
    for path in (tmp_path / "audit.log", tmp_path / "kits"):
        (tmp_path / "kits").mkdir(exist_ok=True)
        other = CliRunner().invoke(app, ["audit", str(path)])
        assert other.exit_code == 2
        assert "lies in audit.jsonl, in the folder that the site file names as its store" in other.stderr
    assert "not fedsolve's" in CliRunner().invoke(app, ["audit", str(tmp_path / "audit.log")]).stderr
    with log.path.open("a") as file:
        file.write("[E:0f]\n")
    assert "not fedsolve's" not in CliRunner().invoke(app, ["audit", str(log.path)]).stderr


def test_the_audit_says_what_a_run_was_about_and_what_all_have_in_common_once(tmp_path: Path) -> None:
    found, asked = hospitals(tmp_path), terms()
    fs.run(NEWTON, SiteTransport(Direct(found.files), asked), preprocess=PREPROCESS)
    fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
    fs.run(fs.FedNewtonCG(LOSS), SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
    log = str(tmp_path / "store-arden" / "audit.jsonl")
    said = CliRunner().invoke(app, ["audit", log], env={"COLUMNS": "200"}).stdout
    assert said.count("  Newton, to predict ill from age, pressure, sex") == 2
    assert said.count("  FedNewtonCG, to predict ill from age, pressure, sex") == 1
    assert said.count("  May ask for: as for the run before") == 1
    assert said.count("  Never leaves: as for the run before") == 2
    one = json.loads(CliRunner().invoke(app, ["audit", log, "--run", asked.run, "--json"]).stdout)["runs"][0]
    assert (one["algorithm"], one["target"], one["columns"]) == ("Newton", ["ill"], ["age", "pressure", "sex"])
    alone = CliRunner().invoke(app, ["audit", log, "--run", json.loads(Path(log).read_text().splitlines()[-1])["run"]])
    assert "as for the run before" not in alone.stdout


def test_a_log_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("run", "aa", rows=60, may_send=["its loss"], stays=["rows"])
    said = CliRunner().invoke(app, ["audit", str(log.path)])
    assert said.exit_code == 0
    assert "to predict" not in said.stdout
