"""The bounds of section 6 against exact expectations, and these against draws of the noise."""

from __future__ import annotations

from dataclasses import dataclass
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
from fedsolve.errors import ConfigError, DataError
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


@dataclass(frozen=True)
class Start:
    """An f_0, at the rows, and its distance from a function."""

    values: np.ndarray
    expansion: KernelExpansion | None

    def distance(self, f: KernelExpansion) -> float:
        if self.expansion is None:
            return f.norm
        away = self.expansion
        return f.plus(KernelExpansion(away.points, -away.coefficients, away.kernel)).norm


def start_of(kernel: ExactKernel, zero: bool) -> Start:
    if zero:
        return Start(np.zeros(N), None)
    expansion = KernelExpansion(X[10:14], np.array([0.5, -1.0, 0.3, 0.8]), kernel)
    return Start(expansion.predict(X), expansion)


each_start = pytest.mark.parametrize("zero", [True, False], ids=["f_0 = 0", "f_0 ≠ 0"])


# ── Proposition 7 ──


@each_kernel
@each_method
@pytest.mark.parametrize("apart", [0.0, 0.2])
@each_start
def test_proposition_7(kernel: ExactKernel, method: Method, apart: float, zero: bool) -> None:
    found = Decomposition.of(kernel(X), SIZES, method)
    assert found.gamma < 1
    common, _, values = truths(kernel, apart)
    f = common.predict(X)
    lam, start = found.kernel_eigenvalues, start_of(kernel, zero)
    for t in (1, 2, 5, 20, 100, 1000):
        terms = error_terms(found, t, sigma=SIGMA, distance=start.distance(common), difference=values - f)
        exact = found.expected_error(t, values, target=f, sigma=SIGMA, start=start.values)
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
def test_the_bias_bound_counts_from_the_start(method: Method) -> None:
    """Where the truth is 0, all bias is what is left of f_0."""
    kernel = KERNELS[0]
    found = Decomposition.of(kernel(X), SIZES, method)
    f0 = KernelExpansion(X[:5], np.full(5, 2.0), kernel)
    terms = error_terms(found, 1, sigma=0.0, distance=f0.norm)
    assert found.expected_error(1, np.zeros(N), sigma=0.0, start=f0.predict(X)) <= terms.bias / 3


@each_method
def test_the_heterogeneity_term_is_reached(method: Method) -> None:
    """Δ_f along the top singular vector of I − L^t, which is V V⁻¹ in the end: with s = 1 it all is learned."""
    found = Decomposition.of(KERNELS[1](X), SIZES, method)
    t = 10**8
    learned = found.values(np.eye(N), t)
    _, scales, right = np.linalg.svd(learned)
    terms = error_terms(found, t, sigma=0.0, distance=0.0, difference=right[0])
    moved = np.mean((learned @ right[0]) ** 2)
    assert moved <= terms.heterogeneity / 3 * (1 + 1e-9)
    if method.steps == 1 and isinstance(method, LocalSteps):
        assert moved == pytest.approx(terms.heterogeneity / (3 * terms.kappa), rel=1e-3)
    assert scales[0] > 0.999


