"""FedNewton against what is true of it (its paper and what follows from it), and its conjugate gradient form."""

from __future__ import annotations

import numpy as np
import pytest

import fedsolve as fs
from tests.problems import PROBLEMS

L2 = 1e-2


def make_clients(sizes: list[int], shift: float, seed: int = 0, p: int = 8) -> list[fs.Client]:
    rng = np.random.default_rng(seed)
    clients = []
    for j, n in enumerate(sizes):
        X = rng.standard_normal((n, p)) + shift * rng.standard_normal(p)
        y = X @ rng.standard_normal(p) + rng.standard_normal(n)
        clients.append(fs.Client(f"client-{j}", X, y))
    return clients


def matrices(clients: list[fs.Client]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A = Σ p_j H_j⁻¹, H = Σ p_j H_j and the pooled solution, by NumPy alone."""
    total = sum(client.n_samples for client in clients)
    A, H, right = 0.0, 0.0, 0.0
    for client in clients:
        p = client.n_samples / total
        Hj = client.X.T @ client.X / client.n_samples + L2 * np.eye(client.X.shape[1])
        A, H, right = A + p * np.linalg.inv(Hj), H + p * Hj, right + p * client.X.T @ client.y / client.n_samples
    return A, H, np.linalg.solve(H, right)


def error(clients: list[fs.Client], rounds: int) -> np.ndarray:
    run = fs.run(fs.FedNewton(fs.Squared(l2=L2)), clients, rounds=rounds, measure=0)
    return run.model.w - matrices(clients)[2]


def test_with_the_local_gradient_of_line_7_every_step_lands_on_dkrr() -> None:
    clients = make_clients([30, 60, 20], 1.0)
    w = np.random.default_rng(1).standard_normal(8)
    loss = fs.Squared(l2=L2)
    literal = sum(c.weight / 110 * (w - loss.hessian_factor(c, w).solve(loss.gradient(c, w))) for c in clients)
    dkrr = fs.run(fs.DKRR(loss), clients).model.w
    np.testing.assert_allclose(literal, dkrr, rtol=1e-10, atol=1e-10)
    assert np.linalg.norm(fs.run(fs.FedNewton(loss), clients, rounds=1).model.w - dkrr) > 1e-3


def test_identical_clients_reach_the_pooled_solution_in_one_step() -> None:
    one = make_clients([40], 1.0)[0]
    twins = [fs.Client(f"twin-{j}", one.X, one.y) for j in range(5)]
    far = np.full(8, 100.0)
    run = fs.run(fs.FedNewton(fs.Squared(l2=L2)), twins, rounds=1, warm_start=far)
    np.testing.assert_allclose(run.model.w, matrices(twins)[2], rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_plain_fednewton_overshoots_and_its_error_falls_by_rho(seed: int) -> None:
    clients = make_clients([60, 90, 120, 80], 0.3, seed)
    A, H, _ = matrices(clients)
    eigenvalues = np.sort(np.linalg.eigvals(A @ H).real)
    assert eigenvalues[0] >= 1 - 1e-10
    rho = eigenvalues[-1] - 1
    assert rho < 1
    late = [np.linalg.norm(error(clients, t)) for t in (12, 13)]
    assert late[1] / late[0] == pytest.approx(rho, rel=0.01)


def test_it_diverges_where_rho_says_so_and_cg_does_not() -> None:
    clients = make_clients([20, 12, 30, 9], 3.0)
    A, H, pooled = matrices(clients)
    assert np.linalg.eigvals(A @ H).real.max() > 2
    run = fs.run(fs.FedNewton(fs.Squared(l2=L2)), clients, rounds=200)
    assert run.status == "diverged"
    # Conjugate gradients end after as many iterations as there are distinct eigenvalues, here 8; what rounding leaves
    # is far below the library's own bound on exactness.
    cg = fs.run(fs.FedNewtonCG(fs.Squared(l2=L2)), clients, rounds=8, tolerance=0.0)
    assert np.linalg.norm(cg.model.w - pooled) <= 1e-8 * np.linalg.norm(pooled)


def test_the_ledger_is_the_hand_count_of_algorithm_1() -> None:
    m, M, T = 4, 8, 5
    run = fs.run(fs.FedNewton(fs.Squared(l2=L2)), make_clients([60, 90, 120, 80], 0.3), rounds=T)
    total = run.ledger.total("algorithm")
    assert total.scalars_up == m * M * (1 + 2 * T)
    assert total.scalars_down == 2 * m * M * T
    assert total.exchanges == 1 + 2 * T
    assert total.counts["factorisations"] == m  # once per client, not once per round
    assert total.counts["hessians"] == m


def test_fednewton_on_a_loss_that_is_not_quadratic() -> None:
    problem = PROBLEMS["logistic | balanced"]
    run = fs.run(fs.FedNewton(problem.loss), problem.clients(), rounds=60, tolerance=1e-10)
    assert run.history[0].value == pytest.approx(np.log(2))  # Remark 4: from zero
    assert run.converged
    assert problem.distance(run.model.w) <= 1e-8


def test_cg_takes_two_exchanges_a_round_on_a_quadratic() -> None:
    run = fs.run(fs.FedNewtonCG(fs.Squared(l2=L2)), make_clients([60, 90], 0.3), rounds=4)
    assert [row.exchanges for row in run.history] == [2, 4, 6, 8, 10]
    total = run.ledger.total("algorithm")
    assert total.counts["factorisations"] == 2


def test_cg_restarts_when_the_cohort_changes() -> None:
    """With clients coming and going the recursive residual would keep falling while the true one stays; a restart from
    a fresh gradient keeps them together, and when all are back it converges."""
    clients = make_clients([60, 90, 120, 80], 1.0)
    lossy = fs.run(
        fs.FedNewtonCG(fs.Squared(l2=L2)), clients, rounds=6, participation=fs.Participation(dropout=0.2), seed=3
    )
    assert not lossy.converged
    healed = fs.run(fs.FedNewtonCG(fs.Squared(l2=L2)), clients, rounds=30, tolerance=1e-11, warm_start=lossy.model)
    assert healed.converged
    np.testing.assert_allclose(healed.model.w, matrices(clients)[2], rtol=1e-9)


def test_cg_s_recurrence_is_that_of_one_cohort() -> None:
    """Round for round, a run that loses a client for one round equals one that begins again after it (up to rounding: a
    restart takes its gradient from the rows, a start from the kept Hessian)."""
    clients = make_clients([60, 90, 120, 80], 1.0)
    algorithm = fs.FedNewtonCG(fs.Squared(l2=L2))
    gone = {(2, 0): ("client-0", "client-1", "client-3"), (2, 1): ("client-0", "client-1", "client-3")}
    everyone = tuple(client.name for client in clients)
    gone |= {(2, e): gone[2, 0] for e in range(4)}
    lossy = fs.run(algorithm, clients, rounds=9, participation=fs.Replay(cohorts=gone))
    at_two = fs.run(algorithm, clients, rounds=2, participation=fs.Replay(cohorts=gone))
    again = fs.run(algorithm, clients, rounds=7, warm_start=at_two.model)
    np.testing.assert_allclose(lossy.model.w, again.model.w, rtol=1e-12)
    assert set(everyone) == {name for record in lossy.ledger.records for name in record.asked}


@pytest.mark.parametrize("pull", [0.3, 5.0])
def test_fedprox_ends_where_its_fixed_point_is(pull: float) -> None:
    """w = Σ p_j [w_j + (I − B_j)(w − w_j)], B_j = (H_j + pull I)⁻¹ H_j, has the solution (Σ p B)⁻¹ Σ p B w_j."""
    clients = make_clients([20, 50, 30], 1.0)
    total, B_sum, right = 100, 0.0, 0.0
    for client in clients:
        H = client.X.T @ client.X / client.n_samples + L2 * np.eye(8)
        B = np.linalg.solve(H + pull * np.eye(8), H)
        local = np.linalg.solve(H, client.X.T @ client.y / client.n_samples)
        B_sum, right = B_sum + client.weight / total * B, right + client.weight / total * B @ local
    stopping = fs.Stopping(rounds=5000, change=1e-15)
    run = fs.run(fs.FedProx(fs.Squared(l2=L2), pull), clients, stopping=stopping, measure=0)
    np.testing.assert_allclose(run.model.w, np.linalg.solve(B_sum, right), rtol=1e-10)
    assert run.ledger.total("algorithm").counts["factorisations"] == 3


@pytest.mark.parametrize("name", ["logistic, free intercept | one class at a client", "poisson | unbalanced"])
def test_fedprox_solves_its_inner_problem(name: str) -> None:
    """The proximal point is where ∇f_j(v) + pull (v − w) = 0, also for a client that has no fit of its own."""
    problem = PROBLEMS[name]
    for client in problem.clients():
        w = 0.1 * np.ones(problem.pooled().shape)
        v = problem.loss.minimise(client, w, 0.7)
        assert np.linalg.norm(problem.loss.gradient(client, v) + 0.7 * (v - w)) <= 1e-9
