"""scikit-learn's own checks of an estimator. With `sites=None` all rows are of a single site."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

from fedsolve import estimators
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

# A leaf stands for at least 5 rows whatever they weigh, so that a row of weight 5 is not five rows. scikit-learn's
# LogisticRegression, SGDRegressor and HistGradientBoosting declare the same failure.
BY_ROWS = {"check_sample_weight_equivalence_on_dense_data": "a leaf stands for at least 5 rows, whatever their weights"}
# This one needs an environment variable of SciPy's before the first import.
UNTRIED = {"check_array_api_input"}

QUICK = [
    FederatedBoostingClassifier(max_iter=2, max_bins=16),
    FederatedBoostingRegressor(max_iter=2, max_bins=16),
    FederatedElasticNet(),
    FederatedKernelClassifier(n_components=50),
    FederatedKernelRidge(),
    FederatedLogisticRegression(),
    FederatedPoissonRegressor(),
    FederatedRidge(),
]


def name_of(estimator: Any) -> str:
    return type(estimator).__name__


def check(estimator: Any) -> None:
    expected = BY_ROWS if "Boosting" in name_of(estimator) else {}
    found = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert len(found) > 50
    assert {one["check_name"] for one in found if one["status"] == "skipped"} <= UNTRIED
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(expected)


def test_every_estimator_is_checked() -> None:
    assert sorted(map(name_of, QUICK)) == sorted(estimators.__all__)


@pytest.mark.parametrize("estimator", QUICK, ids=name_of)
def test_scikit_learns_checks(estimator: Any) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", [one for one in QUICK if one.get_params() != type(one)().get_params()], ids=name_of
)
def test_scikit_learns_checks_with_the_defaults(estimator: Any) -> None:
    check(type(estimator)())
