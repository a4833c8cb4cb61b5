"""`ffgb-theory`: its problems, oracles, bounds and limits against other means, and the experiment itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fedsolve.diagnose import exact_input_distances
from fedsolve.errors import WrongType
from fedsolve.learners import Fitting, gamma
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.ffgb.oracles import Adversary, ScaledLipschitz, ScaleOracle, Stump
from fedsolve.reproduce.ffgb.theory import counterexample
from fedsolve.reproduce.ffgb.theory_bounds import Setting, effective_gamma, theorem_4_1, theorem_4_3, theorem_4_4
from fedsolve.reproduce.ffgb.theory_claims import claims
from fedsolve.reproduce.ffgb.theory_measures import QUICK, Found, equal_inputs, square_loss, unequal_inputs
from fedsolve.reproduce.ffgb.theory_problems import (
    CLIENTS,
    MU,
    POINTS,
    L,
    own_blocks,
    same_inputs,
    shifted,
    solution,
    two_diracs,
)
from fedsolve.reproduce.ffgb.theory_runs import scaled, squares


def _fitting(X: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> Fitting:
    return Fitting(X, target, weight, (), np.random.default_rng(0))


# ── problems ──


def test_the_minimum_is_one() -> None:
    """At f* the gradient of (9), clients counted the same, vanishes at every point."""
    for problem, labels in (same_inputs(3), own_blocks(0.6, 3)):
        weights = np.ones(labels.shape)
        if problem.clients[0].sample_weight is not None:
            weights = np.stack([client.sample_weight / client.weight for client in problem.clients])
        gradient = (weights * (expit(problem.best) - labels + MU * problem.best)).sum(axis=0)
        np.testing.assert_allclose(gradient, 0, atol=1e-14)
        assert problem.distance(problem.best) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_omega_tv_is_the_share(share: float) -> None:
    found = exact_input_distances(own_blocks(share, 0)[0].clients)
    assert found.omega_tv == pytest.approx(share * (1 - 1 / CLIENTS), abs=1e-12)


def test_the_two_diracs_by_hand() -> None:
    """‖f*‖² = 2.264265 for μ = 0.1; ω_TV is ½ = 1 − 1/N, where Theorem 4.2 says 1."""
    clients, best = two_diracs(0.1)
    assert best == pytest.approx(2.264265, abs=5e-7)
    assert exact_input_distances(clients).omega_tv == pytest.approx(0.5)
    a = np.sqrt(best / 2)
    values = np.array([[a, -a], [-a, a]])
    p = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p - np.eye(2) + 0.1 * values, 0, atol=1e-12)


def test_shifted_labels_have_slopes_of_at_most_1() -> None:
    posed = shifted(0.3, 1)
    X, y = posed.problem.support, posed.problem.best
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    assert (np.abs(y[:, None] - y[None]) <= L * apart + 1e-12).all()
    still = shifted(0.0, 1)
    assert still.D == 0
    assert pytest.approx(np.sqrt(2) * still.B) == still.G


# ── oracles ──


def test_oracles_have_the_gamma_they_say() -> None:
    problem, labels = same_inputs(0)
    X, target = problem.support, labels[0] - 0.4
    for norm in ("squares", "largest"):
        assert gamma(target, ScaleOracle(0.3, POINTS).fit(_fitting(X, target))(X), norm=norm) == pytest.approx(0.3)  # type: ignore[arg-type]
    posed = shifted(0.1, 0)
    client = posed.problem.clients[0]
    learner, kept = ScaledLipschitz(constant=L, gamma=0.3), {}
    h = learner.fit(Fitting(client.X, -client.y, None, (), np.random.default_rng(0), kept))
    assert gamma(-client.y, h(client.X), norm="largest") == pytest.approx(0.3)
    left = -client.y - h(client.X)
    again = learner.fit(Fitting(client.X, left - client.y, None, (), np.random.default_rng(0), kept))
    np.testing.assert_allclose(again(client.X), 0.3 * (left - client.y), atol=1e-14)


def test_a_stump_against_all_splits() -> None:
    rng = np.random.default_rng(0)
    X, target = np.arange(POINTS, dtype=float)[:, None], rng.standard_normal(POINTS)
    found = Stump(POINTS).fit(_fitting(X, target))(X)
    best = min(
        ((target[:k] - target[:k].mean()) ** 2).sum() + ((target[k:] - target[k:].mean()) ** 2).sum()
        for k in range(1, POINTS)
    )
    assert ((target - found) ** 2).sum() == pytest.approx(best)


def test_tables_of_another_shape() -> None:
    with pytest.raises(WrongType, match="a table has a value"):
        Adversary().function((np.zeros((2, 3)),), 1, (2,))


# ── limits and bounds ──


@pytest.mark.parametrize("K", [1, 3, 10])
def test_effective_gamma_by_simulation(K: int) -> None:
    """h_k = γ(Δ + φ) with φ fixed: the mean of h_k/φ over a round."""
    delta, total = 0.0, 0.0
    for _ in range(K):
        h = 0.3 * (delta + 1.0)
        delta += 1.0 - h
        total += h
    assert effective_gamma(0.3, K) == pytest.approx(total / K, rel=1e-14)


def test_bounds_by_hand() -> None:
    s = Setting(start=2.0, K=2, T=8, mu=0.5, gamma=0.5, G=1.0)
    log = np.log(16)
    assert theorem_4_1(s, 0.25) == pytest.approx(
        {"start": 0.125, "drift": 2 * log / (8 * 0.0625), "weak learner": 0.25 * 16 / 2, "inputs": 4.0}
    )
    assert theorem_4_3(s) == pytest.approx(
        {"start": 0.125, "drift": 4 * log, "weak learner": 2 / (2 * 0.25), "both": 2 * log / 8}
    )
    found = theorem_4_4(s, 0.1, L=2.0, D=0.5, B=1.0)
    assert found["inputs"] == pytest.approx(2 * 2 * 0.1 / (0.25 * 0.5))
    assert found["weak learner"] == pytest.approx((0.5 / 0.25) ** 2 / 2)


def test_at_one_step_the_residual_changes_nothing() -> None:
    problem, _ = same_inputs(0)
    curves = [scaled(problem, 0.3, 20, K=1, rule="theorem 4.3", residual=residual) for residual in ("round", None)]  # type: ignore[arg-type]
    np.testing.assert_array_equal(*curves)


def test_the_limit_of_a_weak_oracle() -> None:
    problem, labels = same_inputs(0)
    end = scaled(problem, 0.3, 400, K=2, rule="theorem 4.3")[-1]
    limit = problem.distance(solution(labels, np.ones(labels.shape), MU, effective_gamma(0.3, 2)))
    assert end == pytest.approx(limit, rel=1e-3)
    posed = shifted(0.1, 0)
    end = posed.problem.distance(squares(posed, 0.3, 200, K=2)[-1])
    assert end == pytest.approx(posed.problem.distance(effective_gamma(0.3, 2) * posed.extensions), rel=1e-2)


def test_the_counterexample() -> None:
    found = counterexample()
    assert found["K = 1"] <= 1e-15
    assert found["K = 5"] <= 1e-15
    assert found["best"] == pytest.approx(2.264265, abs=5e-7)


# ── the experiment ──


def test_quick() -> None:
    outcome = perform(find("ffgb-theory"), quick=True)
    assert outcome.result.status == "ok"
    assert len(outcome.result.claims) == 20


def test_claims_can_fail() -> None:
    """Each group of claims says NO where its numbers are spoilt."""
    good = {**equal_inputs(0, QUICK), **unequal_inputs(0, QUICK), **square_loss(0, QUICK)}
    bad = counterexample()
    spoilt = {
        "residual none": "without the residual",
        "stumps, residual carried": "carrying it over",
        "share 0": "from 0",
        "shift 0.1, off ū": "to 1e-12",
        "K = 4": "with K fixed",
    }
    for name, part in spoilt.items():
        worse = {**good, name: Found(7.0, good[name].limit, good[name].bound, good[name].at)}
        said = {text: verdict.holds for text, verdict in claims([worse], bad, QUICK, quick=False)}
        assert [holds for text, holds in said.items() if part in text] == [False]
    said = {text: verdict.holds for text, verdict in claims([good], {**bad, "K = 5": 1e-8}, QUICK, quick=False)}
    assert [holds for text, holds in said.items() if "f^t ≡ 0" in text] == [False]


@pytest.mark.slow
def test_full() -> None:
    outcome = perform(find("ffgb-theory"))
    assert outcome.result.status == "ok"
    assert all(verdict.holds for _, verdict in outcome.result.claims)