@each_method
def test_several_outputs_add_up(method: Method) -> None:
    found = Decomposition.of(KERNELS[1](X), SIZES, method)
    draw = np.random.default_rng(5)
    truth, target, start = draw.standard_normal((3, N, 2))
    rounds = np.array([0, 3, 50])
    each = [
        found.expected_error(rounds, truth[:, j], target=target[:, j], sigma=SIGMA, start=start[:, j]) for j in (0, 1)
    ]
    both = found.expected_error(rounds, truth, target=target, sigma=SIGMA, start=start)
    np.testing.assert_allclose(both, sum(each), rtol=1e-13)
    for t in (-3, 2.5, np.array([1.0, 2.0]), "3"):
        wrong: Any = t
        with pytest.raises(ConfigError, match="t is a whole number of at least 0"):
            found.expected_error(wrong, truth, sigma=SIGMA)
        with pytest.raises((ConfigError, TypeError), match="t is a whole number of at least 0"):
            found.values(truth, wrong)
    for y in (truth[:-1], truth[None], np.full(N, np.nan)):
        for call in (found.limit, lambda y: found.values(y, 3), lambda y: found.expected_error(3, y, sigma=SIGMA)):
            with pytest.raises(DataError, match=f"each of {N} rows"):
                call(y)
    with pytest.raises(DataError, match=f"each of {N} rows"):
        found.expected_error(3, truth, target=target[:, 0], sigma=SIGMA)
    with pytest.raises(ConfigError, match="sigma"):
        found.expected_error(3, truth, sigma=-1.0)


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
@pytest.mark.parametrize("norm", [1.0, 13.0])
@each_start
def test_theorem_8(kernel: ExactKernel, method: Method, apart: float, norm: float, zero: bool) -> None:
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, apart)
    f = common.predict(X)
    start = start_of(kernel, zero)
    away = start.distance(common)
    T = stopping_round(found.kernel_eigenvalues, SIGMA, N, method.step_size, method.steps, norm)
    assert T is not None
    assert T >= 2
    rounds = np.unique(np.linspace(1, T, 25).astype(int))
    errors = found.expected_error(rounds, values, target=f, sigma=SIGMA, start=start.values)
    for t, exact in zip(rounds, errors, strict=True):
        bound = early_stopping_bound(int(t), method, found.kappa, away, values - f, norm)
        assert exact <= bound
        # It is Proposition 7's with both δ replaced by their bounds, so never the smaller of the two.
        terms = error_terms(found, int(t), sigma=SIGMA, distance=away, difference=values - f)
        assert terms.bound <= bound * (1 + 1e-12)


@each_kernel
def test_up_to_the_stopping_round_the_variance_is_within_theorem_8(kernel: ExactKernel) -> None:
    """Its B²/(2eηts) is the variance's part, for any B; with 1 instead the bound would not hold at the T of B = 13."""
    found = Decomposition.of(kernel(X), SIZES, METHODS[0])
    T = stopping_round(found.kernel_eigenvalues, SIGMA, N, METHODS[0].step_size, 1, 13.0)
    assert T is not None
    variance = error_terms(found, T, sigma=SIGMA, distance=0.0).variance
    assert variance <= early_stopping_bound(T, METHODS[0], found.kappa, 0.0, norm=13.0)
    assert variance > early_stopping_bound(T, METHODS[0], found.kappa, 0.0)


@pytest.mark.parametrize("kernel", KERNELS[3:], ids=str)
@each_method
@each_start
def test_theorem_11(kernel: ExactKernel, method: Method, zero: bool) -> None:
    """Finite rank: exponential, without early stopping."""
    found = Decomposition.of(kernel(X), SIZES, method)
    common, _, values = truths(kernel, 0.2)
    f = common.predict(X)
    rank = np.linalg.matrix_rank(kernel(X))
    assert rank <= 6
    rounds = np.array([1, 10, 100, 1000, 10**5, 10**8])
    start = start_of(kernel, zero)
    away = start.distance(common)
    errors = found.expected_error(rounds, values, target=f, sigma=SIGMA, start=start.values)
    for t, exact in zip(rounds, errors, strict=True):
        lam = found.kernel_eigenvalues
        bound = finite_rank_bound(int(t), method, found.kappa, lam, away, SIGMA, values - f)
        assert exact <= bound
    apart = 3 * found.kappa * np.mean((values - f) ** 2)
    assert bound == pytest.approx(3 * found.kappa * SIGMA**2 * rank / N + apart, rel=1e-6)
    with pytest.raises(ConfigError, match="rank 0"):
        finite_rank_bound(1, method, 1.0, np.zeros(3), 1.0, SIGMA)


