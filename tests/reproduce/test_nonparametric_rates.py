"""Corollaries 23 and 24 and the claim of Theorem 17 (Su, Xu and Yang, 2023): what measures them, by other means,
and rates or risks of another order, which must be found."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, ProximalStep
from fedsolve.reproduce.nonparametric import (
    proof_finite_rank,
    proof_gains,
    proof_polynomial_decay,
    proof_shares,
    proof_subspace_risks,
)
from fedsolve.reproduce.nonparametric.gain_risks import bayes_risk
from fedsolve.reproduce.nonparametric.proof_finite_rank import NOISES, RANKS, SIZES, Setting
from fedsolve.reproduce.nonparametric.proof_population import eigenvalues, radius
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.stopped_features import clients_of, runs
from fedsolve.reproduce.nonparametric.theory_coefficients import D
from fedsolve.typing import Array

KAPPAS = (1.0, 4.5, 18.0)


def holds(notes: Notes, quantity: Quantity) -> bool:
    return quantity.verdict(*notes.ends[quantity]).holds is True


# ── runs that stop at T ──


@pytest.mark.parametrize("place", range(4))
def test_the_error_at_T_is_that_of_the_steps(place: int) -> None:
    """Every local step is taken, once for f* and once for each row's noise; f_T is linear in both."""
    rng, N, r, sigma = np.random.default_rng(0), 40, 3, 0.2
    x = rng.random(N)
    Phi = proof_finite_rank.powers(x, r)
    points, weights = np.polynomial.legendre.leggauss(6)
    there, weights = proof_finite_rank.powers((points + 1) / 2, r), weights / 2
    values, vectors = np.linalg.eigh(proof_finite_rank.gram("powers", r))
    run = list(runs(Phi, clients_of(N), (vectors * np.sqrt(values)) @ vectors.T))[place]
    T = run.stop(sigma)
    assert (place == 2) == (T == 0) or T > 0

    def left(y: Array, truth: Array) -> Array:
        path = simulate(Phi @ Phi.T, clients_of(N), y, run.method, T)
        return (there @ (Phi.T @ path.coefficients[-1]) - truth) * np.sqrt(weights)[:, None]

    noise = float(np.square(left(np.eye(N), np.zeros((6, 1)))).sum())
    worst = float(np.linalg.norm(left(Phi, there), 2)) ** 2  # of all θ* of norm 1
    expected, drawn = run.errors(sigma, 20_000, np.random.default_rng(1))
    assert expected == pytest.approx(worst + sigma**2 * noise, rel=1e-8)
    assert abs(drawn.mean() - expected) <= 5 * drawn.std() / math.sqrt(len(drawn)) + 1e-12


def test_the_methods_are_the_paper_s() -> None:
    rng = np.random.default_rng(2)
    Phi = proof_finite_rank.legendre(rng.random(64), 4)
    found = [run.method for run in runs(Phi, clients_of(64), np.eye(4))]
    assert [type(one) for one in found] == [LocalSteps] * 3 + [ProximalStep]
    assert [one.steps for one in found] == [1, 5, 20, 1]
    steepest = max(np.linalg.norm(one, 2) ** 2 / len(one) for one in np.split(Phi, np.cumsum(clients_of(64))[:-1]))
    assert all(one.step_size * steepest == pytest.approx(0.9) for one in found)


@pytest.mark.parametrize("name", ["Legendre", "powers"])
def test_the_kernels_have_their_rank_and_are_at_most_one(name: str) -> None:
    x = np.linspace(0, 1, 2001)
    for r in RANKS:
        Phi = proof_finite_rank.KERNELS[name](x, r)
        assert np.linalg.matrix_rank(Phi, tol=1e-9) == r
        assert np.square(Phi).sum(axis=1).max() == pytest.approx(1.0)
        middle = (Phi[1:] + Phi[:-1]) / 2
        np.testing.assert_allclose(middle.T @ middle / 2000, proof_finite_rank.gram(name, r), atol=1e-4)
    if name == "Legendre":
        np.testing.assert_allclose(proof_finite_rank.gram(name, 5), np.eye(5) / 25, atol=1e-14)


# ── rates of another order ──


def settings() -> list[Setting]:
    return [("Legendre", N, r, sigma, kappa) for N, r, sigma, kappa in product(SIZES, RANKS, NOISES, KAPPAS)]


def judged(errors: dict[Setting, float]) -> Notes:
    notes = Notes()
    ratios = {one: error / (one[4] * one[3] ** 2 * one[2] / one[1]) for one, error in errors.items()}
    none = dict.fromkeys(errors, 0.0)
    proof_finite_rank.judge(ratios, none, {one: math.exp(-one[2]) for one in errors}, notes)
    return notes


def test_the_bound_itself_passes() -> None:
    notes = judged({one: one[4] * one[3] ** 2 * one[2] / one[1] for one in settings()})
    for quantity in (proof_finite_rank.ONE_CONSTANT, proof_finite_rank.NO_GROWTH, proof_finite_rank.EXPONENTIAL):
        assert holds(notes, quantity)


