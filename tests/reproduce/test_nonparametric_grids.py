"""Su, Xu and Yang (2023): what measures probabilities and rates over σ, N, d and rank, by other means, and wrong
exponents, which must be found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, gamma
from fedsolve.features.exact_kernels import Sobolev
from fedsolve.reproduce.nonparametric import (
    proof_dimensions,
    proof_noise_tails,
    proof_ranks,
    proof_rates,
    remarks_stopping,
    theory_rates,
)
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_coefficients import Rounds, methods
from fedsolve.reproduce.nonparametric.theory_decay import worst
from fedsolve.reproduce.nonparametric.theory_rates import norms, posed, slope


def holds(notes: Notes, quantity: Quantity) -> bool:
    return quantity.verdict(*notes.ends[quantity]).holds is True


# ── Lemma 27 and Theorem 10 ──


@pytest.mark.parametrize("way", ["s = 5", "FedProx"])
def test_the_norm_of_the_noise_is_that_of_the_local_steps(way: str) -> None:
    X, sizes, f = posed(Sobolev(), 24, 0)
    K = Sobolev()(X)
    eta = 0.3 / gamma(K, sizes, 1.0)
    method: Method = LocalSteps(eta, 5) if way == "s = 5" else ProximalStep(eta)
    found, t = Decomposition.of(K, sizes, method), 6
    noise = np.random.default_rng(0).standard_normal((24, 3))
    with_noise, without = (
        simulate(K, sizes, f.predict(X)[:, None] + one, method, t, every=t).coefficients[-1]
        for one in (noise, np.zeros((24, 3)))
    )
    apart = with_noise - without
    squares = proof_noise_tails.norm_weights(found, t) @ np.square(found.inverse @ noise)
    np.testing.assert_allclose(squares, np.sum(apart * (K @ apart), axis=0), rtol=1e-8)
    assert norms(without, X, f).max() <= f.norm


def test_the_probability_has_its_exponent_and_no_other() -> None:
    """Shares exp(−0.2 N/(σ²u)) hold, those of a power of it do not."""
    draws = 100_000
    for power, expected in ((1.0, True), (0.5, False)):
        notes = Notes()
        for exponent in (10.0, 20.0, 40.0):
            share = math.exp(-0.2 * 10 * (exponent / 10) ** power)
            above = np.arange(draws) < round(share * draws)
            notes.add(proof_noise_tails.QUARTER, proof_noise_tails.counted(above, exponent))
        assert (notes.ends[proof_noise_tails.QUARTER][0] > 0.15) == expected


def test_a_share_of_few_draws_is_not_counted() -> None:
    assert proof_noise_tails.counted(np.arange(4000) < 9, 5.0) == 0
    assert proof_noise_tails.counted(np.arange(4000) < 10, 5.0) == pytest.approx(math.log(400) / 5)


def test_rounds_are_left_out_where_T_is_0() -> None:
    X, sizes, _ = posed(Sobolev(), 24, 0)
    K = Sobolev()(X)
    found = Decomposition.of(K, sizes, LocalSteps(0.9 / gamma(K, sizes, 1.0), 10))
    assert {sigma for sigma, _ in proof_noise_tails.times(found)} <= {0.1}
    assert all(t >= 1 for _, t in proof_noise_tails.times(found))
    assert all(T >= 1 for _, _, T, _ in remarks_stopping.stopped(0))
    assert theory_rates._slope([1, 2, 4, 8], [math.nan, 2.0, 4.0, 8.0]) == pytest.approx(1.0)


# ── after Theorem 8 ──


def test_the_closed_form_is_the_error_of_the_rounds() -> None:
    total, t = 12, 5
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((total, total)))[0]
    lam = np.arange(1.0, total + 1) ** -2.0
    K = total * (U * lam) @ U.T
    method = LocalSteps(proof_rates.ETA)
    bias, variance = proof_rates.parts(lam, t)
    found = Decomposition.of(K, (total,), method)
    assert bias + 0.25 * variance == pytest.approx(worst(found, K, t, 0.5))


@pytest.mark.parametrize("beta", [1, 2])
def test_another_rate_is_found(beta: int) -> None:
    """An error in N^(−(2β − 0.4)/(2β + 1)) fails, in N and in σ."""
    some = [800, 3200, 12_800, 51_200]
    wrong = [total ** (-(2 * beta - 0.4) / (2 * beta + 1)) / proof_rates.unit(beta, 1.0, total) for total in some]
    notes = Notes()
    notes.add(proof_rates.IN_ROWS, slope(some, wrong))
    assert not holds(notes, proof_rates.IN_ROWS)
    noises = (0.1, 0.5, 1.0)
    linear = [sigma / proof_rates.unit(beta, sigma, 800) for sigma in noises]
    notes.add(proof_rates.IN_NOISE, slope([one**-2 for one in noises], linear))
    assert not holds(notes, proof_rates.IN_NOISE)


# ── Theorems 11 and 12 ──


def test_the_worst_start_of_theorem_12_is_the_slowest_direction() -> None:
    X = proof_dimensions.rows(np.random.default_rng(1), 60, 6)
    for method in methods(X):
        made = Rounds.of(X, method)
        values, vectors = np.linalg.eigh((made.A + made.A.T) / 2)
        assert np.linalg.norm(made.A, 2) == pytest.approx(values[-1])
        moved = np.linalg.matrix_power(made.A, 7) @ vectors[:, -1]
        assert moved @ moved == pytest.approx(values[-1] ** 14)


def test_a_variance_of_another_order_is_found() -> None:
    """σ²κd/N without ρ_N, or with d², is outside of 0.2/κ to 1."""
    notes = Notes()
    X = proof_dimensions.rows(np.random.default_rng(1), 480, 48)
    proof_dimensions._expected(Rounds.of(X, methods(X)[0]), notes)
    assert holds(notes, proof_dimensions.LEVEL)
    assert holds(notes, proof_dimensions.GRID)
    level = notes.ends[proof_dimensions.LEVEL][1]
    notes.add(proof_dimensions.LEVEL, level * 48)
    assert not holds(notes, proof_dimensions.LEVEL)


def test_shares_that_do_not_fall_with_d_are_found() -> None:
    notes, dimensions = Notes(), np.array(proof_dimensions.DIMENSIONS)
    notes.add(proof_dimensions.SCALED, -math.log(0.01) / dimensions)
    notes.add(proof_dimensions.IN_D, 0.0)
    assert holds(notes, proof_dimensions.SCALED)
    assert not holds(notes, proof_dimensions.IN_D)
    notes.add(proof_dimensions.SCALED, 0.5 * np.log(dimensions) / dimensions)
    assert not holds(notes, proof_dimensions.SCALED)


def test_theorem_11_at_its_end_is_the_projection_on_the_features() -> None:
    """With s = 1 the last variance is σ²d/N, so that its bound without d fails."""
    K, found, d = next(proof_ranks.cases(np.random.default_rng(0)))
    last = worst(found, K, 10**6, 1.0)
    assert last == pytest.approx(d / len(K))
    notes = Notes()
    notes.add(proof_ranks.END, last / (d**2 / len(K)))
    assert not holds(notes, proof_ranks.END)
