"""`fedlrgd-sentences` and `fedlrgd-rank-losses`: by other means, and on inputs that are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.complexity.oracle import oracle_complexity
from fedsolve.diagnose import GradientRanks
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fedlrgd import (
    rank_losses,
    sentences,
    sentences_accuracy,
    sentences_classes,
    sentences_clients,
    sentences_data,
    sentences_epochs,
    sentences_fedave,
    sentences_growth,
    sentences_kernels,
    sentences_quantiles,
    sentences_theorem_2,
    sentences_times,
)
from fedsolve.reproduce.fedlrgd.cost_problem import posed
from fedsolve.reproduce.fedlrgd.network_losses import logistic_loss
from fedsolve.reproduce.fedlrgd.networks import Trained
from fedsolve.reproduce.fedlrgd.proofs_ledger import _descended
from tests.extras import optional

torch = optional("torch")

NOT_SO = {
    check.claim
    for check in (
        sentences_clients.BESIDES,
        sentences_clients.ALL,
        sentences_clients.STRAGGLERS,
        sentences_data.ANYWHERE,
        sentences_data.TWINS,
        sentences_data.SINCE,
        sentences_theorem_2.LAST_60,
        sentences_theorem_2.NEEDED,
        sentences_growth.BY_90,
        sentences_growth.NECESSARY,
        sentences_kernels.VALID,
        sentences_fedave.TERMS,
        sentences_epochs.ANY,
    )
}


def test_quick() -> None:
    outcome = perform(find("fedlrgd-sentences"), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    assert len({check.claim for check in sentences.CHECKS}) == len(sentences.CHECKS) == len(outcome.result.claims)
    assert {claim for claim, verdict in outcome.result.claims if verdict.holds is not True} == NOT_SO


# ── clients ──


def test_slopes_of_a_message() -> None:
    rng = np.random.default_rng(0)
    samples, probes = rng.random((4, 3)), rng.uniform(-1, 1, (5, 2))
    found, step = sentences_clients._slopes(samples, probes), 1e-6
    for place in range(12):
        moved = np.zeros(12)
        moved[place] = step
        ends = [sentences_clients.message(samples + sign * moved.reshape(4, 3), probes) for sign in (1, -1)]
        np.testing.assert_allclose(found[:, place], (ends[0] - ends[1]) / (2 * step), atol=1e-8)


def test_one_sample_has_no_other_that_sends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences_clients, "SAMPLES", 1)
    apart, shared = sentences_clients._other(np.random.default_rng(1))
    assert apart > 1e-9 or shared == 1


def test_operations_of_a_client() -> None:
    assert sentences_clients.besides(4, s=4) == pytest.approx(0.75)
    assert sentences_clients.besides(3, s=2) == pytest.approx((6 + 18) / 24)


def test_calls_of_one_client_and_of_two() -> None:
    """r = 5, S = 20, s = 50: 25 + 250 + 100 gradients, and 250 more for another client."""
    problem = posed("alike", 0, 2)
    one, two = (_descended(problem, problem.clients[:count], 20) for count in (1, 2))
    assert one is not None
    assert two is not None
    assert [sentences_clients._calls(done) for done in (one, two)] == [375, 625]
    assert oracle_complexity(two, 0.0).total == 375


# ── (33) ──


def test_the_surrogate_of_a_gradient_of_low_rank_is_exact() -> None:
    rng = np.random.default_rng(2)
    assert sentences_data._apart(rng, lambda X, y, at: X @ at.T - y[:, None], size=100.0) < 1e-8
    assert sentences_data._apart(rng, lambda X, y, at: np.sin(40 * X @ at.T)) > 0.05


# ── lines of proofs ──


def test_lines_53_by_hand() -> None:
    """r = 1, G = 2, ten clients of four samples that have 1 at the probe and 3 at θ, where the server has 5."""
    g, G = (np.array([5.0]), np.full(40, 3.0)), (np.array([[2.0]]), np.ones((40, 1)))
    same, lines = sentences_theorem_2.lines_53(g, G)
    assert same == pytest.approx([(40 * 3 - 5 * 20) / 41] * 4)
    assert lines == pytest.approx([20 / 41, 20 / 41, 0.5])
    assert sentences_theorem_2.lines_53((np.array([5.0]), 3 * np.arange(40.0)), G)[0] == pytest.approx([2240 / 41] * 4)


def test_sets_of_exponential_times() -> None:
    """b = 1: the quantile is log q, in all five sets."""
    assert sentences_quantiles.members(1, 10, math.log(10.01)) == [True] * 5
    assert sentences_quantiles.members(1, 10, math.log(9.99)) == [False] * 5


def test_lines_of_the_lower_bound_get_weaker() -> None:
    """b = 1, q = 100: y ≥ log 100; e^y/y ≥ 99/y…; ½ log 99 ≤ y."""
    assert sentences_quantiles.lower_lines(1, 100, 4.7) == [True] * 4
    assert sentences_quantiles.lower_lines(1, 100, 4.0)[0] is False
    assert sentences_quantiles.lower_lines(1, 100, 2.4) == [False, False, False, True]
    assert sentences_quantiles.lower_lines(1, 100, 2.2) == [False] * 4


# ── losses ──


def test_the_logistic_loss_by_hand() -> None:
    outputs = torch.zeros((1, 10))
    assert float(logistic_loss(outputs, torch.tensor([3]))) == pytest.approx(10 * math.log(2))
    outputs[0, 3] = 2.0
    expected = 9 * math.log(2) + math.log(1 + math.exp(-2))
    assert float(logistic_loss(outputs, torch.tensor([3]))) == pytest.approx(expected)


def _ranks(*ranks: int) -> GradientRanks:
    made = object.__new__(GradientRanks)
    object.__setattr__(made, "ranks", np.array(ranks))
    return made


def test_losses_are_judged_beside_the_cross_entropy() -> None:
    good = Trained(np.zeros(1), 0.99, 0.97)
    usual, same, higher = _ranks(*[1] * 20), _ranks(*[2] * 20), _ranks(*[9] * 18, 11, 11)
    found = {"cross-entropy": [(usual, good)], "squared": [(same, good)], "logistic": [(higher, good)]}
    verdicts = rank_losses.judged(found, quick=False)
    assert [verdict.holds for _, verdict in verdicts] == [True, True, True, False, False, False]
    assert [verdict.said for _, verdict in verdicts][3:] == ["90.0%", "10.0 points", "9 against 1"]
    threefold = rank_losses.judged({**found, "squared": [(_ranks(*[3] * 20), good)]}, quick=False)
    assert [verdict.holds for _, verdict in threefold][:3] == [True, True, False]
    guessing = {**found, "squared": [(same, Trained(np.zeros(1), 0.1, 0.1))]}
    assert all(verdict.holds is None for _, verdict in rank_losses.judged(guessing, quick=False))


def test_random_matrices_are_not_of_low_rank() -> None:
    found = rank_losses.random_ranks(60, 20)
    assert min(found) > 25
    assert rank_losses.by_chance(found)[1].holds
    assert not rank_losses.by_chance([*found, 10])[1].holds


# ── shapes, and what could not fail before ──


def test_kernels_of_a_finite_feature_space_are_singular() -> None:
    points = np.array([0.2, 0.5, 0.9])
    assert sentences_kernels.least(sentences_kernels.linear, points) < 1
    assert sentences_kernels.least(np.minimum, np.append(0.0, points)) < 1
    assert sentences_kernels.least(np.minimum, points) > 1
    assert sentences_kernels.least(sentences_kernels.matern, points) > 1


def test_roots_by_hand() -> None:
    assert [float(one) for one in sentences_fedave.roots(1, -3, 2)] == [1, 2]
    assert [float(one) for one in sentences_fedave.roots(2, -2, -12)] == [-2, 3]


def test_a_pareto_distribution_is_no_von_mises_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences_times._flat() < 1.2
    monkeypatch.setattr(sentences_times, "auxiliary", lambda b, x: 1.0 if b == 1 else x / 2)
    assert sentences_times._flat() > 1.2


def test_clients_take_as_long_as_the_slowest() -> None:
    rng = np.random.default_rng(0)
    one, many = (float(sentences_times._clients(rng, 5, active, 2).mean()) for active in (1, 500))
    assert one == pytest.approx(20, rel=0.1)  # two epochs of 2b
    assert many > 30


def test_bumps_and_kinks_by_hand() -> None:
    u = np.linspace(0, 2 * np.pi, 100_001)
    slopes = np.gradient(sentences_classes.bump(u), u)
    assert sentences_classes.steepest(0) == pytest.approx(4)
    assert sentences_classes.steepest(1) == pytest.approx(np.abs(slopes).max(), rel=1e-6)
    assert sentences_classes.steepest(2) == pytest.approx(np.abs(np.gradient(slopes, u)).max(), rel=1e-3)
    assert sentences_classes.taylor_error(1.5, np.array([0.25]), np.array([0.0])) == pytest.approx(0.125)
    assert sentences_classes.taylor_error(2.0, np.array([0.25]), np.array([1.0])) == pytest.approx(0, abs=1e-15)


def test_the_power_of_d() -> None:
    assert sentences_fedave._power(4.0) < 0.01
    assert sentences_accuracy._halves() == 0
