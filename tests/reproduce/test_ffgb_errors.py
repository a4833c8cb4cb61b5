"""Oracles of Shen et al. whose errors are as large as their conditions allow, and what is tested with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedsolve.diagnose import wasserstein
from fedsolve.reproduce.ffgb import (
    lemmas,
    participation_errors,
    participation_orders,
    participation_paths,
    proof_errors,
    proof_radius,
    proof_runs,
    remarks,
    square_any,
    square_problems,
    square_radius,
    square_runs,
    theory_bounds,
)
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.typing import Array


def _worst(found: Found, check: object) -> float:
    return found.worst[check.claim]  # type: ignore[attr-defined]


# ── oracles ──


def test_errors_are_as_large_as_5_allows() -> None:
    one = proof_runs.posed(np.random.default_rng(2), 5, 6, 0.5, same=True)
    query = np.random.default_rng(3).standard_normal((5, 6))
    gamma, size = participation_paths.GAMMA, np.sqrt(one.own(query, query))
    for last, sign in ((False, -1.0), (True, 1.0)):
        off = participation_paths.one_point(one)(query, last) - query
        np.testing.assert_allclose(np.sqrt(one.own(off, off)), (1 - gamma) * size)
        assert [list(np.flatnonzero(row)) for row in off] == [[i] for i in range(5)]
        assert (np.sign(off[np.arange(5), np.arange(5)]) == sign).all()
    left = proof_errors.against(one)(query) - query
    np.testing.assert_allclose(np.sqrt(one.own(left, left)), (1 - proof_errors.GAMMA) * size)
    assert (np.diag(left) * np.diag(query) < 0).all()


def test_errors_are_as_large_as_10_and_14_allow() -> None:
    rng = np.random.default_rng(4)
    one, gamma = proof_runs.posed(rng, 5, 12, 0.5, same=False), participation_paths.GAMMA
    inside = one.mass > 0
    query = np.where(inside, rng.standard_normal((2, 5, 12)), 0.0)  # two draws
    most = np.abs(query).max(axis=-1, keepdims=True)
    off = participation_paths.on_support(one)(query, False) - query
    np.testing.assert_allclose(np.abs(off), np.where(inside, (1 - gamma) * most, 0.0), atol=1e-15)
    np.testing.assert_allclose(participation_paths.on_support(one)(query, True) - query, -off, atol=1e-15)
    square = square_problems.regression(rng)
    h = participation_paths.everywhere(square.inside)(square.u, True)
    np.testing.assert_allclose(square.sup(h - square.u), (1 - gamma) * square.sup(square.u))
    assert square.lip(h - square.u).max() < 1e-12
    assert (np.sign((h - square.u)[:, 0]) == [1, -1, 1, -1, 1]).all()


def test_paths_with_errors_are_algorithm_2() -> None:
    """All clients, an error that is known by the step."""
    one = proof_runs.posed(np.random.default_rng(5), 5, 6, 0.5, same=True)
    weak, asked, local = participation_paths.one_point(one), 0, 3

    def oracle(query: Array) -> Array:
        nonlocal asked
        asked += 1
        return weak(query, asked % local == 0)

    steps = proof_runs.boosted(one, np.zeros(6), oracle, 2.0, local, 4)
    off = [step.after.mean(axis=0) - one.best for step in steps if step.k == local]
    path = participation_paths.logistic_path(one, 2.0, 4, 5, 1, np.random.default_rng(0), local, weak)[1:, 0]
    np.testing.assert_allclose(path, [one.all(each, each) for each in off], rtol=1e-10)


def test_a_few_clients_cost_more_with_errors_too() -> None:
    rng = np.random.default_rng(6)
    general, equal = (proof_runs.posed(rng, 5, 12, 0.5, same=same) for same in (False, True))
    for path in participation_errors.paths(equal, general, square_problems.regression(rng), 0):
        assert participation_orders.excess(path, m=1) > 2 * participation_orders.excess(path, m=3) > 0


# ── Lemmas F.3 to F.5 ──


def _step(one: square_runs.Regression, h: float, eta: float = 0.5) -> square_runs.Step:
    """From g = 0, with an answer that is the same everywhere."""
    zero, answer = np.zeros(one.u.shape), np.full(one.u.shape, h)
    return square_runs.Step(0, 1, eta, zero[0], zero, answer, zero, zero, eta * answer)


def test_the_largest_answer_misses_47_by_hand() -> None:
    one, gamma, found = square_problems.steady(np.random.default_rng(0)), 0.5, Found()
    assert one.B == 1
    square_any.at_own(one, _step(one, 3.0), gamma, found)  # (2 − γ)B/γ
    # ahead is 1.5 − 2, (1 − η) times behind is −1, over the size of both and of B
    assert _worst(found, square_any.INDUCTION) == pytest.approx((-0.5 + 1.0) / (0.5 + 1.0 + 1.0))
    assert _worst(found, square_any.INDUCTION_RIGHT) == pytest.approx(0.0)
    assert _worst(found, square_any.FIRST) == pytest.approx(0.75)
    square_any.at_own(one, _step(one, 3.1), gamma, found)  # no oracle with (14) gives this one
    assert not square_any.INDUCTION_RIGHT.verdict([_worst(found, square_any.INDUCTION_RIGHT)]).holds
    within = Found()
    square_any.at_own(one, _step(one, 2.0), gamma, within)  # B/γ, as Lemma F.2 has it
    assert square_any.INDUCTION.verdict([_worst(within, square_any.INDUCTION)]).holds


def test_the_triangle_needs_step_sizes_of_at_most_1() -> None:
    one, found = square_problems.steady(np.random.default_rng(0)), Found()
    ones = np.ones(one.u.shape)
    for eta, check in ((1.0, square_any.TRIANGLE), (2.0, square_any.TRIANGLE_LONG)):
        after = (1 - eta) * ones + eta * -ones
        step = square_runs.Step(0, 1, eta, ones[0], ones, -ones, ones, ones, after)
        square_any.triangle(one, step, check, found)
        assert np.abs(after).max() <= abs(1 - eta) + eta
    assert _worst(found, square_any.TRIANGLE) <= 1e-12 < _worst(found, square_any.TRIANGLE_LONG)


def test_the_errors_of_a_round_cancel_but_for_the_last() -> None:
    """Σ (h − u) = Δ^K, so that with step sizes 1/(k + 1) the functions stay within B/γ in the first round."""
    rng = np.random.default_rng(7)
    one, gamma, K = square_problems.regression(rng), 0.3, 12
    for make in square_any.makers(rng):
        *_, last = square_runs.algorithm3(one, make(one, gamma, K), 1.0, K, 1)
        np.testing.assert_allclose((K + 1) * last.after, K * one.u + last.residual, atol=1e-12)


def test_lemma_f5_by_hand() -> None:
    one, gamma, found = square_problems.steady(np.random.default_rng(0)), 0.3, Found()
    square_any.in_squares(one, _step(one, (2 - gamma) / gamma), gamma, found)
    near = one.G2 - 2
    assert _worst(found, square_any.GLOBAL) == pytest.approx((2 - gamma) / np.sqrt(near + 2))
    assert _worst(found, square_any.GLOBAL_RIGHT) == pytest.approx((2 - gamma) / np.sqrt(near + 2 * (2 - gamma) ** 2))
    assert _worst(found, square_any.SQUARED) == pytest.approx(
        ((2 - gamma) / 2) ** 2 / (2 + 2 * one.L**2 * one.squares.mean(axis=1).min())
    )


def test_orders_see_a_bound_without_its_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1/γ in the place of 1/γ², or K in the place of K², an exponent passes 0.1."""
    one, rng = square_problems.steady(np.random.default_rng(8)), np.random.default_rng(8)
    room = square_any._room
    square_any.orders((one,), rng, fine := Found())
    monkeypatch.setattr(square_any, "_room", lambda *of: room(*of) * of[1])
    square_any.orders((one,), rng, less := Found())
    for check in (square_any.EACH_ORDER, square_any.MEANT_ORDER):
        assert _worst(fine, check) <= 0.1 < 0.5 < _worst(less, check)
    grown = [max(square_any.spread(square_problems.regression(rng), square_problems.flipped, 0.3, K)) for K in (5, 200)]
    assert grown[1] * 200 > 3 * grown[0] * 5


