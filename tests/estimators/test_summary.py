"""Standard errors of an estimator are those of statsmodels on the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError

from fedsolve.estimators import FederatedLogisticRegression


def test_equal_to_statsmodels_by_site() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X[["mean radius", "mean texture", "mean smoothness"]]
    sites = np.random.default_rng(0).choice(["a", "b", "c"], size=len(y))
    found = FederatedLogisticRegression(C=np.inf).fit(X, y, sites=sites).summary(errors="robust")
    pooled = sm.GLM(np.asarray(y), sm.add_constant(X), family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-14)
    ours = {row.name: row for row in found.coefficients()}
    for name in X.columns:
        assert ours[name].estimate == pytest.approx(pooled.params[name], rel=1e-6)
        assert ours[name].p == pytest.approx(pooled.pvalues[name], rel=1e-5)


def test_needs_a_fit() -> None:
    with pytest.raises(NotFittedError):
        FederatedLogisticRegression().summary()
