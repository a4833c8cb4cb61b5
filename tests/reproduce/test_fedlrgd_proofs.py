"""`fedlrgd-proofs` and `fedlrgd-rank-variants`: what they measure with, against answers known by other means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedsolve.complexity.fedlrgd_theory import SmoothProblem, fedlrgd_rank
from fedsolve.diagnose import LossGradients, gradient_ranks
from fedsolve.federation.client import Client
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd import (
    proofs_cases,
    proofs_covers,
    proofs_cubic,
    proofs_entropy,
    proofs_fedave,
    proofs_gradients,
    proofs_growth,
    proofs_ledger,
    proofs_monomials,
    proofs_pieces,
    proofs_rank,
    proofs_rounds,
    proofs_steps,
    proofs_waves,
    rank_variants,
    samples,
    theory_descent,
    theory_linear,
    theory_times,
)
from fedsolve.reproduce.fedlrgd.network_losses import squared_loss
from fedsolve.reproduce.fedlrgd.networks import Training, mlp, train
from fedsolve.reproduce.fedlrgd.two_sided import AtLeast, judged_by
from tests.extras import optional
from tests.reproduce.test_fedlrgd_rank import tiny

torch = optional("torch")

# ── the table ──


def test_a_lower_limit_is_judged_by_the_least_seed() -> None:
    upper, lower = Check("here", "a share"), AtLeast("there", "a ratio", "times", 2.0, unit="μ")
    result = judged_by((upper, lower), [{"a share": 0.5, "a ratio": 3.0}, {"a share": 0.4, "a ratio": 2.0}], ())
    assert [(verdict.holds, verdict.said) for _, verdict in result.claims] == [
        (True, "at most 0.5 of the bound"),
        (True, "at least 2 μ"),
    ]
    assert [row[-1] for row in result.rows] == ["≤ 1", "≥ 2"]
    assert not lower.verdict([3.0, 1.9]).holds
    assert not lower.verdict([3.0, float("nan")]).holds


# ── functions whose constants are known ──


def test_waves_and_their_taylor_polynomials() -> None:
    g = proofs_waves.functions(np.random.default_rng(0), 5, 2.0, 0.3)
    x, step = np.linspace(0, 1, 11), 1e-5
    slope = (g.at(np.array([0.5 + step])) - g.at(np.array([0.5 - step]))) / (2 * step)
    np.testing.assert_allclose(g.taylor(x), g.at(np.array([0.5])) + slope * (x[:, None] - 0.5), atol=1e-8)
    bend = (g.at(x + step) - 2 * g.at(x) + g.at(x - step)) / step**2
    assert np.abs(bend).max() <= 0.3 * (1 + 1e-4)  # L_2
    assert np.abs(g.at(np.linspace(0, 1, 1001))).max() <= g.bound


@pytest.mark.parametrize(("d", "l"), proofs_gradients.CASES)
def test_polynomials_and_their_taylor_polynomials(d: int, l: int) -> None:
    rng = np.random.default_rng(0)
    case, g = proofs_cases.drawn(rng, d, l), proofs_cases.polynomials(rng, 5, d, l, 0.3)
    assert len(case.own) == math.comb(l + d, d) == case.basis(case.own).shape[1]
    off = np.abs(g.at(case.points) - g.taylor(case.points))
    assert 0.01 < off.max() / (0.3 / case.scale) <= 1
    near = 0.5 + 1e-3 * (case.points - 0.5)
    assert np.abs(g.at(near) - g.taylor(near)).max() < 1e-3 ** (l + 1) * off.max() * 10
    assert np.abs(g.at(case.points)).max() <= g.bound


def test_the_last_inequality_needs_small_delta() -> None:
    B = np.array([0.0, 1000.0])
    assert proofs_gradients._last(0.5, B).max() <= 1
    assert proofs_gradients._last(0.6, B).max() > 1


def test_lines_59_of_numbers() -> None:
    """r = 1: G = 2, 𝒫 = 2.5, g = 1, P = 2, so that a = 0.8 and w = 0.5."""
    G, T = np.array([[2.0]]), np.array([[2.5]])
    lines = proofs_gradients.lines_59(np.array([1.0]), np.array([2.0]), G, T, 0.25, 5.0)
    assert lines[0] == pytest.approx(0.3)
    assert lines[1] == pytest.approx(2 * 0.1 + 1 * 0.5)
    assert lines[3] == pytest.approx(1 * (0.5 + 0.1) + 1 * 0.1)
    assert lines[5] == pytest.approx(0.25 * 0.5 + 5.25 * 0.25 * 0.5 / (1 - 0.5 * 0.5))
    assert lines[6] == pytest.approx(0.25 * 0.5 + 0.25 * 5.25 * 0.25 / (1 - 0.5 * 0.25))


def test_an_exact_surrogate_descends_as_gradient_descent() -> None:
    """With L_2 = 0 the gradient is of rank 2 in (1, x), so (41) is exact: the bound of exact descent holds, too."""
    g = proofs_steps.Growing(1.0, 0.5, 3.0)
    x, probes = np.random.default_rng(1).random(40), np.array([-1.0, 2.0])
    assert (g.mu, g.L_1) == (0.5, 1.5)
    assert g.alpha(probes) >= 1
    both = np.concatenate([proofs_steps.OWN, x])
    theta = proofs_steps.START
    for _ in range(30):
        theta -= float(g(both, theta).mean()) / g.L_1
    assert proofs_steps.descended(g, x, probes, 30) < 1e-6
    assert abs(float(g(both, theta).mean())) < 1e-3


def test_pieces() -> None:
    assert len(proofs_pieces.powers(2, 2)) == 6
    assert set(proofs_pieces.powers(1, 3)) == {(0,), (1,), (2,), (3,)}
    np.testing.assert_allclose(proofs_covers.centres(2, 1), [[0.25], [0.75]])
    assert proofs_covers.centres(3, 2).shape == (9, 2)
    t = np.linspace(0, 3, 7)
    np.testing.assert_allclose(proofs_pieces.wave(3, t), -np.cos(t), atol=1e-14)


def test_monomials_by_hand() -> None:
    found = proofs_monomials.monomials(np.array([0.1, 0.6, 1.0]), 2)
    np.testing.assert_allclose(found, np.array([[1, 0, 0], [0, 1, 1], [0.1, 0, 0], [0, 0.6, 1.0]]))
    assert proofs_monomials._inverted(np.array([0.1, 0.2, 0.7, 0.9]), 2) == (True, True)
    assert proofs_monomials._inverted(np.array([0.1, 0.2, 0.3, 0.9]), 2) == (False, False)


# ── formulas ──


def test_theorem_1_leaves_no_room_for_assumption_5() -> None:
    """d = 1, η = 6, α = 1: σ_r ≤ r √bound by Theorem 1; (8) asks for 1/r."""
    one = SmoothProblem(2, 1, 6.0, 1.0, 1.0, 0.1, 1.0)
    r = fedlrgd_rank(one, 1e-3)
    least = r * math.exp(6) * 2**6 * 6**6 / math.factorial(5) * (r - 1) ** -6.0
    assert proofs_rank._left(one, r) == pytest.approx(least * r, rel=1e-9)
    assert least * r < 1e-3


@pytest.mark.parametrize("c", [4.0, 8.0])
def test_the_rank_of_a_regime_is_the_library_s(c: float) -> None:
    """d = 1: λ = 0. ε = n^(−½), p = 1, F(θ⁽⁰⁾) − F* = p."""
    log_n = 40.0
    one = SmoothProblem(1, 1, c + 4, 1.0, 1.0, 0.5, 1.0)
    ours = proofs_growth.Regime(c, 0.0, 0.5, 0.0)
    assert ours.rank(log_n) == pytest.approx(math.log(fedlrgd_rank(one, math.exp(-log_n / 2))), rel=1e-3)


def test_the_cubic_s_solution() -> None:
    found = proofs_fedave.best(1.0, 2.0, 30.0)
    roots = np.roots([2.0, 30.0, 0.0, -60.0])
    assert found == pytest.approx(float(roots[roots.real > 0].real[0]), rel=1e-9)
    assert proofs_fedave.letters(10.0, 2.0, 0.5, 4.0, 1.0) == (0.2, 20.0, 10.0)
    assert float(proofs_cubic.h(np.array(1.0))) == pytest.approx(math.sqrt(3) / 2)


def test_the_inequalities_of_appendix_d_hold_from_their_edges_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: τ = 1, ε = C = 1 and m = 1, so that the sides are numbers; and what a wrong direction shows."""
    sides = proofs_cubic.inequalities(1.0, 2.0, 1.0, 1.0, 1.0)
    expected = [(27.0, 2.0), (1.5 * math.sqrt(12.0), 1.0), (10.0, 0.5), (3.0, 2.0)]
    np.testing.assert_allclose(sides, expected)
    assert [smaller <= larger for smaller, larger in proofs_cubic.inequalities(1.0, 41.0, 1.0, 1.0, 1.0)] == [True] * 4
    assert proofs_cubic._edges()[proofs_cubic.SIDES] == 0
    usual = proofs_cubic.inequalities
    monkeypatch.setattr(
        proofs_cubic, "inequalities", lambda *given: [usual(*given)[0], usual(*given)[1][::-1], *usual(*given)[2:]]
    )
    found = proofs_cubic._edges()
    assert found[proofs_cubic.EDGES] < 1e-9  # which does not notice
    assert found[proofs_cubic.SIDES] == 0.25


