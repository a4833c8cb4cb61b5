"""What `nonparametric-ranges` measures with: against rounds, hand computations and other means."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.reproduce.nonparametric import (
    ranges_filtered,
    ranges_kernels,
    ranges_linear,
    ranges_networks,
    ranges_others,
    ranges_spectra,
)
from fedsolve.reproduce.nonparametric.quantities import Notes
from fedsolve.reproduce.nonparametric.remarks_kernels import delta_1
from fedsolve.reproduce.nonparametric.theory_coefficients import Rounds


def test_the_rounds_by_hessians_are_those_by_rows() -> None:
    """𝓛, θ̄, the limit and every E‖θ_t − θ̄‖², with clients that have fewer rows than dimensions."""
    rng = np.random.default_rng(0)
    X = ranges_filtered.rows(rng, (3, 1, 20, 9), 5, 0.3, 1.0)
    truths = rng.standard_normal((4, 5))
    for one in ranges_filtered.Filtered.of(X):
        made = Rounds.of(X, one.method)
        np.testing.assert_allclose(np.eye(5) - one.method.step_size * one.moves, made.A, atol=1e-12)
        np.testing.assert_allclose(one.centre(truths), made.centre(truths), atol=1e-9)
        assert one.kappa == pytest.approx(made.kappa)
        assert one.rho == pytest.approx(made.rho)
        bias, variance = ranges_linear.parts(one)
        for place in (0, 4, 99):
            t = int(ranges_kernels.TIMES[place])
            assert bias[place] == pytest.approx(np.linalg.norm(made.A, 2) ** (2 * t), rel=1e-9)
            assert variance[place] == pytest.approx(np.square(made.summed(t) @ made.C).sum(), rel=1e-7)
        assert one.limit() == pytest.approx(variance[-1], rel=1e-6)


def test_a_wrong_bound_is_found() -> None:
    """(25) with half of its noise, or a rate that is twice as fast, fails where s = 1 has equality."""
    X = ranges_filtered.rows(np.random.default_rng(1), (200, 300), 4, 1.0, 1.0)
    one = next(ranges_filtered.Filtered.of(X))
    rate, noise = one.pace * one.rho / one.kappa, one.kappa * 4 / (one.samples * one.rho)
    assert ranges_linear.share(one, rate, noise) <= 1 + 1e-9
    assert ranges_linear.share(one, rate, noise / 2) > 1
    assert ranges_linear.share(one, min(2 * rate, 0.99), noise) > 1


def test_the_widest_gap_is_the_largest_distance() -> None:
    assert ranges_linear.widest(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])) == 5.0


def test_the_deltas_of_a_kernel() -> None:
    """Against one t at a time, and the printed 1/(2ηts), which is e times the bound that is tested."""
    rng = np.random.default_rng(2)
    case = next(ranges_kernels.cases(rng, (12,)))
    first, second = ranges_kernels.deltas(case.found, ranges_kernels.TIMES)
    for place in (0, 7, 120):
        t = int(ranges_kernels.TIMES[place])
        assert first[place] == pytest.approx(delta_1(case.found, t))
        assert second[place] == pytest.approx(np.square(1 - case.found.decay**t).mean())
    assert case.f @ np.linalg.solve(case.K + 1e-9 * np.eye(12), case.f) == pytest.approx(1, rel=1e-3)
    assert list(ranges_kernels.TIMES[:100]) == list(range(1, 101))
    assert ranges_kernels.TIMES[-1] == 10**6


def test_a_matrix_without_local_steps_is_no_round() -> None:
    """With s = 1 P is I, and the comparison would find no difference."""
    notes = Notes()
    K = ranges_kernels.kernels(np.random.default_rng(3), 20)["min(x, y)"]
    ranges_spectra._rounds(K, (10, 1, 5, 4), np.random.default_rng(4), notes)
    assert notes.ends[ranges_spectra.HAS_P][1] < 1e-12 < 0.01 < notes.ends[ranges_spectra.NEEDS_P][0]


def test_local_sgd_with_one_step_is_its_expectation() -> None:
    """After τ steps of one client with d = 4: E‖θ‖² by the recursion of the second moments."""
    moments, scales, noise = np.ones((4, 4)), np.linspace(0.5, 1, 4), ranges_others.SIGMA**2
    S = np.diag(scales)
    for step in range(1, 31):
        eta = 4 / (0.5 * (100 + step))
        quartic = 2 * S @ moments @ S + np.trace(S @ moments) * S  # E[xxᵀ M xxᵀ] of Gaussian x
        moments = moments - eta * (S @ moments + moments @ S) + eta**2 * (quartic + noise * S)
    found = ranges_others.local_sgd(np.random.default_rng(5), 1, 20_000, (30,))
    assert found[0] == pytest.approx(np.trace(moments), rel=0.05)


def test_the_mixture_of_two_estimators() -> None:
    """Of independent errors it is a half; where a client is alone there is nothing to mix."""
    rng = np.random.default_rng(6)
    X = ranges_filtered.rows(rng, (40, *(400,) * 30), ranges_others.D, 1.0, 1.0)
    few = Rounds.of(X, next(ranges_filtered.Filtered.of(X)).method)
    assert ranges_others.mixture(few) == pytest.approx(0.5, abs=0.02)
    assert ranges_others.mixture(Rounds.of([X[0]], few.method)) == pytest.approx(1)


def test_a_wide_network_is_its_kernel() -> None:
    found = [ranges_networks.network(np.random.default_rng(7), width, 5, 3) for width in (64, 16_384)]
    assert found[1] < 0.1 < 3 * found[0]
    assert found[1] < found[0] / 4


def test_the_eight_directions_of_a_class() -> None:
    own, others = ranges_networks.images()
    assert own.shape == (10,)
    assert others.shape == (10, 9)
    assert (own < others.min(axis=1)).all()
    assert (own > 0.01).all()


def test_the_condition_number_comes_near_kappa() -> None:
    """It is κ where γ is small or eigenvalues go down to 0, and far below it where they do not."""
    notes = Notes()
    K = ranges_kernels.kernels(np.random.default_rng(8), 20)["min(x, y)"]
    ranges_spectra._spectra(K, (10, 1, 5, 4), notes)
    low, high = notes.ends[ranges_spectra.SPECTRA]
    assert 0 < low < 0.5 < 0.99 < high <= 1 + 1e-9


def test_what_is_stable_and_what_is_not() -> None:
    """One client with H = I: 1/(1 + γ) for FedProx, and (1 − γ)^100 for FedAvg."""
    notes = Notes()
    ranges_spectra._stability([np.sqrt(12) * np.eye(12)], notes)
    assert notes.ends[ranges_spectra.STABLE] == pytest.approx((1 / 1001, 1 / 1.5))
    assert notes.ends[ranges_spectra.DIVERGES][0] == pytest.approx(1.5**100)
