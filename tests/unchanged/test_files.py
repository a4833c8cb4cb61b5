"""Files that an earlier version wrote: models are read, checkpoints of another form are rejected in one sentence.

`files/` holds a logistic model behind a preprocessing, with named columns and classes, and the checkpoint of the run
that made it, as the library wrote them before its modules were moved into rooms.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text())
X = np.array(EXPECTED["X"])


def test_a_model_file_of_before_is_read() -> None:
    model = fs.load_model(FILES / "model.npz")
    assert isinstance(model, fs.LinearModel)
    assert model.w.tolist() == EXPECTED["w"]
    assert (model.link, model.intercept, model.classes) == ("logistic", True, ("no", "yes"))
    assert model.feature_names == ("age", "dose")
    np.testing.assert_allclose(model.predict_proba(X), EXPECTED["probabilities"], rtol=1e-14)
    assert model.predict(X).tolist() == EXPECTED["predictions"]


def test_it_is_written_again_as_an_equal_model(tmp_path: Path) -> None:
    model = fs.load_model(FILES / "model.npz")
    model.save(tmp_path / "again.npz")
    again = fs.load_model(tmp_path / "again.npz")
    assert again.w.tobytes() == model.w.tobytes()
    assert again.settings() == model.settings()


def _clients() -> list[fs.Client]:
    rng = np.random.default_rng(0)
    made = []
    for name in ("north", "south"):
        features = np.round(rng.standard_normal((12, 2)) * [1.0, 5.0] + [0.0, 20.0], 3)
        y = (features[:, 0] + 0.2 * (features[:, 1] - 20) + 0.5 * rng.standard_normal(12) > 0).astype(float)
        made.append(fs.Client(name, features, y, feature_names=("age", "dose"), classes=("no", "yes")))
    return made


def test_a_checkpoint_of_before_is_rejected_and_left_alone(tmp_path: Path) -> None:
    for name in ("checkpoint", "checkpoint.ledger"):
        shutil.copy(FILES / name, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    algorithm = fs.FedAvg(fs.Logistic(l2=0.1, intercept="free"))
    with pytest.raises(fs.errors.CheckpointError, match="an earlier fedsolve, whose checkpoints had another form"):
        fs.run(
            algorithm,
            _clients(),
            rounds=5,
            preprocess=fs.data.Preprocess(),
            checkpoint=tmp_path / "checkpoint",
            resume=True,
        )
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_the_same_run_still_gives_the_same_weights() -> None:
    """So that the files are of what this test runs, and not of something else."""
    algorithm = fs.FedAvg(fs.Logistic(l2=0.1, intercept="free"))
    run = fs.run(algorithm, _clients(), rounds=3, preprocess=fs.data.Preprocess())
    np.testing.assert_allclose(run.model.w, EXPECTED["w"], rtol=1e-12)
