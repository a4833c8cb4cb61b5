"""GIANT against plain NumPy, against Newton where it is Newton, and where its local Hessians are singular."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.reproduce.iterates import iterates
from tests.problems import PROBLEMS

L2 = 1e-2
GRID = [0.5**k for k in range(31)]


def make_clients(sizes: list[int], shift: float = 1.0, seed: int = 0, p: int = 8) -> list[fs.Client]:
    rng = np.random.default_rng(seed)
    clients = []
    for j, n in enumerate(sizes):
        X = rng.standard_normal((n, p)) + shift * rng.standard_normal(p)
        y = (X @ rng.standard_normal(p) + rng.standard_normal(n) > 0).astype(float)
        clients.append(fs.Client(f"client-{j}", X, y))
    return clients


def shares(clients: list[fs.Client]) -> list[tuple[float, np.ndarray, np.ndarray]]:
    total = sum(client.n_samples for client in clients)
    return [(client.n_samples / total, client.X, client.y) for client in clients]


def logistic_by_numpy(clients: list[fs.Client], rounds: int) -> list[np.ndarray]:
    """The method in plain NumPy: inverses, the Armijo test at 1, ½, ¼, … with α = 1/4."""
    w = np.zeros(clients[0].X.shape[1])
    found = [w]

    def value(v: np.ndarray) -> float:
        return sum(q * np.mean(np.logaddexp(0, X @ v) - y * (X @ v)) for q, X, y in shares(clients)) + L2 / 2 * v @ v

    for _ in range(rounds):
        g, A = L2 * w, np.zeros((len(w), len(w)))
        for q, X, y in shares(clients):
            s = 1 / (1 + np.exp(-X @ w))
            g = g + q * X.T @ (s - y) / len(y)
            A += q * np.linalg.inv(X.T @ ((s * (1 - s))[:, None] * X) / len(y) + L2 * np.eye(len(w)))
        p = A @ g
        eta = next(eta for eta in GRID if value(w - eta * p) <= value(w) - 0.25 * eta * g @ p)
        w = w - eta * p
        found.append(w)
    return found


def test_logistic_iterates_are_those_of_plain_numpy() -> None:
    clients = make_clients([20, 60, 15])
    expected = logistic_by_numpy(clients, 12)
    found = [iterate.state.w for iterate in islice(iterates(fs.GIANT(fs.Logistic(l2=L2)), clients), 13)]
    # Twelve rounds of solves with condition numbers up to 1e4.
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    # Not merely FedNewton: some steps are shortened.
    whole = fs.run(fs.FedNewton(fs.Logistic(l2=L2)), clients, rounds=12, measure=0).model.w
    assert np.linalg.norm(whole - expected[-1]) > 1e-3


def test_a_quadratic_is_minimised_along_the_direction() -> None:
    clients = make_clients([20, 60, 15])
    w, H, b, A = np.zeros(8), 0.0, 0.0, 0.0
    for q, X, y in shares(clients):
        local = X.T @ X / len(y) + L2 * np.eye(8)
        H, b, A = H + q * local, b + q * X.T @ y / len(y), A + q * np.linalg.inv(local)
    for iterate in islice(iterates(fs.GIANT(fs.Squared(l2=L2)), clients), 8):
        np.testing.assert_allclose(iterate.state.w, w, rtol=1e-9, atol=1e-11)
        g = H @ w - b
        p = A @ g
        w = w - (g @ p) / (p @ H @ p) * p


@pytest.mark.parametrize("loss", [fs.Squared(l2=L2), fs.Logistic(l2=L2)], ids=["squared", "logistic"])
@pytest.mark.parametrize("twins", [1, 4])
def test_clients_that_are_alike_make_it_newton(loss: fs.losses.LinearLoss, twins: int) -> None:
    one = make_clients([40])[0]
    clients = [fs.Client(f"twin-{j}", one.X, one.y) for j in range(twins)]
    search = fs.Armijo(alpha=0.25)
    rounds = 1 if loss.quadratic else 5
    ours = fs.run(fs.GIANT(loss), clients, rounds=rounds, tolerance=0.0).model.w
    newton = fs.run(fs.Newton(loss, search), clients, rounds=rounds, tolerance=0.0).model.w
    np.testing.assert_allclose(ours, newton, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["squared, two outputs | unbalanced", "logistic | weighted", "softmax | label-skewed"])
def test_as_many_cg_steps_as_weights_are_the_exact_solve(name: str) -> None:
    problem = PROBLEMS[name]
    order = problem.pooled().shape[0] if problem.loss.separable else problem.pooled().size
    rounds = 3
    exact = fs.run(fs.GIANT(problem.loss), problem.clients(), rounds=rounds, tolerance=0.0).model.w
    enough = fs.GIANT(problem.loss, fs.CG(steps=2 * order))  # twice, for what rounding costs
    by_cg = fs.run(enough, problem.clients(), rounds=rounds, tolerance=0.0).model.w
    np.testing.assert_allclose(by_cg, exact, rtol=1e-8, atol=1e-10)
    few = fs.run(fs.GIANT(problem.loss, fs.CG(steps=2)), problem.clients(), rounds=rounds, tolerance=0.0).model.w
    assert np.linalg.norm(few - exact) > 1e-4


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_richardson_is_the_truncated_neumann_series_of_done(steps: int) -> None:
    """z_K = (I − (I − αH)^K) H⁻¹ g."""
    client, loss, w = make_clients([30])[0], fs.Logistic(l2=L2), np.full(8, 0.1)
    H, g = loss.hessian(client, w).full(), np.arange(8.0)
    alpha = 1 / loss.smoothness(client)
    assert alpha < 1 / np.linalg.eigvalsh(H)[-1]  # the default is one that converges
    left = np.eye(8) - np.linalg.matrix_power(np.eye(8) - alpha * H, steps)
    found = fs.Richardson(steps=steps).solve(loss, client, w, g)
    np.testing.assert_allclose(found, left @ np.linalg.solve(H, g), rtol=1e-10, atol=1e-14)


def test_many_richardson_steps_are_the_exact_solve() -> None:
    client, loss, w, g = make_clients([30])[0], fs.Squared(l2=0.5), np.zeros(8), np.arange(8.0)
    exact = np.linalg.solve(loss.hessian(client, w).full(), g)
    steps = int(np.log(1e-10) / np.log(1 - 0.5 / loss.smoothness(client))) + 1  # by the rate of the slowest component
    found = fs.Richardson(steps=steps).solve(loss, client, w, g)
    assert np.linalg.norm(found - exact) <= 1e-10 * np.linalg.norm(exact)


def test_a_richardson_step_that_is_too_long_is_refused() -> None:
    clients, loss = make_clients([30, 50]), fs.Squared(l2=L2)
    steepest = max(np.linalg.eigvalsh(loss.hessian(client, np.zeros(8)).full())[-1] for client in clients)
    algorithm = fs.GIANT(loss, fs.Richardson(steps=40, step_size=2.2 / steepest))
    with pytest.raises(fs.errors.InputError, match=r"client-0.*Richardson's step size .* too long.*residual grows"):
        fs.run(algorithm, clients, rounds=5)
    shorter = fs.GIANT(loss, fs.Richardson(steps=40, step_size=1.9 / steepest))
    assert fs.run(shorter, clients, rounds=300, tolerance=1e-10).converged


def test_the_ledger_is_the_hand_count() -> None:
    """A round: g down and a direction up; w, p and 32 steps down and 32 losses up; w down, f and ∇f up."""
    m, T, sizes = 4, 3, [60, 90, 120, 80]
    totals = {}
    for p in (8, 11):
        run = fs.run(fs.GIANT(fs.Logistic(l2=L2)), make_clients(sizes, p=p), rounds=T, tolerance=0.0)
        total = totals[p] = run.ledger.total("algorithm")
        assert [row.exchanges for row in run.history] == [1, 4, 7, 10]
        assert total.scalars_up == m * ((p + 1) + T * (p + 32 + (p + 1)))
        assert total.scalars_down == m * (p + T * (p + (2 * p + 32) + p))
        assert total.counts["factorisations"] == total.counts["hessians"] == m * T
        assert run.ledger.total("measure").exchanges == 0  # a round knows its value and gradient
    # Every number is eight bytes, and nothing else depends on p.
    for way in ("up", "down"):
        numbers = getattr(totals[11], f"scalars_{way}") - getattr(totals[8], f"scalars_{way}")
        assert getattr(totals[11], f"bytes_{way}") - getattr(totals[8], f"bytes_{way}") == 8 * numbers


def test_a_quadratic_s_search_is_two_numbers() -> None:
    run = fs.run(fs.GIANT(fs.Squared(l2=L2)), make_clients([60, 90]), rounds=3, tolerance=0.0)
    total = run.ledger.total("algorithm")
    assert total.scalars_up == 2 * (9 + 3 * (8 + 2 + 9))
    assert total.exchanges == 10
    assert total.counts["factorisations"] == 2  # once per client


@pytest.mark.parametrize(("n", "p", "steps", "formed"), [(40, 120, 5, False), (400, 6, 30, True)])
def test_the_hessian_is_formed_only_where_that_is_cheaper(n: int, p: int, steps: int, formed: bool) -> None:
    clients = make_clients([n, n], p=p)
    run = fs.run(fs.GIANT(fs.Logistic(l2=L2), fs.CG(steps=steps)), clients, rounds=2, tolerance=0.0)
    counts = run.ledger.total("algorithm").counts
    assert counts.get("hessians", 0) == (2 * 2 if formed else 0)
    assert counts.get("products", 0) == (0 if formed else 2 * 2 * n * steps)


# ── singular local Hessians ──


def test_singular_local_hessians_of_a_quadratic() -> None:
    """Gradients are in the sum of the ranges of the H_j, where the mean of their pseudo-inverses is positive definite:
    every round goes down, to the solution of the pooled problem of least norm in units of the pooled columns."""
    rng = np.random.default_rng(3)
    parts = [(rng.standard_normal((n, 40)), rng.standard_normal(n)) for n in (3, 2, 1)]
    clients = [fs.Client(f"client-{j}", *part) for j, part in enumerate(parts)]
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    run = fs.run(fs.GIANT(fs.Squared()), clients, rounds=300, tolerance=1e-12)
    values = [row.value for row in run.history]
    assert all(after < before or before < 1e-20 for before, after in pairwise(values))
    assert run.converged
    d = np.sqrt((X**2).mean(axis=0))
    np.testing.assert_allclose(run.model.w, np.linalg.pinv(X / d) @ y / d, rtol=1e-9, atol=1e-12)


def test_singular_local_hessians_of_the_logistic_loss() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 2, 60).astype(float)
    clients = [fs.Client(f"c{j}", X[part], y[part]) for j, part in enumerate(np.split(np.arange(60), [3, 5, 30]))]
    loss = fs.Logistic(intercept="free")
    run = fs.run(fs.GIANT(loss), clients, rounds=200, tolerance=1e-11)
    pooled = fs.run(fs.Newton(loss), clients, rounds=30, tolerance=1e-13).model.w
    assert run.converged
    np.testing.assert_allclose(run.model.w, pooled, rtol=1e-8)


# ── near the optimum, and clients that come and go ──


def test_slopes_decide_where_values_cannot() -> None:
    """The last digits of the gradient are gained where the value has none left to say so."""
    problem = PROBLEMS["logistic, free intercept | label-skewed"]
    run = fs.run(fs.GIANT(problem.loss), problem.clients(), rounds=200, tolerance=1e-13)
    assert run.converged
    calls = [call for record in run.ledger.records for call in record.calls]
    assert calls.count("algorithm.search.slopes") >= 3
    last, earlier = run.history[-1].value, run.history[-3].value
    assert last == pytest.approx(earlier, rel=4 * np.finfo(float).eps, abs=0)  # nothing but rounding is between them


@pytest.mark.parametrize("loss", [fs.Squared(l2=L2), fs.Logistic(l2=L2)], ids=["squared", "logistic"])
def test_a_client_that_leaves_between_the_exchanges(loss: fs.losses.LinearLoss) -> None:
    """Whoever is left decides on the step: their own objective goes down, or nothing moves."""
    clients = make_clients([40, 60, 50])
    here = [clients[0], clients[2]]
    gone = {(2, exchange): ("client-0", "client-2") for exchange in (1, 2)}
    algorithm = fs.GIANT(loss)
    at_one = fs.run(algorithm, clients, rounds=1, tolerance=0.0).model.w
    lossy = fs.run(algorithm, clients, rounds=2, tolerance=0.0, participation=fs.Replay(cohorts=gone))

    def value(w: np.ndarray) -> float:
        return sum(client.weight / 90 * loss.value(client, w) for client in here)

    assert value(lossy.model.w) < value(at_one)
    assert lossy.state.cohort == ("client-0", "client-2")
    assert lossy.state.value == pytest.approx(value(lossy.model.w), rel=1e-14)
    # Back together, they ask afresh, and reach what all of them have to say.
    healed = fs.run(algorithm, clients, rounds=100, tolerance=1e-11, participation=fs.Replay(cohorts=gone))
    assert healed.converged
    pooled = fs.run(fs.Newton(loss), clients, tolerance=1e-12).model.w
    np.testing.assert_allclose(healed.model.w, pooled, rtol=1e-8)


def test_l1_is_refused() -> None:
    with pytest.raises(fs.errors.ConfigError, match="GIANT has no step for an l1 penalty"):
        fs.run(fs.GIANT(fs.Squared(l1=0.1)), make_clients([20]))