# ── Appendices D and E, Theorem 4.1 ──


def test_a_fixed_k_has_no_rate() -> None:
    one = proof_runs.posed(np.random.default_rng(9), 5, 12, 0.5, same=True)
    with_root = [proof_errors.level(one, proof_errors.against(one), T) for T in (16, 256)]
    assert with_root[1] < with_root[0] / 4
    ends = []
    for T in (16, 256):
        *_, last = proof_runs.boosted(one, np.zeros(12), proof_errors.against(one), 2.0, 2, T)
        ends.append(float(one.all(last.after.mean(axis=0) - one.best, last.after.mean(axis=0) - one.best)))
    assert ends[1] > ends[0] / 4


def test_drift_grows_with_errors_that_differ() -> None:
    one = proof_runs.posed(np.random.default_rng(10), 5, 12, 0.5, same=True)
    ends = [
        [quotient for t, k, quotient in proof_errors.quotients(one, proof_errors.against(one), True, K) if t and k == K]
        for K in (10, 200)
    ]
    assert all(len(some) == 3 for some in ends)
    assert max(ends[1]) * 200 > 3 * max(ends[0]) * 10  # with K for K² it would grow


def test_with_k_equal_to_t_the_drift_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found()
    remarks._formulas(found)
    for check in (remarks.VANISH, remarks.EQUAL, remarks.STAYS, remarks.SLOWER):
        assert check.verdict([_worst(found, check)]).holds
    whole = theory_bounds.theorem_4_1
    monkeypatch.setattr(remarks, "theorem_4_1", lambda *of: whole(*of) | {"drift": whole(*of)["start"]})
    remarks._formulas(wrong := Found())
    for check in (remarks.EQUAL, remarks.STAYS):
        assert not check.verdict([_worst(wrong, check)]).holds


