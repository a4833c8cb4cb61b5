"""`nonparametric-proofs` and `nonparametric-remarks`: what they measure with, against other means."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from fedsolve.closed_forms.linear_path import linear_path
from fedsolve.closed_forms.methods import LocalSteps, ProximalStep
from fedsolve.numerics.early_stopping import rademacher
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.nonparametric import (
    proof_coefficients,
    proof_converses,
    proof_designs,
    proof_finite_rank,
    proof_gain_bounds,
    proof_gains,
    proof_moments,
    proof_noise_tails,
    proof_population,
    proof_prediction,
    proof_recursion,
    proof_spectra,
    proof_tails,
    remarks_gains,
    remarks_kernels,
    remarks_linear,
    remarks_norms,
    remarks_orders,
    remarks_rows,
    remarks_steps,
    remarks_stopping,
    sentences,
)
from fedsolve.reproduce.nonparametric.figure6 import kappas
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity, identity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D, Rounds

NOT_SO = {  # what is known not to hold, in every seed
    "nonparametric-proofs": {
        proof_spectra.ONE_N_TOO_MANY.claim,
        proof_spectra.WRONG_G.claim,
        proof_spectra.LOST_PRODUCT.claim,
        proof_prediction.SCALAR_PRINTED.claim,
        proof_prediction.PRINTED_T.claim,
        proof_tails.SMALLER.claim,
        proof_tails.MARGIN.claim,
        proof_moments.CASES.claim,
        proof_population.VARIABLES.claim,
        proof_population.UNIFORM.claim,
        proof_population.ONE_MORE.claim,
        proof_population.ROOT.claim,
        proof_coefficients.NO_DIFFERENCE.claim,
        proof_coefficients.NO_INTERPOLANT.claim,
        proof_designs.PROJECTED.claim,
        proof_designs.SQUARE_SIZE.claim,
        proof_gains.FANO.claim,
        proof_gain_bounds.ORDER.claim,
        proof_finite_rank.ANY_NOISE.claim,
    },
    "nonparametric-remarks": {
        remarks_kernels.WIDE.claim,
        remarks_kernels.HILBERT.claim,
        remarks_norms.STRICTLY_D.claim,
        remarks_linear.ROUNDS.claim,
        remarks_linear.FACTOR.claim,
        remarks_steps.BY_KAPPA.claim,
        remarks_steps.BY_KAPPA_AT_T.claim,
        remarks_stopping.ALWAYS_ONE.claim,
        remarks_gains.INTERPOLATES.claim,
        remarks_rows.LENGTH.claim,
        remarks_orders.TOO_LATE.claim,
    },
}
BY_DRAWS = {
    one.claim for one in (proof_tails.EXPONENTIAL, proof_tails.RATE, proof_tails.VANISHES, proof_noise_tails.REACHED)
}


@pytest.mark.parametrize("name", NOT_SO)
def test_quick(name: str) -> None:
    """All but the shares of draws is the same in the quick form, where what does not hold is open."""
    outcome = perform(find(name), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    left = {claim for claim, verdict in outcome.result.claims if verdict.holds is not True}
    assert NOT_SO[name] <= left <= NOT_SO[name] | BY_DRAWS
    claims = [claim for claim, _ in outcome.result.claims]
    assert len(claims) == len(set(claims))


# ── quantities ──


def test_a_quantity_holds_within_its_limits() -> None:
    one = Quantity("here", "a claim", "the ratio", 0.9, 1.1)
    assert one.verdict(0.95, 1.0).holds
    assert one.verdict(0.95, 1.0).said == "the ratio: 0.95 to 1"
    assert one.verdict(1.0, 1.1).holds
    assert not one.verdict(0.89, 1.0).holds
    assert not one.verdict(1.0, 1.11).holds
    assert not one.verdict(math.nan, 1.0).holds
    assert one.rule == "0.9 to 1.1"
    assert Quantity("here", "b", "x", least=2).rule == "≥ 2"
    assert identity("here", "c").verdict(1e-17, 3e-16).said == "largest difference: 3.00e-16"
    assert Quantity("here", "d", "least x", least=0).verdict(0.5, 7).said == "least x: 0.5"


def test_notes_keep_both_ends_and_what_is_no_number() -> None:
    notes, one, two = Notes(), identity("here", "a"), identity("here", "b")
    notes.add(one, 3.0, np.array([[1.0, 7.0]]))
    notes.add(one, 2.0)
    assert notes.ends[one] == (1.0, 7.0)
    notes.add(two, 1.0, math.nan)
    assert math.isnan(notes.ends[two][1])
    assert not two.verdict(*notes.ends[two]).holds
    notes.same(one, np.array([2.0, 4.0]), np.array([2.0, -4.0]))
    assert notes.ends[one] == (1.0, 7.0)  # 8/4 is between


# ── operators ──


@pytest.mark.parametrize("method", [LocalSteps(0.2, 4), ProximalStep(0.2)], ids=str)
def test_a_client_s_operators_are_a_round_of_one_client(method: LocalSteps | ProximalStep) -> None:
    rng = np.random.default_rng(0)
    X, y, start = rng.standard_normal((7, D)), rng.standard_normal(7), rng.standard_normal(D)
    local = proof_recursion.Local(X, method)
    moved = linear_path([X], [y], method, 1, start=start)[-1]
    np.testing.assert_allclose(local.whole @ start + local.psi @ y, moved, rtol=1e-12, atol=1e-13)


def test_the_variance_of_the_limit_is_that_of_draws() -> None:
    """4,000 draws: within five standard errors."""
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((n, D)) for n in (20, 9, 30)]
    made = Rounds.of(X, LocalSteps(0.05, 5))
    noise = SIGMA * rng.standard_normal((59, 4000))
    ends = np.linalg.solve(np.eye(D) - made.A, made.C @ noise)
    squares = np.square(ends).sum(axis=0)
    assert abs(squares.mean() - proof_designs.variance(made)) <= 5 * squares.std() / math.sqrt(4000)


def test_the_printed_closed_form_is_where_the_rounds_end() -> None:
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((n, 3)) for n in (9, 2, 20)]
    y = [rng.standard_normal(len(rows)) for rows in X]
    end = linear_path(X, y, LocalSteps(0.1, 4), 600)[-1]
    np.testing.assert_allclose(remarks_linear.closed_form(X, y, 0.1, 4), end, rtol=1e-9)


def test_the_dissimilarity_is_the_largest_ratio_over_all_models() -> None:
    X = np.random.default_rng(3).standard_normal((9, 2, 3))

    def less(theta: np.ndarray) -> float:
        each = np.array([rows.T @ rows @ theta / 2 for rows in X])
        return -float(np.square(each).sum(axis=1).mean() / np.square(each.mean(axis=0)).sum())

    starts = np.random.default_rng(4).standard_normal((10, 3))
    found = max(-optimize.minimize(less, one, tol=1e-12).fun for one in starts)
    assert remarks_linear.needed(X) == pytest.approx(math.sqrt(found), rel=1e-5)


# ── populations and tails ──


def test_the_eigenfunctions_of_the_kernel() -> None:
    """∫ min(x, z) φ(z) dz = μ φ(x)."""
    mu = proof_population.eigenvalues(4)
    for index in range(4):
        for x in (0.2, 0.9):
            left = integrate.quad(
                lambda z, x=x, i=index: min(x, z) * proof_population.eigenfunctions(np.array([z]), 4)[0, i],
                0,
                1,
                points=[x],
            )[0]
            expected = mu[index] * proof_population.eigenfunctions(np.array([x]), 4)[0, index]
            assert left == pytest.approx(expected, abs=1e-9)


def test_the_critical_radius_solves_its_equation() -> None:
    lam = proof_population.eigenvalues(5000)
    epsilon = proof_population.radius(lam, 300.0, 0.5)
    assert rademacher(lam, epsilon, 300) == pytest.approx(epsilon**2 / (math.sqrt(2 * math.e) * 0.5), rel=1e-10)


def test_the_share_of_draws_above_the_mean() -> None:
    """With Q = I and Gaussian noise it is the tail of a χ² distribution."""
    made = proof_tails.Stopped(np.eye(6), 1.0, 1.0, 1.0)
    noise = SIGMA * np.random.default_rng(5).standard_normal((6, 200_000))
    share = made.exceeding(noise, np.array([SIGMA**2 * 4]))[0]
    assert share == pytest.approx(stats.chi2(6).sf(10), abs=4 * math.sqrt(0.12 / 200_000))


def test_kappa_of_the_polynomials_by_hand() -> None:
    """At x = −1 six monomials of size 1: ‖K‖ = 6, γ = 0.6."""
    found = kappas()
    assert found["s = 1"] == pytest.approx(1)
    assert found["s = 10"] == pytest.approx(6 / (1 - 0.4**10))
    assert found["FedProx"] == pytest.approx(1.6)


def test_what_one_client_does_at_the_limit() -> None:
    """With one step a client moves by η n_i/N times its own gradient; all together do not move."""
    rng = np.random.default_rng(9)
    X, truths = [rng.standard_normal((n, 3)) for n in (6, 1, 9)], rng.standard_normal((3, 3))
    made = Rounds.of(X, LocalSteps(0.05))
    centre = made.centre(truths)
    by_hand = [0.05 / 16 * rows.T @ rows @ (truth - centre) for rows, truth in zip(X, truths, strict=True)]
    found = sentences.deviations(made, truths)
    np.testing.assert_allclose(found, by_hand, atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-14)
    row = X[1][0]
    assert sentences.distances(made, truths)[1] == pytest.approx(abs(row @ truths[1] / (row @ centre) - 1))


def test_sentences_hold_with_one_seed() -> None:
    """All but those about 100 trials, of which the quick form has five, and one that never does."""
    claims = perform(find("nonparametric-sentences"), quick=True, seeds=1).result.claims
    left_out = {sentences.OBSTACLE.claim, sentences.TYPICAL.claim, sentences.COVERED.claim}
    never = {sentences.DEFINED.claim}
    assert never <= {said for said, one in claims if not one.holds} <= left_out | never
    assert len(claims) == len(sentences.QUANTITIES)


# ── converses ──


def test_moments_of_the_noise_are_those_by_integration() -> None:
    for law, powers in proof_converses.laws():
        assert law.var() == pytest.approx(1)
        for p in powers:
            whole = integrate.quad(lambda x, law=law, p=p: x**p * law.pdf(x), *law.support(), limit=200)[0]
            assert law.moment(p) == pytest.approx(whole, rel=1e-4)


def test_a_limit_elsewhere_is_noticed() -> None:
    X, method, rng = next(iter(proof_recursion.clients(0)))
    made, right, wrong = Rounds.of(X, method), Notes(), Notes()
    truths, f = rng.standard_normal((len(X), D)), rng.standard_normal(D)
    proof_converses._limit(made, truths, f, right)
    assert right.ends[proof_converses.SAME][1] <= 1e-10
    assert right.ends[proof_converses.APART][0] >= 1
    shortened = replace(made, X=[0.5 * rows for rows in X])  # Δ_f of other rows than the rounds are of
    proof_converses._limit(shortened, truths, f, wrong)
    assert wrong.ends[proof_converses.SAME][1] > 1e-3
