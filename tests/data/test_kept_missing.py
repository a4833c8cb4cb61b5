"""Missing cells that stay missing behind a preprocessing, for learners that take them."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Categorical, Numeric, Preprocess, Schema
from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.session import opened

NAN = float("nan")
X = np.array([[1.0, NAN], [NAN, 2.0], [3.0, 4.0], [5.0, 9.0]])


def test_observed_cells_are_scaled_and_others_stay_missing() -> None:
    clients = [fs.Client("a", X[:2], np.zeros(2)), fs.Client("b", X[2:], np.zeros(2))]
    preprocess = Preprocess(impute="keep")
    with opened(clients, {"preprocess": preprocess}, preprocess=preprocess) as fed:
        assert fed.features == 2
        found = np.concatenate([client.design.take(slice(None)) for client in clients])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(X))
    np.testing.assert_allclose(found[:, 0], (X[:, 0] - 3.0) / np.sqrt(8 / 3))


def test_the_transform_is_saved_and_keeps_on_keeping() -> None:
    transform = Transform(
        (Numeric("a", "keep", indicator=True), Numeric("b")), np.array([NAN, 1.0]), np.zeros(2), np.ones(2)
    )
    again = Transform.from_plain(transform.to_plain())
    assert again.keeps_missing
    np.testing.assert_array_equal(again.apply(X[:2]), [[1.0, 0.0, 1.0], [NAN, 1.0, 2.0]])
    assert not Transform((Numeric("b"),), np.ones(1), np.zeros(1), np.ones(1)).keeps_missing


def test_only_learners_that_take_missing_cells_follow() -> None:
    clients = [fs.Client("a", X, np.arange(4.0))]
    schema = Schema((Numeric("x0", "keep"), Numeric("x1")))
    for preprocess in (Preprocess(impute="keep"), Preprocess(schema)):
        with pytest.raises(ConfigError, match="Newton cannot learn from missing cells"):
            fs.run(fs.Newton(fs.Squared(l2=1.0)), clients, preprocess=preprocess)
        with pytest.raises(ConfigError, match="FFGB cannot learn from missing cells"):
            fs.run(fs.FFGB(fs.Squared(), fs.RidgeLearner()), clients, preprocess=preprocess)
        run = fs.run(fs.FFGB(fs.Squared(), fs.Trees()), clients, preprocess=preprocess, rounds=2)
        assert np.isfinite(run.model.predict(X)).all()
    assert not Preprocess(Schema((Categorical("c", ("u", "v")),))).keeps_missing


def test_infinite_cells_are_none_that_are_missing() -> None:
    with pytest.raises(DataError, match="infinite"):
        fs.Client("a", np.array([[np.inf], [1.0]]), np.zeros(2))
