"""DKRR and FedAvg against their closed forms, and what FedAvg misses that Scaffold reaches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fedsolve as fs
from fedsolve.closed_forms.limits import limit_point
from fedsolve.closed_forms.linear_path import map_limit, round_map
from fedsolve.closed_forms.methods import LocalSteps, ProximalStep, method_of
from fedsolve.federation.client import Memory
from fedsolve.federation.transports import InProcess
from tests.problems import PROBLEMS, Problem

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


@pytest.mark.parametrize("problem", [one for name, one in PROBLEMS.items() if name.startswith("squared")], ids=str)
@pytest.mark.parametrize("steps", [2, 5])
def test_fedavg_stops_at_its_limit_point(steps: int, problem: Problem) -> None:
    """On every squared problem of the matrix, weights, intercepts and sparse inputs included. Its rounds contract by
    1 − μ/L at least, with L/μ < 49 here: to 1e-12 in 1400."""
    algorithm = fs.FedAvg(problem.loss, fs.GradientSteps(steps))
    found = fs.run(algorithm, problem.clients(), stopping=fs.Stopping(rounds=1400, change=1e-15), measure=0)
    limit = limit_point(problem.loss, problem.clients(), method_of(algorithm, found.state.step_size))
    assert np.linalg.norm(found.model.w - limit) <= 1e-10 * np.linalg.norm(limit)
    assert problem.distance(limit) > 1e-5  # which is not the pooled solution


@pytest.mark.parametrize("size", [7, 50])
@pytest.mark.parametrize("steps", [1, 4, None], ids=["s = 1", "s = 4", "FedProx"])
def test_the_minibatches_of_su_et_al(steps: int | None, size: int) -> None:
    """Section 7.1 with fixed batches: a round is the affine map that `closed_forms` has for batches in the order of the
    rows, and the run ends at its fixed point, which is not the pooled solution even for s = 1."""
    eta, loss, clients = 0.2, fs.Squared(), PROBLEMS["squared | unbalanced"].clients()
    if steps is None:
        local: fs.LocalSolver = fs.ProximalSteps(epochs=1, batch_size=size, batches="fixed", scale="client")
        algorithm, method = fs.FedProx(loss, pull=1 / eta, local=local), ProximalStep(eta)
    else:
        local = fs.GradientSteps(epochs=steps, step_size=eta, batch_size=size, batches="fixed", scale="client")
        algorithm, method = fs.FedAvg(loss, local), LocalSteps(eta, steps)
    first = fs.run(algorithm, clients, rounds=1, seed=4, measure=0).model.w
    X, y = zip(*(in_batches(client, size, seed=4) for client in clients), strict=True)
    A, c = round_map(X, y, method, batch_size=size)
    np.testing.assert_allclose(first, c, rtol=1e-12, atol=1e-14)  # from zero
    found = fs.run(algorithm, clients, seed=4, stopping=fs.Stopping(rounds=1500, change=1e-15), measure=0).model.w
    limit = map_limit(A, c)
    assert np.linalg.norm(found - limit) <= 1e-10 * np.linalg.norm(limit)
    pooled = np.linalg.lstsq(np.concatenate(X), np.concatenate(y), rcond=None)[0]
    assert np.linalg.norm(limit - pooled) > 1e-4 * np.linalg.norm(pooled)


def in_batches(client: fs.Client, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's rows in the order of its fixed batches; a client that is no larger than a batch has only one."""
    client.enter(Memory({}), (seed, 1, 0, 0))
    solver = fs.GradientSteps(epochs=1, batch_size=size, batches="fixed")
    parts = [part for part, _ in solver.parts(client)]
    return np.concatenate([part.design.take(slice(None)) for part in parts]), np.concatenate([part.y for part in parts])


def test_scaffold_reaches_what_fedavg_does_not() -> None:
    problem = PROBLEMS["logistic, free intercept | label-skewed"]
    local = fs.GradientSteps(steps=5)
    fedavg = fs.run(fs.FedAvg(problem.loss, local), problem.clients(), rounds=1000, measure=0)
    scaffold = fs.run(fs.Scaffold(problem.loss, local), problem.clients(), rounds=1000, tolerance=1e-12)
    assert problem.distance(fedavg.model.w) > 1e-2
    assert problem.distance(scaffold.model.w) <= 1e-8


def test_fedavg_of_local_newton_steps_is_dkrr() -> None:
    """A solver that chooses its own steps goes all the way, to the client's own minimiser of a quadratic."""
    averaged = fs.run(fs.FedAvg(SQUARED.loss, fs.CG(steps=6)), SQUARED.clients(), rounds=1, measure=0).model.w
    np.testing.assert_allclose(averaged, fs.run(fs.DKRR(SQUARED.loss), SQUARED.clients()).model.w, rtol=1e-9)


SKEWED = PROBLEMS["logistic, free intercept | label-skewed"]


@pytest.mark.parametrize(
    ("local", "option"),
    [
        (fs.GradientSteps(5), "I"),
        (fs.Momentum(5, momentum=0.5), None),
        (fs.Momentum(5, momentum=0.5), "I"),
        (fs.Momentum(5, momentum=0.5, nesterov=True), "II"),
    ],
    ids=str,
)
def test_scaffold_with_full_gradients_ends_at_the_pooled_solution(local: fs.LocalSolver, option: str | None) -> None:
    """There c_i = ∇f_i(x), every corrected gradient is zero, and no step moves: with either option and any momentum."""
    algorithm = fs.Scaffold(SKEWED.loss, local, option=option)
    found = fs.run(algorithm, SKEWED.clients(), rounds=1500, tolerance=1e-12, measure=20)
    assert found.converged
    assert SKEWED.distance(found.model.w) <= 1e-8