@pytest.mark.parametrize(
    ("method", "t", "exact", "bound"),
    [(LocalSteps(0.5, 6), 3, 1.455e-11, 8.298e-3), (LocalSteps(0.1), 40, 2.185e-4, 1.006e-2)],
    ids=str,
)
def test_theorem_11_by_hand(method: Method, t: int, exact: float, bound: float) -> None:
    """One client with K_x = diag(1, 1, 0, 0) and f = k(·, x_1)/2 of norm 1, which is 2 at x_1: after t rounds it is
    2 (1 − η)^(st) there. The bound is 3κ/(ηs) · exp(−2ηst/κ)."""
    found = Decomposition.of(np.diag([4.0, 4.0, 0.0, 0.0]), (4,), method)
    assert found.expected_error(t, np.array([2.0, 0, 0, 0]), sigma=0.0) == pytest.approx(exact, rel=1e-3)
    lam = found.kernel_eigenvalues
    assert finite_rank_bound(t, method, found.kappa, lam, 1.0, 0.0) == pytest.approx(bound, rel=1e-3)


def test_theorem_11_counts_the_noise_in_directions_near_rounding() -> None:
    """One direction of λ = 1 and three of 1e-16, which do not count to the rank: in the end they are learned too."""
    method, t, lam = LocalSteps(0.5), 10**17, np.array([1.0, 1e-16, 1e-16, 1e-16])
    kappa = method.kappa(0.5)
    exact = np.square(np.expm1(t * np.log1p(-0.5 * lam))).mean()  # the variance of σ = 1, for one client
    assert exact > 0.9
    assert finite_rank_bound(t, method, kappa, lam, 0.0, 1.0) == pytest.approx(3 * kappa, rel=1e-12)
    assert finite_rank_bound(10**3, method, kappa, lam, 0.0, 1.0) == pytest.approx(3 * kappa / 4, rel=1e-12)


def test_theorem_11_of_eigenvalues_near_rounding() -> None:
    """Columns far from zero: the third eigenvalue is 1e-14 of the first, and is the only one that sees f."""
    draw = np.random.default_rng(0)
    rows, sigma, method = 1000 + draw.random((500, 2)), 1e-3, LocalSteps(4e-7)
    found = Decomposition.of(LinearKernel(1.0)(rows), (500,), method)
    lam = found.kernel_eigenvalues
    assert lam[2] < 1e-12 * lam[0]
    for t in (1, 10**6, 10**9, 10**12):
        exact = found.expected_error(t, rows[:, 0] - 1000, sigma=sigma)
        bound = finite_rank_bound(t, method, found.kappa, lam, np.hypot(1, 1000), sigma)
        assert exact <= bound
        terms = error_terms(found, t, sigma=sigma, distance=np.hypot(1, 1000))
        assert terms.bound <= bound * (1 + 1e-9)


# ── Theorem 12 ──


@pytest.mark.parametrize(
    ("method", "exact"),
    [(LocalSteps(0.5, 6), 4.3368e-18), (LocalSteps(0.1), 1.743392), (ProximalStep(4.0), 5.12e-7)],
    ids=str,
)
def test_theorem_12_is_reached(method: Method, exact: float) -> None:
    """One client with ΦᵀΦ/N = I and no noise: every direction shrinks alike, and the bound is the error itself."""
    Phi, theta = 2 * np.eye(4)[:, :2], np.array([1.0, 2.0])
    found = Decomposition.of(Phi @ Phi.T, (4,), method)
    path = linear_path([Phi], [Phi @ theta], method, 5)
    options: Any = {"kappa": found.kappa, "rho": 1.0, "samples": 4, "dimension": 2}
    bound = coefficient_bound(5, method, **options, distance=5**0.5, sigma=0.0)
    assert bound == pytest.approx(exact, rel=1e-4)
    if exact > 1e-12:  # below, the path has no digits left of θ_t − θ̄
        assert np.sum((path[5] - theta) ** 2) == pytest.approx(bound, rel=1e-9)
    noisy = coefficient_bound(5, method, **options, distance=5**0.5, sigma=0.5)
    assert noisy - bound == pytest.approx(0.25 * found.kappa * 2 / 4, rel=1e-9)


