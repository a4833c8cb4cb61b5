"""The early-stopping time of equation 23, and the noise estimated from residuals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import Gaussian, Nystroem, Sobolev
from fedsolve.numerics.early_stopping import (
    fit_kernel,
    fit_spectrum,
    noise_from_kernel,
    noise_from_spectrum,
    rademacher,
    stopping_round,
    stopping_time,
)

METHODS: list[Method] = [LocalSteps(0.1), LocalSteps(0.1, 5), LocalSteps(0.1, 10), ProximalStep(0.1)]


def problem(N: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Points of a grid, the kernel min(x, z) and four clients of different sizes."""
    x = np.random.default_rng(N).permutation(np.arange(1, N + 1) / N)
    sizes = (N // 2, N // 4, N // 5)
    return x, Sobolev()(x[:, None]), (*sizes, N - sum(sizes))


def kink(x: np.ndarray) -> np.ndarray:
    """|x − ½| − ½, of norm ∫f'² = 1 in the space of min(x, z)."""
    return np.abs(x - 0.5) - 0.5


# ── T ──


def by_search(lam: np.ndarray, noise: float, N: int, step_size: float, steps: int, norm: float = 1.0) -> int:
    """The largest t that fulfils the inequality of equation 23, one after the other."""
    t = 0
    while True:
        u = step_size * (t + 1) * steps
        if rademacher(lam, 1 / math.sqrt(u), N) > norm / (math.sqrt(2 * math.e) * noise * u):
            return t
        t += 1


@pytest.mark.parametrize("step_size", [0.07, 0.5])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("noise", [0.2, 0.5, 3.0])
def test_the_closed_form_is_the_search(noise: float, steps: int, step_size: float) -> None:
    _, K, _ = problem(60)
    spectra = [
        np.linalg.eigvalsh(K / 60),
        np.array([0.5, 0.5, 0.1]),  # of rank 3
        1 / np.arange(1, 61) ** 4,
        np.array([2.0]),
    ]
    for lam in spectra:
        for norm in (1.0, 2.5):
            found = stopping_round(lam, noise, 60, step_size, steps, norm)
            assert found == by_search(lam, noise, 60, step_size, steps, norm)


def test_the_time_is_where_both_sides_are_equal() -> None:
    lam = np.linalg.eigvalsh(problem(60)[1] / 60)
    u = stopping_time(lam, 0.5, 60)
    assert rademacher(lam, 1 / math.sqrt(u), 60) == pytest.approx(1 / (math.sqrt(2 * math.e) * 0.5 * u), rel=1e-12)
    # Zeros may be left out, and rounding below zero does not matter.
    assert stopping_time(lam[lam > 0.01], 0.5, 60) > u
    assert stopping_time(np.append(lam, [0.0, -1e-18]), 0.5, 60) == pytest.approx(u, rel=1e-14)


def test_features_give_the_same_time_as_the_kernel() -> None:
    """ΦᵀΦ/N has the eigenvalues of K/N, and Φᵀy/N their projections: all are sums over clients."""
    x, K, sizes = problem(60)
    Phi = Nystroem(x[:, None], kernel=Sobolev()).block(x[:, None])
    y = kink(x) + 0.5 * np.random.default_rng(1).standard_normal(60)
    parts = np.split(np.arange(60), np.cumsum(sizes)[:-1])
    gram = sum(Phi[part].T @ Phi[part] for part in parts) / 60
    values, vectors = np.linalg.eigh(gram)
    assert stopping_time(values, 0.5, 60) == pytest.approx(
        stopping_time(np.linalg.eigvalsh(K / 60), 0.5, 60), rel=1e-10
    )
    moment = sum(Phi[part].T @ y[part] for part in parts) / 60
    fitted = fit_spectrum(values, (vectors.T @ moment) ** 2 / values, float(y @ y) / 60, 60)
    assert fitted.noise == pytest.approx(fit_kernel(K, y).noise, rel=1e-8)
    assert fitted.norm == pytest.approx(fit_kernel(K, y).norm, rel=1e-5)


def test_limits_of_the_rule() -> None:
    assert stopping_time(np.array([1.0]), 0.0, 10) == math.inf
    assert stopping_time(np.zeros(5), 0.5, 10) == math.inf
    assert stopping_round(np.zeros(5), 0.5, 10, 0.1) is None
    assert stopping_round(np.ones(5), 100.0, 10, 0.1) == 0  # nothing but noise
    with pytest.raises(DataError, match="negative"):
        stopping_time(np.array([1.0, -0.1]), 0.5, 10)
    with pytest.raises(DataError, match="finite"):
        stopping_time(np.array([np.nan]), 0.5, 10)
    for noise, norm in ((-1.0, 1.0), (np.nan, 1.0), (0.5, 0.0), (0.5, np.inf)):
        with pytest.raises(ConfigError, match="noise is"):
            stopping_time(np.ones(2), noise, 10, norm)
    with pytest.raises(ConfigError, match="step_size"):
        stopping_round(np.ones(2), 0.5, 10, 0.0)
    with pytest.raises(ConfigError, match="samples"):
        stopping_round(np.ones(2), 0.5, 0, 0.1)


@pytest.mark.parametrize("N", [50, 100, 200, 400])
def test_the_risk_at_T_is_near_the_best(N: int) -> None:
    """Kernel min(x, z), σ = 0.5, a truth of norm 1: at most 1.3 times the best, in expectation over the noise."""
    x, K, sizes = problem(N)
    times = []
    for method in METHODS:
        found = Decomposition.of(K, sizes, method)
        T = stopping_round(found.kernel_eigenvalues, 0.5, N, method.step_size, method.steps)
        assert T is not None
        risks = found.expected_error(np.arange(1, 6 * T), kink(x), sigma=0.5)
        assert risks.argmin() + 1 < 5 * T  # the best is inside
        assert risks[T - 1] <= 1.3 * risks.min()
        times.append(method.step_size * T * method.steps)
    u = stopping_time(np.linalg.eigvalsh(K / N), 0.5, N)
    for time, method in zip(times, METHODS, strict=True):  # the same time whatever s, up to rounding to whole rounds
        assert 0 <= u - time < method.step_size * method.steps * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-3, 2.0, 50.0])