# ── what inputs add ──


def test_what_tv_adds_is_nothing_else() -> None:
    """With equal inputs nothing; ω² or μ in the place of ω and μ² would be seen."""
    base = proof_radius.Case(0, points=True, errors=False, gamma=1.0)
    quotients, omegas = base.added()
    by_omega = [1 / omega for omega in omegas]
    assert omegas[0] == pytest.approx(0.3 * 0.8)
    assert abs(proof_radius.power(by_omega, quotients)) < 0.05
    squared = [quotient / omega for quotient, omega in zip(quotients, omegas, strict=True)]
    assert proof_radius.power(by_omega, squared) > 0.9
    mus = (4.0, 0.5, 0.1)
    printed = [max(dataclasses.replace(base, mu=mu).added()[0]) / mu for mu in mus]  # the main body's μ
    assert proof_radius.power([1 / mu for mu in mus], printed) > 0.2
    first, omega = base.distance(proof_radius.NONE)
    assert omega < 1e-8
    assert first**2 < 1e-4


def test_both_families_have_their_share() -> None:
    for points in (True, False):
        one = proof_radius.Case(1, points, errors=False, clients=3).posed(0.3)
        np.testing.assert_allclose(one.mass.sum(axis=1), 1)
        assert (one.mass[:, 8:] > 0).all() != points
    assert len(set(proof_radius.settings(proof_radius.Case(1, points=True, errors=True)))) == 8


def test_what_shifts_add_is_nothing_else() -> None:
    base = square_radius.Case(0, constant=True)
    quotients, omegas = base.added()
    assert max(quotients) < 1
    by_omega = [1 / omega for omega in omegas]
    assert square_radius.power(by_omega, quotients) < 0.1
    squared = [quotient / omega**2 for quotient, omega in zip(quotients, omegas, strict=True)]
    assert square_radius.power(by_omega, squared) > 0.5  # the level over ω³
    still = base.posed(0.0)
    np.testing.assert_allclose(still.u, np.tile(still.u[0], (5, 1)), atol=1e-12)
    assert square_radius.Case(0, constant=False, gamma=1.0).off(still) == pytest.approx(0, abs=1e-12)


def test_rates_notice_the_step_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With K = 2 for every T the distance stays, and the exponent is near 0."""

    def short(one: proof_runs.Posed, oracle: proof_runs.Oracle, T: int, numerator: float = 2.0) -> float:
        *_, last = proof_runs.boosted(one, np.zeros(len(one.alpha)), oracle, numerator, 2, T)
        off = last.after.mean(axis=0) - one.best
        return float(one.all(off, off))

    monkeypatch.setattr(proof_errors, "level", short)
    found = Found()
    proof_errors.rates(np.random.default_rng(11), found)
    assert _worst(found, proof_errors.RATES) > -0.2
    assert _worst(found, proof_errors.DIRECT) > -0.2


def test_the_potential_is_that_of_the_distance() -> None:
    rng = np.random.default_rng(12)
    X, a = rng.random((6, 2)), rng.dirichlet(np.ones(6), 2)
    phi = lemmas.potential(X, a[0] - a[1])
    assert (a[0] - a[1]) @ phi == pytest.approx(wasserstein(X, X, *a))
    assert lemmas._slope(phi, X) <= 1 + 1e-9
    found = Found()
    lemmas._sharp(rng, found)
    for check in (lemmas.SHARP, lemmas.SHARP_W1):  # half of either constant would be missed
        assert 0.99 <= _worst(found, check) <= 1 + 1e-9


def test_bounds_that_are_attained() -> None:
    found = Found()
    lemmas._attained(np.random.default_rng(13), found)
    assert _worst(found, lemmas.ATTAINED) == pytest.approx(1, abs=1e-12)
    # the others' extensions are 2B there: the mean is B (1 + 2 · 49)/50, and W_2² is (B/L)² for 49 of 50
    assert _worst(found, lemmas.LOCAL_SHARP) == pytest.approx((99 / 50) ** 2 / (2 * 0.98 + 2))
