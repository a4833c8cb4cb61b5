"""Boosted trees from a csv file with text columns and missing cells, and back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs

from .conftest import Command

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def trained(command: Command) -> fs.Ensemble:
    outcome = command("run", EXAMPLES / "boosting.toml", "--output", "out")
    assert outcome.status == 0, outcome.err
    return fs.load_model("out/model.npz")


def test_run_and_predict_from_a_csv(command: Command, trained: fs.Ensemble) -> None:
    result = command("predict", "out", EXAMPLES / "patients.csv", "--target", "readmitted", "--json").json
    with (EXAMPLES / "patients.csv").open() as file:
        rows = list(csv.DictReader(file))
    X = np.array([[row[name] for name in ("age", "pressure", "smoker")] for row in rows], dtype=object)
    assert any(row["pressure"] == "" for row in rows)
    assert result["predictions"] == trained.predict(X).tolist()
    assert set(result["predictions"]) <= {"yes", "no"}
    np.testing.assert_array_equal(result["probabilities"], trained.predict_proba(X)[:, 1])
    truth = np.array([row["readmitted"] for row in rows])
    assert np.mean(truth == np.array(result["predictions"])) > 0.6  # it has learned something


def test_importances_are_in_the_model_and_in_the_report(command: Command, trained: fs.Ensemble, tmp_path: Path) -> None:
    shares = trained.importances()
    assert shares is not None
    assert list(shares) == ["age", "pressure", "smoker=never", "smoker=former", "smoker=current", "smoker=other"]
    assert sum(shares.values()) == pytest.approx(1.0)
    most = max(shares, key=lambda name: shares[name])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "importance" in page
    assert most in page
    json.loads((tmp_path / "out" / "summary.json").read_text())
