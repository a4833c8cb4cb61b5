"""`fedlrgd-remarks`: what it measures with, against answers known by other means, and on inputs that are wrong."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fedlrgd import (
    remarks,
    remarks_algorithm,
    remarks_clients,
    remarks_counts,
    remarks_descent,
    remarks_learning,
    remarks_matrices,
    remarks_minimum,
    remarks_nets,
    remarks_scaling,
    remarks_secrets,
    remarks_smoothness,
    remarks_times,
    remarks_units,
    remarks_wide,
)
from fedsolve.reproduce.fedlrgd.cost_problem import posed
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU

NOT_SO = {  # in every seed
    check.claim
    for check in (
        remarks_learning.GAIN,
        remarks_secrets.SECRET,
        remarks_secrets.SINGLE,
        remarks_smoothness.PRINTED,
        remarks_matrices.RIDGE,
        remarks_matrices.APPROXIMATE,
        remarks_times.PRINTED,
        remarks_algorithm.INDEXED,
        remarks_clients.HALF,
        remarks_counts.RANKS,
        remarks_counts.ROUNDS,
        remarks_counts.INVERSES,
        remarks_wide.USEFUL,
        remarks_scaling.WHOLE,
        remarks_scaling.LINEAR,
    )
}
BY_DRAWS = {
    one.claim for one in (remarks_learning.APART, remarks_clients.FAR, remarks_clients.COMPACT, remarks_clients.STARTS)
}


def test_quick() -> None:
    outcome = perform(find("fedlrgd-remarks"), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    assert len({check.claim for check in remarks.CHECKS}) == len(remarks.CHECKS) == len(outcome.result.claims)
    left = {claim for claim, verdict in outcome.result.claims if verdict.holds is not True}
    assert NOT_SO <= left <= NOT_SO | BY_DRAWS


# ── functions ──


@pytest.mark.parametrize("eta", remarks_smoothness.ETAS)
def test_the_constant_of_a_kink_is_the_least(eta: float) -> None:
    """It is reached at 0, or across it."""
    order = math.floor(eta)
    t = np.array([1e-3, -1e-3, 0.0])
    found = remarks_smoothness.derivative(eta, order, t)
    apart = [abs(found[i] - found[j]) / abs(t[i] - t[j]) ** (eta - order) for i, j in ((0, 1), (0, 2))]
    assert max(apart) == pytest.approx(remarks_smoothness.constant(eta), rel=1e-9)
    step = 1e-6
    ahead, behind = (np.abs(0.3 + s * step) ** eta for s in (1, -1))
    assert remarks_smoothness.derivative(eta, 1, np.array(0.3)) == pytest.approx((ahead - behind) / (2 * step))


@pytest.mark.parametrize("relu", [False, True])
def test_partial_derivatives_of_a_network(relu: bool) -> None:
    rng = np.random.default_rng(0)
    layers, x = [rng.standard_normal(shape) for shape in ((5, 8), (8, 8), (8, 3))], rng.random((4, 5))

    def loss(first: np.ndarray) -> np.ndarray:
        values = x
        for W in (first, layers[1]):
            t = values @ W
            values = np.maximum(t, 0) if relu else 1 / (1 + np.exp(-t))
        out = values @ layers[2]
        return np.asarray(np.log(np.exp(out).sum(axis=1)) - out[:, 0])

    step = np.zeros((5, 8))
    step[0, 0] = 1e-6
    expected = (loss(layers[0] + step) - loss(layers[0] - step)) / 2e-6
    np.testing.assert_allclose(remarks_units.partial(x, layers, relu), expected, atol=1e-7)


def test_differences() -> None:
    t = np.arange(20.0)
    np.testing.assert_allclose(remarks_units._difference(t**3, 3, 2), 6 * 2**3)


# ── descent ──


def test_steps_of_gradient_descent() -> None:
    """One curvature of 1: one step."""
    assert remarks_descent._steps(1.0, 1e-9, lambda theta, _, H: theta - H * theta) == 1
    counts = [remarks_descent._steps(10.0, share, lambda theta, _, H: theta - H * theta) for share in (1e-5, 1e-10)]
    assert counts[0] < counts[1] < 3 * counts[0]


def test_the_slope_is_that_of_the_mean_loss() -> None:
    slope, L_1 = remarks_minimum.gradient_of(posed("different", 0))
    best, _ = posed("different", 0).solved
    assert np.linalg.norm(slope(best)) < 1e-9
    rng = np.random.default_rng(0)
    pairs = 3 * rng.standard_normal((50, 2, 2))
    assert all(np.linalg.norm(slope(a) - slope(b)) <= L_1 * np.linalg.norm(a - b) for a, b in pairs)


def test_clients_of_one_distribution_have_no_bias() -> None:
    """Ten standard errors are not reached by chance, and one client of another distribution is seen."""
    rng = np.random.default_rng(1)
    assert remarks_learning._bias(rng, [(2.0, 2.0)] * 10) < 5
    assert remarks_learning._bias(rng, [(2.0, 2.0)] * 9 + [(5.0, 1.0)]) > 10


def test_the_mean_of_models_is_better_where_they_differ() -> None:
    problem = posed("different", 0)
    assert 0 < remarks_learning._aggregated(problem) < 0.5
    X, y = problem.dealt[0]
    best = remarks_learning._steps(X, y, np.zeros(2), 3000, 1.0)
    values = [
        remarks_learning._value(X, y, best + step) for step in (np.zeros(2), np.array([0.1, 0]), np.array([0, -0.1]))
    ]
    assert min(values) == values[0]


# ── Algorithm 1 ──


def test_the_surrogate_is_the_gradient_if_clients_have_the_server_s_samples() -> None:
    rng = np.random.default_rng(2)
    own, probes, theta = (rng.random((5, 2)), rng.random(5)), rng.uniform(-1, 1, (5, 2)), rng.uniform(-9, 9, (7, 2))
    clients = (np.concatenate([own[0], own[0]]), np.concatenate([own[1], own[1]]))
    made = remarks_clients.Surrogate.learned(own, clients, probes)
    np.testing.assert_allclose(made.weights, 3 / 15, rtol=1e-6)
    np.testing.assert_allclose(made.gradient(theta), remarks_clients.partials(*own, theta).mean(axis=0), rtol=1e-6)


def test_a_sample_from_its_gradients() -> None:
    rng = np.random.default_rng(3)
    sample, probes = np.array([0.3, 0.9, 0.25]), rng.uniform(-1, 1, (5, 2))
    share = 1 / (1 + np.exp(-probes @ sample[:2]))
    gradients = (share - sample[2])[:, None] * sample[:2] + MU * probes
    np.testing.assert_allclose(remarks_secrets.found_sample(gradients, probes), sample, atol=1e-6)
    wrong = remarks_secrets.found_sample(gradients + 0.1 * rng.standard_normal((5, 2)), probes)
    assert np.abs(wrong - sample).max() > 1e-3


def test_departures_come_one_after_the_other() -> None:
    times = remarks_times.departures(np.random.default_rng(4), 500, 30)
    assert (np.diff(times, axis=1) > 0).all()
    assert abs(times[:, -1].mean() / 30 - 1) < 5 / math.sqrt(500 * 30)


def test_a_matrix_without_an_inverse() -> None:
    assert remarks_matrices.over_rounding(np.ones((4, 4))) < 1
    assert remarks_matrices.over_rounding(np.eye(4)) > 1e14


def test_ranks_are_multiples() -> None:
    found = remarks_counts._ranks()
    assert found[remarks_counts.RANKS] == 50
    assert found[remarks_counts.ROUNDED] <= 1


def test_the_least_rank_is_above_its_first_entry() -> None:
    """(47): e√d 2^d (η + d)^d, least for d = 1 and η = 5."""
    assert remarks_counts._rounds() > 2 * math.e * 6


def test_the_exponent_of_theorem_2_does_not_know_n() -> None:
    over = [remarks_times._exponent_over_data(n) / n for n in (10**3, 10**4, 10**5)]
    assert all(one == pytest.approx(other, rel=1e-3) for one, other in pairwise(over))


# ── scaling, nets and inverses ──


@pytest.mark.parametrize("gap", [0.01, 1.0, 20.0])
def test_exponents_are_those_of_47(gap: float) -> None:
    found = remarks_scaling.in_epsilon_and_p(2, 1.0, gap)
    np.testing.assert_allclose(found, 1 / (2 * gap), rtol=0.01)


def test_volumes_are_those_of_draws() -> None:
    """A point is in the sum if it is within 1/(2q) of the cube."""
    rng = np.random.default_rng(0)
    for d, q in ((1, 3.0), (2, 1.0), (3, 2.0)):
        y = rng.uniform(-1 / (2 * q), 1 + 1 / (2 * q), (400_000, d))
        away = np.maximum(0, np.maximum(-y, y - 1)).sum(axis=1)
        whole = (away <= 1 / (2 * q)).mean() * (1 + 1 / q) ** d
        assert whole * math.factorial(d) * q**d == pytest.approx(remarks_nets.volumes(d, q), rel=0.01)


def test_points_at_1_over_q_are_not_apart() -> None:
    points = np.linspace(0, 1, 5)[:, None]
    assert remarks_nets.separated(points, 4.0) == 3
    assert remarks_nets.separated(points, 4.1) == 5


def test_only_the_inverses_are_inverses() -> None:
    server, heard = remarks_nets.overheard("alike", 0)
    assert remarks_nets.left_of_identity(server, heard) <= 1e-8
    other = [(points, inverses.swapaxes(1, 2)) for points, inverses in heard]
    assert remarks_nets.left_of_identity(server, other) > 0.1
    assert not remarks_nets.left_of_identity(server, []) <= 1e-8
