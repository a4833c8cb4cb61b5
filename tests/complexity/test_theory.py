"""Theorems 2 and 3 and Proposition 1: hand-computed numbers, the steps of their proofs, and orders in the limit."""

from __future__ import annotations

import bisect
import math
from dataclasses import replace

import numpy as np
import pytest

from fedsolve.complexity import (
    FedAveProblem,
    SmoothProblem,
    compare_bounds,
    fedave_bound,
    fedave_error,
    fedave_optimum,
    fedave_order,
    fedlrgd_bound,
    fedlrgd_complexity,
    fedlrgd_rank,
    fedlrgd_steps,
)
from fedsolve.errors import ConfigError

SMALL = SmoothProblem(p=1, d=1, eta=5, L_1=2, L_2=1, mu=1, gap=1)
PROBLEMS = [
    SMALL,
    SmoothProblem(p=3, d=2, eta=9.5, L_1=1.6, L_2=2.5, mu=0.1, gap=0.3, B=0.7),
    SmoothProblem(p=10, d=3, eta=40, L_1=5, L_2=0.2, mu=0.01, gap=20, B=2, alpha=1.5),
    SmoothProblem(p=2, d=1, eta=30, L_1=0.6, L_2=1, mu=0.1, gap=0.1),
]

# ── Theorem 2 ──


def test_fedlrgd_by_hand() -> None:
    """κ = 2 and F(θ⁽⁰⁾) − F* + 9·4⁴/2 = 1153. S = ⌈log₂ 115300⌉ = ⌈16.8⌉.
    r = 5 e¹⁰ (12/4)⁵ √(2·1153/0.01) = 5·22026.46579·243·480.20829 (α = 1, so the exponent is 1)."""
    assert SMALL.spread == 1153
    assert fedlrgd_steps(SMALL, 0.01) == 17
    assert fedlrgd_rank(SMALL, 0.01) == pytest.approx(5 * 22026.46579 * 243 * 480.20829, rel=1e-8)
    assert fedlrgd_complexity(7, 100, 37, 20, 10) == 2408
    found = fedlrgd_bound(SMALL, 0.01, s=100, m=20, phi=10)
    r = found.rank
    assert found.total == r * r + r * 100 + r * 17 + 10 * 20 * r


def test_a_smooth_problem_needs_what_theorem_1_needs() -> None:
    """Where the second entry of the maximum in (47) is small, r = ⌈e √d 2^d (η + d)^d⌉: for d = 2, η = 40,
    ⌈2.71828·1.41421·4·42²⌉."""
    problem = SmoothProblem(p=1, d=2, eta=40, L_1=2, L_2=1e-9, mu=1, gap=1)
    assert fedlrgd_rank(problem, 1.0) == math.ceil(math.e * math.sqrt(2) * 4 * 42**2) == 27_125


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("epsilon", [1.0, 1e-2, 1e-6])
def test_the_proof_of_theorem_2_with_these_numbers(problem: SmoothProblem, epsilon: float) -> None:
    """With r and S of (47) and (48), δ = (1 − 1/κ)^(S/2) is at most 1/2 (65), condition (61) holds for the q that the
    proof has, and (63) leaves at most ε. All in logarithms."""
    r, S = fedlrgd_rank(problem, epsilon), fedlrgd_steps(problem, epsilon)
    eta, d = problem.eta, problem.d
    shrink = math.log(1 - 1 / problem.kappa)
    delta = 0.5 * S * shrink
    assert delta <= math.log(0.5)
    q = r ** (1 / d) / (math.e ** (1 / d) * d ** (1 / (2 * d)) * (eta + d)) - 1
    assert q >= 1 - 1e-9
    degree = math.ceil(eta) - 1
    left = math.log(problem.L_2) + (2 * problem.alpha + 2) * math.log(r) - math.lgamma(degree + 1) - eta * math.log(q)
    assert left <= delta
    error = 9 * (problem.B + 3) ** 4 * problem.p / (2 * problem.mu)
    assert S * shrink + math.log(problem.gap + error) <= math.log(epsilon)
    assert (S - 1) * shrink + math.log(problem.gap + error) > math.log(epsilon)  # one step fewer would not do


