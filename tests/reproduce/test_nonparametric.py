"""The figures of Su, Xu and Yang (2023): quick forms against answers found another way, full ones with -m slow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest
from scipy import integrate, stats

import fedsolve as fs
from fedsolve.closed_forms import linear_path
from fedsolve.closed_forms.limits import fixed_point, limit_point
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.data import OneDeviates, chebyshev, linear_model
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.nonparametric import figure4, figure5, figure6, minibatches
from fedsolve.reproduce.nonparametric.homogeneous import Problem, Trace, algorithm, problem, run_path
from fedsolve.reproduce.nonparametric.methods import methods
from fedsolve.reproduce.nonparametric.subspaces import FEATURES, draw_groups, gains, limit_points, local_estimate
from fedsolve.typing import Array
from tests.reproduce.test_fednewton import column

METHODS = [LocalSteps(0.1), LocalSteps(0.1, 5), LocalSteps(0.1, 10), ProximalStep(0.1)]


def whole_rows(seen: Array, support: Array) -> Array:
    """A client's rows in all columns."""
    rows = np.zeros((len(seen), FEATURES))
    rows[:, support] = seen
    return rows


def by_hand(X: list[Array], y: list[Array], method: Method, rounds: int) -> Array:
    """FedAvg or FedProx, every local step taken: the client's own arithmetic in plain NumPy."""
    d, total = X[0].shape[1], sum(map(len, X))
    factors = [np.linalg.inv(np.eye(d) + method.step_size * rows.T @ rows / len(rows)) for rows in X]
    theta = np.zeros(d)
    for _ in range(rounds):
        mean = np.zeros(d)
        for rows, targets, factor in zip(X, y, factors, strict=True):
            n, local = len(rows), theta
            if isinstance(method, ProximalStep):
                local = factor @ (theta + method.step_size * rows.T @ targets / n)
            else:
                for _ in range(method.steps):
                    local = local - method.step_size * rows.T @ (rows @ local - targets) / n
            mean += n / total * local
        theta = mean
    return theta


# ── Figure 1 ──


def test_fig1_quick() -> None:
    outcome = perform(find("nonparametric-fig1"), quick=True)
    assert outcome.result.status == "ok"
    posed = problem(0)
    X, y = np.vstack(posed.X), np.concatenate(posed.y)
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    assert column(outcome, "error")[0].median == pytest.approx(np.linalg.norm(pooled - posed.truth), rel=1e-9)
    s = by_hand(posed.X, posed.y, LocalSteps(0.1, 10), 40)  # converged: the error shrinks to a third in a round
    assert column(outcome, "gradient norm")[2].median == pytest.approx(
        np.linalg.norm(2 * X.T @ (X @ s - y) / len(y)), rel=1e-8
    )
    assert column(outcome, "error")[2].median == pytest.approx(np.linalg.norm(s - posed.truth), rel=1e-8)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_runs_are_the_paper_s_algorithms(method: Method) -> None:
    data = linear_model([3, 40, 1], 6, seed=2)
    X, y = [one.X for one in data.clients], [one.y for one in data.clients]
    found = run_path(algorithm(method), data.clients, 7)
    assert found.shape == (8, 6)
    np.testing.assert_allclose(found[-1], by_hand(X, y, method, 7), rtol=1e-12, atol=1e-13)


def test_a_trace_and_its_arrival() -> None:
    data = linear_model([30, 50], 4, seed=1)
    path = run_path(algorithm(LocalSteps(0.1, 5)), data.clients, 30)
    trace = Problem(data.clients, data.models[0]).trace(path)
    X, y = np.vstack([c.X for c in data.clients]), np.concatenate([c.y for c in data.clients])
    for t in (0, 3, 30):
        gradient = 2 * X.T @ (X @ path[t] - y) / 80  # ℓ has no ½
        assert trace.gradient_norms[t] == pytest.approx(np.linalg.norm(gradient), rel=1e-10)
        assert trace.errors[t] == pytest.approx(np.linalg.norm(path[t] - data.models[0]), rel=1e-12)
    assert Trace(np.zeros(5), np.array([9.0, 3.0, 1.2, 1.05, 1.0])).arrival == 3


# ── Figures 2 and 3 ──


