"""What the lower bounds, the messages and the coverings of Su, Xu and Yang (2023) are measured with: by other means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.closed_forms.gain import expected_gain
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.nonparametric import (
    gain_risks,
    proof_deviations,
    proof_gain_bounds,
    proof_gain_runs,
    proof_moments,
    proof_operators,
    proof_posteriors,
    proof_recursion,
    remarks_coupons,
    remarks_messages,
    theory_decay,
    theory_subspaces,
)
from fedsolve.reproduce.nonparametric.quantities import Notes
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D
from fedsolve.typing import Array

METHODS = [LocalSteps(0.1), LocalSteps(0.1, 7), ProximalStep(0.1)]

# ── risks ──


@pytest.mark.parametrize("n", [3, 30])
def test_the_best_estimator_for_gaussian_truths(n: int) -> None:
    """Draws of the posterior mean: within five standard errors. No ridge penalty has less."""
    rng = np.random.default_rng(0)
    X, truths = rng.standard_normal((n, 6)), 1.5 / math.sqrt(6) * rng.standard_normal((6, 40_000))
    y = X @ truths + SIGMA * rng.standard_normal((n, 40_000))
    errors = []
    for factor in (0.3, 1.0, 3.0):
        ridge = np.linalg.solve(X.T @ X + factor * SIGMA**2 * 6 / 1.5**2 * np.eye(6), X.T @ y)
        errors.append(np.square(ridge - truths).sum(axis=0))
    risk = gain_risks.bayes_risk(X, 1.5)
    assert abs(errors[1].mean() - risk) <= 5 * errors[1].std() / 200
    assert errors[1].mean() < min(errors[0].mean(), errors[2].mean())


@pytest.mark.parametrize(("n", "norm"), [(3, 0.5), (3, 4.0), (30, 0.5), (30, 4.0)])
def test_no_ridge_regression_is_better_than_the_bound_in_its_worst_case(n: int, norm: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 6))
    least = gain_risks.least_risk([X], norm)
    for penalty in np.geomspace(1e-3, 1e3, 30):
        left = np.linalg.inv(X.T @ X + penalty * np.eye(6))
        bias = float(np.linalg.norm(penalty * left, 2)) ** 2 * norm**2
        assert bias + SIGMA**2 * float(np.square(left @ X.T).sum()) >= least
    assert least > 0


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_federated_risk_is_that_of_the_worst_direction(method: Method) -> None:
    rng = np.random.default_rng(2)
    X, own = [rng.standard_normal((n, 5)) for n in (3, 9, 20)], rng.standard_normal(5)
    risk = gain_risks.Federated.of(X, method).risk(0.7)
    found = []
    for direction in rng.standard_normal((2000, 5)):
        truths = np.tile(own + 0.7 * direction / np.linalg.norm(direction), (3, 1))
        truths[0] = own
        found.append(expected_gain(X, truths, 0, SIGMA, method).federated)
    assert 0.9 * risk <= max(found) <= risk * (1 + 1e-9)


def test_gains_of_another_order_are_found() -> None:
    notes, bounds = Notes(), np.array([10.0, 5.0, 1.0, 0.2, 0.02])
    proof_gain_bounds._one(20, 12, 400, 1.0, bounds / 1e3, bounds / 1e4, notes)
    some = (proof_gain_bounds.GAIN, proof_gain_bounds.GAIN_ANY, proof_gain_bounds.RICH, proof_gain_bounds.ORDER)
    assert not any(one.verdict(*notes.ends[one]).holds for one in some)
    assert proof_gain_bounds.FALLS.verdict(*notes.ends[proof_gain_bounds.FALLS]).holds


# ── proofs ──


def test_the_posterior_mean_on_the_sphere() -> None:
    """With almost exact rows the rest is unseen, with almost none all is."""
    rng = np.random.default_rng(3)
    points = proof_posteriors.lattice(2000)
    np.testing.assert_allclose(points.T @ points / 2000, np.eye(3) / 3, atol=1e-3)
    x = np.array([[0.0, 0.0, 1.0]])
    assert proof_posteriors.best_risk(10 * x, rng) == pytest.approx(2 / 3 * 4, rel=0.05)
    assert proof_posteriors.best_risk(1e-3 * x, rng) == pytest.approx(4, rel=0.01)


def test_the_divergence_of_two_normal_distributions() -> None:
    def integrand(x: float) -> float:
        first, second = (stats.norm(0, math.sqrt(v)).logpdf(x) for v in (0.7, 1.9))
        return float(math.exp(first) * (first - second))

    whole = integrate.quad(integrand, -20, 20)[0]
    assert proof_deviations.divergence(0.7, 1.9, 3) == pytest.approx(3 * whole, rel=1e-8)


def test_a_steeper_client_is_found() -> None:
    """With γ = 8.1 the operators of FedAvg are not positive, or larger than 1."""
    X, method, _ = next(iter(proof_recursion.clients(0)))
    notes = Notes()
    for rows in X:
        notes.add(proof_operators.POWERS, np.linalg.eigvalsh(proof_recursion.Local(3 * rows, method).whole))
    assert not proof_operators.POWERS.verdict(*notes.ends[proof_operators.POWERS]).holds


# ── sections 4 and 6.2.2 ──


def test_a_request_with_another_bit_is_noticed() -> None:
    class Part:
        def __init__(self, **value: object) -> None:
            self.value = value

    class Request:
        def __init__(self, *arguments: Part) -> None:
            self.arguments = arguments

    w = np.array([0.1, -2.0])
    same, other = Request(Part(w=w.copy(), step_size=0.1)), Request(Part(w=np.nextafter(w, 1.0)))
    assert [remarks_messages.carries(one, w) for one in (same, other, Request(Part(w=w, g=w)))] == [1.0, 0.0, 0.0]  # type: ignore[arg-type]


def test_what_a_client_returns_by_hand() -> None:
    client = Client("a", np.array([[2.0]]), np.array([6.0]))
    fed_avg = FedAvg(Squared(), GradientSteps(5, 0.1))
    fed_prox = FedProx(Squared(), pull=10.0)
    w = np.array([1.0])
    assert remarks_messages.updated(fed_avg, client, 0.1, w) == pytest.approx(3 - 2 * 0.6**5)
    assert remarks_messages.updated(fed_prox, client, 0.1, w) == pytest.approx((1 + 1.2) / 1.4)


def test_the_least_eigenvalue_of_rows_on_lines() -> None:
    found = remarks_coupons.least_eigenvalues(np.random.default_rng(4), 3, 8, 20)
    drawn = np.random.default_rng(4)
    for value in found:
        rows = np.repeat(math.sqrt(3) * np.eye(3)[drawn.integers(0, 3, 8)], 5, axis=0)
        assert value == pytest.approx(np.linalg.eigvalsh(rows.T @ rows / 40)[0], abs=1e-12)


def test_the_clients_of_corollary_14_differ() -> None:
    X, nu, low, high = theory_subspaces.unlike(np.random.default_rng(5))
    ranks: list[int] = [int(np.linalg.matrix_rank(rows)) for rows in X]
    assert len(set(ranks)) > 3
    assert max(len(rows) / r for rows, r in zip(X, ranks, strict=True)) == pytest.approx(nu)
    assert sum(map(len, X)) >= 8 * nu * D * math.log(D)
    for rows, r in zip(X, ranks, strict=True):
        seen: Array = np.linalg.svd(rows, compute_uv=False)[:r] ** 2 * r / D / len(rows)
        assert low * (1 - 1e-9) <= seen[-1] <= seen[0] <= high * (1 + 1e-9)


# ── a reader's faults ──


def test_four_points_on_the_axes_are_not_uniform() -> None:
    """Their coefficients have the right mean squares, and so had they passed before."""
    rng = np.random.default_rng(6)
    axes = rng.integers(0, 4, 20_000) * math.pi / 2 - math.pi
    assert np.square(np.cos(axes)).mean() == pytest.approx(0.5, rel=0.05)
    assert proof_posteriors.uniformity(axes) > 30
    angles = rng.uniform(-math.pi, math.pi, 500)
    found = stats.kstest(angles, stats.uniform(-math.pi, 2 * math.pi).cdf).statistic
    assert proof_posteriors.uniformity(angles) == pytest.approx(math.sqrt(500) * found)


@pytest.mark.parametrize("d", [2, 6])
def test_the_posterior_mean_in_other_dimensions(d: int) -> None:
    """With an almost exact row one coefficient is known, with almost no row none is."""
    rng = np.random.default_rng(7)
    points = proof_posteriors.spread(1200, d, rng)
    np.testing.assert_allclose(points.T @ points / len(points), np.eye(d) / d, atol=1e-12)
    x = np.eye(d)[:1]
    assert proof_posteriors.best_risk(10 * x, rng) == pytest.approx((1 - 1 / d) * 4, rel=0.05)
    assert proof_posteriors.best_risk(1e-3 * x, rng) == pytest.approx(4, rel=0.02)


def test_the_truths_of_the_runs_are_within_their_gap() -> None:
    truths = proof_gain_runs.truths_within(np.random.default_rng(8))
    for place, gap in enumerate(proof_gain_runs.GAPS):
        apart = truths[:, None, :, place] - truths[None, :, :, place]
        assert np.linalg.norm(apart, axis=2).max() <= gap + 1e-12
        assert np.linalg.norm(apart, axis=2).max() >= 0.8 * gap
    np.testing.assert_array_equal(truths[0, :, 0], truths[0, :, -1])


def test_the_least_error_is_over_the_rounds() -> None:
    """Clients that agree end near the truth; where the others are far away the start, 0, is best."""
    rng = np.random.default_rng(9)
    gaps, draws = len(proof_gain_runs.GAPS), proof_gain_runs.DRAWS
    X, truth = [rng.standard_normal((n, D)) for n in (4, 60)], np.ones((D, draws)) / math.sqrt(D)
    far = [0.0] * (gaps - 1) + [50.0]
    targets = [np.hstack([rows @ (truth + i * one) for one in far]) for i, rows in enumerate(X)]
    clients = [Client(f"c{i}", rows, y) for i, (rows, y) in enumerate(zip(X, targets, strict=True))]
    eta = 0.9 / max(float(np.linalg.norm(rows, 2)) ** 2 / len(rows) for rows in X)
    found = proof_gain_runs.least_errors(FedAvg(Squared(), GradientSteps(5, eta)), clients, truth)
    assert (found[:-1] < 1e-6).all()
    assert found[-1] == pytest.approx(1.0)


def test_the_fourth_moment_of_a_weighed_sum() -> None:
    rng = np.random.default_rng(10)
    weights, noise = np.array([1.0, 0.3, -0.5]), math.sqrt(3) * rng.uniform(-1, 1, (400_000, 3))
    powers = ((noise**2 - 1) @ weights) ** 4
    exact = proof_moments.fourth_moment(weights, proof_moments.MOMENTS_OF["uniform"])
    assert abs(powers.mean() - exact) <= 5 * powers.std() / math.sqrt(400_000)
    for name, moments in proof_moments.MOMENTS_OF.items():
        law = proof_moments.noises()[name][0]
        assert all(value == pytest.approx(law.expect(lambda x, p=p: x**p)) for p, value in moments.items())


def test_the_worst_error_is_that_of_some_function() -> None:
    """No f of norm 1 has a larger bias, and one has it."""
    rng = np.random.default_rng(11)
    B, method = rng.standard_normal((9, 9)), LocalSteps(0.02, 5)
    K = B @ B.T
    found = Decomposition.of(K, (5, 1, 3), method)
    most = theory_decay.worst(found, K, 4, 0.0)
    values = K @ rng.standard_normal((9, 3000))
    values /= np.sqrt(np.sum(values * np.linalg.solve(K, values), axis=0))  # of functions of norm 1
    errors = [float(found.expected_error(4, one, sigma=0.0)) for one in values.T]
    assert 0.5 * most <= max(errors) <= most * (1 + 1e-9)