def test_a_smaller_rank_violates_the_condition_it_is_from() -> None:
    """(47) is (61) solved for r after Stirling's estimate: half of it is not enough for that."""
    problem, epsilon = PROBLEMS[1], 1e-4
    r, S = fedlrgd_rank(problem, epsilon), fedlrgd_steps(problem, epsilon)
    eta, d = problem.eta, problem.d

    def left(r: float) -> float:
        power = eta / d - 2 * problem.alpha - 2
        top = problem.L_2 * eta * 2**eta * math.e ** (eta * (d + 1) / d) * d ** (eta / (2 * d)) * (eta + d) ** eta
        return top / ((eta - 1) ** eta * r**power)

    delta = (1 - 1 / problem.kappa) ** (S / 2)
    assert left(r) <= delta
    least = delta * (1 - 1 / problem.kappa) ** -0.5  # S is rounded up
    assert left(0.5 * r) > least


@pytest.mark.parametrize("problem", PROBLEMS[:2])
def test_orders_of_theorem_2(problem: SmoothProblem) -> None:
    """r grows like (1/ε)^(1/2c₁), c₁ = η/d − 2α − 2, and S like log(1/ε)/log(κ/(κ−1))."""
    few, many = (fedlrgd_rank(problem, epsilon) for epsilon in (1e-4, 1e-8))
    c_1 = problem.eta / problem.d - 2 * problem.alpha - 2
    assert math.log(many / few) / math.log(1e4) == pytest.approx(1 / (2 * c_1), rel=1e-3)
    steps = fedlrgd_steps(problem, 1e-8) - fedlrgd_steps(problem, 1e-4)
    assert abs(steps - math.log(1e4) / math.log(problem.kappa / (problem.kappa - 1))) <= 1
    larger = replace(problem, p=10_000 * problem.p, gap=10_000 * problem.gap)
    assert fedlrgd_rank(larger, 1e-4) == pytest.approx(many, rel=1e-6)  # p/ε is what matters


def test_the_rank_is_huge_for_harmless_problems() -> None:
    """So it is a calculation, and never a default."""
    problem = SmoothProblem(p=2, d=3, eta=36, L_1=0.6, L_2=1, mu=0.1, gap=0.1)
    assert fedlrgd_rank(problem, 1e-4) > 1e6
    assert fedlrgd_rank(replace(problem, eta=12.001), 1e-4) == math.inf
    assert fedlrgd_bound(replace(problem, eta=12.001), 1e-4, s=1, m=1, phi=1).total == math.inf


def test_bad_input_of_theorem_2() -> None:
    with pytest.raises(ConfigError, match=r"eta > \(2 alpha \+ 2\) d = 4, got 4"):
        fedlrgd_rank(replace(SMALL, eta=4), 0.1)
    with pytest.raises(ConfigError, match=r"epsilon of at most .* = 288, got 289"):
        fedlrgd_steps(SMALL, 289)
    with pytest.raises(ConfigError, match="L_1 is larger than mu"):
        replace(SMALL, mu=2)
    with pytest.raises(ConfigError, match="alpha is at least 1"):
        replace(SMALL, alpha=0.5)
    for name in ("p", "d"):
        with pytest.raises(ConfigError, match=f"{name} is a whole number of at least 1"):
            replace(SMALL, **{name: 0})
    for name in ("eta", "L_1", "L_2", "mu", "B"):
        for bad in (0, -1, math.nan, math.inf, True):
            with pytest.raises(ConfigError, match=f"{name} is a positive number"):
                replace(SMALL, **{name: bad})
    with pytest.raises(ConfigError, match="m is a whole number"):
        fedlrgd_complexity(7, 100, 37, 0, 10)
    with pytest.raises(ConfigError, match="r is a positive number"):
        fedlrgd_complexity(0, 100, 37, 20, 10)


# ── Lemma 3 and Theorem 3 ──

FEDAVE = FedAveProblem(L_1=2, mu=1, variance=3, distance=5, m=10, tau=0.5)


