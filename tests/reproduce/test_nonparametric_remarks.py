"""What the sentences of Su, Xu and Yang (2023) are measured with: against other means, and on input that is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fedsolve.closed_forms import linear_path
from fedsolve.closed_forms.gain import expected_gain
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition
from fedsolve.reproduce.nonparametric import (
    figure1,
    figure2,
    figure4,
    figure6,
    minimax_polynomials,
    remarks_estimators,
    remarks_gains,
    remarks_rows,
    remarks_steps,
    sentences,
)
from fedsolve.reproduce.nonparametric.homogeneous import ROWS, Trace
from fedsolve.reproduce.nonparametric.methods import SIGMA, methods
from fedsolve.reproduce.nonparametric.minibatches import Traced
from fedsolve.reproduce.nonparametric.quantities import Notes
from fedsolve.reproduce.nonparametric.step_costs import DIMENSION, drawn
from fedsolve.reproduce.nonparametric.subspaces import draw_groups, limit_points, local_estimate
from fedsolve.reproduce.nonparametric.theory_coefficients import D, Rounds
from fedsolve.reproduce.result import Verdict

METHODS = [LocalSteps(0.1), LocalSteps(0.1, 7), ProximalStep(0.1)]


def answers(claims: Sequence[tuple[str, Verdict]]) -> list[bool | None]:
    return [verdict.holds for _, verdict in claims]


# ── many local steps ──


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_errors_of_a_small_federation(method: Method) -> None:
    """Against the rounds step by step, and the exact errors of the linear kernel."""
    made, truth = drawn(np.random.default_rng(0), (12, 4, 20)), np.random.default_rng(1).standard_normal(DIMENSION)
    A, C = made.round(method)
    expected = linear_path.round_map(made.X, np.split(np.eye(36), (12, 16)), method)
    np.testing.assert_allclose(A, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(C, expected[1], rtol=0, atol=1e-13)
    pooled = np.vstack(made.X)
    found = Decomposition.of(pooled @ pooled.T, (12, 4, 20), method)
    for t in (1, 30):
        exact = float(found.expected_error(t, pooled @ truth, sigma=remarks_steps.SIGMA))
        assert made.prediction_error(method, t, truth) == pytest.approx(exact, rel=1e-9)
    assert made.prediction_error(method, None, truth) == pytest.approx(made.prediction_error(method, 10**6, truth))
    moved = np.linalg.matrix_power(A, 3000) @ truth
    rounds = made.rounds(method)
    assert np.linalg.norm(np.linalg.matrix_power(A, math.ceil(rounds)), 2) <= 0.01
    assert np.linalg.norm(np.linalg.matrix_power(A, math.floor(rounds) - 1), 2) > 0.01
    assert np.linalg.norm(moved) < 1e-3 * np.linalg.norm(truth)


def test_an_error_that_does_rise_by_kappa_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rising(self: object, method: LocalSteps, t: int | None, truth: object) -> float:
        return 0.02 * method.kappa(0.9)

    made, notes = drawn(np.random.default_rng(0), (30,) * 8), Notes()
    monkeypatch.setattr(type(made), "prediction_error", rising)
    remarks_steps._many(made, np.ones(DIMENSION), notes)
    claims = (remarks_steps.BY_KAPPA, remarks_steps.BY_KAPPA_AT_T, remarks_steps.RISES, remarks_steps.BOUNDED)
    assert [one.verdict(*notes.ends[one]).holds for one in claims] == [True, True, True, False]


# ── estimators ──


def test_the_limits_are_where_the_rounds_end() -> None:
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((n, D)) for n in (20, 3, 30)]
    made, y = Rounds.of(X, LocalSteps(0.02, 5)), rng.standard_normal((53, 2))
    expected = np.linalg.solve(np.eye(D) - made.A, made.C @ y)
    np.testing.assert_allclose(remarks_estimators.limits(made, y), expected, rtol=1e-9)


def test_a_bias_of_half_a_standard_deviation_is_found() -> None:
    draws = np.random.default_rng(3).standard_normal((D, 4000))
    assert remarks_estimators.standard_errors(draws, np.zeros(D)) < 5
    assert remarks_estimators.standard_errors(draws + 0.5, np.zeros(D)) > 25


# ── gains ──


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_federated_risk_is_the_mean_over_directions(method: Method) -> None:
    rng = np.random.default_rng(4)
    X, own = [rng.standard_normal((n, 5)) for n in (3, 9, 20)], rng.standard_normal(5)
    found = []
    for direction in np.eye(5):
        truths = np.tile(own + 0.7 * direction, (3, 1))
        truths[0] = own
        found.append(expected_gain(X, truths, 0, SIGMA, method).federated)
    assert remarks_gains.federated_risk(X, 0.7, method) == pytest.approx(np.mean(found), rel=1e-10)


@pytest.mark.parametrize("n", [4, 30])
def test_the_local_risks_are_those_of_draws(n: int) -> None:
    """Of least squares and of the posterior mean, 40,000 truths and noises: within five standard errors."""
    rng = np.random.default_rng(5)
    X, truths = rng.standard_normal((n, 6)), math.sqrt(0.3) * rng.standard_normal((6, 40_000))
    y = X @ truths + SIGMA * rng.standard_normal((n, 40_000))
    ridge = np.linalg.solve(X.T @ X + SIGMA**2 / 0.3 * np.eye(6), X.T @ y)
    for risk, estimate in zip(remarks_gains.local_risks(X, 0.3), (np.linalg.pinv(X) @ y, ridge), strict=True):
        squares = np.square(estimate - truths).sum(axis=0)
        assert abs(squares.mean() - risk) <= 5 * squares.std() / 200


def test_the_columns_are_covered_from_then_on() -> None:
    found = remarks_rows.covering(np.random.default_rng(6), 9, 3, 5)
    orders = np.random.default_rng(6)
    for r in found:
        first = np.argsort(orders.random((3, 9)), axis=1)
        assert len(np.unique(first[:, :r])) == 9
        assert len(np.unique(first[:, : r - 1])) < 9


def test_the_defined_gain_is_a_ratio_of_mean_squares() -> None:
    truth, groups = draw_groups(60, 4, seed=3)
    alone = sum(np.sum((row - own) ** 2) for row, own in zip(local_estimate(groups[0]), truth, strict=True))
    ends = limit_points(groups, 60)["s = 1"]
    together = sum(np.sum((row - own) ** 2) for row, own in zip(ends, truth, strict=True))
    assert sentences.defined_gain(60, 4, 3) == pytest.approx(alone / together)


def test_what_is_learned_where_all_columns_are_covered() -> None:
    """With r = 100 all are, and the error is that of least squares on 5,500 rows: σ √(d/N), up to a factor."""
    found = sentences.uncovered(100, 3, 0)
    assert found[:2] == (0.0, 0.0)
    assert 10 * found[2] == pytest.approx(SIGMA * math.sqrt(100 / 5500), rel=0.25)
    assert math.isnan(sentences.uncovered(2, 3, 0)[2])


# ── figures ──


def test_the_sentences_of_figure_4_fail_for_other_gains() -> None:
    def claims(few: float, many: float, last: float) -> list[bool | None]:
        def gains(level: float) -> list[np.ndarray]:
            return [np.array([*(level,) * (len(figure4.GRID) - 1), last])] * 5

        found: Mapping[tuple[str, str, str], list[np.ndarray]] = {
            (figure4.MAIN, who, name): gains(level)
            for who, level in (("50 rows", few), ("500 rows", many))
            for name in methods()
        }
        return answers(figure4._in_words(found, 5))

    assert claims(2.1, 1.1, 0.9) == [True, True, True, True, False]
    assert claims(1.9, 0.9, 1.1) == [False, False, False, True, False]


def test_one_method_with_other_gains_is_found() -> None:
    grid = np.array(figure4.GRID)

    def claims(odd: np.ndarray) -> list[bool | None]:
        found = {
            (figure4.MAIN, who, name): [np.exp(reach - grid)] * 5
            for who, reach in (("50 rows", 7.5), ("500 rows", 0.3))
            for name in methods()
        }
        found[figure4.MAIN, "500 rows", "FedProx"] = [odd] * 5
        return answers(figure4._every_method(found, 5))

    assert claims(np.exp(0.3 - grid)) == [True] * 4
    assert claims(np.exp(7.5 - grid)) == [True, False, True, False]
    assert claims(np.where(grid == 3, 0.5, np.exp(0.3 - grid))) == [False, True, True, True]


def test_the_sentences_of_figure_1_fail_for_other_traces() -> None:
    def trace(last: float, slow: float) -> Trace:
        rounds = np.arange(301.0)
        return Trace(np.maximum(np.exp(-rounds / slow), 1e-12), last + 10 * np.exp(-rounds / slow))

    good = {name: [trace(0.04, 10)] for name in methods()}
    assert answers(figure1._in_words(good, [1e-3])) == [True] * 4
    bad = {name: [trace(0.4, 40)] for name in methods()}
    assert answers(figure1._in_words(bad, [1e-11])) == [False] * 4


def test_the_share_of_rounds_in_which_curves_coincide() -> None:
    ones = np.ones(10)
    other = np.where(np.arange(10) < 4, 1.3, 1.2)
    found = Traced({(20, "s = 1"): [Trace(ones, ones)], (20, "FedProx"): [Trace(other, ones)]}, 0.0)
    assert figure2.coinciding(found, 20).values == (0.6,)


def test_slow_convergence_is_not_another_end() -> None:
    """A path that is still far away, on its way to the stationary point."""
    slow, done = Trace(np.array([1.0, 1e-3]), np.ones(2)), Trace(np.array([1.0, 1e-11]), np.ones(2))
    traces = {(20, "s = 1"): [slow], (ROWS, "s = 1"): [done]}
    for limit, holds in ((1e-12, False), (1e-3, True)):
        found = Traced(traces, 0.0, {(20, "s = 1"): [limit]})
        assert figure2.fixed(found, [20])[1].holds is holds


def test_least_squares_is_minimax_and_a_worse_method_is_found() -> None:
    rng, G = np.random.default_rng(7), figure6.integral()
    rows = minimax_polynomials.on_grid(3, 4, 5)
    np.testing.assert_allclose(rows[:, 1], -1 + np.arange(12) / 6, atol=1e-12)
    errors = np.linalg.pinv(rows) @ (SIGMA * rng.standard_normal((12, 40_000)))
    squares = np.sum(errors * (G @ errors), axis=0)
    assert abs(squares.mean() - minimax_polynomials.minimax_risk(rows, G)) <= 5 * squares.std() / 200
    risks = [minimax_polynomials.bayes_risk(rows, G, deviation) for deviation in (0.1, 1.0, 10.0, 1e4)]
    assert risks == sorted(risks)
    assert risks[-1] == pytest.approx(minimax_polynomials.minimax_risk(rows, G), rel=1e-4)
    sizes = [4, 6, 9]
    grids = [minimax_polynomials.on_grid(20, n, 5) for n in sizes]
    best = np.array([minimax_polynomials.minimax_risk(one, G) for one in grids])
    for factor, holds in ((1.2, True), (1.3, False), (0.9, False)):
        assert answers(minimax_polynomials.optimality({"ours": factor * best}, 20, sizes, G, False))[-1] is holds