def test_with_the_norm_of_the_truth_units_do_not_matter(scale: float) -> None:
    """In other units noise and truth are scaled alike: the paper's rule stops elsewhere, with the norm it does not."""
    x, K, sizes = problem(200)
    found = Decomposition.of(K, sizes, METHODS[1])
    lam = found.kernel_eigenvalues
    T = stopping_round(lam, 0.5, 200, 0.1, 5)
    assert stopping_round(lam, 0.5 * scale, 200, 0.1, 5, norm=scale) == T
    assert stopping_round(lam, 0.5 * scale, 200, 0.1, 5) != T
    y = kink(x) + 0.5 * np.random.default_rng(0).standard_normal(200)
    one, other = fit_kernel(K, y), fit_kernel(K, scale * y)
    assert other.noise == pytest.approx(scale * one.noise, rel=1e-6)
    assert other.norm == pytest.approx(scale * one.norm, rel=1e-3)  # the penalty is found to about 1e-4 of itself


def test_with_a_larger_truth_the_norm_is_needed() -> None:
    """3 sin 2πx has norm 13: the paper's rule, which takes it for 1, stops far too early."""
    x, K, sizes = problem(200)
    truth = 3 * np.sin(2 * np.pi * x)
    found = Decomposition.of(K, sizes, METHODS[1])
    lam = found.kernel_eigenvalues
    best = found.expected_error(np.unique(np.geomspace(1, 20_000, 300).astype(int)), truth, sigma=0.5).min()

    def ratio(norm: float) -> float:
        T = stopping_round(lam, 0.5, 200, 0.1, 5, norm)
        return float(found.expected_error(T, truth, sigma=0.5) / best)

    exact = 3 * 2 * np.pi * math.sqrt(0.5)
    assert ratio(exact) <= 1.3
    assert ratio(1.0) > 10
    y = truth + 0.5 * np.random.default_rng(0).standard_normal(200)
    assert fit_kernel(K, y).norm == pytest.approx(exact, rel=0.2)
    assert ratio(fit_kernel(K, y).norm) <= 1.5


# ── σ ──


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("kernel", [Sobolev(), Gaussian(20.0)], ids=str)
def test_the_noise_is_estimated_from_residuals(kernel: Sobolev | Gaussian, noise: float) -> None:
    """Over 60 draws of 200 rows: on average within 5 %, and each within a third (about 5 standard deviations)."""
    x, _, _ = problem(200)
    K = kernel(x[:, None])
    draws = np.random.default_rng(3).standard_normal((60, 200))
    found = np.array([noise_from_kernel(K, kink(x) + noise * one) for one in draws])
    assert found.mean() == pytest.approx(noise, rel=0.05)
    assert np.abs(found / noise - 1).max() < 1 / 3


def test_the_noise_of_a_rough_function_is_not_taken_for_zero() -> None:
    """40 rows of 4 periods: the ridge regression must not interpolate, or σ̂ would be 0 and a run would never stop."""
    x, K, _ = problem(40)
    draws = np.random.default_rng(3).standard_normal((30, 40))
    found = np.array([noise_from_kernel(K, np.sin(8 * np.pi * x) + 0.5 * one) for one in draws])
    assert found.min() > 0.5 / 3
    assert found.mean() == pytest.approx(0.5, rel=0.15)
    assert fit_kernel(K, np.sin(8 * np.pi * x)).freedom <= 0.9 * 40 + 1e-9


def test_of_a_linear_model_it_is_the_usual_estimate() -> None:
    """Where the signal is strong the penalty vanishes, and σ̂² = RSS/(N − p)."""
    rng = np.random.default_rng(5)
    Phi = rng.standard_normal((80, 6))
    y = Phi @ (100 * np.ones(6)) + 0.3 * rng.standard_normal(80)
    values, vectors = np.linalg.eigh(Phi.T @ Phi / 80)
    projections = (vectors.T @ Phi.T @ y / 80) ** 2 / values
    residual = np.linalg.lstsq(Phi, y, rcond=None)[1][0]
    found = fit_spectrum(values, projections, float(y @ y) / 80, 80)
    assert found.noise == pytest.approx(math.sqrt(residual / 74), rel=1e-4)
    assert found.freedom == pytest.approx(6, abs=1e-3)
    assert found.norm == pytest.approx(100 * math.sqrt(6), rel=1e-2)
    # From the kernel matrix of the same features it is the same number.
    assert noise_from_kernel(Phi @ Phi.T, y) == pytest.approx(found.noise, rel=1e-6)
    # Two outputs: the mean of both variances.
    two = np.stack([y, Phi @ np.ones(6) * 100 + rng.standard_normal(80)], axis=1)
    parts = [noise_from_kernel(Phi @ Phi.T, two[:, place]) ** 2 for place in range(2)]
    assert noise_from_kernel(Phi @ Phi.T, two) ** 2 == pytest.approx(np.mean(parts), rel=1e-3)


def test_noise_without_anything_to_fit() -> None:
    assert noise_from_spectrum(np.zeros(3), np.zeros(3), 4.0, 10) == 2.0
    with pytest.raises(DataError, match="projection for each"):
        noise_from_spectrum(np.ones(3), np.ones(2), 1.0, 10)
