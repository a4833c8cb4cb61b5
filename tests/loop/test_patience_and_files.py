"""Patience never hands back a model by mistake; a model's file says what would not be read back; resumed runs judge by
the same scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError


def clients(seed: int = 0) -> list[fs.Client]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(80)
    return fs.data.partition(X, y, clients=4, seed=seed)


def test_patience_without_held_out_rows_is_rejected() -> None:
    loss = fs.Squared(l2=1e-2)
    with pytest.raises(ConfigError, match="no client has held-out rows"):
        fs.run(fs.AGD(loss), clients(), stopping=[fs.Stopping(20), fs.Patience(3, evaluation=fs.Evaluation(loss))])


def test_patience_compares_only_values_of_all_clients() -> None:
    """With half of the clients in a round, a value of an easy half is never the best one."""
    run = fs.run(
        fs.FedAvg(fs.Squared(l2=1e-2), fs.GradientSteps(2)),
        clients(),
        stopping=[fs.Stopping(30, tolerance=0), fs.Patience(4)],
        participation=fs.Participation(fraction=0.5),
    )
    assert run.status == "rounds"  # nothing that compares was measured, so patience says nothing


@dataclass(frozen=True, eq=False)
class Nested(fs.Model):
    centre: np.ndarray
    pairs: tuple = ()

    kind = "nested, for this test"

    def predict(self, X):
        return np.tile(self.centre, (len(self.prepared(X)), 1))


@dataclass(frozen=True, eq=False)
class Named(Nested):
    format: str = "csv"

    kind = "named, for this test"


def test_what_would_not_be_read_back_is_not_saved(tmp_path: Path) -> None:
    good = Nested(np.zeros(2), (1, "a", 2.5))
    good.save(tmp_path / "model.npz")
    assert fs.load_model(tmp_path / "model.npz").pairs == (1, "a", 2.5)
    for bad in (replace(good, pairs=((1, 2), (3, 4))), replace(good, pairs=({1: "x"},))):
        with pytest.raises(ConfigError, match="would be read back as"):
            bad.save(tmp_path / "bad.npz")
    with pytest.raises(ConfigError, match="cannot be named 'format'"):
        Named(np.zeros(2)).save(tmp_path / "bad.npz")
    assert not (tmp_path / "bad.npz").exists()


def test_a_resumed_run_keeps_its_scale(tmp_path: Path) -> None:
    whole = fs.run(fs.AGD(fs.Squared(l2=1e-2)), clients(), rounds=12, tolerance=1e-12)
    path = tmp_path / "run"
    fs.run(fs.AGD(fs.Squared(l2=1e-2)), clients(), rounds=5, tolerance=1e-12, checkpoint=path)
    resumed = fs.run(fs.AGD(fs.Squared(l2=1e-2)), clients(), rounds=12, tolerance=1e-12, checkpoint=path, resume=True)
    assert [row.relative_gradient for row in resumed.history] == [row.relative_gradient for row in whole.history]
    asked = [call for record in resumed.ledger.records for call in record.calls]
    assert asked.count("inspect.scale") == 1  # learned once, and saved
