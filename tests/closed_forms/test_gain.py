"""Federation gain: Theorem 16's thresholds, and Definition 15 against draws of the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedsolve.closed_forms.gain import (
    Gain,
    expected_gain,
    gain_bound,
    heterogeneity_threshold,
    minimum_norm,
    subspace_gain_bound,
)
from fedsolve.closed_forms.limits import linear_limit
from fedsolve.closed_forms.linear_path import linear_path
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.errors import ConfigError, DataError

METHODS: list[Method] = [LocalSteps(0.1), LocalSteps(0.1, 5), ProximalStep(0.1)]
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


# ── theory ──


def test_the_thresholds_printed_in_section_7_2() -> None:
    """d = 100, σ = 0.5, ‖θ*‖ ≈ 10: about 7 for the client of 50 rows, 0.22 for that of 500."""
    assert heterogeneity_threshold(50, 100, 0.5, 10.0) == pytest.approx(7.07, abs=0.01)
    assert heterogeneity_threshold(500, 100, 0.5, 10.0) == pytest.approx(0.2236, abs=1e-4)
    assert heterogeneity_threshold(500, 100, 0.5, 0.1) == 0.1  # a truth that is smaller than the noise


def test_theorem_16() -> None:
    # c₁ min{σ²d/n, B²} + (1 − n/d)₊B², over σ²d/N + Γ²
    assert gain_bound(50, 100, 5500, 0.5, 10.0, 2.0) == pytest.approx((0.5 + 0.5 * 100) / (0.25 * 100 / 5500 + 4))
    assert gain_bound(500, 100, 5500, 0.5, 10.0, 0.0) == pytest.approx(0.05 / (25 / 5500))
    # At the threshold, and with no noise left in the federated model, the gain of c₁ → 0 is 1.
    for n, constant in ((50, 0.0), (500, 1.0)):
        at = heterogeneity_threshold(n, 100, 0.5, 10.0)
        assert gain_bound(n, 100, 10**12, 0.5, 10.0, at, constant) == pytest.approx(1.0, rel=1e-6)
    gains = [gain_bound(50, 100, 5500, 0.5, 10.0, apart) for apart in (0.0, 1.0, 5.0, 20.0)]
    assert gains == sorted(gains, reverse=True)
    assert gain_bound(50, 100, 5500, 0.0, 10.0, 0.0) == math.inf


def test_theorem_17() -> None:
    found = subspace_gain_bound(500, 40, 100, 5500, 0.5, 10.0, 1.2)
    assert found == pytest.approx((0.05 + 0.6 * 100) / (1.2 * 25 / 5500))
    with pytest.raises(ConfigError, match="subspace"):
        subspace_gain_bound(500, 101, 100, 5500, 0.5, 10.0, 1.2)


def test_what_does_not_fit_is_said() -> None:
    wrong: Any
    for wrong in ((0, 10, 0.5, 1.0), (5, 0, 0.5, 1.0), (5, 10, -0.5, 1.0), (5, 10, 0.5, math.nan)):
        with pytest.raises(ConfigError):
            heterogeneity_threshold(*wrong)
    options: dict[str, Any] = {"n": 5, "d": 10, "total": 50, "sigma": 0.5, "norm": 1.0}
    for change in (
        {"heterogeneity": math.nan},
        {"heterogeneity": -3.0},
        {"total": 4},
        {"total": 0},
        {"constant": -1.0},
        {"sigma": -1.0},
    ):
        with pytest.raises(ConfigError):
            gain_bound(**(options | {"heterogeneity": 1.0} | change))
    for change in ({"kappa": -2.0}, {"kappa": math.nan}, {"r": 0}, {"r": 11}, {"r": 2.5}, {"total": 4}):
        with pytest.raises(ConfigError):
            subspace_gain_bound(**(options | {"r": 3, "kappa": 1.5} | change))
    X = [np.ones((3, 2)), np.ones((4, 2))]
    for wrong_rows in ([X[0], np.full((4, 2), np.nan)], [X[0], np.ones((0, 2))], [X[0], np.ones((4, 3))], []):
        with pytest.raises(DataError):
            expected_gain(wrong_rows, np.ones((2, 2)), 0, 0.5, METHODS[0])
    wrong = 0.5
    with pytest.raises(ConfigError, match="client is a whole number"):
        expected_gain(X, np.ones((2, 2)), wrong, 0.5, METHODS[0])
    wrong = [["a", "b"]] * 2
    with pytest.raises(DataError, match="truths are not an array of numbers"):
        expected_gain(X, wrong, 0, 0.5, METHODS[0])
    with pytest.raises(ConfigError, match="sigma"):
        expected_gain(X, np.ones((2, 2)), 0, -1.0, METHODS[0])
    for shape in ((2, 3), (3, 2), (2,)):
        with pytest.raises(DataError, match="truths has a row of 2 numbers for each of 2 clients"):
            expected_gain(X, np.ones(shape), 0, 0.5, METHODS[0])
    with pytest.raises(DataError, match="client 2 of 2"):
        expected_gain(X, np.ones((2, 2)), 2, 0.5, METHODS[0])
    for method in (METHODS[1], LocalSteps(0.1, 4), LocalSteps(0.1, 2000)):
        with pytest.raises(ConfigError, match="diverges"):
            expected_gain([100 * one for one in X], np.ones((2, 2)), 0, 0.5, method)


# ── Definition 15 ──


def drawn(apart: float) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(4)
    X = [rng.standard_normal((n, 8)) for n in (4, 40, 30, 1)]
    return X, rng.standard_normal(8) + apart * rng.standard_normal((4, 8))


@each_method
@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("rounds", [None, 7])
def test_the_expectation_is_that_of_draws(method: Method, client: int, rounds: int | None) -> None:
    """20 000 draws of the noise: within five standard errors, for a client with fewer rows than features and one with
    more."""
    X, truths = drawn(0.3)
    rng = np.random.default_rng(0)
    y = [
        (rows @ t)[:, None] + 0.5 * rng.standard_normal((len(rows), 20_000)) for rows, t in zip(X, truths, strict=True)
    ]
    found = expected_gain(X, truths, client, 0.5, method, rounds)
    own = truths[client][:, None]
    local = np.sum((minimum_norm(X[client], y[client]) - own) ** 2, axis=0)
    assert abs(local.mean() - found.local) <= 5 * local.std() / math.sqrt(20_000)
    if rounds is None:
        errors = np.sum((linear_limit(X, y, method) - own) ** 2, axis=0)
        assert found.round is None
    else:
        path = np.sum((linear_path(X, y, method, rounds) - own) ** 2, axis=1)
        assert found.round == path.mean(axis=1).argmin()
        errors = path[found.round]
    assert abs(errors.mean() - found.federated) <= 5 * errors.std() / math.sqrt(20_000)
    assert found.ratio == pytest.approx(found.local / found.federated)
    assert found.of_norms == pytest.approx(math.sqrt(found.ratio))


@each_method
def test_without_noise_and_heterogeneity_joining_gains_everything(method: Method) -> None:
    X, truths = drawn(0.0)
    scarce = expected_gain(X, truths, 0, 0.0, method)
    assert scarce.local > 1
    assert scarce.federated < 1e-20
    rich = expected_gain(X, truths, 1, 0.0, method)
    assert rich.local == 0.0  # it sees all of the truth by itself
    assert Gain(1.0, 0.0, None).ratio == math.inf
    assert Gain(0.0, 0.0, None).ratio == 1.0


@each_method
def test_joining_pays_until_heterogeneity_is_too_large(method: Method) -> None:
    gains = [expected_gain(*drawn(apart), 0, 0.5, method).ratio for apart in (0.0, 0.3, 3.0)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1
    assert gains[-1] < 1.5


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6, 1e-7, 1e-10])
@each_method
def test_the_gain_of_columns_in_other_units(method: Method, unit: float) -> None:
    """The limit is linear in the targets, so that its expected error is a sum over unit targets. A singular value of
    the size of the unit has a relative error of 1e-16 / unit."""
    digits = 1e-11 + 1e-15 / unit
    rng = np.random.default_rng(4)
    X = [rng.standard_normal((n, 3)) * [1, 1, unit] for n in (30, 50)]
    truths = (rng.standard_normal(3) + 0.3 * rng.standard_normal((2, 3))) / [1, 1, unit]
    found = expected_gain(X, truths, 0, 1e-3, method)
    ends = linear_limit(X, np.split(np.eye(80), [30]), method)
    bias = ends @ np.concatenate([rows @ truth for rows, truth in zip(X, truths, strict=True)]) - truths[0]
    assert found.federated == pytest.approx(bias @ bias + 1e-6 * np.sum(ends**2), rel=digits)
    scaled = X[0] / [1, 1, unit]
    alone = np.linalg.inv(scaled.T @ scaled).diagonal() / np.square([1, 1, unit])
    assert found.local == pytest.approx(1e-6 * alone.sum(), rel=digits)


def test_columns_that_rounding_hides_are_rejected() -> None:
    X = [np.random.default_rng(4).standard_normal((n, 3)) * [1, 1, 1e-15] for n in (30, 50)]
    with pytest.raises(DataError, match="standardise"):
        expected_gain(X, np.ones((2, 3)), 0, 1e-3, METHODS[0])


@pytest.mark.parametrize(("size", "best"), [(0.1, 2), (0.2, 5), (0.3, 9), (0.5, 19)])
def test_the_best_round_is_inside(size: float, best: int) -> None:
    """Truths smaller than the noise are best learned for a few rounds only. By a path of unit targets."""
    rng = np.random.default_rng(4)
    X = [rng.standard_normal((9, 8)) for _ in range(2)]
    truths = np.full((2, 8), size)
    method, sigma = LocalSteps(0.1), 1.0
    found = expected_gain(X, truths, 0, sigma, method, rounds=200)
    path = linear_path(X, np.split(np.eye(18), 2), method, 200)
    biases = path @ np.concatenate([rows @ truth for rows, truth in zip(X, truths, strict=True)]) - truths[0]
    errors = np.sum(biases**2, axis=1) + sigma**2 * np.sum(path**2, axis=(1, 2))
    assert found.round == errors.argmin() == best
    assert found.federated == pytest.approx(errors.min(), rel=1e-10)


def test_directions_that_nobody_sees_stay_at_zero() -> None:
    X, truths = drawn(0.0)
    X = [rows * np.array([1, 1, 1, 1, 1, 1, 1, 0]) for rows in X]
    found = expected_gain(X, truths, 1, 0.0, METHODS[1], rounds=20_000)
    assert found.federated == pytest.approx(truths[1, 7] ** 2, rel=1e-9)
    assert found.local == pytest.approx(truths[1, 7] ** 2, rel=1e-9)
