"""The bounds of section 6 against exact expectations, and these against draws of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsolve.closed_forms.bounds import (
    coefficient_bound,
    early_stopping_bound,
    error_terms,
    finite_rank_bound,
    truth_distance_bound,
)
from fedsolve.closed_forms.limits import linear_limit
from fedsolve.closed_forms.linear_path import linear_path
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, recursion
from fedsolve.errors import ConfigError
from fedsolve.features import ExactKernel, Gaussian, LinearKernel, Matern, PolynomialKernel, Sobolev
from fedsolve.models import KernelExpansion
from fedsolve.numerics.early_stopping import rademacher, stopping_round

SIZES = (24, 1, 15, 8)
N = sum(SIZES)
OWNER = np.repeat(np.arange(4), SIZES)
SIGMA = 0.5
rng = np.random.default_rng(2)
X = rng.random((N, 2))
KERNELS: list[ExactKernel] = [Gaussian(2.0), Matern(1.5), Sobolev(), PolynomialKernel(2, gamma=0.5), LinearKernel(1.0)]
METHODS: list[Method] = [LocalSteps(0.3), LocalSteps(0.2, 6), ProximalStep(0.4)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


def truths(kernel: ExactKernel, apart: float) -> tuple[KernelExpansion, list[KernelExpansion], np.ndarray]:
    """A common f, each client's own truth at some distance from it, and these truths at the clients' rows."""
    draw = np.random.default_rng(7)
    common = KernelExpansion(X[:6], draw.standard_normal(6) / 3, kernel)
    own = [common.plus(KernelExpansion(X[6:9], apart * draw.standard_normal(3), kernel)) for _ in SIZES]
    return common, own, np.concatenate([own[j].predict(X[j == OWNER]) for j in range(4)])


# ── Proposition 7 ──


@each_kernel
@each_method
@pytest.mark.parametrize("apart", [0.0, 0.2])
def test_proposition_7(kernel: ExactKernel, method: Method, apart: float) -> None:
    found = Decomposition.of(kernel(X), SIZES, method)
    assert found.gamma < 1
    common, _, values = truths(kernel, apart)
    f = common.predict(X)
    lam = found.kernel_eigenvalues
    for t in (1, 2, 5, 20, 100, 1000):
        terms = error_terms(found, t, sigma=SIGMA, distance=common.norm, difference=values - f)
        exact = found.expected_error(t, values, target=f, sigma=SIGMA)
        assert exact <= terms.bound
        time = method.step_size * t * method.steps
        assert terms.delta_1 <= 1 / (2 * np.e * time)  # (19), as Lemma 20 has it
        steps = np.minimum(1, method.step_size * t * found.eigenvalues)
        assert terms.delta_2 <= steps.mean() + 1e-12  # (20)
        assert steps.mean() <= time * rademacher(lam, time**-0.5, N) ** 2 + 1e-12
        assert (terms.heterogeneity < 1e-28) == (apart == 0)


@each_kernel
@each_method
def test_each_term_bounds_its_part(kernel: ExactKernel, method: Method) -> None:
    """Bias, variance and heterogeneity apart, each up to the factor 3 that is for their sum (Lemmas 20 and 21)."""
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, 0.3)
    f = common.predict(X)
    for t in (1, 3, 30, 300):
        terms = error_terms(found, t, sigma=SIGMA, distance=common.norm, difference=values - f)
        assert found.expected_error(t, f, sigma=0.0) <= terms.bias / 3 * (1 + 1e-12)
        assert found.expected_error(t, np.zeros(N), sigma=SIGMA) <= terms.variance / 3 * (1 + 1e-12)
        moved = recursion(kernel(X), SIZES, values - f, method, t)[-1]
        assert np.mean(moved**2) <= terms.heterogeneity / 3 * (1 + 1e-12)


@each_method
def test_the_exact_expectation_is_that_of_draws(method: Method) -> None:
    """20 000 draws: within five standard errors."""
    kernel, t = KERNELS[1], 12
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, 0.3)
    f, start = common.predict(X), np.full(N, 0.2)
    draws = SIGMA * np.random.default_rng(0).standard_normal((N, 20_000))
    ends = found.values(values[:, None] + draws, t, np.repeat(start[:, None], 20_000, axis=1))
    errors = np.mean((ends - f[:, None]) ** 2, axis=0)
    exact = found.expected_error(t, values, target=f, sigma=SIGMA, start=start)
    assert abs(errors.mean() - exact) <= 5 * errors.std() / np.sqrt(20_000)
    several = found.expected_error(np.array([1, t, 40]), values, target=f, sigma=SIGMA, start=start)
    assert several.shape == (3,)
    assert several[1] == pytest.approx(exact, rel=1e-12)


# ── Theorems 8 and 11 ──


@each_kernel
@each_method
@pytest.mark.parametrize("apart", [0.0, 0.2])
def test_theorem_8(kernel: ExactKernel, method: Method, apart: float) -> None:
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, apart)
    f = common.predict(X)
    T = stopping_round(found.kernel_eigenvalues, SIGMA, N, method.step_size, method.steps)
    assert T is not None
    assert T >= 2
    rounds = np.unique(np.linspace(1, T, 25).astype(int))
    for t, exact in zip(rounds, found.expected_error(rounds, values, target=f, sigma=SIGMA), strict=True):
        bound = early_stopping_bound(int(t), method, found.kappa, common.norm, values - f)
        assert exact <= bound
        # It is Proposition 7's with both δ replaced by their bounds, so never the smaller of the two.
        terms = error_terms(found, int(t), sigma=SIGMA, distance=common.norm, difference=values - f)
        assert terms.bound <= bound * (1 + 1e-12)


@pytest.mark.parametrize("kernel", KERNELS[3:], ids=str)
@each_method
def test_theorem_11(kernel: ExactKernel, method: Method) -> None:
    """Finite rank: exponential, without early stopping."""
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, 0.2)
    f = common.predict(X)
    rank = np.linalg.matrix_rank(kernel(X))
    assert rank <= 6
    rounds = np.array([1, 10, 100, 1000, 10**5, 10**8])
    for t, exact in zip(rounds, found.expected_error(rounds, values, target=f, sigma=SIGMA), strict=True):
        lam = found.kernel_eigenvalues
        bound = finite_rank_bound(int(t), method, found.kappa, lam, common.norm, SIGMA, values - f)
        assert exact <= bound
    apart = 3 * found.kappa * np.mean((values - f) ** 2)
    assert bound == pytest.approx(3 * found.kappa * SIGMA**2 * rank / N + apart, rel=1e-6)
    with pytest.raises(ConfigError, match="rank 0"):
        finite_rank_bound(1, method, 1.0, np.zeros(3), 1.0, SIGMA)


# ── Theorem 12 ──


@each_method
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_theorem_12(method: Method, apart: float) -> None:
    draw = np.random.default_rng(11)
    sizes, d = (40, 2, 25), 4
    Phi = [draw.standard_normal((n, d)) for n in sizes]
    own = draw.standard_normal(d) + apart * draw.standard_normal((3, d))
    means = [rows @ theta for rows, theta in zip(Phi, own, strict=True)]
    rows = np.vstack(Phi)
    total = len(rows)
    method = type(method)(**(vars(method) | {"step_size": method.step_size / 10}))  # so that γ < 1 on these rows
    found = Decomposition.of(rows @ rows.T, sizes, method)
    rho = float(np.linalg.eigvalsh(rows.T @ rows / total)[0])
    bar = linear_limit(Phi, means, method)  # θ̄, the limit of data without noise
    noise = [SIGMA * draw.standard_normal((n, 4000)) for n in sizes]
    noisy = [mean[:, None] + xi for mean, xi in zip(means, noise, strict=True)]
    path = linear_path(Phi, noisy, method, 60)
    for t in (1, 5, 20, 60):
        errors = np.sum((path[t] - bar[:, None]) ** 2, axis=0)
        bound = coefficient_bound(t, method, found.kappa, rho, total, d, float(np.linalg.norm(bar)), SIGMA)
        assert errors.mean() + 5 * errors.std() / np.sqrt(4000) <= bound
    for theta in own:
        difference = np.concatenate(means) - rows @ theta
        allowed = truth_distance_bound(found.kappa, rho, total, difference)
        assert np.linalg.norm(bar - theta) <= allowed * (1 + 1e-12) + 1e-12
    # f_∞ is an unbiased estimate of θ̄.
    ends = linear_limit(Phi, noisy, method)
    assert np.abs(ends.mean(axis=1) - bar).max() <= 5 * (ends.std(axis=1) / np.sqrt(4000)).max()


def test_without_a_full_rank_there_is_no_bound() -> None:
    options: Any = (METHODS[0], 1.0, 0.0, 10, 2, 1.0, 0.5)
    assert coefficient_bound(3, *options) == np.inf
    assert truth_distance_bound(1.0, 0.0, 10, np.ones(10)) == np.inf
