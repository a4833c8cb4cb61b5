"""The experiments on SHED's theorems: their parts against hand counts, NumPy and the library, and their quick forms."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import islice

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.curvature.renewals import Periodic
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.shed import convex_theory, link_model, many_agents, many_digits, one_agent, renewal_sets
from fedsolve.reproduce.shed.gaps import follow, optimum
from fedsolve.reproduce.shed.heavy_ball import heavy_ball
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.problems import Problem, images
from fedsolve.reproduce.shed.superlinear import factors
from tests.reproduce.test_experiments import needs_data
from tests.reproduce.test_shed_figures import quick

VALUES = np.array([4.0, 2.0, 1.0])


def make_problem(loss: fs.Squared | fs.Logistic, agents: int = 3, n: int = 5) -> Problem:
    rng = np.random.default_rng(0)
    clients = []
    for j in range(agents):
        X = rng.standard_normal((20 + 10 * j, n))
        y = X @ np.ones(n) + rng.standard_normal(len(X))
        clients.append(fs.Client(f"agent-{j}", X, (y > 0).astype(float) if isinstance(loss, fs.Logistic) else y))
    return Problem(clients, loss, "a toy")


# ── one agent ──


def test_the_best_factor_by_hand() -> None:
    assert one_agent.best(VALUES, 1) == pytest.approx((1.5, 1 / 3))
    # |1 − η|, |1 − 2η/ρ|, |1 − η/ρ| with ρ = 2, η = 1: 0, 0, 1/2.
    assert one_agent.factor(VALUES, 1, 2.0, 1.0) == pytest.approx(0.5)
    etas = np.linspace(0.01, 3, 30000)
    for rho in (0.3, 1.2, 5.0):
        found = min(one_agent.factor(VALUES, 1, rho, eta) for eta in etas[::10])
        assert one_agent.least_factor(VALUES, 1, rho) == pytest.approx(found, abs=1e-3)


@needs_data
def test_fig2_quick() -> None:
    outcome = quick("shed-fig2")
    assert [row[0] for row in outcome.result.rows] == [0, 5, 16, 27, 43]  # shares of 54


# ── many agents ──


def test_backtracking_by_hand() -> None:
    # η · 2 ≤ 2 (1 − 1/4) first holds for 0.5 of 1, 0.5, …, and for 0.64 of 1, 0.8, 0.64, …
    assert many_agents.chosen(2.0, 0.25, 0.5) == 0.5
    assert many_agents.chosen(2.0, 0.25, 0.8) == pytest.approx(0.64)


def test_local_spectra_are_those_of_the_hessians() -> None:
    local = many_agents.Local(make_problem(fs.Squared(l2=0.1)))
    # With n − 1 eigenpairs the estimate is the Hessian; with fewer and ρ = λ_{q+1} it is above it.
    np.testing.assert_allclose(local.estimate(4, middle=True), local.pooled, atol=1e-12)
    assert local.longest(4, middle=False) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(local.estimate(2, middle=False) - local.pooled)[0] >= -1e-12
    assert local.longest(2, middle=True) > local.longest(2, middle=False)


@needs_data
def test_lemma4_quick() -> None:
    assert len(quick("shed-lemma4").result.rows) == 2


# ── renewals and links ──


def test_fibonacci_sums_by_hand() -> None:
    assert renewal_sets.fibonacci_sums(10, 40) == [1, 2, 4, 7, 12, 21, 30, 39]
    assert renewal_sets.sets(Periodic(5), 10, 17) == [1, 5, 10, 15]


def test_fig3_quick() -> None:
    assert len(quick("shed-fig3").result.rows) == 3


@needs_data
def test_the_printed_inequality_renews_while_progress_is_good() -> None:
    rule = renewal_sets.PrintedNorm()
    assert rule.due(5, 2, 100, [4.0, 2.0, 0.5])  # −1.5 < −1
    assert not rule.due(5, 2, 100, [4.0, 2.0, 1.5])  # −0.5 > −1: progress slows, and nothing happens
    assert quick("shed-gn").result.rows


def test_the_link_in_closed_form() -> None:
    assert link_model.at_least(0) == 1
    assert link_model.at_least(2) == pytest.approx(np.exp(-0.2))  # γ ≥ (2 − 1)/5
    draws = link_model._drawn(0, 4000)
    mean = sum(link_model.at_least(k) for k in range(1, 60))
    assert abs(draws.mean() - mean) < 5 * draws.std() / np.sqrt(len(draws))


# ── convex costs ──


def test_the_constants_bound_what_they_should() -> None:
    problem = make_problem(fs.Logistic(l2=0.01))
    known = convex_theory.Constants.of(problem.clients, 0.01)
    best = optimum(problem.clients, problem.loss)
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(50):
        a, b = rng.standard_normal((2, 5))
        H_a, H_b = (convex_theory.pooled_hessian(best, w) for w in (a, b))
        ratios.append(np.linalg.norm(H_a - H_b, 2) / np.linalg.norm(a - b))
        assert 0.01 <= np.linalg.eigvalsh(H_a)[0] <= np.linalg.eigvalsh(H_a)[-1] <= known.smooth
    assert 0.01 * known.lipschitz < max(ratios) <= known.lipschitz


def test_a_followed_step_is_the_library_s() -> None:
    problem = make_problem(fs.Logistic(l2=0.01))
    best = optimum(problem.clients, problem.loss)
    run = convex_theory.Run(best)
    errors = [best.error(one.state.w) for one in islice(iterates(as_printed(problem.loss), problem.clients), 6)]
    assert [one.before for one in run.taken[:5]] == pytest.approx(errors[:5], rel=1e-6)
    assert all(abs(np.log2(one.eta) - round(np.log2(one.eta))) < 1e-6 for one in run.taken[:5])
    assert max(one.after / one.bound(run.known) for one in run.seen) <= 1


def test_the_example_that_breaks_the_bound_on_the_estimate() -> None:
    assert convex_theory._counter_example() == pytest.approx((1.01, 0.51))


@needs_data
def test_theorem9_quick() -> None:
    assert [row[0] for row in quick("shed-theorem9").result.rows] == list(convex_theory.MUS)


# ── many digits ──


def test_decimal_linear_algebra_is_numpy_s() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 4))
    A, b = A @ A.T + np.eye(4), rng.standard_normal(4)
    exact = [[Decimal(float(x)) for x in row] for row in A]
    with localcontext() as digits:
        digits.prec = 50
        x = many_digits.solve(exact, [Decimal(float(one)) for one in b])
        pairs = many_digits.eigenpairs(exact)
        residual = [
            many_digits.dot(row, pairs[0][1]) - pairs[0][0] * v for row, v in zip(exact, pairs[0][1], strict=True)
        ]
        assert max(map(abs, residual)) < Decimal("1e-42")
    np.testing.assert_allclose([float(one) for one in x], np.linalg.solve(A, b), rtol=1e-10)
    np.testing.assert_allclose([float(one) for one, _ in pairs], np.linalg.eigvalsh(A)[::-1], rtol=1e-12)


def test_shed_in_decimals_is_the_library_s() -> None:
    agents = many_digits.problem(0, 4, 3, 8, 0.05)
    with localcontext() as digits:
        digits.prec = 60
        best = many_digits.optimum(agents, 4, 12)
        due = set(renewal_sets.sets(Periodic(3), 4, 20))
        errors = many_digits.shed(agents, [Decimal(0)] * 4, best, due.__contains__, Decimal("1e-12"), 9)
    clients = [
        fs.Client(f"agent-{j}", np.array([[float(x) for x in row] for row in one.rows]), np.ones(8))
        for j, one in enumerate(agents)
    ]
    loss = fs.Logistic(l2=0.05)
    ours = optimum(clients, loss)
    np.testing.assert_allclose([float(one) for one in best], ours.w, rtol=1e-10)
    trace = follow(as_printed(loss, renewals=Periodic(3), solve="factor"), ours, gap=-1.0, iterations=len(errors) - 1)
    np.testing.assert_allclose([float(one) for one in errors], trace.errors, rtol=1e-4, atol=1e-12)


def test_factors_are_of_whole_periods() -> None:
    assert factors([0.0, -1.0, -2.0, -4.0, -8.0], 2) == pytest.approx([10**-1.5])
    assert factors([0.0, -1.0, -3.0, -9.0], 1) == pytest.approx([0.1, 0.01, 1e-6])


def test_superlinear_quick() -> None:
    outcome = quick("shed-superlinear")
    often, _, never = (row[1].median for row in outcome.result.rows)  # type: ignore[union-attr]
    assert often < never / 5


# ── baselines ──


def test_the_heavy_ball_is_tuned_for_the_fewest_rounds() -> None:
    problem = make_problem(fs.Squared(l2=0.1))
    best = optimum(problem.clients, problem.loss)
    chosen = heavy_ball(best)
    rounds = follow(chosen, best, gap=1e-10, iterations=5000).iterations(1e-10)
    for beta in (0.5, 0.9, 0.95):
        other = fs.AGD(problem.loss, step_size=0.1, heavy_ball=beta)
        assert rounds <= follow(other, best, gap=1e-10, iterations=5000).iterations(1e-10)


@needs_data
@pytest.mark.parametrize("name", ["shed-giant", "shed-mu4", "shed-classes", "shed-digits", "shed-links"])
def test_further_experiments_quick(name: str) -> None:
    from fedsolve.reproduce import find, perform

    outcome = perform(find(name), quick=True)
    assert outcome.result.claims
    assert {verdict.holds for _, verdict in outcome.result.claims} == {None}


@needs_data
def test_determinantal_averaging_by_hand() -> None:
    from fedsolve.reproduce.shed.determinantal import Determinantal

    problem = images("emnist_digits", 5, 1e-2, iid=True, seed=0, agents=3)
    state = list(islice(iterates(Determinantal(problem.loss, lbfgs=0), problem.clients), 2))
    w = np.zeros(5)
    g = np.mean([problem.loss.gradient(one, w) for one in problem.clients], axis=0)
    hessians = [problem.loss.hessian(one, w).full() for one in problem.clients]
    dets = np.array([np.linalg.det(H) for H in hessians])
    p = sum(d * np.linalg.solve(H, g) for d, H in zip(dets, hessians, strict=True)) / dets.sum()
    moved = state[0].state.w - state[1].state.w
    np.testing.assert_allclose(moved / np.linalg.norm(moved), p / np.linalg.norm(p), rtol=1e-9)
