"""Used as scikit-learn's estimators are: pipelines, grid search with sites routed, copies, pickles, plain models."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedsolve as fs
from fedsolve.estimators import (
    FederatedBoostingClassifier,
    FederatedBoostingRegressor,
    FederatedElasticNet,
    FederatedKernelClassifier,
    FederatedKernelRidge,
    FederatedLogisticRegression,
    FederatedPoissonRegressor,
    FederatedRidge,
)
from fedsolve.typing import Array
from tests.estimators.tables import COUNTS, NAMES, NUMBERS, SEVERAL, SITES, THREE, TWO, WEIGHTS, X

LINEAR: list[tuple[Any, Array]] = [
    (FederatedRidge(2.0), NUMBERS),
    (FederatedRidge(2.0, fit_intercept=False), SEVERAL),
    (FederatedElasticNet(0.4), NUMBERS),
    (FederatedPoissonRegressor(alpha=0.1), COUNTS),
    (FederatedLogisticRegression(0.5), TWO),
    (FederatedLogisticRegression(0.5, l1_ratio=0.5), TWO),
    (FederatedLogisticRegression(0.5, fit_intercept=False), THREE),
]
OTHERS: list[tuple[Any, Array]] = [
    (FederatedKernelRidge(n_components=20), NUMBERS),
    (FederatedKernelClassifier(n_components=20), THREE),
    (FederatedBoostingRegressor(max_iter=2), NUMBERS),
    (FederatedBoostingClassifier(max_iter=2), TWO),
]
IDS = [f"{type(one).__name__}-{place}" for place, (one, _) in enumerate(LINEAR + OTHERS)]


# ── routing ──


def test_sites_are_routed_through_pipelines_and_grid_search() -> None:
    with config_context(enable_metadata_routing=True):
        model = FederatedLogisticRegression().set_fit_request(sites=True, sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        scoring = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        search = GridSearchCV(
            make_pipeline(scaler, model),
            {"federatedlogisticregression__C": [0.01, 1.0, 100.0]},
            scoring=scoring,
            cv=4,
        )
        search.fit(X, TWO, sites=SITES, sample_weight=WEIGHTS)
        fitted = search.best_estimator_[-1]
        assert set(fitted.run_.ledger.by_client()) == {"arden", "bryn", "corrie"}

        plain = make_pipeline(
            scaler, LogisticRegression(solver="newton-cg", tol=1e-12).set_fit_request(sample_weight=True)
        )
        pooled = GridSearchCV(plain, {"logisticregression__C": [0.01, 1.0, 100.0]}, scoring=scoring, cv=4)
        pooled.fit(X, TWO, sample_weight=WEIGHTS)
    assert search.best_params_["federatedlogisticregression__C"] == pooled.best_params_["logisticregression__C"]
    ours, theirs = search.cv_results_["mean_test_score"], pooled.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(fitted.coef_, pooled.best_estimator_[-1].coef_, rtol=1e-6, atol=1e-8)


def test_sites_that_nobody_asked_for_are_not_routed() -> None:
    with config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="sites"):
        make_pipeline(StandardScaler(), FederatedRidge()).fit(X, NUMBERS, sites=SITES)


def test_without_routing_a_pipeline_takes_sites_by_the_name_of_the_step() -> None:
    found = make_pipeline(StandardScaler(), FederatedRidge()).fit(X, NUMBERS, federatedridge__sites=SITES)
    assert len(found[-1].run_.ledger.by_client()) == 3


def test_groups_are_for_folds_and_sites_for_rows() -> None:
    with config_context(enable_metadata_routing=True):
        model = FederatedRidge().set_fit_request(sites=True)
        params = {"sites": SITES, "groups": SITES}
        ours = cross_val_score(model, X, NUMBERS, params=params, cv=LeaveOneGroupOut())
    theirs = cross_val_score(Ridge(), X, NUMBERS, groups=SITES, cv=LeaveOneGroupOut())
    assert len(ours) == 3
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


# ── copies ──


@pytest.mark.parametrize(("estimator", "y"), LINEAR + OTHERS, ids=IDS)
def test_copies_and_pickles(estimator: Any, y: Array) -> None:
    fitted = clone(estimator).fit(X, y, sites=SITES)
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "run_")
    data = pickle.dumps(fitted)
    np.testing.assert_array_equal(pickle.loads(data).predict(X), fitted.predict(X))
    assert X[:20].tobytes() not in data  # nobody's rows travel with a model
    assert pickle.loads(data).run_.status == fitted.run_.status
    assert type(estimator).__name__ in repr(fitted)
    refitted = again.fit(X, y, sites=SITES)
    np.testing.assert_array_equal(refitted.predict(X), fitted.predict(X))


def test_parameters_can_be_set_by_name() -> None:
    model = FederatedRidge().set_params(alpha=3.0, algorithm="FedNewtonCG")
    assert repr(model) == "FederatedRidge(algorithm='FedNewtonCG', alpha=3.0)"
    assert model.get_params()["tol"] == 1e-8


# ── algorithms ──


@pytest.mark.parametrize(
    "algorithm",
    ["Newton", "fed_newton_cg", "FedSplit", fs.GIANT, fs.FedNewtonCG(fs.Logistic(), preconditioner="diagonal")],
    ids=["Newton", "fed_newton_cg", "FedSplit", "GIANT", "object"],
)
def test_any_algorithm_that_reaches_the_minimum_gives_the_same_model(algorithm: Any) -> None:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    auto = FederatedLogisticRegression().fit(Z, TWO, sites=SITES)
    found = FederatedLogisticRegression(algorithm=algorithm).fit(Z, TWO, sites=SITES)
    np.testing.assert_allclose(found.coef_, auto.coef_, rtol=1e-6)
    assert found.n_iter_ == found.run_.rounds >= 1
    if isinstance(algorithm, fs.FedNewtonCG):
        assert found.run_.algorithm.preconditioner == "diagonal"
        assert found.run_.algorithm.loss.l2 == 1.0 / len(Z)


# ── plain models ──


@pytest.mark.parametrize(("estimator", "y"), LINEAR, ids=IDS[: len(LINEAR)])
def test_a_plain_model_predicts_alike(estimator: Any, y: Array) -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    fitted = clone(estimator).fit(frame, y, sites=SITES)
    plain = fitted.to_sklearn()
    assert type(plain).__module__.startswith("sklearn.")
    assert list(plain.feature_names_in_) == list(NAMES)
    for method in (
        ("predict_proba", "decision_function", "predict_log_proba") if hasattr(fitted, "classes_") else ("predict",)
    ):
        np.testing.assert_allclose(
            getattr(plain, method)(frame), getattr(fitted, method)(frame), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_array_equal(plain.predict(frame), fitted.predict(frame))
    assert plain.score(frame, y) == pytest.approx(fitted.score(frame, y), rel=1e-12)
    for name, value in plain.get_params().items():
        if name in fitted.get_params():
            assert value == fitted.get_params()[name]
    plain.coef_[...] = 0.0
    assert np.abs(fitted.coef_).max() > 0  # it is a copy


@pytest.mark.parametrize(("estimator", "y"), LINEAR, ids=IDS[: len(LINEAR)])
def test_onnx_predicts_alike(estimator: Any, y: Array) -> None:
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install fedsolve[test]")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install fedsolve[test]")
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    fitted = clone(estimator).fit(Z, y, sites=SITES)
    classifies = hasattr(fitted, "classes_")
    options = {"zipmap": False} if classifies else None
    converted = skl2onnx.to_onnx(fitted.to_sklearn(), Z[:1], options=options)
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: Z})
    if classifies:
        np.testing.assert_array_equal(found[0], fitted.predict(Z))
        np.testing.assert_allclose(found[1], fitted.predict_proba(Z), atol=1e-5)
    else:
        np.testing.assert_allclose(
            found[0].reshape(len(Z), -1), fitted.predict(Z).reshape(len(Z), -1), rtol=1e-5, atol=1e-5
        )