@each_method
@pytest.mark.parametrize("apart", [0.0, 0.5])
@each_start
def test_theorem_12(method: Method, apart: float, zero: bool) -> None:
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
    start = np.zeros(d) if zero else 3 * np.ones(d)
    path = linear_path(Phi, noisy, method, 60, np.repeat(start[:, None], 4000, axis=1))
    options: Any = {"kappa": found.kappa, "rho": rho, "samples": total, "dimension": d, "sigma": SIGMA}
    for t in (1, 5, 20, 60):
        errors = np.sum((path[t] - bar[:, None]) ** 2, axis=0)
        bound = coefficient_bound(t, method, **options, distance=float(np.linalg.norm(start - bar)))
        assert errors.mean() + 5 * errors.std() / np.sqrt(4000) <= bound
    for theta in own:
        difference = np.concatenate(means) - rows @ theta
        allowed = truth_distance_bound(found.kappa, rho, total, difference)
        assert np.linalg.norm(bar - theta) <= allowed * (1 + 1e-12) + 1e-12
    # f_∞ is an unbiased estimate of θ̄.
    ends = linear_limit(Phi, noisy, method)
    assert np.abs(ends.mean(axis=1) - bar).max() <= 5 * (ends.std(axis=1) / np.sqrt(4000)).max()


def test_without_a_full_rank_there_is_no_bound() -> None:
    options: Any = {"kappa": 1.0, "samples": 10, "dimension": 2, "distance": 1.0, "sigma": 0.5}
    assert coefficient_bound(3, METHODS[0], rho=0.0, **options) == np.inf
    assert truth_distance_bound(1.0, 0.0, 10, np.ones(10)) == np.inf
    # A ρ so small that a round changes nothing in double precision is none the less one.
    assert coefficient_bound(3, METHODS[0], rho=1e-20, **options) > 1e18
    for change in ({"kappa": -2.0}, {"kappa": 0.5}, {"sigma": -1.0}, {"rho": -1.0}, {"rho": 50.0}, {"samples": 0}):
        with pytest.raises(ConfigError):
            coefficient_bound(3, METHODS[0], **({"rho": 1.0} | options | change))
    for t in (-3, 0, 1.5):
        wrong: Any = t
        with pytest.raises(ConfigError, match="t is a whole number"):
            coefficient_bound(wrong, METHODS[0], rho=1.0, **options)
        with pytest.raises(ConfigError, match="t is a whole number"):
            finite_rank_bound(wrong, METHODS[0], 1.0, np.ones(3), 1.0, 0.5)


def test_what_does_not_fit_is_said() -> None:
    found = Decomposition.of(KERNELS[0](X), SIZES, METHODS[0])
    for options in ({"sigma": -1.0, "distance": 1.0}, {"sigma": 0.5, "distance": np.nan}):
        with pytest.raises(ConfigError, match="finite number of at least 0"):
            error_terms(found, 3, **options)
    for difference in (np.ones(N - 1), np.ones((N, 2)), np.full(N, np.inf)):
        with pytest.raises(DataError, match="difference is Δ_f"):
            error_terms(found, 3, sigma=0.5, distance=1.0, difference=difference)
        with pytest.raises(DataError, match="difference is Δ_f"):
            finite_rank_bound(3, METHODS[0], 1.0, found.kernel_eigenvalues, 1.0, 0.5, difference)
    with pytest.raises(DataError, match="difference is Δ_f"):
        early_stopping_bound(3, METHODS[0], 1.0, 1.0, np.ones((N, 2)))
    with pytest.raises(DataError, match="difference is Δ_f"):
        truth_distance_bound(1.0, 1.0, N, np.ones(N + 1))
    # The same Δ_f says the same everywhere.
    apart = np.arange(float(N))
    terms = error_terms(found, 3, sigma=0.0, distance=0.0, difference=apart)
    assert terms.heterogeneity == pytest.approx(3 * found.kappa * apart @ apart / N, rel=1e-12)
    late = finite_rank_bound(3, METHODS[0], found.kappa, found.kernel_eigenvalues, 0.0, 0.0, apart)
    early = early_stopping_bound(3, METHODS[0], found.kappa, 0.0, apart, norm=0.0)
    assert late == pytest.approx(terms.heterogeneity, rel=1e-12)
    assert early == pytest.approx(terms.heterogeneity, rel=1e-12)
