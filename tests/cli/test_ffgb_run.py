"""`fedsolve run` with FFGB: the file names algorithm and learner, the report describes the ensemble."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import fedsolve as fs
from tests.cli.conftest import DATA, Command

FILE = f"""{DATA}
[algorithm]
name = "FFGB"
steps = 3
step_size = 0.5
tikhonov = 0.01
residual = "carried"
initial = "constant"
loss = "logistic"

[algorithm.learner]
name = "RidgeLearner"
l2 = 0.1
features = {{ name = "RandomFourier", features = 40, gamma = 0.01, seed = 1 }}

[evaluation]

[stopping]
patience = 5
metric = "auc"

[run]
rounds = 12
"""


def test_a_run_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "boosting.toml").write_text(FILE)
    outcome = command("run", "boosting.toml", "--output", "out", "--json")
    assert outcome.status == 0, outcome.err
    result = outcome.json
    assert result["status"] in ("rounds", "patience")
    assert result["held_out"]["auc"] > 0.97
    folder = tmp_path / "out"
    model = fs.load_model(folder / "model.npz")
    assert type(model) is fs.Ensemble
    assert model.classes == ("malignant", "benign")
    assert model.learner == fs.RidgeLearner(0.1, fs.RandomFourier(40, gamma=0.01, seed=1))
    report = (folder / "report.html").read_text()
    assert "An ensemble of" in report
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert all(row["value"] is not None for row in rows)
    data = fs.data.load("breast_cancer")
    assert model.score(data.X, data.y) > 0.9


def test_a_run_goes_on(command: Command, tmp_path: Path) -> None:
    (tmp_path / "boosting.toml").write_text(FILE.replace("rounds = 12", 'rounds = 4\ncheckpoint = "kept"'))
    assert command("run", "boosting.toml", "--output", "one", "--json").status == 0
    (tmp_path / "boosting.toml").write_text(FILE.replace("rounds = 12", 'rounds = 7\ncheckpoint = "kept"'))
    assert command("run", "boosting.toml", "--output", "two", "--resume", "--json").status == 0
    (tmp_path / "whole.toml").write_text(FILE.replace("rounds = 12", "rounds = 7"))
    assert command("run", "whole.toml", "--output", "three", "--json").status == 0
    two, three = (fs.load_model(tmp_path / name / "model.npz") for name in ("two", "three"))
    assert all(np.array_equal(two.arrays()[name], one) for name, one in three.arrays().items())


def test_what_means_nothing_is_said_in_one_sentence(command: Command, tmp_path: Path) -> None:
    (tmp_path / "boosting.toml").write_text(FILE.replace('loss = "logistic"', 'loss = { name = "logistic", l2 = 1.0 }'))
    outcome = command("run", "boosting.toml", "--json")
    assert outcome.status == 2
    assert "tikhonov" in outcome.err
