"""DKRR and FedAvg against their closed forms, and what FedAvg misses that Scaffold reaches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fedsolve as fs
from tests.problems import PROBLEMS

SQUARED = PROBLEMS["squared | label-skewed"]


def local_parts(problem_clients: list[fs.Client], l2: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """p_j, H_j and the local minimiser w_j of each client, by NumPy alone."""
    total = sum(client.weight for client in problem_clients)
    parts = []
    for client in problem_clients:
        H = client.X.T @ client.X / client.n_samples + l2 * np.eye(client.X.shape[1])
        parts.append((client.weight / total, H, np.linalg.solve(H, client.X.T @ client.y / client.n_samples)))
    return parts


@pytest.mark.parametrize("split", ["balanced", "unbalanced", "fewer samples than features", "one sample at a client"])
def test_dkrr_is_the_weighted_mean_of_the_local_ridge_fits(split: str) -> None:
    problem = PROBLEMS[f"squared | {split}"]
    expected = sum(p * w for p, _, w in local_parts(problem.clients(), problem.loss.l2))
    result = fs.run(fs.DKRR(problem.loss), problem.clients())
    assert result.status == "finished"
    # One linear solve on each side with condition number below 1e3: a few thousand units in the last place.
    np.testing.assert_allclose(result.model.w, expected, rtol=1e-12)


def test_dkrr_with_the_logistic_loss_averages_local_fits() -> None:
    problem = PROBLEMS["logistic | unbalanced"]
    clients = problem.clients()
    expected = np.zeros(6)
    for client in clients:
        fit = LogisticRegression(
            C=1 / (problem.loss.l2 * client.n_samples), solver="newton-cholesky", tol=1e-13, fit_intercept=False
        ).fit(client.X, client.y)
        expected += client.weight / 160 * fit.coef_[0]
    np.testing.assert_allclose(fs.run(fs.DKRR(problem.loss), clients).model.w, expected, rtol=1e-8)


def test_a_client_with_one_class_has_no_local_fit_with_a_free_intercept() -> None:
    problem = PROBLEMS["logistic, free intercept | one class at a client"]
    with pytest.raises(fs.errors.ClientError, match=r"client-0.*only one class.*Newton"):
        fs.run(fs.DKRR(problem.loss), problem.clients())


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_fedavg_ends_where_paper_003_says(steps: int) -> None:
    """w = Σ p_j [w_j + (I − ηH_j)^s (w − w_j)] has the solution (Σ p_j A_j)⁻¹ Σ p_j A_j w_j, A_j = I − (I − ηH_j)^s."""
    eta = 0.3
    A_sum, right = 0.0, 0.0
    for p, H, w in local_parts(SQUARED.clients(), SQUARED.loss.l2):
        A = np.eye(6) - np.linalg.matrix_power(np.eye(6) - eta * H, steps)
        A_sum, right = A_sum + p * A, right + p * A @ w
    limit = np.linalg.solve(A_sum, right)
    algorithm = fs.FedAvg(SQUARED.loss, fs.GradientSteps(steps=steps, step_size=eta))
    result = fs.run(algorithm, SQUARED.clients(), stopping=fs.Stopping(rounds=3000, change=1e-15), measure=0)
    np.testing.assert_allclose(result.model.w, limit, rtol=1e-11)
    # One step is gradient descent on the pooled objective; more steps miss its minimum.
    assert (SQUARED.distance(limit) <= 1e-10) == (steps == 1)


def test_scaffold_reaches_what_fedavg_does_not() -> None:
    problem = PROBLEMS["logistic, free intercept | label-skewed"]
    local = fs.GradientSteps(steps=5)
    fedavg = fs.run(fs.FedAvg(problem.loss, local), problem.clients(), rounds=1000, measure=0)
    scaffold = fs.run(fs.Scaffold(problem.loss, local), problem.clients(), rounds=1000, tolerance=1e-12)
    assert problem.distance(fedavg.model.w) > 1e-2
    assert problem.distance(scaffold.model.w) <= 1e-8


def test_minibatches_are_seeded_and_differ_by_client_and_round() -> None:
    problem = PROBLEMS["logistic | balanced"]
    algorithm = fs.FedAvg(problem.loss, fs.GradientSteps(steps=4, step_size=0.5, batch_size=7))
    same = [fs.run(algorithm, problem.clients(), rounds=4, seed=seed, measure=0).model.w for seed in (1, 1, 2)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[0], same[2])


def test_newton_s_search_never_goes_up_from_a_hard_start() -> None:
    """Far from the optimum the unit step overshoots; the search must bring the run back, never up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] + 0.1 * rng.standard_normal(200) > 0).astype(float)
    clients = fs.data.partition(X, y, clients=4)
    start = np.array([30.0, -40.0, 50.0])
    result = fs.run(fs.Newton(fs.Logistic(l2=1e-4)), clients, rounds=60, tolerance=1e-11, warm_start=start)
    assert result.converged
    values = [row.value for row in result.history]
    assert all(after <= before * (1 + 1e-14) for before, after in pairwise(values))
    assert any("losses_along" in call for record in result.ledger.records for call in record.calls)
