"""Held-out rows and stopping rules in run files: the table, the JSON object, the report and the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.report import evaluation as held_out
from tests.cli.conftest import RUN_FILE, Command

DIABETES = """
[data]
dataset = "diabetes"
[partition]
scheme = "iid"
clients = 3
[preprocess]
[algorithm]
name = "FedProx"
pull = 0.5
loss = { name = "Squared", intercept = "free" }
[run]
rounds = 3000
tolerance = 0
"""


def run_file(folder: Path, text: str) -> Path:
    file = folder / "run.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_run_with_held_out_rows(command: Command, tmp_path: Path) -> None:
    file = run_file(tmp_path, RUN_FILE + "[evaluation]\nhold_out = 0.25\nseed = 3\nevery = 2\n")
    found = command("run", file, "--output", tmp_path / "out", "--json").json
    figures = found["held_out"]
    assert len(figures["clients"]) == 4
    assert figures["samples"] == sum(one["samples"] for one in figures["clients"].values())
    # The same from Python, by the model in the folder.
    data = fs.data.load("breast_cancer")
    clients = fs.data.partition(data.X, data.y, fs.data.Dirichlet(0.5, min_samples=20), clients=4)
    clients = fs.data.hold_out(clients, 0.25, 3)
    model = fs.load_model(tmp_path / "out/model.npz")
    again = fs.evaluate(model, clients, fs.Logistic(l2=0.01, intercept="free"))
    for name in ("value", "accuracy", "auc", "brier", "calibration_error", "calibration_slope", "d2"):
        assert figures[name] == pytest.approx(getattr(again, name), rel=1e-6), name
    rows = [json.loads(line) for line in (tmp_path / "out/history.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows if row["held_out"]] == [k for k in range(len(rows)) if k % 2 == 0]
    page = (tmp_path / "out/report.html").read_text()
    assert "Held-out rows" in page
    assert "held-out loss" in page
    assert page.count("data:image/png") == 2
    assert (tmp_path / "out/held_out.png").stat().st_size > 10_000
    said = command("run", file, "--output", tmp_path / "other").out
    assert "held-out rows of" in said
    assert "all sites" in said
    assert "AUC" in said
    assert "training data" not in said  # a score of all rows would be of held-out ones too


def test_patience_in_a_run_file(command: Command, tmp_path: Path) -> None:
    text = DIABETES + '[evaluation]\n[stopping]\npatience = 3\nmetric = "deviance"\n'
    found = command("run", run_file(tmp_path, text), "--output", tmp_path / "out", "--json").json
    assert found["status"] == "patience"
    assert "deviance on held-out rows" in found["message"]
    assert found["held_out"]["d2"] > 0.3
    assert "auc" not in found["held_out"]


def test_early_stopping_in_a_run_file(command: Command, tmp_path: Path) -> None:
    text = DIABETES + "[stopping]\nearly = true\nnorm = 50\n"
    found = command("run", run_file(tmp_path, text), "--output", tmp_path / "out", "--json").json
    assert found["status"] == "early stopping"
    assert 50 <= float(found["message"].split("σ = ")[1].split(",")[0]) <= 60  # least squares has 54.2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[stopping]\n", "there is no rule in it"),
        ("[stopping]\nearly = true\n", "squared loss"),
        ('[stopping]\npatience = 3\nmetric = "auc"\n', "is of held-out rows"),
        ('[evaluation]\n[stopping]\npatience = 3\nmetric = "speed"\n', "metric is one of"),
        ("[evaluation]\nhold_out = 1.5\n", "hold_out"),
        ("[evaluation]\nholdout = 0.5\n", "hold_out"),
    ],
)
def test_mistakes_are_said_in_one_sentence(command: Command, tmp_path: Path, more: str, said: str) -> None:
    found = command("run", run_file(tmp_path, RUN_FILE + more), "--output", tmp_path / "out")
    assert found.status == 2
    assert said in " ".join(found.err.split())


def test_a_comparison_has_a_table_for_each(command: Command, tmp_path: Path) -> None:
    text = RUN_FILE.replace("[algorithm]", "[[algorithms]]").replace("[algorithm.loss]", "[algorithms.loss]")
    text += '[[algorithms]]\nname = "AGD"\nloss = { name = "Logistic", l2 = 0.01 }\n[evaluation]\n'
    found = command("compare", run_file(tmp_path, text), "--output", tmp_path / "out", "--json").json
    assert [row["held_out"]["samples"] for row in found["rows"]] == [found["rows"][0]["held_out"]["samples"]] * 2
    assert (tmp_path / "out/report.html").read_text().count("Held-out rows") == 2


def test_names_of_clients_are_only_text(tmp_path: Path) -> None:
    """Markup in a client's name is shown, not obeyed."""
    X = np.linspace(-1, 1, 40)[:, None]
    clients = [fs.Client(name, X, (X[:, 0] > 0.1).astype(float)) for name in ("[red]a[/red]", "<b>b</b>")]
    found: Any = fs.evaluate(np.array([2.0]), fs.data.hold_out(clients, 0.5), fs.Logistic())
    page = held_out.page_section(found, held_out.figure(found))
    assert "&lt;b&gt;b&lt;/b&gt;" in page
    assert "<b>" not in page
    assert len(held_out.lines(found)[1]) == 3
