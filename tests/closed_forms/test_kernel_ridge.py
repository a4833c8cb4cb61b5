"""Kernel ridge regression with kernel objects, and where kernel gradient descent meets it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from fedsolve.closed_forms.kernel_ridge import kernel_ridge
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import Gaussian, Matern, Sobolev
from fedsolve.models import KernelExpansion

rng = np.random.default_rng(0)
X, NEW = rng.random((30, 2)), rng.random((9, 2))
Y = rng.standard_normal((30, 2))


@pytest.mark.parametrize("kernel", [Matern(1.5), Sobolev(), Gaussian(0.7)], ids=str)
def test_it_is_scikit_learn_s(kernel: Gaussian) -> None:
    model = kernel_ridge(kernel, None, X, Y, 1e-2)
    assert isinstance(model, KernelExpansion)
    theirs = KernelRidge(alpha=1e-2 * 30, kernel="precomputed").fit(kernel(X), Y)
    np.testing.assert_allclose(model.predict(NEW), theirs.predict(kernel(NEW, X)), rtol=1e-9, atol=1e-11)
    assert model.classify(NEW).tolist() == theirs.predict(kernel(NEW, X)).argmax(axis=1).tolist()


def test_by_name_and_by_object() -> None:
    by_name, by_object = kernel_ridge("gaussian", 0.7, X, Y, 1e-2), kernel_ridge(Gaussian(0.7), None, X, Y, 1e-2)
    np.testing.assert_array_equal(by_name.coefficients, by_object.coefficients)
    with pytest.raises(ConfigError, match="give None for gamma"):
        kernel_ridge(Gaussian(0.7), 0.7, X, Y, 1e-2)
    with pytest.raises(ConfigError, match="gamma"):
        kernel_ridge("gaussian", None, X, Y, 1e-2)


def test_what_does_not_fit_is_said() -> None:
    for y in (Y[:-1], np.full((30, 2), np.nan), Y[..., None]):
        with pytest.raises(DataError, match="a finite target for each row"):
            kernel_ridge(Gaussian(0.7), None, X, y, 1e-2)
    for weights in (np.zeros(30), -np.ones(30), np.ones(29), np.full(30, np.nan)):
        with pytest.raises(DataError, match="sample_weight has a number of at least 0 for each of 30 rows"):
            kernel_ridge(Gaussian(0.7), None, X, Y, 1e-2, sample_weight=weights)