def test_fedave_by_hand() -> None:
    """κ = 2, (1 − τ)/(τ(m − 1)) = 1/9. T₀ = 4 max{2, 4 + 32·4/9, 40/b} = 72.9 for b = 4. At T = 100, x = 401:
    (T₀b + 1)²·5/x² + 8·2·3/10·(1 + 80/9)·4/x + 8e·2·4·3/10·9/x + 128e·8·3·(1 + 8/9)·3/x²."""
    first = 4 * (4 + 128 / 9)
    e = 2.718281828
    expected = (first * 4 + 1) ** 2 * 5 / 401**2 + 4.8 * (89 / 9) * 4 / 401 + 19.2 * e * 9 / 401
    expected += 3072 * e * (17 / 9) * 3 / 401**2
    assert fedave_error(FEDAVE, 100, 4) == pytest.approx(expected, rel=1e-8)
    with pytest.raises(ConfigError, match="Lemma 3 holds from T = 73 on, got 72"):
        fedave_error(FEDAVE, 72, 4)
    assert fedave_error(replace(FEDAVE, tau=1.0), 20_000, 1) > 0  # all take part, one step: no drift


@pytest.mark.parametrize("phi", [0.0, 1.0, 100.0])
def test_the_best_steps_and_epochs_beside_trying_all(phi: float) -> None:
    epsilon = 0.5
    found = fedave_bound(FEDAVE, epsilon, phi=phi, most_steps=40)
    best = math.inf
    for b in range(1, 41):
        first = math.ceil(float(FEDAVE.first_epoch(b)))
        epochs = range(first, 10**6)  # the error falls from epoch to epoch
        T = epochs[bisect.bisect_left(epochs, -epsilon, key=lambda T: -fedave_error(FEDAVE, T, b))]
        best = min(best, T * (b + phi * 5))
    assert found.total == best
    assert found.total == found.epochs * (found.steps + phi * 5)
    assert fedave_error(FEDAVE, int(found.epochs), int(found.steps)) <= epsilon


@pytest.mark.parametrize("phi", [0.01, 3.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.9, 1e-2, 1e-5])
def test_the_minimum_of_equation_79_beside_a_fine_grid(phi: float, epsilon: float) -> None:
    m, p, tau, C = 200, 7, 0.3, 2.0
    b = np.exp(np.linspace(-25, 25, 200_001))
    relative = epsilon / (C * p)
    T = (b / m + np.sqrt((b / m) ** 2 + 4 * relative * m**2 / b**2)) / (2 * relative)
    np.testing.assert_allclose(m**2 / (T * b) ** 2 + b / (m * T), relative, rtol=1e-9)
    found = fedave_optimum(m, p, epsilon, phi=phi, tau=tau, C=C)
    assert found.total == pytest.approx((T * (b + phi * tau * m)).min(), rel=1e-6)
    assert found.total == pytest.approx(found.epochs * (found.steps + phi * tau * m))
    met = m**2 / (found.epochs * found.steps) ** 2 + found.steps / (m * found.epochs)
    assert met == pytest.approx(relative)