def test_a_slow_step_after_fast_ones() -> None:
    """Each gap is compared with the one before: the bound from the start, 0.9^t, would let all of these pass."""
    assert theory_linear.slowest([1.0, 0.5, 0.25], 0.9) == pytest.approx(0.5 / 0.9)
    assert theory_linear.slowest([1.0, 0.5, 0.49], 0.9) == pytest.approx(0.49 / 0.45)
    assert theory_linear.slowest([1e-16, 2e-16], 0.9, rounding=1e-13) < 1  # rounding


def test_gradient_descent_is_no_faster_than_it_is() -> None:
    """κ = 10: (1 − 1/κ)² for each step in the end, which is no (1 − 1/κ)³; and values of F by hand."""
    assert theory_linear._quadratic(0, 10.0) == pytest.approx(0.9, rel=1e-9)
    F, theta = theory_descent.Pooled(np.array([[0.0, 0.0], [1.0, 0.5]]), np.array([1.0, 0.0])), np.array([2.0, -2.0])
    assert abs(F.L_1 - (1.25 / 4 + 0.1)) < 1e-12
    assert F.value(theta) == pytest.approx((math.log(2) + math.log(1 + math.e)) / 2 + 0.05 * 8)
    step = 1e-6
    for k in range(2):
        apart = np.eye(2)[k] * step
        slope = (F.value(theta + apart) - F.value(theta - apart)) / (2 * step)
        assert F.slope(theta)[k] == pytest.approx(slope, rel=1e-7)
    best = theta
    for _ in range(400):
        best = best - F.slope(best) / F.L_1
    shrink = 1 - 0.1 / F.L_1
    assert theory_linear.descended(F, theta, best, shrink) < 1
    assert theory_linear.descended(F, theta, best, shrink**3) > 1


