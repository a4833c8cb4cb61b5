"""The server's side of a run, without NVFlare: whose it is, and how long it waits for a site that is of no use."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fedsolve.deploy.run_owner import claim
from fedsolve.deploy.server_run import ServerRun
from fedsolve.errors import ConfigError, StorageError
from fedsolve.report import RunFolder
from fedsolve.runfiles.toml_writer import dumps
from fedsolve.wire.locks import FileLock
from tests.sites.curious import Direct
from tests.sites.hospitals import COLUMNS, NAMES, hospitals, site_text

RUN = "0123456789abcdef"
ANN, EVE = "ann@example.org", "eve@example.org"
FILE = {
    "sites": {"names": list(NAMES), "target": "ill"},
    "preprocess": {"schema": COLUMNS},
    "algorithm": {"name": "Newton", "loss": {"name": "Logistic", "intercept": "free"}},
    "participation": {"quorum": 0.5},
}


class Useless(Direct):
    """One site can be reached, and never says anything but that something went wrong, from some exchange on."""

    count = 0

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        self.count += 1
        wrong = {"corrie": "the site's job process failed"} if self.count > 8 and "corrie" in requests else {}
        self.absences = wrong
        yield from super().ask({name: one for name, one in requests.items() if name not in wrong}, deadline)


def test_a_site_that_is_reachable_and_of_no_use_is_lost_where_the_file_has_no_deadline(tmp_path: Path) -> None:
    """It is not waited for in every round, and does not keep the others from converging."""
    found = hospitals(tmp_path)
    summary = ServerRun(RUN, dumps(FILE), "", tmp_path / "run").execute(Useless(found.files), lambda row: None)
    assert summary["status"] == "converged", summary["message"]
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    reasons = [reason for row in rows for name, reason in row["missing"] if name == "corrie"]
    assert any(reason.startswith("lost in round") for reason in reasons), reasons
    assert len(rows) < 20  # of the 100 of the budget


# ── whose a run is ──


def test_a_run_goes_on_for_who_submitted_it(tmp_path: Path) -> None:
    folder = tmp_path / RUN
    claim(folder, ANN)
    claim(folder, ANN)
    with pytest.raises(ConfigError, match=f"the run {RUN} was submitted by somebody else"):
        claim(folder, EVE)
    assert [one.name for one in folder.iterdir()] == ["submitter.json"]


def test_whose_a_run_is_outlives_its_results(tmp_path: Path) -> None:
    """A job before the first checkpoint clears what the one before has left."""
    folder = tmp_path / RUN
    claim(folder, ANN)
    opened = RunFolder.open(folder, force=True)
    opened.write_config("x = 1")
    (folder / "history.jsonl").write_text("{}\n")
    RunFolder.open(folder, force=True)
    assert not (folder / "history.jsonl").exists()
    with pytest.raises(ConfigError, match="somebody else"):
        claim(folder, EVE)


@pytest.mark.parametrize("damage", [None, "", "{", "[]", "{}"])
def test_a_checkpoint_of_nobody_is_nobodys(damage: str | None, tmp_path: Path) -> None:
    folder = tmp_path / RUN
    claim(folder, ANN)
    (folder / "checkpoint.bin").write_bytes(b"x")
    if damage is None:
        (folder / "submitter.json").unlink()
    else:
        (folder / "submitter.json").write_text(damage)
    for who in (ANN, EVE):
        with pytest.raises(ConfigError, match="nobody knows whose the run"):
            claim(folder, who)
    with pytest.raises(ConfigError, match="does not say who submitted it"):
        claim(folder, "")


def test_of_two_who_come_at_once_one_has_the_run(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from fedsolve.deploy.run_owner import claim\n"
        "from fedsolve.errors import ConfigError\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try: claim(Path(sys.argv[1]), sys.argv[2]); print('has it')\n"
        "except ConfigError: print('has it not')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / RUN)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen([*command, who], text=True, **pipes) for who in (ANN, EVE)]  # type: ignore[call-overload]
    for one in processes:
        assert one.stdout.readline() == "ready\n"
    for one in processes:
        one.stdin.write("\n")
        one.stdin.flush()
    said = [one.communicate()[0] for one in processes]
    assert sorted(said) == ["has it\n", "has it not\n"]
    owner = json.loads((tmp_path / RUN / "submitter.json").read_text())["submitter"]
    assert owner == (ANN, EVE)[said.index("has it\n")]


def test_a_claim_that_is_held_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsolve.deploy.run_owner.PATIENCE", 0.1)
    folder = tmp_path / RUN
    folder.mkdir()
    lock = FileLock(folder / "submitter.json.lock")
    assert lock.acquire()
    with pytest.raises(StorageError, match="has been held by another job"):
        claim(folder, ANN)
    lock.release()
    claim(folder, ANN)


# ── the report ──


def page_of(folder: Path) -> str:
    return re.sub("<[^>]*>", "", (folder / "report.html").read_text())


def test_the_report_claims_nothing_of_what_went_before_the_run(tmp_path: Path) -> None:
    """Sites that have site files of their own need not have used `fedsolve init`, nor told each other anything."""
    found = hospitals(tmp_path)
    ServerRun(RUN, dumps(FILE), "", tmp_path / "run").execute(Direct(found.files), lambda row: None)
    page = page_of(tmp_path / "run")
    assert "fedsolve init" not in page
    assert "they tell each other" not in page
    assert "in a site file of its own" in page
    assert "before the run, to agree on these, did not pass through the run" in page
    assert "In the run itself nothing else left a site" in page


def test_a_site_that_never_joined_took_no_part(tmp_path: Path) -> None:
    """It is asked to join again from time to time: that is no reason to call it lost since then."""
    found, ends = hospitals(tmp_path), list[None]()
    found.files["bryn"].write_text(site_text("bryn", 'columns = ["age", "sex"]'))
    text = dumps({**FILE, "summary": {}})
    run = ServerRun(RUN, text, "", tmp_path / "run")
    summary = run.execute(Direct(found.files), lambda row: None, lambda: ends.append(None))
    assert (summary["status"], len(ends)) == ("converged", 1)
    why = "the run asks for column 'pressure', which this site does not give (rule 'columns' of this site's policy)"
    assert summary["message"].endswith(f"This is the objective of arden, corrie, dale; took no part: bryn ({why})")
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert len(rows) > 4
    assert all(row["missing"] == [["bryn", f"took no part: {why}"]] for row in rows)
    page = html.unescape(page_of(tmp_path / "run"))
    assert f"3 sites took part, and none of them was missing from a round. bryn took no part: {why}." in page
    assert "equals a fit to all 180 rows of arden, corrie and dale together; bryn took no part." in page
    assert "The model is not fitted to the rows of bryn: took no part." in page
    assert "lost" not in page
    assert "0 of 0" not in page
