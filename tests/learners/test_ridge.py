"""Ridge as a weak learner, against scikit-learn and normal equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression, Ridge

import fedsolve as fs
from fedsolve.errors import DataError, WrongType
from fedsolve.learners import Fitting, WeakLearner

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
WEIGHT = RNG.uniform(0.5, 2.0, 30)


def fitting(X: Any, target: Any, weight: Any = None) -> Fitting:
    return Fitting(X, target, weight, (), np.random.default_rng(0))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("outputs", [(), (3,)], ids=["one", "three"])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_ridge_regression(weight: Any, outputs: tuple[int, ...], intercept: bool) -> None:
    target = RNG.normal(size=(30, *outputs)) + 2.0
    whole = 30.0 if weight is None else WEIGHT.sum()
    theirs = Ridge(alpha=0.2 * whole, fit_intercept=intercept, tol=1e-12).fit(X, target, weight)
    for given in (X, sp.csr_array(X)):
        ours = fs.RidgeLearner(0.2, intercept=intercept).fit(fitting(given, target, weight))
        np.testing.assert_allclose(ours(given), theirs.predict(X), rtol=1e-9, atol=1e-11)
        again = fs.RidgeLearner(0.2, intercept=intercept).function(ours.arrays(), 4, outputs)
        assert np.array_equal(again(given), ours(given))


def test_collinear_columns_without_a_penalty() -> None:
    twice = np.concatenate([X, X[:, :1], 1e6 * X[:, 1:2]], axis=1)
    target = RNG.normal(size=30)
    expected = LinearRegression().fit(X, target).predict(X)
    ours = fs.RidgeLearner(0.0).fit(fitting(twice, target))
    np.testing.assert_allclose(ours(twice), expected, atol=1e-8)


def test_on_features() -> None:
    target = RNG.normal(size=30)
    points = RNG.normal(size=(5, 4))
    for features in (fs.Polynomial(2), fs.RandomFourier(15, gamma=0.3, seed=2), fs.Nystroem(points, gamma=0.5)):
        ours = fs.RidgeLearner(0.1, features).fit(fitting(X, target))
        theirs = Ridge(alpha=3.0, tol=1e-12).fit(features.block(X), target)
        np.testing.assert_allclose(ours(X), theirs.predict(features.block(X)), rtol=1e-8, atol=1e-9)
        fresh = RNG.normal(size=(6, 4))
        np.testing.assert_allclose(ours(fresh), theirs.predict(features.block(fresh)), rtol=1e-8, atol=1e-9)


def test_what_is_kept_serves_other_targets() -> None:
    learner = fs.RidgeLearner(0.1, fs.Polynomial(2))
    kept: dict[str, object] = {}
    for _ in range(3):
        target = RNG.normal(size=30)
        again = learner.fit(Fitting(X, target, WEIGHT, (), np.random.default_rng(0), kept))
        np.testing.assert_array_equal(again(X), learner.fit(fitting(X, target, WEIGHT))(X))


def test_torch_fits_the_same() -> None:
    torch = pytest.importorskip("torch")
    target = RNG.normal(size=(30, 2))
    for learner in (fs.RidgeLearner(0.1), fs.RidgeLearner(0.1, fs.RandomFourier(10, gamma=0.3))):
        ours = learner.fit(fitting(torch.tensor(X), torch.tensor(target), torch.tensor(WEIGHT)))
        theirs = learner.fit(fitting(X, target, WEIGHT))
        np.testing.assert_allclose(ours(torch.tensor(X)).numpy(), theirs(X), atol=1e-10)


@pytest.mark.parametrize("learner", [fs.RidgeLearner(0.1), fs.RidgeLearner(0.1, fs.Polynomial(2))])
def test_a_weighted_sum_is_one_pass(learner: Any) -> None:
    functions = [learner.fit(fitting(X, RNG.normal(size=(30, 2)))) for _ in range(4)]
    numbers = [0.5, -1.0, 2.0, 0.0]
    expected = WeakLearner.weighted_sum(learner, functions, numbers, X)
    np.testing.assert_allclose(learner.weighted_sum(functions, numbers, X), expected, atol=1e-12)


@pytest.mark.parametrize(
    "arrays",
    [
        (),
        (np.zeros(4),),
        (np.zeros(5), np.zeros(())),
        (np.zeros((4, 1)), np.zeros(())),
        (np.zeros(4), np.zeros(1)),
        (np.zeros(4, dtype=np.float32), np.zeros(())),
        (np.zeros(4, dtype=int), np.zeros(())),
        (np.zeros(4), np.zeros(()), np.zeros(3)),
    ],
)
def test_arrays_that_are_no_function(arrays: Any) -> None:
    with pytest.raises(WrongType):
        fs.RidgeLearner().function(arrays, 4, ())


def test_plain_values_and_back() -> None:
    for learner in (fs.RidgeLearner(), fs.RidgeLearner(2, fs.Polynomial(3), intercept=False)):
        assert WeakLearner.from_plain(learner.to_plain()) == learner
    for wrong in (None, {}, {"kind": "nothing"}, {"kind": "ridge"}, {"kind": "ridge", "learner": {"l2": -1.0}}):
        with pytest.raises(DataError):
            WeakLearner.from_plain(wrong)


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_boosting_by_fits_without_an_intercept(outputs: tuple[int, ...]) -> None:
    """With one output too: what stands for the intercept is an array, as messages have it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ rng.normal(size=(3, *outputs))
    client = fs.Client("a", X, y)
    run = fs.run(fs.FFGB(fs.Squared(), fs.RidgeLearner(0.0, intercept=False), step_size=1.0), [client], rounds=1)
    wanted = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(run.model.predict(X), X @ wanted, atol=1e-9)
