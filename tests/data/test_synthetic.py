"""The synthetic regressions of FedNewton and of Su, Xu and Yang (2023), against the distributions they promise."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import (
    AllDeviate,
    OneDeviates,
    SharedModel,
    TwoGroups,
    chebyshev,
    chebyshev_regression,
    linear_model,
    linear_regressions,
)
from fedsolve.data.chebyshev_regression import U5, chebyshev_u5, interval_grid
from fedsolve.data.linear_regressions import ModelDesign, subspace_rows
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


# ── Su, Xu and Yang (2023): linear models ──

DESIGNS = [SharedModel(), OneDeviates(1.5, client=2), AllDeviate(1.5), TwoGroups(1.5)]


def test_linear_clients_have_the_sizes_and_the_noise_asked_for() -> None:
    data = linear_model([50, 500, 1], 20, sigma=0.3, seed=4)
    assert [(client.name, client.X.shape) for client in data.clients] == [
        ("client-0", (50, 20)),
        ("client-1", (500, 20)),
        ("client-2", (1, 20)),
    ]
    assert data.heterogeneity == 0.0
    exact = linear_model([50, 500, 1], 20, sigma=0.0, seed=4)
    for noisy, plain, truth in zip(data.clients, exact.clients, exact.models, strict=True):
        assert np.array_equal(noisy.X, plain.X)  # σ only scales the noise
        np.testing.assert_allclose(plain.y, plain.X @ truth, rtol=1e-12, atol=1e-12)


def test_linear_inputs_and_noise_are_standard_normal() -> None:
    """The bounds are five standard errors of the mean, the variance and the fourth moment of normal samples."""
    data = linear_model([2000] * 5, 10, sigma=0.5, seed=1)
    inputs = np.concatenate([client.X.ravel() for client in data.clients])
    noise = np.concatenate([(c.y - c.X @ t) / 0.5 for c, t in zip(data.clients, data.models, strict=True)])
    for drawn in (inputs, noise, linear_model([1], 20_000, seed=2).models[0]):
        error = 5 / math.sqrt(drawn.size)
        assert abs(drawn.mean()) < error
        assert abs((drawn**2).mean() - 1) < error * math.sqrt(2)
        assert abs((drawn**4).mean() - 3) < error * math.sqrt(96)
    assert abs(np.corrcoef(inputs[: noise.size], noise)[0, 1]) < 5 / math.sqrt(noise.size)
    correlations = np.corrcoef(np.concatenate([client.X for client in data.clients]).T) - np.eye(10)
    assert np.abs(correlations).max() < 5 / math.sqrt(10_000)


def test_a_linear_client_depends_on_the_seed_and_its_number_alone() -> None:
    few, many = linear_model([30] * 2, 8, seed=1), linear_model([30] * 6, 8, models=AllDeviate(2.0), seed=1)
    assert np.array_equal(few.clients[1].X, many.clients[1].X)
    noise = [d.clients[1].y - d.clients[1].X @ d.models[1] for d in (few, many)]
    np.testing.assert_allclose(noise[0], noise[1], rtol=0, atol=1e-13)
    other = linear_model([30] * 2, 8, seed=2)
    assert not np.array_equal(few.clients[0].X, few.clients[1].X)
    assert not np.array_equal(few.clients[0].X, other.clients[0].X)
    assert not np.array_equal(few.models, other.models)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_the_heterogeneity_is_the_one_asked_for(design: ModelDesign) -> None:
    data = linear_model([3] * 7, 12, models=design, seed=5)
    between = np.linalg.norm(data.models[:, None] - data.models[None], axis=-1)
    asked = getattr(design, "distance", 0.0)
    assert data.heterogeneity == pytest.approx(asked, rel=1e-12)
    assert between.max() == pytest.approx(asked, rel=1e-12)


def test_what_the_designs_promise() -> None:
    shared = linear_model([3] * 7, 12, seed=5).models[0]
    one = linear_model([3] * 7, 12, models=OneDeviates(2.5, client=3), seed=5).models
    assert np.array_equal(np.delete(one, 3, axis=0), np.tile(shared, (6, 1)))
    assert np.linalg.norm(one[3]) == pytest.approx(np.linalg.norm(shared), rel=1e-12)
    opposite = linear_model([3, 3], 12, models=OneDeviates(2 * float(np.linalg.norm(shared))), seed=5).models
    np.testing.assert_allclose(opposite[0], -shared, rtol=1e-7, atol=1e-7)
    moved = linear_model([3] * 7, 12, models=AllDeviate(2.5), seed=5).models - shared
    lengths = np.linalg.norm(moved, axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)
    assert np.linalg.matrix_rank(moved) == 7
    groups = linear_model([3] * 7, 12, models=TwoGroups(2.5), seed=5).models
    assert np.array_equal(groups[::2], np.tile(groups[0], (4, 1)))
    assert np.array_equal(groups[1::2], np.tile(groups[1], (3, 1)))
    np.testing.assert_allclose((groups[0] + groups[1]) / 2, shared, rtol=1e-12)


def test_a_subspace_client_sees_its_columns_only() -> None:
    data = linear_model([40] * 30, 20, subspace=7, seed=2)
    assert data.supports.shape == (30, 7)
    for client, support in zip(data.clients, data.supports, strict=True):
        assert np.array_equal(np.flatnonzero(np.abs(client.X).sum(axis=0)), support)
    assert len({tuple(support) for support in data.supports}) > 20  # not all the same
    full = linear_model([40] * 3, 20, subspace=20, seed=2)
    assert np.array_equal(full.clients[1].X, linear_model([40] * 3, 20, seed=2).clients[1].X)


def test_subspaces_are_uniform_and_rows_have_the_norm_asked_for() -> None:
    """Each column has probability r/d, each pair r(r−1)/(d(d−1)); rows of squared norm d. Within 5 standard errors."""
    seen, support = subspace_rows(np.random.default_rng(3), (4000,), 2, 10, 4)
    assert seen.shape == (4000, 2, 4)
    member = np.zeros((4000, 10))
    np.put_along_axis(member, support, 1.0, axis=1)
    pairs = member.T @ member / 4000
    chance = np.full((10, 10), 4 * 3 / (10 * 9))
    np.fill_diagonal(chance, 0.4)
    assert (np.abs(pairs - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000)).all()
    norms = (seen**2).sum(axis=-1).ravel()  # (d/r) χ²_r: mean d, variance 2d²/r
    assert abs(norms.mean() - 10) < 5 * math.sqrt(2 * 100 / 4 / norms.size)


# ── Su, Xu and Yang (2023): U₅ ──


def test_u5_is_the_chebyshev_polynomial_of_the_second_kind() -> None:
    angle = np.linspace(0.1, 3.0, 50)  # U₅(cos t) = sin 6t / sin t
    np.testing.assert_allclose(chebyshev_u5(np.cos(angle)), np.sin(6 * angle) / np.sin(angle), atol=1e-13)
    x = np.linspace(-1, 1, 31)
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(x, U5), chebyshev_u5(x), atol=1e-13)


def test_every_client_sees_an_interval_of_its_own() -> None:
    grid = interval_grid(20, 7)
    for i, points in enumerate(grid):
        assert points[0] == pytest.approx(-1 + 2 * i / 20, abs=1e-15)
        assert points[-1] < -1 + 2 * (i + 1) / 20
    np.testing.assert_allclose(np.diff(grid.ravel()), 2 / 140, rtol=1e-12)


def test_u5_is_learned_without_noise_and_the_noise_is_that_asked_for() -> None:
    exact = chebyshev(20, 3, sigma=0.0)
    loss = fs.Squared(features=fs.Polynomial(5, bias=True))
    np.testing.assert_allclose(fs.run(fs.Newton(loss), exact.clients).model.w, exact.coefficients, atol=1e-9)
    noisy = chebyshev(20, 500, sigma=0.5, seed=3)
    noise = np.concatenate([c.y - chebyshev_u5(c.X[:, 0]) for c in noisy.clients]) / 0.5
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs((noise**2).mean() - 1) < 5 * math.sqrt(2 / noise.size)
    assert not np.array_equal(noise[:500], noise[500:1000])
    assert not np.array_equal(chebyshev(seed=0).clients[0].y, chebyshev(seed=1).clients[0].y)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: linear_model([]), "sizes"),
        (lambda: linear_model([3, 0]), "size"),
        (lambda: linear_model([3], 0), "features"),
        (lambda: linear_model([3], sigma=-1.0), "sigma"),
        (lambda: linear_model([3], 5, subspace=6), "subspace"),
        (lambda: linear_model([3], 5, subspace=0), "subspace"),
        (lambda: linear_model([3], seed=-1), "seed"),
        (lambda: linear_model([3], 5, models=OneDeviates(1.0, client=1)), "client 1"),
        (lambda: linear_model([3], 5, models=OneDeviates(100.0)), "at most"),
        (lambda: linear_model([3], 1, models=OneDeviates(0.1)), "2 features"),
        (lambda: linear_model([3], 5, models=AllDeviate(1.0)), "two clients"),
        (lambda: linear_model([3], 5, models=TwoGroups(1.0)), "two clients"),
        (lambda: OneDeviates(-1.0), "distance"),
        (lambda: AllDeviate(float("nan")), "distance"),
        (lambda: TwoGroups(float("inf")), "distance"),
        (lambda: chebyshev(0), "clients"),
        (lambda: chebyshev(samples=0), "samples"),
        (lambda: chebyshev(sigma=float("nan")), "sigma"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: Callable[[], object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        wrong()


@pytest.mark.parametrize("module", [linear_regressions, chebyshev_regression], ids=lambda module: module.__name__)
def test_the_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
