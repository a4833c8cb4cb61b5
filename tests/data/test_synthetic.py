"""The synthetic regression of the FedNewton paper."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.data.synthetic import heterogeneous
from fedsolve.errors import ConfigError


def test_shapes_and_the_seed() -> None:
    a, b, c = (heterogeneous(4, 30, alpha=0.5, beta=0.1, test_samples=7, seed=seed) for seed in (3, 3, 4))
    assert [(X.shape, y.shape) for X, y in a.parts] == [((30, 10), (30,))] * 4
    assert a.X_test.shape == (7, 10)
    assert all(np.array_equal(x, z) for p, q in zip(a.parts, b.parts, strict=True) for x, z in zip(p, q, strict=True))
    assert not np.array_equal(a.parts[0][0], c.parts[0][0])
    assert not np.array_equal(a.parts[0][0], a.parts[1][0])


def test_a_client_does_not_depend_on_how_many_there_are() -> None:
    few, many = heterogeneous(2, 20, seed=1), heterogeneous(9, 20, seed=1)
    assert np.array_equal(few.parts[1][0], many.parts[1][0])
    assert np.array_equal(few.X_test, many.X_test)


def test_without_heterogeneity_and_noise_everyone_has_the_true_function() -> None:
    drawn = heterogeneous(3, 50, noise=0.0)
    for X, y in (*drawn.parts, (drawn.X_test, drawn.y_test)):
        np.testing.assert_allclose(y, np.minimum(-X.sum(axis=1), X.sum(axis=1)), rtol=1e-12)


def test_the_variances_are_those_asked_for() -> None:
    drawn = heterogeneous(400, 100, alpha=4.0, seed=0)
    centres = np.array([X.mean(axis=0) for X, _ in drawn.parts])
    assert centres.var() == pytest.approx(4.0 + 1 / 100, rel=0.1)
    assert np.mean([X.var(axis=0, ddof=1).mean() for X, _ in drawn.parts]) == pytest.approx(1.0, rel=0.02)
    residuals = np.concatenate([y + np.abs(X.sum(axis=1)) for X, y in drawn.parts])
    assert residuals.var() == pytest.approx(0.2, rel=0.03)
    assert drawn.y_test == pytest.approx(-np.abs(drawn.X_test.sum(axis=1)))  # the test set has neither shift nor noise
    # With one feature, one row and no noise, y = −|w_j x| shows the client's model.
    seen = heterogeneous(2000, 1, beta=0.01, features=1, noise=0.0)
    models = np.array([np.abs(y / X[:, 0])[0] for X, y in seen.parts])
    assert models == pytest.approx(np.abs(np.concatenate(seen.models)))
    assert models.mean() == pytest.approx(1.0, abs=0.01)
    assert models.var() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    "wrong", [{"clients": 0}, {"samples": 0}, {"alpha": -1.0}, {"beta": float("nan")}, {"noise": float("inf")}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        heterogeneous(**{"clients": 2, "samples": 2, **wrong})  # type: ignore[arg-type]