def with_orders(clients: list[fs.Client], orders: Sequence[Sequence[int]], method: Method, rounds: int) -> Array:
    """FedAvg or FedProx with batches of one row in these orders, every step taken by hand."""
    total = sum(client.n_samples for client in clients)
    theta = np.zeros(clients[0].X.shape[1])
    for _ in range(rounds):
        mean = np.zeros_like(theta)
        for client, order in zip(clients, orders, strict=True):
            n, local = client.n_samples, theta
            for row in list(order) * method.steps:
                x, y = client.X[row], client.y[row]
                if isinstance(method, ProximalStep):
                    H = np.eye(len(x)) + method.step_size / n * np.outer(x, x)
                    local = np.linalg.solve(H, local + method.step_size / n * y * x)
                else:
                    local = local - method.step_size / n * (x @ local - y) * x
            mean += n / total * local
        theta = mean
    return theta


@pytest.mark.parametrize("method", [LocalSteps(0.1), LocalSteps(0.1, 3), ProximalStep(0.1)], ids=str)
def test_the_batches_are_fixed_and_used_as_in_the_paper(method: Method) -> None:
    """Batches of one row: of all orders that two clients of 3 and 2 rows may have, exactly one gives the run."""
    data = linear_model([3, 2], 4, seed=3)
    what = minibatches.algorithm(method, 1)
    path = minibatches.path_of(*minibatches.round_map(what, data.clients), 4)
    np.testing.assert_allclose(path, run_path(what, data.clients, 4), rtol=0, atol=1e-13)
    distances = sorted(
        float(np.linalg.norm(path[-1] - with_orders(data.clients, orders, method, 4)))
        for orders in product(permutations(range(3)), permutations(range(2)))
    )
    assert distances[0] < 1e-13
    assert distances[1] > 1e-7


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_batch_of_all_rows_is_no_batch(method: Method) -> None:
    data = linear_model([30, 30], 5, seed=1)
    A, c = minibatches.round_map(minibatches.algorithm(method, 30), data.clients)
    expected = linear_path.round_map([one.X for one in data.clients], [one.y for one in data.clients], method)
    np.testing.assert_allclose(A, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(c, expected[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["nonparametric-fig2", "nonparametric-fig3"])
def test_fig2_and_fig3_quick(name: str) -> None:
    outcome = perform(find(name), quick=True)
    assert outcome.result.status == "ok"
    assert column(outcome, "batches") == ["all rows", "batches of 100"]
    posed = problem(0)
    limit = limit_point(fs.Squared(), posed.clients, LocalSteps(0.1, 5))
    trace = posed.trace(limit[None])
    expected = trace.gradient_norms[0] if name.endswith("2") else trace.errors[0]
    assert column(outcome, "s = 5")[0].median == pytest.approx(expected, rel=1e-9)


# ── Figure 4 ──


@pytest.mark.parametrize("client", [0, 10])
def test_fig4_gains_are_those_of_the_drawn_clients(client: int) -> None:
    drawn = figure4.Drawn(3)
    place = figure4.GRID.index(2.0)
    data = linear_model(figure4.SIZES, 100, sigma=0.5, models=OneDeviates(2.0, client), seed=3)
    own, truth = data.clients[client], data.models[client]
    away = np.linalg.norm(np.linalg.pinv(own.X) @ own.y - truth)
    for name, method in methods().items():
        limit = limit_point(fs.Squared(), data.clients, method)
        expected = away / np.linalg.norm(limit - truth)
        assert drawn.gains(OneDeviates, client)[name][place] == pytest.approx(expected, rel=1e-9)


def test_a_threshold_is_where_the_gain_is_one_for_the_last_time() -> None:
    grid = np.array(figure4.GRID)
    assert figure4.threshold(np.exp(3.1 - grid)) == pytest.approx(3.1, rel=1e-12)
    assert figure4.threshold(np.where(grid < 0.01, 0.5, np.exp(3.1 - grid))) == pytest.approx(3.1, rel=1e-12)
    assert figure4.threshold(np.full(len(grid), 2.0)) == np.inf
    assert figure4.threshold(np.full(len(grid), 0.5)) == 0.0


def test_fig4_quick() -> None:
    outcome = perform(find("nonparametric-fig4"), quick=True)
    assert outcome.result.status == "ok"
    few, many = column(outcome, "Γ where the gain is 1")
    assert few.printed == 7.5
    assert many.printed == 0.3
    assert many.median < 1 < few.median
    norm = np.linalg.norm(linear_model([1], 100, seed=0).models[0])
    assert column(outcome, "Theorem 16")[0].median == pytest.approx(np.sqrt(0.5) * norm, rel=1e-12)
    assert column(outcome, "Theorem 16")[1].median == pytest.approx(0.5 * np.sqrt(100 / 500), rel=1e-12)


# ── Figure 5 ──


@pytest.mark.parametrize("r", [3, 40, 100])
def test_the_limit_points_of_many_trials_are_those_of_each(r: int) -> None:
    truth, groups = draw_groups(r, 2, seed=4)
    found = limit_points(groups, r)
    for trial in range(2):
        X, y = [], []
        for group in groups:
            for seen, support, targets in zip(group.seen[trial], group.support[trial], group.y[trial], strict=True):
                X.append(whole_rows(seen, support))
                y.append(targets)
        H = np.stack([rows.T @ rows / len(rows) for rows in X])
        b = np.stack([rows.T @ targets / len(rows) for rows, targets in zip(X, y, strict=True)])
        sizes = np.array(list(map(len, X)), dtype=float)
        for name, method in methods(0.1 * r / FEATURES).items():
            expected = fixed_point(H, b[..., None], sizes, method)[:, 0]
            scale = np.linalg.norm(truth[trial])
            np.testing.assert_allclose(found[name][trial], expected, rtol=0, atol=1e-10 * scale)
        unseen = np.abs(np.vstack(X)).sum(axis=0) == 0
        assert unseen.any() == (r == 3)
        assert (np.abs(found["s = 5"][trial][unseen]) < 1e-12).all()
        if r == 100:  # a round of ten steps leaves a third of the distance
            simulated = by_hand(X, y, LocalSteps(0.1, 10), 40)
            np.testing.assert_allclose(found["s = 10"][trial], simulated, rtol=0, atol=1e-9)


def test_without_noise_the_columns_that_are_seen_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsolve.reproduce.nonparametric.subspaces.SIGMA", 0.0)
    truth, groups = draw_groups(8, 3, seed=1)
    for limit in limit_points(groups, 8).values():
        for trial in range(3):
            seen = np.unique(np.concatenate([group.support[trial].ravel() for group in groups]))
            assert len(seen) < 100
            np.testing.assert_allclose(limit[trial, seen], truth[trial, seen], rtol=0, atol=1e-10)
            assert np.abs(np.delete(limit[trial], seen)).max() < 1e-12


@pytest.mark.parametrize("r", [20, 50, 80])
def test_the_local_benchmark_is_minimum_norm_least_squares(r: int) -> None:
    _, groups = draw_groups(r, 2, seed=7)
    for group in groups:
        for client in (0, 3):
            found = local_estimate(group, client)
            for trial in range(2):
                rows = whole_rows(group.seen[trial, client], group.support[trial, client])
                expected = np.linalg.lstsq(rows, group.y[trial, client], rcond=None)[0]
                np.testing.assert_allclose(found[trial], expected, rtol=1e-8, atol=1e-8)


def test_the_gain_of_all_columns_is_that_of_theory() -> None:
    """For r = d: E‖local − θ*‖² = σ² d/(n − d − 1) for 500 rows, and ‖θ*‖²/2 + σ² 50/49 for 50; σ² d/(N − d − 1) for
    s = 1, all over the Gaussian inputs too. The ratio of norms scatters by 10 % in a trial, its mean of 10 by 3 %."""
    few, many = gains(100, 10, seed=2)["s = 1"]
    together = 0.5 * np.sqrt(100 / 5399)
    assert many == pytest.approx(0.5 * np.sqrt(100 / 399) / together, rel=0.12)
    assert few == pytest.approx(np.sqrt(50 + 0.25 * 50 / 49) / together, rel=0.12)


def test_fig5_quick() -> None:
    outcome = perform(find("nonparametric-fig5"), quick=True)
    assert outcome.result.status == "ok"
    assert column(outcome, "r") == [r for r in figure5.QUICK if r in figure5.LISTED]
    assert column(outcome, "50 rows: s = 1")[-1].median == pytest.approx(gains(100, 5, 0)["s = 1"][0], rel=1e-12)


# ── Figure 6 ──


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_operator_of_the_polynomials(method: Method) -> None:
    """Against the limit of the library's algorithms, and against 2^20 rounds of the simulated one."""
    data = chebyshev(20, 4, seed=2)
    operator = figure6.limit_operator(4, method)
    loss = fs.Squared(features=fs.Polynomial(5, bias=True))
    found = operator @ np.concatenate([client.y for client in data.clients])
    scale = np.linalg.norm(data.coefficients)
    np.testing.assert_allclose(found, limit_point(loss, data.clients, method), rtol=0, atol=1e-9 * scale)
    rows = [np.vander(client.X[:, 0], 6, increasing=True) for client in data.clients]
    A, c = linear_path.round_map(rows, [client.y for client in data.clients], method)
    step = np.block([[A, c[:, None]], [np.zeros((1, 6)), np.ones((1, 1))]])
    np.testing.assert_allclose(np.linalg.matrix_power(step, 2**20)[:6, 6], found, rtol=0, atol=1e-7 * scale)
    ordinary = run_path(fs.FedAvg(loss, fs.GradientSteps(5, 0.1)), data.clients, 3)
    if method == LocalSteps(0.1, 5):
        np.testing.assert_allclose(np.linalg.matrix_power(step, 3)[:6, 6], ordinary[-1], rtol=1e-11)


def test_the_integral_is_exact() -> None:
    theta = np.random.default_rng(0).standard_normal(6)
    expected = integrate.quad(lambda x: np.polynomial.polynomial.polyval(x, theta) ** 2, -1, 1, epsabs=1e-13)[0]
    assert theta @ figure6.integral() @ theta == pytest.approx(expected, rel=1e-12)


def test_the_expected_error_is_the_mean_over_the_noise() -> None:
    operator, G = figure6.limit_operator(3, LocalSteps(0.1, 10)), figure6.integral()
    noise = 0.5 * np.random.default_rng(1).standard_normal((60, 40_000))
    # A sum of 6 squares: a relative standard deviation of at most √2 in a trial, 1/140 in the mean of 40,000.
    assert figure6.mean_error(operator, G, noise) == pytest.approx(figure6.expected_error(operator, G), rel=0.03)


def test_the_line_is_that_of_scipy() -> None:
    rng = np.random.default_rng(2)
    x, y = np.arange(9.0), 3 * np.arange(9.0) + rng.standard_normal(9)
    expected, found = stats.linregress(x, y), figure6.fitted(x, y)
    assert found.slope == pytest.approx(expected.slope, rel=1e-12)
    assert found.r2 == pytest.approx(expected.rvalue**2, rel=1e-12)


def test_fig6_quick() -> None:
    outcome = perform(find("nonparametric-fig6"), quick=True)
    assert outcome.result.status == "ok"
    assert column(outcome, "method") == ["s = 1", "s = 5", "s = 10", "FedProx"]
    assert all(0.28 < slope < 0.36 for slope in column(outcome, "slope, expected"))


# ── in full ──

MISSED = {  # said in docs/reproduce/nonparametric.md
    "nonparametric-fig4": ["the paper's 0.3 is within 25 % of its prediction with 500 rows"],
    "nonparametric-fig5": ["… and 104 ± 8 at every such r but the peak"],
    "nonparametric-fig6": [
        "1/MSE is linear in N, R² > 0.999 (averages of 500 trials)",
        "with s = 10 κ is slightly greater than one, at most 1.5",
        "the minimax risk falls as N^(−1 ± 0.05), N = 20 to 200",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("figure", [1, 2, 3, 4, 5, 6])
def test_the_figures_in_full(figure: int) -> None:
    name = f"nonparametric-fig{figure}"
    outcome = perform(find(name))
    assert [claim for claim, verdict in outcome.result.claims if verdict.holds is None] == []
    assert [claim for claim, verdict in outcome.result.claims if not verdict.holds] == MISSED.get(name, [])
