"""The coefficients are those of scikit-learn's own estimators on the pooled rows, however these are divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, LogisticRegression, PoissonRegressor, Ridge

import fedsolve as fs
from fedsolve.estimators import (
    FederatedElasticNet,
    FederatedKernelClassifier,
    FederatedKernelRidge,
    FederatedLogisticRegression,
    FederatedPoissonRegressor,
    FederatedRidge,
)
from fedsolve.typing import Array
from tests.estimators.tables import COUNTS, NAMES, NUMBERS, SEVERAL, SITES, THREE, TWO, WEIGHTS, X
from tests.extras import optional

TIGHT = {"tol": 1e-12, "max_iter": 100_000}
# (ours, theirs, targets). newton-cg, because lbfgs ends 1e-6 away from the minimum whatever its tolerance.
PAIRS = {
    "ridge": (FederatedRidge(2.0), Ridge(2.0), NUMBERS),
    "several targets": (FederatedRidge(2.0), Ridge(2.0), SEVERAL),
    "one column": (FederatedRidge(2.0), Ridge(2.0), SEVERAL[:, :1]),
    "two classes": (
        FederatedLogisticRegression(0.5),
        LogisticRegression(C=0.5, solver="newton-cg", **TIGHT),
        TWO,
    ),
    "three classes": (
        FederatedLogisticRegression(0.5),
        LogisticRegression(C=0.5, solver="newton-cg", **TIGHT),
        THREE,
    ),
    "counts": (
        FederatedPoissonRegressor(alpha=0.5),
        PoissonRegressor(alpha=0.5, solver="newton-cholesky", **TIGHT),
        COUNTS,
    ),
    "elastic net": (FederatedElasticNet(0.4, l1_ratio=0.7), ElasticNet(0.4, l1_ratio=0.7, **TIGHT), NUMBERS),
    "lasso": (FederatedElasticNet(0.4, l1_ratio=1.0), ElasticNet(0.4, l1_ratio=1.0, **TIGHT), NUMBERS),
    "elastic nets": (FederatedElasticNet(0.4), ElasticNet(0.4, **TIGHT), SEVERAL),
}


def assert_alike(ours: Any, theirs: Any) -> None:
    scale = np.abs(theirs.coef_).max()
    assert ours.coef_.shape == theirs.coef_.shape
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-8 * scale)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6, atol=1e-7 * scale)
    assert np.array_equal(ours.coef_ == 0, theirs.coef_ == 0)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", PAIRS)
def test_coefficients_are_those_of_the_pooled_rows(name: str, weights: Array | None, intercept: bool) -> None:
    ours, theirs, y = PAIRS[name]
    ours.set_params(fit_intercept=intercept).fit(X, y, sites=SITES, sample_weight=weights)
    theirs.set_params(fit_intercept=intercept).fit(X, y, sample_weight=weights)
    assert_alike(ours, theirs)
    np.testing.assert_array_equal(ours.predict(X).shape, theirs.predict(X).shape)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), rel=1e-6)
    if hasattr(ours, "classes_"):
        np.testing.assert_array_equal(ours.classes_, theirs.classes_)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
        for method in ("decision_function", "predict_proba", "predict_log_proba"):
            np.testing.assert_allclose(getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-5, atol=1e-7)


def test_an_elastic_net_has_some_zeros() -> None:
    for name in ("elastic net", "lasso"):
        ours, _, y = PAIRS[name]
        zeros = ours.fit(X, y, sites=SITES).coef_ == 0
        assert 0 < zeros.sum() < len(zeros)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array], ids=lambda make: make.__name__)
def test_sparse_rows(make: Any) -> None:
    for ours, _, y in PAIRS.values():
        dense = ours.fit(X, y, sites=SITES).coef_.copy()
        np.testing.assert_allclose(ours.fit(make(X), y, sites=SITES).coef_, dense, rtol=1e-8, atol=1e-11)
        assert np.shape(ours.predict(make(X))) == np.shape(y if y.ndim == 1 or y.shape[1] > 1 else y[:, 0])


def test_data_frames_and_sites_of_any_kind() -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    expected = FederatedLogisticRegression().fit(X, TWO, sites=SITES)
    codes = np.unique(SITES, return_inverse=True)[1]
    for sites in (SITES.tolist(), pd.Series(SITES), pd.Series(SITES, dtype="category"), codes, pd.Series(codes)):
        found = FederatedLogisticRegression().fit(frame, pd.Series(TWO), sites=sites)
        assert list(found.feature_names_in_) == list(NAMES)
        assert found.run_.model.feature_names == NAMES
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert len(found.run_.ledger.by_client()) == 3


def test_one_site_may_be_written_in_several_ways() -> None:
    one: list[object] = [1, 1.0, "1", " 1 ", b"1"]
    sites = [one[place % 5] if place < 80 else "2" for place in range(len(X))]
    found = FederatedRidge().fit(X, NUMBERS, sites=sites)
    assert list(found.run_.ledger.by_client()) == ["1", "2"]


@pytest.mark.parametrize("name", PAIRS)
def test_how_the_rows_are_divided_changes_nothing(name: str) -> None:
    ours, _, y = PAIRS[name]
    pooled = ours.fit(X, y).coef_.copy()
    alone = np.where(np.arange(len(X)) == 3, "one row", SITES)  # a site of a single row
    by_target = np.argsort(np.argsort(y if y.ndim == 1 else y[:, 0], kind="stable")) * 3 // len(X)  # one class each
    for sites in (alone, by_target, np.arange(len(X)) // 2):
        np.testing.assert_allclose(ours.fit(X, y, sites=sites).coef_, pooled, rtol=1e-6, atol=1e-9)


def test_rows_of_weight_0_are_no_rows_not_even_those_of_a_whole_site() -> None:
    weights = np.where(SITES == "bryn", 0.0, WEIGHTS)
    kept = SITES != "bryn"
    for ours, _, y in PAIRS.values():
        found = ours.fit(X, y, sites=SITES, sample_weight=weights)
        assert len(found.run_.ledger.by_client()) == 2
        coef = found.coef_.copy()
        left = ours.fit(X[kept], y[kept], sites=SITES[kept], sample_weight=WEIGHTS[kept])
        np.testing.assert_array_equal(left.coef_, coef)


@pytest.mark.parametrize("name", ["ridge", "several targets", "two classes", "three classes", "counts", "lasso"])
def test_columns_far_from_0_lose_no_digits(name: str) -> None:
    ours, theirs, y = PAIRS[name]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    far = Z + np.array([2000.0, -1e5, 1e6, 0.0, 0.0])
    for one in (ours, theirs):
        one.set_params(fit_intercept=True)
    ours.fit(far, y, sites=SITES, sample_weight=WEIGHTS)
    theirs.fit(Z, y, sample_weight=WEIGHTS)  # the slopes are the same
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-8)
    assert ours.n_iter_ < 12
    assert ours.score(far, y) == pytest.approx(theirs.score(Z, y), rel=1e-6)
    predictor = ours.run_.model.decision_function(far)
    np.testing.assert_allclose(predictor, far @ ours.coef_.T.squeeze() + np.squeeze(ours.intercept_), atol=1e-8)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine], ids=lambda load: load.__name__)
def test_classes_from_raw_columns_of_real_data(load: Any) -> None:
    rows, y = load(return_X_y=True)
    ours = FederatedLogisticRegression().fit(rows, y, sites=np.arange(len(y)) % 4)
    assert_alike(ours, LogisticRegression(solver="newton-cholesky", **TIGHT).fit(rows, y))


def test_an_elastic_net_of_raw_columns_of_real_data() -> None:
    rows, y = load_diabetes(return_X_y=True, scaled=False)
    ours = FederatedElasticNet(10.0, l1_ratio=0.9).fit(rows, y, sites=np.arange(len(y)) % 4)
    assert_alike(ours, ElasticNet(10.0, l1_ratio=0.9, tol=1e-14, max_iter=10**6).fit(rows, y))
    assert (ours.coef_ == 0).any()


def test_units_change_nothing_without_a_penalty() -> None:
    units = np.array([1e8, 1e-8, 1.0, 1e3, 1e-3])
    for ours, y in (
        (FederatedRidge(0.0), NUMBERS),
        (FederatedLogisticRegression(np.inf), TWO),
        (FederatedLogisticRegression(np.inf), THREE),
        (FederatedPoissonRegressor(alpha=0.0), COUNTS),
    ):
        coef = ours.fit(X, y, sites=SITES).coef_.copy()
        np.testing.assert_allclose(ours.fit(X * units, y, sites=SITES).coef_ * units, coef, rtol=1e-6, atol=1e-9)


def test_torch_clients() -> None:
    torch = optional("torch")
    clients = [
        fs.Client(
            site, torch.tensor(X[site == SITES]), torch.tensor((TWO == "yes")[site == SITES], dtype=torch.float64)
        )
        for site in np.unique(SITES)
    ]
    found = FederatedLogisticRegression().fit_federation(clients)
    np.testing.assert_allclose(found.coef_, FederatedLogisticRegression().fit(X, TWO, sites=SITES).coef_, rtol=1e-9)
    assert found.classes_.tolist() == [0, 1]


def test_more_than_1000_coefficients_are_found_by_conjugate_gradients() -> None:
    rng = np.random.default_rng(0)
    rows = sp.random_array((120, 1200), density=0.05, rng=rng, format="csr")
    y = rows @ rng.normal(size=1200) + 0.1 * rng.normal(size=120)
    found = FederatedRidge(0.1).fit(rows, y, sites=np.arange(120) % 3)
    assert type(found.run_.algorithm).__name__ == "FedNewtonCG"
    assert_alike(found, Ridge(0.1, solver="lsqr", tol=1e-14, max_iter=10_000).fit(rows, y))
    few = FederatedRidge(0.1).fit(rows[:, :50], y)
    assert type(few.run_.algorithm).__name__ == "Newton"


# ── kernels ──


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_kernel_with_all_rows_as_landmarks_is_exact(kernel: str, weights: Array | None) -> None:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = FederatedKernelRidge(0.5, kernel=kernel, landmarks=Z).fit(Z, SEVERAL, sites=SITES, sample_weight=weights)
    theirs = KernelRidge(alpha=0.5, kernel=kernel).fit(Z, SEVERAL, sample_weight=weights)
    new = np.random.default_rng(1).normal(size=(30, 5))
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-6, atol=1e-8)


def test_random_features_are_a_linear_model_and_near_the_kernel() -> None:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = FederatedKernelRidge(5.0, n_components=4000, random_state=3).fit(Z, NUMBERS, sites=SITES)
    mapped = ours.features_.block(Z)
    linear = Ridge(5.0, fit_intercept=False).fit(mapped, NUMBERS)
    np.testing.assert_allclose(ours.coef_, linear.coef_, rtol=1e-6, atol=1e-9)
    exact = KernelRidge(alpha=5.0, kernel="rbf").fit(Z, NUMBERS).predict(Z)
    # A kernel of M features is off by at most √(1.5/M) in standard deviation, and so is, in proportion, the prediction.
    assert np.abs(ours.predict(Z) - exact).mean() < 3 * np.sqrt(1.5 / 4000) * np.abs(exact).max()


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two classes", "three classes"])
def test_a_kernel_classifier_is_a_logistic_regression_on_features(y: Array) -> None:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = FederatedKernelClassifier(2.0, n_components=40).fit(Z, y, sites=SITES)
    theirs = LogisticRegression(C=2.0, solver="newton-cg", **TIGHT).fit(ours.features_.block(Z), y)
    np.testing.assert_allclose(ours.predict_proba(Z), theirs.predict_proba(ours.features_.block(Z)), rtol=1e-5)
    np.testing.assert_array_equal(ours.predict(Z), theirs.predict(ours.features_.block(Z)))


def test_other_kernels_need_landmarks() -> None:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    matern = fs.features.Matern(1.5)
    with pytest.raises(ValueError, match=r"no random features: give rows that are public as landmarks"):
        FederatedKernelRidge(kernel=matern).fit(Z, NUMBERS)
    found = FederatedKernelRidge(0.5, kernel=matern, landmarks=Z).fit(Z, NUMBERS, sites=SITES)
    K = matern(Z)
    np.testing.assert_allclose(found.predict(Z), K @ np.linalg.solve(K + 0.5 * np.eye(len(Z)), NUMBERS), atol=1e-6)
    with pytest.raises(ValueError, match="kernel is one of 'rbf', 'laplacian', 'cauchy'"):
        FederatedKernelRidge(kernel="sigmoid").fit(Z, NUMBERS)


# ── federations ──


@pytest.mark.parametrize("transport", ["list", "in process", "processes"])
def test_clients_of_ones_own(transport: str) -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    orders = {"arden": list(NAMES), "bryn": list(NAMES[::-1]), "corrie": [*NAMES[2:], *NAMES[:2]]}
    clients = [
        fs.Client(
            site,
            frame.loc[site == SITES, order],
            THREE[site == SITES],
            WEIGHTS[site == SITES],
            classes=np.unique(THREE),
        )
        for site, order in orders.items()
    ]
    made: Any = {
        "list": list,
        "in process": fs.transports.InProcess,
        "processes": lambda held: fs.transports.Processes(held, workers=1),
    }[transport]
    expected = FederatedLogisticRegression().fit(frame, THREE, sites=SITES, sample_weight=WEIGHTS)
    found = FederatedLogisticRegression().fit_federation(made(clients))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12)
    assert (found.n_features_in_, list(found.feature_names_in_)) == (5, list(NAMES))
    assert found.classes_.tolist() == ["low", "mid", "top"]
    np.testing.assert_array_equal(found.predict(frame), expected.predict(frame))
    total = found.run_.ledger.total(None)
    assert found.bytes_ == total.bytes_up + total.bytes_down > expected.bytes_  # which had no order to agree on


def test_exposures_are_offsets_of_clients() -> None:
    days = np.random.default_rng(3).uniform(1, 30, size=len(X))
    clients = [
        fs.Client(site, X[site == SITES], COUNTS[site == SITES], offset=np.log(days[site == SITES]))
        for site in np.unique(SITES)
    ]
    ours = FederatedPoissonRegressor(alpha=0.0).fit_federation(clients)
    # y/e with weights e has the same likelihood.
    theirs = PoissonRegressor(alpha=0.0, solver="newton-cholesky", **TIGHT).fit(X, COUNTS / days, sample_weight=days)
    assert_alike(ours, theirs)