@pytest.mark.parametrize(
    "power",
    [(0.8, 1, 2, 1), (1, 1.5, 2, 1), (1, 1, 1, 1), (1, 1, 2, 1.5)],
    ids=["N^-0.8", "r^1.5", "sigma", "kappa^1.5"],
)
def test_another_power_is_found(power: tuple[float, float, float, float]) -> None:
    n, rank, noise, kappa = power
    notes = judged({one: one[1] ** -n * one[2] ** rank * one[3] ** noise * one[4] ** kappa for one in settings()})
    assert not holds(notes, proof_finite_rank.NO_GROWTH)


def test_a_share_that_does_not_fall_is_found() -> None:
    notes, some = Notes(), settings()
    proof_finite_rank.judge(dict.fromkeys(some, 1.0), dict.fromkeys(some, 0.02), dict.fromkeys(some, 0.02), notes)
    assert not holds(notes, proof_finite_rank.PROBABLE)
    assert not holds(notes, proof_finite_rank.EXPONENTIAL)


def test_unseen_directions_leave_an_error_that_noise_does_not_explain() -> None:
    """Half of 8 flat directions are unseen by 4 rows: the error is that of f*, 1/64, however small σ is."""
    rng = np.random.default_rng(3)
    found = proof_finite_rank.ratios("Legendre", 8, 4, (0.001,), rng, (3, 1))
    for (sigma, kappa, _), (expected, _) in found.items():
        assert expected * kappa * sigma**2 * 8 / 4 == pytest.approx(1 / 64, rel=0.2)


def test_with_16_rows_a_direction_is_not_learned_and_then_noisy() -> None:
    """At σ = 0.01 the bias of the worst f* is nearly all of the error, at 0.001 the noise."""
    rng, shares = np.random.default_rng(6), []
    root = np.eye(8) / 8
    for _ in range(20):
        run = next(runs(proof_finite_rank.legendre(rng.random(16), 8), clients_of(16), root))
        parts = [(sigma, *run.parts(run.stop(sigma))) for sigma in (0.01, 0.001)]
        shares.append([bias @ bias / (bias @ bias + s**2 * np.square(spread).sum()) for s, bias, spread in parts])
    early, late = np.median(shares, axis=0)
    assert early > 0.9
    assert late < 0.1


@pytest.mark.parametrize(("in_rows", "in_noise"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)])
def test_exponents_of_another_rate_are_found(in_rows: float, in_noise: float) -> None:
    notes = Notes()
    table = {
        (total, sigma, name): total**in_rows * sigma ** (-2 * in_noise)
        for total, sigma, name in product(proof_polynomial_decay.TOTALS, NOISES, ("FedAvg 1", "FedProx 1"))
    }
    proof_polynomial_decay.exponents(table, notes)
    assert holds(notes, proof_polynomial_decay.EXPONENTS) == (in_rows == in_noise == 0)


def test_the_constants_are_those_of_the_proofs() -> None:
    """ε̄_N² is at most 2eσ²r/N, and for min(x, y) at most 3.63 (σ²/N)^(2/3); Theorem 8 has 3/e of it."""
    assert 2 * 3 / math.e * 2 * math.e == pytest.approx(proof_finite_rank.ONE_CONSTANT.most)
    mu = eigenvalues(10**5)
    for total, sigma in product((50, 3200, 10**6), NOISES):
        level = radius(mu, total, sigma) ** 2
        assert level <= (8 * math.e / math.pi * sigma**2 / total) ** (2 / 3)
    most = 2 * 3 / math.e * (8 * math.e / math.pi) ** (2 / 3)
    assert most == pytest.approx(proof_polynomial_decay.ONE_CONSTANT.most, rel=0.01)


# ── subspaces, and shares of draws ──


@pytest.mark.parametrize("missing", ["unseen", "noise"])
def test_a_risk_without_one_of_the_terms_is_found(missing: str) -> None:
    """Of rows of full rank (1 − r/d)B² is nothing; of rows in one column σ²d/n_j is little."""
    notes = Notes()
    for r, own, norm in product((1, 12), (30, 600), (1.0, 3.5)):
        risk = min(0.25 * D / own, norm**2) if missing == "unseen" else (1 - r / D) * norm**2
        proof_subspace_risks.judge(own, r, norm, risk, risk, notes)
    assert not holds(notes, proof_subspace_risks.LOCAL)
    assert not holds(notes, proof_subspace_risks.ANY)


def test_rows_in_a_subspace_leave_the_rest_unseen() -> None:
    rows = proof_gains.subspace_rows(np.random.default_rng(4), 5000, 3)
    assert np.count_nonzero(np.abs(rows).sum(axis=0)) == 3
    assert np.square(rows).sum(axis=1).mean() == pytest.approx(D, rel=0.05)
    assert bayes_risk(rows, 2.0) == pytest.approx((1 - 3 / D) * 4, rel=0.01)


def test_too_few_rows_fail() -> None:
    rng = np.random.default_rng(5)
    assert all(proof_shares.independent(rng, D)[0] for _ in range(5))
    assert not any(any(proof_shares.independent(rng, 80 * D)) for _ in range(5))
    assert proof_shares.away(rng, 3, 2) > 0.5
    assert proof_shares.away(rng, D, 2) == pytest.approx(0.0, abs=1e-12)