@pytest.mark.parametrize(
    "local",
    [
        fs.GradientSteps(5, 1e-7),
        fs.Momentum(5, 1e-7),
        fs.Momentum(5, 1e-7, nesterov=True),
        fs.Momentum(epochs=2, step_size=1e-7, batch_size=9, batches="fixed", scale="client", momentum=0.0),
        fs.GradientSteps(epochs=2, step_size=1e-7, batch_size=9, scale="client"),
        fs.Adam(5, 1e-7),
        fs.CG(5),
    ],
    ids=str,
)
def test_what_scaffold_s_clients_remember_is_a_gradient(local: fs.LocalSolver) -> None:
    """After one round of steps so short that the gradient does not change on the way: by either option, whatever the
    steps make of gradients (momentum has them count up to 10 times)."""
    transport = InProcess(SKEWED.clients())
    fs.run(fs.Scaffold(SKEWED.loss, local), transport, rounds=1, measure=0)
    for client in SKEWED.clients():
        memory = transport.memories()[client.name]
        kept = [version["algorithm:c_i"] for version in memory.values() if "algorithm:c_i" in version][-1]
        np.testing.assert_allclose(kept, SKEWED.loss.gradient(client, np.zeros(7)), rtol=0, atol=1e-5)


def test_scaffold_with_minibatches_ends_as_far_away_as_its_steps_are_long() -> None:
    """Batches differ by more than c_i corrects. Fixed ones have a limit, O(η) away; the order of η shows."""
    away = []
    for eta in (0.4, 0.2, 0.1):
        local = fs.GradientSteps(epochs=1, step_size=eta, batch_size=10, batches="fixed")
        found = fs.run(fs.Scaffold(SKEWED.loss, local), SKEWED.clients(), rounds=int(60 / eta), measure=0)
        away.append(SKEWED.distance(found.model.w))
    assert away[2] > 1e-4
    np.testing.assert_allclose([away[0] / away[1], away[1] / away[2]], 2.0, rtol=0.1)


@pytest.mark.parametrize("kind", [fs.Scaffold, fs.FedDyn, fs.FedSplit])
def test_where_every_sample_counts_alike_the_limit_is_as_far_away_as_steps_are_long(kind: type) -> None:
    """Batches of 40 samples and of 1. With `scale="client"` a sample counts the same in both, and the distance is O(η);
    with `scale="batch"` the one counts 40 times, for steps of any length."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((82, 5))
    y = X @ np.ones(5) + 0.3 * rng.standard_normal(82)
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    away: dict[str, list[float]] = {"client": [], "batch": []}
    for scale, found in away.items():
        for eta in (0.2, 0.1):
            local = fs.GradientSteps(epochs=1, step_size=eta, batch_size=40, batches="fixed", scale=scale)
            algorithm = kind(fs.Squared(), local=local, **({} if kind is fs.Scaffold else {"pull": 1.0}))
            clients = fs.data.partition(X, y, fs.data.Contiguous(), clients=2)
            run = fs.run(algorithm, clients, rounds=int(40 / eta), tolerance=0.0, measure=0)
            found.append(float(np.linalg.norm(run.model.w - pooled)))
    assert away["client"][0] / away["client"][1] == pytest.approx(2.0, rel=0.1)
    assert away["client"][1] < 1e-4
    assert away["batch"][1] > 0.6 * away["batch"][0] > 1e-3


@pytest.mark.parametrize(
    "local", [fs.Momentum(5), fs.Momentum(10, momentum=0.5), fs.Momentum(5, nesterov=True)], ids=str
)
@pytest.mark.parametrize("case", ["squared | unbalanced", "softmax | weighted", "squared | one sample at a client"])
def test_scaffold_with_momentum_ends_at_the_pooled_solution(case: str, local: fs.Momentum) -> None:
    problem = PROBLEMS[case]
    found = fs.run(fs.Scaffold(problem.loss, local), problem.clients(), rounds=1000, tolerance=1e-11, measure=50)
    assert problem.distance(found.model.w) <= 1e-8


def test_scaffold_with_adam_takes_option_i_and_a_schedule_brings_it_near() -> None:
    local = fs.Adam(5, step_size=0.05, schedule=fs.Cosine(300, last=1e-5))
    found = fs.run(fs.Scaffold(SKEWED.loss, local), SKEWED.clients(), rounds=330, measure=0)
    fedavg = fs.run(fs.FedAvg(SKEWED.loss, local), SKEWED.clients(), rounds=330, measure=0)
    assert SKEWED.distance(found.model.w) < 1e-2 < 0.1 < SKEWED.distance(fedavg.model.w)
    drawn = fs.GradientSteps(epochs=1, step_size=0.1, batch_size=8, scale="client")
    weighted = PROBLEMS["logistic | weighted"]
    with pytest.raises(fs.errors.ClientError, match="no fixed sum of gradients"):
        fs.run(fs.Scaffold(weighted.loss, drawn, option="II"), weighted.clients(), rounds=1)


@pytest.mark.parametrize("case", ["squared, two outputs | weighted", "logistic | sparse", "softmax | unbalanced"])
def test_fedprox_is_its_own_local_solver(case: str) -> None:
    """Exactly, and by gradient steps to convergence."""
    problem = PROBLEMS[case]
    exact = fs.run(fs.FedProx(problem.loss, pull=0.5), problem.clients(), rounds=4).model.w
    same = fs.run(fs.FedProx(problem.loss, pull=0.5, local=fs.ProximalSteps()), problem.clients(), rounds=4).model.w
    assert np.array_equal(exact, same)
    steps = fs.FedProx(problem.loss, pull=0.5, local=fs.GradientSteps(300))
    np.testing.assert_allclose(fs.run(steps, problem.clients(), rounds=4).model.w, exact, rtol=1e-9, atol=1e-10)


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
