"""Boosted trees as estimators: the settings that docs/boosting.md recommends, missing cells, early stopping."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import roc_auc_score

import fedsolve as fs
from fedsolve.estimators import FederatedBoostingClassifier, FederatedBoostingRegressor
from fedsolve.typing import Array

CANCER = load_breast_cancer()
TEST = np.arange(len(CANCER.target)) % 4 == 0


def sites(rows: int, count: int = 4, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, count, rows)


def test_it_is_the_run_that_the_page_on_boosting_recommends() -> None:
    X, y = CANCER.data[~TEST], CANCER.target[~TEST]
    whose = sites(len(y))
    found = FederatedBoostingClassifier(max_iter=4).fit(X, y, sites=whose)
    clients = [fs.Client(str(one), X[whose == one], y[whose == one]) for one in range(4)]
    trees = fs.Trees(l2=0.1 * len(y) / 4)
    boosting = fs.FFGB(fs.Logistic(), trees, steps=4, step_size=3.0, residual=None, initial="constant")
    run = fs.run(boosting, clients, stopping=fs.Stopping(rounds=4, tolerance=None))
    np.testing.assert_array_equal(found.decision_function(CANCER.data), run.model.decision_function(CANCER.data))
    assert roc_auc_score(CANCER.target[TEST], found.decision_function(CANCER.data[TEST])) > 0.97
    assert found.feature_importances_.shape == (30,)
    assert found.feature_importances_.sum() == pytest.approx(1.0)
    assert found.n_iter_ == 4
    np.testing.assert_allclose(found.predict_proba(CANCER.data).sum(axis=1), 1.0)


def test_several_classes_by_name() -> None:
    iris = load_iris(as_frame=True)
    y = iris.target_names[iris.target]
    found = FederatedBoostingClassifier(max_iter=5).fit(iris.data, y, sites=sites(150, 3))
    assert found.predict_proba(iris.data).shape == (150, 3)
    assert found.score(iris.data, y) > 0.93


def test_numbers() -> None:
    X, y = load_diabetes(return_X_y=True)
    test = np.arange(len(y)) % 4 == 0
    found = FederatedBoostingRegressor(max_iter=8).fit(X[~test], 2.0**20 * y[~test], sites=sites((~test).sum()))
    assert found.score(X[test], 2.0**20 * y[test]) > 0.3  # a linear model has 0.42
    small = FederatedBoostingRegressor(max_iter=8).fit(X[~test], y[~test], sites=sites((~test).sum()))
    np.testing.assert_allclose(2.0**20 * small.predict(X), found.predict(X), rtol=1e-12)  # whatever the units


def test_missing_cells_are_learned_from() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    X[rng.random(300) < 0.3, 1] = np.nan
    X[(y == 1) & (rng.random(300) < 0.5), 0] = np.nan  # that it is missing says something
    found = FederatedBoostingClassifier(max_iter=5).fit(X, y, sites=sites(300, 3))
    assert found.score(X, y) > 0.95
    assert np.isfinite(found.predict_proba(np.full((2, 3), np.nan))).all()
    never = FederatedBoostingClassifier(max_iter=2).fit(np.nan_to_num(X), y, sites=sites(300, 3))
    assert np.isfinite(never.predict_proba(X)).all()  # nothing was missing when it was fitted
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = FederatedBoostingClassifier(max_iter=5).fit(frame, y, sites=sites(300, 3))
    np.testing.assert_array_equal(named.predict(frame), found.predict(X))


def test_early_stopping_keeps_the_best_round() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + 3.0 * rng.normal(size=400)  # mostly noise
    whose = sites(400)
    model = FederatedBoostingRegressor(early_stopping=True, n_iter_no_change=3, validation_fraction=0.25, max_iter=40)
    found = model.fit(X, y, sites=whose)
    assert found.run_.status == "patience"
    assert found.run_.model_round is not None
    assert found.run_.model_round < found.n_iter_ < 40
    clients = [fs.Client(str(one), X[whose == one], y[whose == one]) for one in range(4)]
    again = model.fit_federation(fs.data.hold_out(clients, 0.25))  # clients that hold rows out already
    np.testing.assert_array_equal(again.predict(X), found.predict(X))


def test_a_small_site_and_a_site_of_one_class() -> None:
    X, y = CANCER.data, CANCER.target
    whose = np.where(np.arange(len(y)) == 0, "one row", np.where(y == 1, "benign", "mixed"))
    whose[np.flatnonzero(y == 1)[::3]] = "mixed"
    found = FederatedBoostingClassifier(max_iter=4).fit(X, y, sites=whose)
    assert found.score(X, y) > 0.9


def test_an_object_brings_its_own_settings() -> None:
    X, y = CANCER.data, CANCER.target
    boosting = fs.FFGB(fs.Logistic(), fs.Stumps(), step_size=1.0, weigh="samples")
    found = FederatedBoostingClassifier(algorithm=boosting, max_iter=2).fit(X, y, sites=sites(len(y)))
    assert found.run_.algorithm == boosting
    with pytest.raises(ValueError, match="boosts with FFGB"):
        FederatedBoostingClassifier(algorithm="Newton").fit(X, y)
    with pytest.raises(ValueError, match="early_stopping is True, False"):
        FederatedBoostingClassifier(early_stopping="later").fit(X, y)