def test_counts_are_compared_by_epoch() -> None:
    assert proofs_ledger.unequal([[5, 0, 2], [5, 0, 2]]) == 1
    assert proofs_ledger.unequal([[5, 0, 2], [5, 0, 3]]) == 1.5  # in the last epoch only
    assert math.isinf(proofs_ledger.unequal([[5, 0], [5, 1]]))
    assert math.isnan(proofs_ledger.unequal([]))


def test_the_mean_of_the_slowest_of_exponential_times() -> None:
    assert theory_times.slowest_mean(1, 20) == pytest.approx(sum(1 / k for k in range(1, 21)), rel=1e-6)
    assert theory_times.slowest_mean(7, 1) == pytest.approx(7, rel=1e-9)


def test_the_distance_tells_distributions_apart() -> None:
    draws = np.random.default_rng(3)
    assert theory_times.distance(draws.gamma(20, size=4000), 20) < 1
    assert theory_times.distance(draws.gamma(21, size=4000), 20) > 1
    assert stats.kstwobign.sf(theory_times.KOLMOGOROV) == pytest.approx(1e-3, rel=0.05)


def test_an_epoch_of_fedave_in_the_mean() -> None:
    """E θ is (1 − step H)^b θ, and the variance of the mean of 50 clients is that of one step over 50."""
    H, theta = np.array([1.0, 2.0, 3.0, 4.0]), np.ones((4000, 4))
    found = proofs_rounds.epoch(np.random.default_rng(4), theta, H, 0.1, 2, 5)
    np.testing.assert_allclose(found.mean(axis=0), (1 - 0.1 * H) ** 2, atol=0.006)
    once = proofs_rounds.epoch(np.random.default_rng(4), theta, H, 0.1, 1, 5)
    np.testing.assert_allclose(once.var(axis=0), 0.01 / 5, rtol=0.15)


