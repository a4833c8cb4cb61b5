"""FedNewton's theorems and lemmas: quantities against hand counts and means over many draws, and quick forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.features import RandomFourier
from fedsolve.reproduce import Outcome, Verdict, find, perform
from fedsolve.reproduce.fednewton import identities, lemmas, theorem1, theorem3, theorem4, theorem5
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.population import Operators, covariance, root
from fedsolve.reproduce.fednewton.synthetic import problem


def claims(outcome: Outcome) -> dict[str, Verdict]:
    return dict(outcome.result.claims)


def test_the_covariance_of_a_distribution_is_the_mean_over_many_samples() -> None:
    phi, mean = RandomFourier.fednewton(0.5, 6, 3), np.array([0.4, -1.0, 0.2])
    X = phi.block(mean + np.random.default_rng(0).standard_normal((400_000, 3)))
    products = X[:, :, None] * X[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(X))
    assert np.all(np.abs(products.mean(axis=0) - covariance(phi, mean)) < 5 * error)


def test_operators_of_two_clients_by_hand() -> None:
    """C_Dj = 1 and 3, C_j = 2 and 2, λ = 1: C_D = 2, A = (1/2 + 1/4)/2, H = 3."""
    ops = Operators([np.array([[1.0]]), np.array([[3.0]])], [np.array([[2.0]])] * 2, 1.0)
    assert ops.rho() == pytest.approx(3 * 0.375 - 1)
    assert [ops.P(*pair) for pair in zip(ops.samples, ops.locals, strict=True)] == pytest.approx([1.5, 0.75])
    assert [ops.R(*pair) for pair in zip(ops.samples, ops.locals, strict=True)] == pytest.approx([1 / 3, 1 / 3])
    assert ops.shifts() == pytest.approx([0.0, 0.0])
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert root(A) @ root(A) == pytest.approx(A)


def test_rho_is_that_of_the_problem() -> None:
    posed = problem(20, 500, 0.02, 1)
    assert Operators(posed.covariances, posed.covariances, 1e-6).rho() == pytest.approx(posed.rho, rel=1e-9)
    assert len(posed.means) == 20
    # 0.02 is the variance of each of 200 coordinates: their mean square is within 5 of its standard errors
    squares = np.concatenate(posed.means) ** 2
    assert abs(squares.mean() - 0.02) < 5 * 0.02 * math.sqrt(2 / squares.size)


def test_the_counterexample_by_hand() -> None:
    found = theorem1.counterexample()
    assert found["ρ"] == pytest.approx((0.9 / 1.001 + 0.1 / 20.001) * 2.901 - 1)
    assert found["Υ printed"] == pytest.approx(2 * 0.1 * 19 / 20.001)
    assert found["Υ proof"] == pytest.approx(0.9 * 1.9 / 1.001 + 0.1 * (1.001 / 20.001) * (20.9 / 1.001))


def test_proposition_4_in_one_dimension_by_hand() -> None:
    left, right = theorem5.one_dimension()
    assert left == pytest.approx(math.sqrt(1.001) * (0.1 * 20.001 / 2.901 - 0.1))
    assert right == 0.0


def test_theorem1_quick() -> None:
    outcome = perform(find("fednewton-theorem1"), quick=True)
    found = claims(outcome)
    assert found["Υ < 1 as printed makes the error fall"].holds is False
    rows = outcome.result.rows[:-1]
    headings = [column.heading for column in outcome.result.columns]
    for row in rows:
        cell = dict(zip(headings, row, strict=True))
        assert cell["ρ"].median <= cell["Υ proof"].median  # type: ignore[union-attr]
        assert (cell["8 rounds / DKRR"].median < 1) == (cell["ρ"].median < 1)  # type: ignore[union-attr]


def test_a_world_satisfies_its_assumptions() -> None:
    of = world(3, 30, 0.1, 0.01)
    for X, y in of.draw(500, np.random.default_rng(0)):
        assert np.abs(y).max() <= of.B
        assert np.linalg.norm(X, axis=1).max() <= 1
    assert np.linalg.norm(of.truth) <= of.R


def test_rounds_follow_the_closed_form() -> None:
    of = world(4, 30)
    drawn = Drawn.of(of.draw(200, np.random.default_rng(1)), of.locals(), 1e-2)
    path, pooled = drawn.rounds(3), drawn.pooled_fit
    H = drawn.ops.ridge(drawn.ops.drawn)
    A = np.mean([np.linalg.inv(drawn.ops.ridge(each)) for each in drawn.ops.samples], axis=0)
    change = np.linalg.matrix_power(np.eye(30) - A @ H, 3)
    assert path[3] - pooled == pytest.approx(change @ (path[0] - pooled), abs=1e-12)


def test_lemmas_quick() -> None:
    found = claims(perform(find("fednewton-lemmas"), quick=True))
    assert all(verdict.holds is None for verdict in found.values())
    assert found[lemmas.SYMMETRIC].said.startswith("wrong in 0 of")
    assert lemmas.cordes(np.random.default_rng(0)) <= 1 + 1e-9
    # κ = 1, n = 100, λ = 0.01: 2 log(40) + √(4 log(40))
    assert lemmas.first_bound(100, 0.01) == pytest.approx(2 * math.log(40) + math.sqrt(4 * math.log(40)))
    assert lemmas.spread_of(100, 0.01, 9.0) == pytest.approx(0.1 + 0.3)


def test_theorem5_quick() -> None:
    found = claims(perform(find("fednewton-theorem5"), quick=True))
    assert found["Proposition 4, printed, for every sample"].holds is False
    assert set(theorem5.NAMES) < set(found)


def test_theorem3_quick() -> None:
    assert theorem3.slope([1, 10, 100], [5, 5 / 10**0.5, 0.5]) == pytest.approx(-0.5)
    assert math.ceil(29 * 2 * math.log(10) / 0.05) == theorem3.ENOUGH
    outcome = perform(find("fednewton-theorem3"), quick=True)
    assert outcome.result.status == "ok"
    assert all(verdict.holds is None for _, verdict in outcome.result.claims)


def test_theorem4_by_hand() -> None:
    """|D| = 10,000, so that λ = 1/100. Ten clients of 1,000 have enough samples: ℵ = 1/λ / n = 0.1; 50 have too few."""
    none, shift, models = np.zeros(3), np.array([0.01, 0.0, 0.02]), np.array([0.0, 0.3, 0.1])
    assert theorem4.federated_part(10_000, 1000, none, none) == pytest.approx(0.1)
    enough = [math.sqrt(1 + d) * (0.1 + (1 + d) * (f + d)) for d, f in zip(100 * shift, models, strict=True)]
    assert theorem4.federated_part(10_000, 1000, shift, models) == pytest.approx(np.mean(enough))
    aleph = 50**-1.5 * 10_000**0.75
    few = [math.sqrt(1 + d) * (aleph + 2 * (d + f)) for d, f in zip(100 * shift, models, strict=True)]
    assert theorem4.federated_part(10_000, 50, shift, models) == pytest.approx(np.mean(few))


def test_theorem4_quick() -> None:
    outcome = perform(find("fednewton-theorem4"), quick=True)
    found = claims(outcome)
    assert all(verdict.holds is None for verdict in found.values())
    assert "10^" in found["Theorem 4 as printed, with Υ, for every number of rounds"].said


def test_a_late_round_without_overflow() -> None:
    """The logarithm of the error after eight rounds is that of the rounds themselves."""
    of = world(4, 20, 1.0)
    drawn = Drawn.of(of.draw(60, np.random.default_rng(0)), of.locals(), 1e-3)
    path, pooled, C = drawn.rounds(8), drawn.pooled_fit, drawn.ops.pooled
    gap = path[8] - pooled
    late = theorem4.log_error(drawn, path[0] - pooled, 8)
    assert late == pytest.approx(math.log10(math.sqrt(gap @ C @ gap)), abs=1e-6)


def test_identities_quick() -> None:
    outcome = perform(find("fednewton-identities"), quick=True)
    values = {str(row[0]): row[1].median for row in outcome.result.rows}  # type: ignore[union-attr]
    assert values["Proposition 1: the Hessian"] < 1e-12
    assert values["Algorithm 1 as printed (local gradients): any w becomes DKRR"] < 1e-10
    assert values["Algorithm 1 as printed: reaches KRR"] > 1e-3


def test_a_wrong_expectation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = world(1, identities.FEATURES)
    small = identities._small(of, 0)
    assert identities.inequality_checks(of, small)[identities.EXPECTED] < 4
    monkeypatch.setattr(identities, "covariance", lambda *given: 1.2 * covariance(*given))
    assert identities.inequality_checks(of, small)[identities.EXPECTED] > 4
