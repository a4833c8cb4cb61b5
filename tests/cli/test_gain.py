"""`fedsolve gain`, and [gain] of `fedsolve run`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs

from .conftest import Command

RunFile = Callable[..., Path]
HEART = Path(__file__).parents[2] / "examples/heart.toml"


def breast_cancer() -> list[fs.Client]:
    """The clients of the run file."""
    data = fs.data.load("breast_cancer").binary(None, "")
    return fs.data.partition(data.X, data.y, fs.data.Dirichlet(0.5, min_samples=20), clients=4)


def test_for_people_and_machines(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    file = run_file(("clients = 4", "clients = 3"), add="[gain]\nfolds = 2\n")
    result = command("gain", file, "--json")
    assert result.status == 0
    rows = {row["client"]: row for row in result.json["rows"]}
    assert list(rows) == ["client-0", "client-1", "client-2"]
    assert (result.json["status"], result.json["run"], result.json["error"]) == ("ok", "converged", "log-loss")
    told = [row for row in rows.values() if row["verdict"] != "cannot tell"]
    assert told
    for row in told:
        assert row["low"] < row["gain"] < row["high"]
        assert row["gain"] == pytest.approx(row["local_error"] / row["federated_error"])
    people = command("gain", file)
    assert people.status == 0
    for word in ("held-out rows", "95 % interval", *rows, *(row["verdict"] for row in rows.values())):
        assert word in people.out
    assert {each.name for each in tmp_path.iterdir()} == {file.name}  # nothing is saved


def test_the_same_as_in_python(command: Command, run_file: RunFile) -> None:
    result = command("gain", run_file(add="[gain]\nheld_out = 0.25\nseed = 2\nfolds = 3\nlevel = 0.9\n"), "--json").json
    loss, held = fs.Logistic(l2=0.01, intercept="free"), fs.data.hold_out(breast_cancer(), 0.25, 2)
    run = fs.run(fs.Newton(loss), held, tolerance=1e-9, preprocess=fs.data.Preprocess())
    gains = fs.federation_gain(run, fs.FederationGain(loss, folds=3, level=0.9, seed=2))
    assert result["rows"] == json.loads(json.dumps(gains.rows()))
    assert result["level"] == 0.9


def test_the_share_may_be_said_on_the_command_line(command: Command, run_file: RunFile) -> None:
    file = run_file(add="[gain]\nfolds = 2\n")
    few, many = (command("gain", file, "--held-out", share, "--json").json["rows"] for share in ("0.01", "0.5"))
    assert all(row["verdict"] == "cannot tell" for row in few)
    assert max(row["rows"] for row in many) > 50
    assert "between 0 and 1" in command("gain", file, "--held-out", "2").sentence


def test_in_a_run(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    file = run_file(add="[gain]\nheld_out = 0.4\nfolds = 2\n")
    result = command("run", file, "--output", "run", "--json")
    assert result.status == 0
    gain = result.json["gain"]
    saved = json.loads((tmp_path / "run/summary.json").read_text())
    assert saved["gain"] == gain
    assert gain["rows"] == command("gain", file, "--json").json["rows"]
    page = (tmp_path / "run/report.html").read_text()
    assert "Who gains by joining" in page
    assert "95 % interval" in page
    people = command("run", file, "--output", "again")
    assert "Gain: that of the client" in people.out
    without = command("run", run_file(name="plain.toml"), "--output", "plain", "--json")
    assert "gain" not in without.json
    assert "Who gains by joining" not in (tmp_path / "plain/report.html").read_text()
    # The score is of the rows that were learned from.
    learned = fs.data.hold_out(breast_cancer(), 0.4)
    model = fs.load_model(tmp_path / "run/model.npz")
    score = model.score(np.concatenate([one.X for one in learned]), np.concatenate([one.y for one in learned]))
    assert saved["scores"]["train"] == score


def test_a_run_keeps_its_report_where_nobody_can_be_told(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    """So few rows are set aside that there are none: the model and the report are there, with the reason."""
    file = run_file(add="[gain]\nheld_out = 0.0001\n")
    result = command("run", file, "--output", "run", "--json")
    assert result.status == 0
    assert result.json["status"] == "converged"
    assert result.json["gain"]["status"] == "error"
    assert "no client has held-out rows" in result.json["gain"]["message"]
    assert json.loads((tmp_path / "run/summary.json").read_text())["gain"] == result.json["gain"]
    assert (tmp_path / "run/model.npz").is_file()
    page = (tmp_path / "run/report.html").read_text()
    assert "Who gains by joining" in page
    assert "No client has held-out rows" in page
    people = command("run", file, "--output", "again")
    assert "Who gains is not known: no client has held-out rows" in " ".join(people.out.split())


def test_least_squares_say_a_threshold(command: Command, run_file: RunFile) -> None:
    file = run_file(("breast_cancer", "diabetes"), ('"Logistic"', '"Squared"'), ("clients = 4", "clients = 3"))
    file.write_text(file.read_text().replace('scheme = "dirichlet"\nalpha = 0.5\n', 'scheme = "iid"\n').replace(
        "min_samples = 20\n", ""
    ))  # fmt: skip
    said = command("gain", file).out
    assert "joining pays while model heterogeneity stays below about" in " ".join(said.split())
    assert "constants are not known and are set to 1" in " ".join(said.split())


def test_what_is_rejected(command: Command, run_file: RunFile) -> None:
    several = run_file(("[algorithm]", "[[algorithms]]"), ("[algorithm.loss]", "[algorithms.loss]"), add="[gain]\n")
    assert "lists several" in command("gain", several).sentence
    assert "[gain] is for one model" in command("compare", several).sentence
    wrong = run_file(add="[gain]\nheld_out = 1.5\n", name="wrong.toml")
    assert "held_out" in command("run", wrong).sentence


@pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")
def test_four_hospitals(command: Command) -> None:
    rows = command("gain", HEART, "--json").json["rows"]
    assert [row["client"] for row in rows] == ["cleveland", "hungarian", "switzerland", "va"]
    assert all(row["low"] < row["gain"] < row["high"] for row in rows)


def test_the_rows_of_an_evaluation_serve_the_gain_too_and_two_shares_are_rejected(
    command: Command, run_file: RunFile
) -> None:
    both = run_file(add="[evaluation]\nhold_out = 0.25\n\n[gain]\nfolds = 2\nheld_out = 0.4\n")
    for called in (("gain", both), ("run", both)):
        outcome = command(*called)
        assert outcome.status == 2
        assert "[gain] held_out is 0.4 and [evaluation] hold_out is 0.25" in outcome.sentence
    assert sum(row["rows"] for row in command("gain", both, "--held-out", "0.5", "--json").json["rows"]) > 250
    one = run_file(add="[evaluation]\nhold_out = 0.25\n\n[gain]\nfolds = 2\n")
    rows = sum(row["rows"] for row in command("gain", one, "--json").json["rows"])
    assert 130 < rows < 150  # a quarter of 569