@pytest.mark.parametrize("tau", [0.1, 1.0])
@pytest.mark.parametrize("C", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("epsilon", [1.0, 1e-3, 1e-9])
def test_theorem_3_bounds_the_minimum(tau: float, C: float, epsilon: float) -> None:
    """3/4 φτm (Cp/ε)^(3/4) ≤ Γ ≤ 8 φτm (Cp/ε)^(3/4), and m (ε/Cp)^(1/4) is b* within a factor of 2 (89), which allows
    the minimum of g; that of Γ is near it."""
    m, p = 1000, 5
    for phi in (40 / (C**0.25 * tau), 1e5):
        upper = fedave_order(m, p, epsilon, phi=phi, tau=tau, C=C)
        found = fedave_optimum(m, p, epsilon, phi=phi, tau=tau, C=C)
        assert 3 / 32 * upper <= found.total <= upper
        assert 0.25 < found.steps / (m * (epsilon / (C * p)) ** 0.25) < 4
    with pytest.raises(ConfigError, match="phi of at least"):
        fedave_order(m, p, epsilon, phi=39 / (C**0.25 * tau), tau=tau, C=C)


def test_orders_of_theorem_3() -> None:
    """Γ is of the order φ m (p/ε)^(3/4)."""
    assert fedave_order(100, 10, 1e-3, phi=100) == pytest.approx(8 * 100 * 100 * 1000)
    assert fedave_order(100, 10, 1e-2, phi=1000, tau=0.5, C=10) == pytest.approx(8 * 1000 * 50 * 1000)
    base = fedave_optimum(1000, 10, 1e-4, phi=1e6).total
    assert fedave_optimum(4000, 10, 1e-4, phi=1e6).total == pytest.approx(4 * base, rel=1e-3)
    assert fedave_optimum(1000, 10, 1e-4, phi=4e6).total == pytest.approx(4 * base, rel=1e-3)
    for p, epsilon in ((160_000, 1e-4), (10, 1e-4 / 16_000)):
        assert fedave_optimum(1000, p, epsilon, phi=1e6).total == pytest.approx(16_000**0.75 * base, rel=1e-3)


def test_bad_input_of_theorem_3() -> None:
    with pytest.raises(ConfigError, match="tau is a share of the clients, at most 1"):
        replace(FEDAVE, tau=1.5)
    with pytest.raises(ConfigError, match="m is a whole number of at least 2"):
        replace(FEDAVE, m=1)
    with pytest.raises(ConfigError, match="L_1 is at least mu"):
        replace(FEDAVE, mu=3)
    with pytest.raises(ConfigError, match="epsilon of at most p = 2"):
        fedave_order(10, 2, 3, phi=100)
    with pytest.raises(ConfigError, match="epsilon is a positive number"):
        fedave_optimum(10, 2, 0, phi=100)
    with pytest.raises(ConfigError, match="b is a whole number"):
        fedave_error(FEDAVE, 100, 0)


# ── Proposition 1 ──


def growing(m: int, c_1: float, phi: float = 50.0) -> tuple[SmoothProblem, float]:
    """A problem of the proposition: s = φm samples at each client, ε = n^(−1/2), p = n, F(θ⁽⁰⁾) − F* = p, d = 1."""
    n = phi * m * m
    problem = SmoothProblem(p=round(n), d=1, eta=c_1 + 4, L_1=2, L_2=1, mu=1, gap=n)
    return problem, n**-0.5


@pytest.mark.parametrize("c_1", [3.0, 4.0, 8.0])
def test_fedlrgd_wins_in_the_limit(c_1: float) -> None:
    """The ratio falls at least like (p/ε)^(2/c₁ − 3/4), the rate at the end of Appendix E."""
    ratios, sizes = [], []
    for m in (10**3, 10**6, 10**9, 10**12):
        problem, epsilon = growing(m, c_1)
        found = compare_bounds(problem, epsilon, s=50.0 * m, m=m, phi=50.0)
        assert found.exponent == pytest.approx(2 / c_1)
        assert found.fedlrgd_wins_in_the_limit
        ratios.append(found.ratio)
        sizes.append(problem.p / epsilon)
    slopes = np.diff(np.log(ratios)) / np.diff(np.log(sizes))
    assert (slopes <= 2 / c_1 - 0.75 + 1e-3).all()
    assert ratios[-1] < 1e-3 * ratios[0]


def test_without_enough_smoothness_the_proposition_says_nothing() -> None:
    """ξ < 3/4 needs c₁ > 8/3. With c₁ = 1/2, r grows like p/ε, and FedLRGD loses more and more."""
    for c_1, wins in ((2.6, False), (2.7, True)):
        problem, epsilon = growing(1000, c_1)
        assert compare_bounds(problem, epsilon, s=1000, m=1000, phi=50).fedlrgd_wins_in_the_limit is wins
    ratios = []
    for m in (10**3, 10**5):
        problem, epsilon = growing(m, 0.5)
        ratios.append(compare_bounds(problem, epsilon, s=50.0 * m, m=m, phi=50).ratio)
    assert ratios[1] > ratios[0] > 1