def test_the_loss_without_penalty() -> None:
    x, y, theta = np.array([[1.0, 2.0]]), np.array([0.25]), np.array([[0.5, -1.0]])
    expected = 0.25 * math.log(1 + math.exp(1.5)) + 0.75 * math.log(1 + math.exp(-1.5))
    assert float(proofs_entropy.plain(x, y, theta)[0]) == pytest.approx(expected)


# ── networks ──


def test_the_squared_loss_by_hand() -> None:
    outputs = torch.log(torch.tensor([[0.5, 0.3, 0.2, *[1e-30] * 7]]))
    assert float(squared_loss(outputs, torch.tensor([0]))) == pytest.approx(0.25 + 0.09 + 0.04, rel=1e-5)


def test_gradients_are_those_of_the_library_s_loss() -> None:
    given, what = tiny(""), Training("mnist", mlp(9), epochs=2)
    made = train(what, given, 0)
    loss = Network(what.architecture, Softmax(classes=10))
    theirs = LossGradients(loss, Client("test", given.X_test, given.y_test.astype(np.float64)), made.w)
    found = [gradient_ranks(source, 6, seed=1) for source in (rank_variants.gradients(what, given, made), theirs)]
    assert found[0].ranks.tolist() == found[1].ranks.tolist()


def test_batches_and_loss_are_those_of_the_training() -> None:
    given = tiny("", rows=100)
    one, two, other = (
        train(Training("mnist", mlp(9), epochs=1, batch=batch, loss=loss), given, 0)  # type: ignore[arg-type]
        for batch, loss in ((100, "cross-entropy"), (50, "cross-entropy"), (100, "squared"))
    )
    start = train(Training("mnist", mlp(9), epochs=0), given, 0).w
    steps = [np.abs(made.w - start).max() for made in (one, two, other)]
    assert steps[0] == pytest.approx(0.001, rel=0.01)  # one step of Adam
    assert 0.0015 < steps[1] < 0.0021  # two
    assert not np.array_equal(one.w, other.w)


def test_combinations_are_exact_at_the_probes() -> None:
    """As (37) asks; elsewhere they are not, the less so the nearer the server's gradients are to dependent ones."""
    rng = np.random.default_rng(4)
    draws = sorted((samples.draw(rng) for _ in range(200)), key=lambda one: one.condition)
    assert all(one.at_probes < 1e-12 * one.condition for one in draws)
    assert min(one.error for one in draws) > 1e-5
    assert np.median([one.error for one in draws[:100]]) < np.median([one.error for one in draws[100:]])


def test_samples_are_counted_in_every_seed() -> None:
    found = samples.measured(0)
    assert set(found) == {check.claim for check in samples.CHECKS}
    assert 10 * found[samples.REGULAR.claim] <= 20 * found[samples.SINGULAR.claim]  # these draws are among those
