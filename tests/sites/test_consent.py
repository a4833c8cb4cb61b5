"""`fedsolve consent` and `fedsolve audit` say what may leave a site, and what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fedsolve.cli.main import app
from fedsolve.deploy.preview import asked_of_sites
from fedsolve.deploy.server_run import ServerRun
from fedsolve.runfiles import server_file
from fedsolve.sites import Terms
from tests.sites.curious import Direct
from tests.sites.hospitals import hospitals, site_text

RUN = """
[sites]
names = ["arden", "bryn", "corrie", "dale"]
target = "ill"
[[preprocess.schema]]
name = "age"
[[preprocess.schema]]
name = "sex"
categories = ["f", "m"]
drop_first = true
unseen = "error"
[algorithm]
name = "Newton"
loss = { name = "Logistic", intercept = "free" }
[evaluation]
hold_out = 0.3
least = 5
[summary]
"""


def asked(folder: Path, policy: str = "", run: str = RUN, *more: str, site: str = "arden") -> Result:
    """The command, with a site file whose data file does not exist."""
    (folder / "site.toml").write_text(site_text(site, policy, data='drop = ["patient"]'))
    (folder / "run.toml").write_text(run)
    return CliRunner().invoke(app, ["consent", str(folder / "site.toml"), str(folder / "run.toml"), *more])


def in_json(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_that_is_accepted(tmp_path: Path) -> None:
    said = asked(tmp_path)
    assert said.exit_code == 0, said.output
    assert "arden takes part in this run." in said.stdout
    for line in (
        "its loss, gradient and Hessian",
        "sums over its held-out rows",
        "sums for standard errors: a Hessian, products of scores, and counts",
        "the columns that the run does not name: pressure",
        "the columns that no run sees: patient",
    ):
        assert f"  {line}" in said.stdout
    plain = in_json(asked(tmp_path, "", RUN, "--json"))
    assert (plain["status"], plain["site"], plain["named"], plain["rule"]) == ("accepted", "arden", True, None)
    assert "its loss, gradient and Hessian" in plain["may_send"]
    assert "the columns that the run does not name: pressure" in plain["stays"]


def test_sums_for_a_formula_are_those_of_a_run_with_one(tmp_path: Path) -> None:
    assert "formula" not in asked(tmp_path).stdout
    allowed = asked(
        tmp_path, 'formulas = ["age"]', RUN.replace("[algorithm]", '[preprocess]\nformula = "age"\n[algorithm]')
    )
    assert "sums of the columns that a formula makes" in allowed.stdout


def test_rules_that_hold_nothing_back_are_named(tmp_path: Path) -> None:
    assert in_json(asked(tmp_path, "", RUN, "--json"))["loosened"] == []
    loose = "runs = 1000\nfills = false\nlargest_row = 1\nmin_cell = 1\nlargest_loss = 1e6\nmin_rows = 4"
    assert in_json(asked(tmp_path, loose, RUN, "--json"))["loosened"] == [
        "fills = false: this rule is off",
        "min_rows = 4: fewer than the default of 5",
        "min_cell = 1: this rule is off",
        "largest_row = 1: this rule is off",
        "runs = 1,000: far above the default of 50",
        "largest_loss = 1,000,000.0: far above the default of 10.0",
    ]
    assert "largest_row = 1: this rule is off" in asked(tmp_path, loose).stdout


@pytest.mark.parametrize(
    ("policy", "change", "rule"),
    [
        ('algorithms = ["SHED"]', ("", ""), "algorithms"),
        ("also = []", ("", ""), "also"),
        ("min_rows = 20", ("", ""), "min_rows"),
        ('columns = ["age"]', ("", ""), "columns"),
        ('refuse = ["StandardErrors.sums"]', ("", ""), "refuse"),
        ("", ('"free" }', '"free", features = { name = "Polynomial" } }'), "features"),
        ("", ('["f", "m"]', '["m", "f"]'), "terms"),
        ("", ('target = "ill"', 'target = "age"'), "terms"),
    ],
)
def test_a_run_that_is_refused(policy: str, change: tuple[str, str], rule: str, tmp_path: Path) -> None:
    run = RUN.replace(*change)
    said = asked(tmp_path, policy, run)
    assert said.exit_code == 1
    assert "arden takes no part in this run" in said.stdout
    assert f"(rule '{rule}' of this site's policy)" in " ".join(said.stdout.split())
    plain = in_json(asked(tmp_path, policy, run, "--json"))
    assert (plain["status"], plain["rule"]) == ("refused", rule)


def test_a_site_that_the_run_does_not_name(tmp_path: Path) -> None:
    said = asked(tmp_path, site="elgin")
    assert "elgin would accept this run, and the run does not name it" in said.stdout
    assert "its sites are arden, bryn, corrie, dale" in said.stdout
    assert "takes part" not in said.stdout
    plain = in_json(asked(tmp_path, "", RUN, "--json", site="elgin"))
    assert (plain["status"], plain["named"]) == ("accepted", False)
    refused = asked(tmp_path, "also = []", site="elgin").stdout
    assert "elgin takes no part in this run" in refused
    assert "does not name this site" in refused


def test_files_that_are_none(tmp_path: Path) -> None:
    assert asked(tmp_path, run="[data]\n").exit_code == 2
    assert asked(tmp_path, 'algorithms = ["Newtn"]').exit_code == 2


def test_the_terms_are_those_of_the_run(tmp_path: Path) -> None:
    """Not what somebody thinks that a run asks, but what it does ask."""
    found = hospitals(tmp_path, (160, 180, 150, 170))

    class Hearing(Direct):
        text = ""

        def begin(self, terms: str) -> None:
            Hearing.text = terms
            super().begin(terms)

    ServerRun("ab" * 8, RUN, "fedsolve submit", tmp_path / "run").execute(Hearing(found.files), lambda row: None)
    there, here = Terms.from_json(Hearing.text), asked_of_sites(server_file.parse(RUN))
    assert there.protocols == here.protocols
    assert (there.held_out, there.site_column, there.target) == (here.held_out, here.site_column, here.target)
    log = str(tmp_path / "store-arden" / "audit.jsonl")
    said = CliRunner().invoke(app, ["audit", log], env={"COLUMNS": "200"})
    before = in_json(asked(tmp_path, "", RUN, "--json"))
    for line in (*before["may_send"], *(one for one in before["stays"] if "patient" not in one)):
        assert f"    {line}" in said.stdout
    (one,) = json.loads(CliRunner().invoke(app, ["audit", log, "--json"]).stdout)["runs"]
    assert one["may_send"] == before["may_send"]
    assert "the columns that the run does not name: pressure" in one["stays"]


def with_rows(
    folder: Path, text: str | None = None, run: str = RUN, policy: str = "", data: str = ""
) -> dict[str, Any]:
    """What the command says of a data file; its exit status is that of what it found."""
    hospitals(folder)
    if text is not None:
        (folder / "arden.csv").write_text(text)
    (folder / "site.toml").write_text(site_text("arden", policy, data=data))
    (folder / "run.toml").write_text(run)
    before = sorted(folder.rglob("*"))
    done = CliRunner().invoke(app, ["consent", str(folder / "site.toml"), str(folder / "run.toml"), "--data", "--json"])
    assert sorted(folder.rglob("*")) == before  # no store, no log
    found: dict[str, Any] = in_json(done)
    fits = found["status"] == "accepted" and found["data"]["status"] == "fits"
    assert done.exit_code == (0 if fits else 1), done.output
    return found


def test_a_data_file_that_fits(tmp_path: Path) -> None:
    data = with_rows(tmp_path)["data"]
    assert (data["status"], data["rows"], data["held_out"], data["columns"]) == ("fits", 60, 18, ["age", "sex"])
    said = CliRunner().invoke(app, ["consent", str(tmp_path / "site.toml"), str(tmp_path / "run.toml"), "--data"])
    assert said.exit_code == 0
    assert "fits: 60 rows (42 to learn from, 18 held out to judge by), 2 columns (age, sex)" in said.stdout
    assert "What earlier runs did here" in said.stdout
    assert "Nothing was read of your data file" not in said.stdout
    own = with_rows(tmp_path, run=RUN.replace("[algorithm]", "[preprocess]\nsite_intercepts = true\n[algorithm]"))
    assert own["data"]["columns"] == ["age", "sex"]  # the column of the sites' names is none of the file


def test_a_data_file_that_does_not_fit(tmp_path: Path) -> None:
    hospitals(tmp_path)
    whole = (tmp_path / "arden.csv").read_text()
    lines = whole.splitlines()
    for text, status, words in (
        (whole.replace("age", "AGE", 1), "wrong", ['Write rename = { "AGE" = "age" } under [data] of the site file']),
        ("\n".join(lines[:5]), "refused", ["fewer than 5 rows to learn from", "rule 'min_rows'"]),
        (
            whole.replace(",f,", ",m,").replace(",m,", ",f,", 1),
            "refused",
            ["rule 'min_cell'"],
        ),
    ):
        data = with_rows(tmp_path, text)["data"]
        assert data["status"] == status
        assert all(word in data["message"] for word in words), data["message"]
        assert data["rows"] is None
    (tmp_path / "arden.csv").write_text(lines[0])
    said = CliRunner().invoke(app, ["consent", str(tmp_path / "site.toml"), str(tmp_path / "run.toml"), "--data"])
    assert said.exit_code == 1
    assert "wrong: " in said.stdout
    (tmp_path / "arden.csv").unlink()
    said = CliRunner().invoke(app, ["consent", str(tmp_path / "site.toml"), str(tmp_path / "run.toml"), "--data"])
    assert said.exit_code == 1
    assert "cannot be read: No such file" in said.stdout


def test_a_run_that_is_refused_does_not_reach_the_data_file(tmp_path: Path) -> None:
    found = with_rows(tmp_path, policy='algorithms = ["SHED"]')
    assert (found["status"], found["rule"], found["data"]) == ("refused", "algorithms", None)


def test_a_column_under_another_name(tmp_path: Path) -> None:
    misspelt = RUN.replace('name = "age"', 'name = "presure"')
    assert "which this site does not declare; did you mean 'pressure'?" in asked(tmp_path, "", misspelt).stdout
    kept = asked(tmp_path, 'columns = ["age", "sex"]', misspelt).stdout
    assert "which this site does not declare" in kept
    assert "did you mean" not in kept  # a column that this site does not give is not named


def test_what_else_a_run_asks_for_is_allowed_by_a_whole_line(tmp_path: Path) -> None:
    said = asked(tmp_path, 'also = ["StandardErrors"]').stdout
    (line,) = (part for part in said.split("may allow it by ")[1:])
    line = line.split(" under [policy] of the site file")[0]
    assert line == 'also = ["StandardErrors", "Evaluation"]'
    assert asked(tmp_path, line).exit_code == 0
