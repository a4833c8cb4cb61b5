"""What is wrong is said in one sentence, as scikit-learn's users expect it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import fedsolve as fs
from fedsolve import estimators
from fedsolve.errors import ConfigError, DataError
from fedsolve.estimators import (
    FederatedBoostingClassifier,
    FederatedElasticNet,
    FederatedKernelRidge,
    FederatedLogisticRegression,
    FederatedPoissonRegressor,
    FederatedRidge,
)
from tests.estimators.tables import COUNTS, NAMES, NUMBERS, SITES, THREE, TWO, X

FRAME = pd.DataFrame(X, columns=NAMES)


# ── columns ──


def test_an_estimator_rejects_another_order_and_a_model_reorders() -> None:
    fitted = FederatedLogisticRegression().fit(FRAME, TWO, sites=SITES)
    turned = FRAME[list(NAMES[::-1])]
    with pytest.raises(ValueError, match="same order"):
        fitted.predict(turned)
    with pytest.raises(ValueError, match="unseen at fit time"):
        fitted.predict(FRAME.rename(columns={"age": "years"}))
    np.testing.assert_array_equal(fitted.run_.model.predict(turned), fitted.predict(FRAME))


def test_columns_of_clients_are_those_that_predict_takes() -> None:
    clients = [fs.Client(site, FRAME[site == SITES], NUMBERS[site == SITES]) for site in np.unique(SITES)]
    fitted = FederatedRidge().fit_federation(clients)
    with pytest.raises(ValueError, match="same order"):
        fitted.predict(FRAME[list(NAMES[::-1])])
    with pytest.raises(ValueError, match="yet now missing"):
        fitted.predict(FRAME[list(NAMES[:4])])
    unnamed = fitted.fit_federation([fs.Client("all", X, NUMBERS)])
    assert not hasattr(unnamed, "feature_names_in_")


# ── sites ──


@pytest.mark.parametrize(
    ("sites", "said"),
    [
        (SITES[:-1], r"sites has shape \(159,\), expected \(160,\)"),
        (np.stack([SITES, SITES], axis=1), r"sites has shape \(160, 2\)"),
        ("arden", r"sites has shape \(\)"),
        (np.where(SITES == "bryn", np.nan, 1.0), r"missing for 4\d of 160 rows, the first is row \d+ "),
        (np.where(SITES == "bryn", None, SITES), r"missing for 4\d of 160 rows"),
        (pd.Series(SITES).where(SITES != "bryn"), r"missing for 4\d of 160 rows"),
        (np.where(SITES == "bryn", " ", SITES), r"missing for 4\d of 160 rows"),
        (np.where(SITES == "bryn", "a\nb", SITES), "control characters"),
    ],
    ids=["short", "two columns", "a text", "NaN", "None", "a series", "blank", "a line break"],
)
def test_sites_that_name_no_sites(sites: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        FederatedRidge().fit(X, NUMBERS, sites=sites)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(3), r"sample_weight has shape \(3,\), expected \(160,\)"),
        (-np.ones(160), "at least 0"),
        (np.full(160, np.nan), "finite"),
        (np.zeros(160), "not only zeros"),
    ],
    ids=["short", "negative", "NaN", "zero"],
)
def test_sample_weights_that_are_none(weights: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        FederatedRidge().fit(X, NUMBERS, sites=SITES, sample_weight=weights)


# ── classes ──


def test_classes_that_cannot_be_learned() -> None:
    with pytest.raises(ValueError, match=r"needs at least 2 classes, and y has only one class: \['no'\]"):
        FederatedLogisticRegression().fit(X, np.full(160, "no"))
    with pytest.raises(ValueError, match="no site has a row of class 'top' with a weight above 0"):
        FederatedLogisticRegression().fit(X, THREE, sample_weight=(THREE != "top").astype(float))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        FederatedLogisticRegression().fit(X, NUMBERS)
    declared = [
        fs.Client(site, X[site == SITES], TWO[site == SITES], classes=["no", "yes", "never"])
        for site in ("arden", "bryn")
    ]
    for classifier in (FederatedLogisticRegression(), FederatedBoostingClassifier()):
        with pytest.raises(ValueError, match="no site has a row of class 'never'"):
            classifier.fit_federation(declared)
    signs = fs.Client("all", X, np.where(TWO == "yes", 1.0, -1.0))
    with pytest.raises(DataError, match="declare what the labels are"):
        FederatedLogisticRegression().fit_federation([signs])


def test_labels_without_declared_classes_are_numbers_from_0() -> None:
    codes = np.unique(THREE, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")  # the first client has classes 0 and 1 only
    clients = [fs.Client(f"c{k}", X[part], codes[part]) for k, part in enumerate(np.array_split(order, 2))]
    assert codes[order[:80]].max() == 1
    found = FederatedLogisticRegression().fit_federation(clients)
    assert found.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.coef_, FederatedLogisticRegression().fit(X, THREE).coef_, rtol=1e-6)


# ── parameters and rows ──


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (FederatedRidge(-1.0), "alpha is a finite number of at least 0, got -1.0"),
        (FederatedRidge([1.0, 2.0]), "alpha is a finite number"),  # type: ignore[arg-type]
        (FederatedElasticNet(l1_ratio=1.5), "l1_ratio is a number from 0 to 1"),
        (FederatedElasticNet(algorithm="FedNewtonCG"), "no step for an l1 penalty; use Newton"),
        (FederatedRidge(max_iter=0), "max_iter is a whole number of at least 1"),
        (FederatedRidge(algorithm="Newtn"), "unknown algorithm 'Newtn'. Did you mean 'Newton'"),
        (FederatedRidge(algorithm=3), 'algorithm is "auto", the name of an algorithm'),  # type: ignore[arg-type]
        (FederatedRidge(algorithm="FFGB"), "no default for learner; give an object"),
        (FederatedKernelRidge(gamma=-1.0), "gamma is a positive number"),
        (FederatedKernelRidge(random_state=-1), "random_state is a whole number"),
        (FederatedKernelRidge(landmarks=X[:, :2]), "landmarks have 2 columns, the inputs 5"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_parameters_that_make_no_sense(estimator: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        estimator.fit(X, NUMBERS, sites=SITES)


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, "1"], ids=str)
def test_the_strength_of_a_penalty_is_positive(C: Any) -> None:
    with pytest.raises(ConfigError, match="C is a positive number"):
        FederatedLogisticRegression(C).fit(X, TWO)


def test_rows_that_cannot_be_learned_from() -> None:
    holes = np.where(X[3, 1] == X, np.nan, X)
    with pytest.raises(ValueError, match="contains NaN"):
        FederatedRidge().fit(holes, NUMBERS)
    with pytest.raises(ValueError, match="counts are not negative"):
        FederatedPoissonRegressor().fit(X, COUNTS - 1.0, sites=SITES)
    for name in estimators.__all__:
        with pytest.raises(NotFittedError):
            getattr(estimators, name)().predict(X)
    with pytest.raises(NotFittedError):
        FederatedRidge().to_sklearn()


@pytest.mark.parametrize(
    "clients", [[], "arden", [1, 2], fs.Client("alone", X, NUMBERS)], ids=["none", "text", "numbers", "one"]
)
def test_clients_that_are_none(clients: Any) -> None:
    with pytest.raises(ConfigError, match=r"fit_federation takes a list of fs.Client, or a transport"):
        FederatedRidge().fit_federation(clients)


def test_clients_whose_columns_are_no_numbers() -> None:
    holes = np.where(X[3, 1] == X, np.nan, X)
    for client in (fs.Client("a", holes, TWO == "yes"), fs.Client("a", X.astype(str), TWO == "yes")):
        with pytest.raises(DataError, match=r"client 'a' has text columns or missing values.*encode and impute"):
            FederatedLogisticRegression().fit_federation([client])
    found = FederatedBoostingClassifier(max_iter=1).fit_federation([fs.Client("a", holes, TWO == "yes")])
    assert found.predict(holes).shape == (160,)
    with pytest.raises(DataError, match="client 'a' has no targets"):
        FederatedLogisticRegression().fit_federation([fs.Client("a", X, None)])


# ── warnings ──


def test_a_run_that_did_not_converge_is_remarked_on() -> None:
    with pytest.warns(ConvergenceWarning, match="ended with status 'rounds' after 1 rounds"):
        FederatedLogisticRegression(max_iter=1).fit(X, TWO, sites=SITES)
    separated = np.where(X[:, 0] > 50, "old", "young")
    with pytest.warns(ConvergenceWarning, match="'diverged'.*no finite minimum"):
        FederatedLogisticRegression(np.inf).fit(X, separated, sites=SITES)
    with pytest.warns(ConvergenceWarning, match="'finished' after 0 rounds"):
        FederatedRidge(algorithm="DKRR").fit(X, NUMBERS, sites=SITES)


def test_a_run_that_did_converge_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FederatedLogisticRegression().fit(X, THREE, sites=SITES)
        FederatedRidge(algorithm="DKRR").fit(X, NUMBERS)  # with a single site it is exact
        FederatedRidge().fit(X, np.zeros(160), sites=SITES)
