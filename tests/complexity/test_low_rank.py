"""Theorem 1: its constants and exponent, the approximation in its proof, and smooth kernels by SVD."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg

from fedsolve.complexity import least_rank, low_rank_bound, low_rank_errors, piecewise_polynomial_bound
from fedsolve.errors import ConfigError, DataError
from fedsolve.typing import Array

SMOOTHNESS = [(0.5, 1), (1.0, 1), (1.5, 1), (2.0, 1), (4.0, 1), (0.7, 2), (2.0, 2), (3.3, 2), (2.0, 3), (6.0, 4)]

# ── the formula ──


def test_by_hand() -> None:
    """η = 1, d = 1: l = 0, L² e² 4 / r². η = 2, d = 2: l = 1, L² e² 2 · 16 · 3⁴ / r². From r = 2e and 4e√2 · 9 on."""
    assert low_rank_bound(10, 1, 3, 1) == pytest.approx(9 * math.e**2 * 4 / 100)
    assert low_rank_bound(200, 2, 0.5, 2) == pytest.approx(0.25 * math.e**2 * 2 * 16 * 81 / 40_000)
    assert low_rank_bound(200, 3, 1, 1) == pytest.approx(math.e**6 * 64 * 3**6 / 4 / 200**6)  # l = 2, (l!)² = 4
    assert low_rank_bound(10, 1, 3, 1, sharp=True) == pytest.approx((3 / 9) ** 2)  # q = 10 − 1
    assert low_rank_bound(54, 2, 3, 2, sharp=True) == pytest.approx((3 / 4) ** 2)  # q = √(54/(2!·3)) − 1 = 2
    assert least_rank(1, 1) == pytest.approx(2 * math.e)
    assert least_rank(2, 2) == pytest.approx(4 * math.e * math.sqrt(2) * 9)
    assert piecewise_polynomial_bound(4, 2.5, 3) == pytest.approx(3 / 2 / 32)


@pytest.mark.parametrize(("eta", "d"), SMOOTHNESS)
def test_constant_and_exponent(eta: float, d: int) -> None:
    """The last estimate of the proof, q ≥ r^(1/d)/2(…), is an equality at the least rank, where q = 1: there the bound
    is (L/l!)². A constant or an exponent that is smaller or larger does not meet this at one end and r^(−2η/d) at the
    other."""
    degree = math.ceil(eta) - 1
    r = math.ceil(least_rank(eta, d))
    at_least = low_rank_bound(r, eta, 1.5, d) * (r / least_rank(eta, d)) ** (2 * eta / d)
    assert at_least == pytest.approx((1.5 / math.factorial(degree)) ** 2, rel=1e-10)
    ratio = low_rank_bound(1000 * r, eta, 1.5, d) / low_rank_bound(r, eta, 1.5, d)
    assert ratio == pytest.approx(1000 ** (-2 * eta / d), rel=1e-10)
    assert low_rank_bound(r, eta, 3.0, d) == pytest.approx(4 * low_rank_bound(r, eta, 1.5, d))


@pytest.mark.parametrize(("eta", "d"), SMOOTHNESS)
def test_the_sharper_bound_is_never_above_the_theorem(eta: float, d: int) -> None:
    least = math.ceil(least_rank(eta, d))
    for factor in (1, 2, 10, 1000):
        assert low_rank_bound(factor * least, eta, 2, d, sharp=True) <= low_rank_bound(factor * least, eta, 2, d)
    degree = math.ceil(eta) - 1
    assert math.factorial(d) * math.comb(degree + d, d) <= math.e * math.sqrt(d) * (degree + d) ** d  # (52)


# ── the approximation of the proof, built ──


def exponents(degree: int, d: int) -> list[tuple[int, ...]]:
    """Of all monomials of at most this degree."""
    return [s for s in itertools.product(range(degree + 1), repeat=d) if sum(s) <= degree]


def covering(q: float, d: int) -> Array:
    """Centres of ℓ1-balls of radius 1/q that cover [0, 1]^d: those of a grid of cubes with half the side 1/(dq)."""
    per_side = math.ceil(0.5 * d * q)
    side = (np.arange(per_side) + 0.5) / per_side
    return np.array(list(itertools.product(side, repeat=d)))


Derivative = Callable[[Array, tuple[int, ...]], Array]  # ∇^s g(x; ϑ_j) at each of (points, d): (points, k)


def taylor(g: Derivative, y: Array, centres: Array, degree: int) -> tuple[Array, int]:
    """The matrix N of the proof (equation 49), entry by entry from the nearest centre, and a bound on its rank."""
    nearest = np.abs(y[:, None, :] - centres[None]).sum(axis=2).argmin(axis=1)
    z = centres[nearest]
    powers = exponents(degree, y.shape[1])
    N = np.zeros_like(g(y, (0,) * y.shape[1]))
    for s in powers:
        weight = np.prod((y - z) ** np.array(s), axis=1) / math.prod(map(math.factorial, s))
        N += g(z, s) * weight[:, None]
    return N, len(powers) * len(np.unique(nearest))


def gaussian(theta: Array, gamma: float) -> Derivative:
    """exp(−γ‖x − ϑ‖²): its derivatives are Hermite polynomials (physicists') times itself."""

    def derivative(x: Array, s: tuple[int, ...]) -> Array:
        found = np.ones((len(x), len(theta)))
        for j, order in enumerate(s):
            u = math.sqrt(gamma) * (x[:, j, None] - theta[None, :, j])
            found *= (
                (-math.sqrt(gamma)) ** order * np.polynomial.hermite.hermval(u, [0] * order + [1]) * np.exp(-(u**2))
            )
        return found

    return derivative


def gaussian_constant(gamma: float, order: int, d: int) -> float:
    """A bound on all its derivatives of this order, by Cramér's |H_n(u)| e^(−u²/2) ≤ 1.0865 √(2^n n!)."""
    one = [1.0] + [1.0865 * gamma ** (n / 2) * math.sqrt(2**n * math.factorial(n)) for n in range(1, order + 1)]
    return max(math.prod(one[n] for n in s) for s in itertools.product(range(order + 1), repeat=d) if sum(s) == order)


def sigmoid_polynomial(order: int) -> np.polynomial.Polynomial:
    """σ⁽ⁿ⁾ as a polynomial in σ: σ' = σ − σ²."""
    found, inner = np.polynomial.Polynomial([0.0, 1.0]), np.polynomial.Polynomial([0.0, 1.0, -1.0])
    for _ in range(order):
        found = found.deriv() * inner
    return found


def logistic(theta: Array) -> Derivative:
    """σ(ϑᵀx)."""

    def derivative(x: Array, s: tuple[int, ...]) -> Array:
        value = 1 / (1 + np.exp(-(x @ theta.T)))
        return sigmoid_polynomial(sum(s))(value) * np.prod(theta ** np.array(s), axis=1)

    return derivative


def logistic_constant(order: int, largest: float) -> float:
    """The largest |σ⁽ⁿ⁾| times the largest |ϑ^s|."""
    grid = np.linspace(0, 1, 20_001)
    found = sigmoid_polynomial(order)
    inside = found.deriv().roots()
    inside = inside.real[(np.abs(inside.imag) < 1e-9) & (inside.real > 0) & (inside.real < 1)]
    return float(np.abs(found(np.concatenate([grid, inside]))).max()) * largest**order


CASES = {
    "gaussian, d = 1": (1, lambda theta: gaussian(theta, 2.0), lambda eta: gaussian_constant(2.0, eta, 1)),
    "gaussian, d = 2": (2, lambda theta: gaussian(theta, 1.0), lambda eta: gaussian_constant(1.0, eta, 2)),
    "logistic, d = 1": (1, lambda theta: logistic(6 * theta - 3), lambda eta: logistic_constant(eta, 3.0)),
    "logistic, d = 2": (2, lambda theta: logistic(4 * theta - 2), lambda eta: logistic_constant(eta, 2.0)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("eta", [1, 2, 3, 5])
def test_smooth_kernels_lie_below_the_bound(name: str, eta: int) -> None:
    """By SVD, over all ranks for which the theorem says something."""
    d, kernel, constant = CASES[name]
    rng = np.random.default_rng(0)
    y, theta = rng.random((320, d)), rng.random((300, d))
    errors = low_rank_errors(kernel(theta)(y, (0,) * d))
    L = constant(eta)
    degree = eta - 1
    sharp = [r for r in range(1, 301) if r > math.factorial(d) * math.comb(degree + d, d)]
    whole = [r for r in sharp if r >= least_rank(eta, d)]
    assert sharp
    assert whole or least_rank(eta, d) > 300
    assert all(errors[r] <= low_rank_bound(r, eta, L, d, sharp=True) for r in sharp)
    assert all(errors[r] <= low_rank_bound(r, eta, L, d) for r in whole)
    assert errors[0] > 0.05  # it is not below because there is nothing to approximate


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("eta", [1, 2, 3])
@pytest.mark.parametrize("q", [1.0, 3.0, 8.0])
def test_the_polynomials_of_lemma_1(name: str, eta: int, q: float) -> None:
    """Built: every entry of N is within L/(l! q^η) of M, its rank is what the proof counts, and the best approximation
    of this rank is at least as good."""
    d, kernel, constant = CASES[name]
    rng = np.random.default_rng(1)
    y, theta = rng.random((400, d)), rng.random((60, d))
    g = kernel(theta)
    M = g(y, (0,) * d)
    centres = covering(q, d)
    assert np.abs(y[:, None, :] - centres[None]).sum(axis=2).min(axis=1).max() <= 1 / q
    N, rank = taylor(g, y, centres, eta - 1)
    assert np.abs(M - N).max() <= piecewise_polynomial_bound(q, eta, constant(eta))
    assert np.linalg.matrix_rank(N, tol=1e-9 * np.linalg.norm(N)) <= rank
    if rank <= 60:
        assert low_rank_errors(M)[rank] <= np.mean((M - N) ** 2) + 1e-15


@pytest.mark.parametrize("eta", [0.5, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("q", [2.0, 10.0, 50.0])
def test_lemma_1_is_met_by_a_function_of_the_class(eta: float, q: float) -> None:
    """Around a centre z, g = L Γ(η−l+1)/Γ(η+1) |x − z|^η sign(x − z)^l has L |x − z|^(η − l) for its derivative of
    order l. Its Taylor polynomial there is 0, so at |x − z| = 1/q the error is the bound times l! Γ(η−l+1)/Γ(η+1),
    which is 1 for η ≤ 1 and 1/(l + 1) at worst. So the exponent of q is right, and the constant within l + 1."""
    L, degree = 3.0, math.ceil(eta) - 1
    error = L * math.gamma(eta - degree + 1) / math.gamma(eta + 1) * q**-eta
    bound = piecewise_polynomial_bound(q, eta, L)
    assert bound / (degree + 1) <= error * (1 + 1e-12)
    assert error <= bound * (1 + 1e-12)
    if eta <= 1:
        assert error == pytest.approx(bound)


def bump(eta: float, d: int, u: Array) -> Array:
    """At each row of u in [0, 1]^d: zero at the ends, and of the (η, 1)-Hölder class in units of the cell, with either
    sign next to it."""
    if eta <= 1:
        return 0.5 * np.minimum(u, 1 - u).min(axis=1) ** eta
    assert (eta, d) == (2.0, 1)  # parabolas that open upwards at the ends, downwards between them; slopes agree
    away = np.minimum(u, 1 - u)[:, 0]
    return np.where(away < 0.25, away**2 / 2, 1 / 16 - (0.5 - away) ** 2 / 2)


def waves(cells: int, eta: float, d: int = 1) -> Array:
    """In each of cells^d cubes a bump with either sign, by the rows of a Hadamard matrix: (points, functions)."""
    per_cell = 24 if d == 1 else 4
    side = (np.arange(cells * per_cell) + 0.5) / per_cell
    x = np.array(list(itertools.product(side, repeat=d)))
    place = np.ravel_multi_index(tuple(x.astype(int).T), (cells,) * d)
    return cells**-eta * bump(eta, d, x % 1)[:, None] * scipy.linalg.hadamard(cells**d)[place]


@pytest.mark.parametrize(
    ("eta", "d", "sides"), [(0.5, 1, (64, 256)), (1.0, 1, (64, 256)), (2.0, 1, (64, 256)), (1.0, 2, (16, 32))]
)
def test_no_better_exponent_is_true(eta: float, d: int, sides: tuple[int, int]) -> None:
    """Bumps with all signs need as many dimensions as there are cells: all singular values are equal. With half as many
    dimensions half of the energy is left, which falls exactly like r^(−2η/d). So must the bound: one that falls faster
    would be below it from some rank on."""
    factors = []
    for cells in sides:
        M = waves(cells, eta, d)
        gram = M.T @ M
        np.testing.assert_allclose(gram, gram[0, 0] * np.eye(len(gram)), atol=1e-9 * gram[0, 0])
        r = cells**d // 2
        factors.append(low_rank_bound(r, eta, 1, d) / (0.5 * np.mean(M**2)))
    assert min(factors) >= 1
    assert factors[1] == pytest.approx(factors[0], rel=1e-9)
    if d == 1:
        small = waves(32, eta)
        assert low_rank_errors(small)[16] == pytest.approx(0.5 * np.mean(small**2), rel=1e-9)


def test_the_waves_are_in_their_class() -> None:
    """|g(x) − g(y)| ≤ |x − y|^η for η ≤ 1, and the same of the derivative for η = 2, by all pairs of points."""
    for eta in (0.5, 1.0):
        M = waves(8, eta)
        x = (np.arange(len(M)) + 0.5) / len(M)
        apart = np.abs(x[:, None] - x[None]) ** eta
        assert all((np.abs(column[:, None] - column[None]) <= apart + 1e-12).all() for column in M.T)
    M = waves(8, 2.0)
    h = 1 / len(M)
    curvature = np.abs(np.diff(M, 2, axis=0)) / h**2
    assert curvature.max() <= 1 + 1e-9


def test_a_polynomial_has_the_rank_of_its_monomials() -> None:
    """(1 + ϑᵀx)³ in two variables: 10 monomials, so nothing is left at rank 10, and something at 9."""
    rng = np.random.default_rng(2)
    errors = low_rank_errors((1 + rng.random((80, 2)) @ rng.random((2, 70))) ** 3)
    assert errors[10] < 1e-28 * errors[0]
    assert errors[9] > 1e-16 * errors[0]


@pytest.mark.parametrize("d", [2, 3])
def test_the_papers_example(d: int) -> None:
    """Appendix A: partial derivatives of the logistic loss with soft labels are of the (2, 1)-Hölder class in (x, y)
    for θ in [−1, 1]^(d−1). Derivatives by differences, then the bound."""
    rng = np.random.default_rng(3)
    samples, theta = rng.random((500, d)), rng.uniform(-1, 1, (450, d - 1))

    def g(z: Array, i: int = 0) -> Array:
        t = z[:, :-1] @ theta.T
        return (1 / (1 + np.exp(-t)) - z[:, -1:]) * z[:, i : i + 1] + 0.1 * theta[:, i]

    h = 1e-3
    z = rng.uniform(2 * h, 1 - 2 * h, (200, d))
    steps = h * np.eye(d)
    for a, b in itertools.product(range(d), repeat=2):
        second = g(z + steps[a] + steps[b]) - g(z + steps[a] - steps[b]) - g(z - steps[a] + steps[b])
        second = (second + g(z - steps[a] - steps[b])) / (4 * h * h)
        assert np.abs(second).max() <= 1 + 1e-6
    errors = low_rank_errors(g(samples))
    for r in range(math.factorial(d) * (1 + d) + 1, 451):
        assert errors[r] <= low_rank_bound(r, 2, 1, d, sharp=True)
        if r >= least_rank(2, d):
            assert errors[r] <= low_rank_bound(r, 2, 1, d)


# ── errors by SVD, and bad input ──


def test_errors_by_svd() -> None:
    M = np.diag([3.0, 2.0, 1.0])[:, :2]
    np.testing.assert_allclose(low_rank_errors(M), np.array([13, 4, 0]) / 6)
    rng = np.random.default_rng(4)
    M = rng.standard_normal((9, 6))
    u, s, v = np.linalg.svd(M)
    for r in range(7):
        assert low_rank_errors(M)[r] == pytest.approx(np.mean((M - (u[:, :r] * s[:r]) @ v[:r]) ** 2), abs=1e-15)


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match=r"Theorem 1 holds from r = 6 on, got 5: .*sharp=True"):
        low_rank_bound(5, 1, 1, 1)
    with pytest.raises(ConfigError, match="the bound holds from r = 7 on, got 6"):
        low_rank_bound(6, 2, 1, 2, sharp=True)
    for name, arguments in (("r", (0, 1, 1, 1)), ("d", (9, 1, 1, 0))):
        with pytest.raises(ConfigError, match=f"{name} is a whole number of at least 1"):
            low_rank_bound(*arguments)
    for name, good in (("eta", (9, math.nan, 1, 1)), ("eta", (9, 0, 1, 1)), ("L", (9, 1, -1, 1))):
        with pytest.raises(ConfigError, match=f"{name} is a positive number"):
            low_rank_bound(*good)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="q is a positive number"):
        piecewise_polynomial_bound(0, 1, 1)
    with pytest.raises(DataError, match="a matrix with at least one entry, got an array of shape"):
        low_rank_errors(np.zeros(3))
    with pytest.raises(DataError, match="not finite"):
        low_rank_errors(np.array([[1.0, math.nan]]))
