"""FedNewtonCG without Hessians: what it sends, when it is picked, that units and size do it no harm."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.curvature import products
from fedsolve.errors import ConfigError
from tests.problems import PROBLEMS


def sparse_clients(features: int, rows: int = 400, entries: int = 10, clients: int = 4) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    places = np.sort(rng.integers(0, features, (rows, entries)), axis=1).ravel()
    X = sp.csr_array(
        (rng.standard_normal(rows * entries), places, np.arange(0, rows * entries + 1, entries)), shape=(rows, features)
    )
    y = (rng.random(rows) < 1 / (1 + np.exp(-X @ rng.standard_normal(features)))).astype(float)
    return fs.data.partition(X, y, fs.data.Dirichlet(0.5), clients=clients, seed=0)


def steps_asked(run: fs.Run) -> set[str]:
    return {call.split(".")[-1] for call, purpose in run.ledger.by_call() if purpose == "algorithm"}


@pytest.mark.parametrize("loss", [fs.Squared(l2=0.1), fs.Logistic(l2=0.1)])
def test_the_preconditioner_is_picked_by_size(loss: object, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = sparse_clients(6)
    monkeypatch.setattr(products, "LARGE", 6)
    few = fs.run(fs.FedNewtonCG(loss), clients, rounds=2)
    told = fs.run(fs.FedNewtonCG(loss, preconditioner="local inverse"), clients, rounds=2)
    assert "local_solve" in steps_asked(few)
    assert np.array_equal(few.model.w, told.model.w)
    monkeypatch.setattr(products, "LARGE", 5)
    many = fs.run(fs.FedNewtonCG(loss), clients, rounds=2)
    told = fs.run(fs.FedNewtonCG(loss, preconditioner="diagonal"), clients, rounds=2)
    assert {"local_diagonal", "local_row_product"} <= steps_asked(many)
    assert not {"local_solve", "local_product", "local_minimiser"} & steps_asked(many)
    assert np.array_equal(many.model.w, told.model.w)


def test_the_order_is_that_of_the_whole_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all classes of a softmax, and after a feature map."""
    clients, monkey = sparse_clients(6), monkeypatch
    monkey.setattr(products, "LARGE", 11)
    assert "local_solve" in steps_asked(fs.run(fs.FedNewtonCG(fs.Logistic(l2=0.1)), clients, rounds=1))
    for loss in (fs.Softmax(l2=0.1, classes=2), fs.Logistic(l2=0.1, features=fs.RandomFourier(12, gamma=0.1))):
        assert "local_row_product" in steps_asked(fs.run(fs.FedNewtonCG(loss), clients, rounds=1))


@pytest.mark.parametrize(("preconditioner", "with_gradient"), [("diagonal", 2), ("none", 1)])
def test_a_round_sends_one_model_each_way(preconditioner: str, with_gradient: int) -> None:
    problem = PROBLEMS["logistic | unbalanced"]
    clients, p = problem.clients(), 6
    run = fs.run(fs.FedNewtonCG(problem.loss, preconditioner=preconditioner), clients, tolerance=1e-11)
    rows, m = run.history, len(clients)
    first = rows[0].exchanges, rows[0].scalars_up, rows[0].scalars_down
    assert first == (1, m * (1 + with_gradient * p), m * p)
    newton_steps = 0
    for before, row in pairwise(rows):
        ends = row.exchanges - before.exchanges == 2  # a Newton step is tried, with the gradient where it leads
        newton_steps += ends
        assert row.scalars_up - before.scalars_up == m * (p + (1 + with_gradient * p if ends else 0))
        assert row.scalars_down - before.scalars_down == m * (p + (p if ends else 0))
    assert newton_steps >= 3
    assert run.ledger.total("algorithm").counts.get("hessians", 0) == 0


def test_a_cg_iteration_is_two_passes_over_the_rows() -> None:
    """Curvatures are computed once for each of Newton's steps, not for each product."""
    problem = PROBLEMS["logistic | unbalanced"]
    evaluated = []

    class Counting(fs.Logistic):
        def curvature(self, xp, eta, y):  # type: ignore[no-untyped-def]
            evaluated.append(1)
            return super().curvature(xp, eta, y)

    clients = problem.clients()
    run = fs.run(fs.FedNewtonCG(Counting(l2=1e-2), preconditioner="diagonal"), clients, tolerance=1e-11)
    gradients = run.history[-1].exchanges - run.history[-1].round  # one at the start, and one for each Newton step
    assert len(evaluated) == len(clients) * gradients
    assert run.history[-1].round > 2 * gradients


def test_twenty_thousand_weights_take_some_vectors() -> None:
    clients = sparse_clients(20_000, rows=1000, entries=20, clients=5)
    algorithm = fs.FedNewtonCG(fs.Logistic(l2=1e-3, intercept="free"))
    tracemalloc.start()
    run = fs.run(algorithm, clients, tolerance=1e-9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.converged
    assert peak < 60 * 20_000 * 8  # 9.6 MB; a Hessian has 3.2 GB
    X, y = sp.vstack([client.X for client in clients]), np.concatenate([client.y for client in clients])
    w = run.model.w
    residual = 1 / (1 + np.exp(-(X @ w[:-1] + w[-1]))) - y
    gradient = np.append(X.T @ residual, residual.sum()) / len(y) + 1e-3 * np.append(w[:-1], 0.0)
    assert np.linalg.norm(gradient) <= 1.1e-9


@pytest.mark.parametrize("loss", [fs.Squared(l2=1e-3), fs.Softmax(l2=1e-3, classes=2)])
def test_other_losses_of_many_weights_converge_too(loss: object) -> None:
    run = fs.run(fs.FedNewtonCG(loss), sparse_clients(3000), rounds=200, tolerance=1e-9)
    assert run.converged


@pytest.mark.parametrize("name", ["Squared", "Logistic", "Poisson"])
@pytest.mark.parametrize("collinear", [False, True])
def test_columns_in_any_units(name: str, collinear: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 5))
    eta = 0.5 * X @ rng.standard_normal(5)
    if collinear:
        X = np.hstack([X, X[:, :1] + X[:, 1:2]])
    y = {
        "Squared": eta + rng.standard_normal(120),
        "Logistic": (rng.random(120) < 1 / (1 + np.exp(-eta))).astype(float),
        "Poisson": rng.poisson(np.exp(eta)).astype(float),
    }[name]
    algorithm = fs.FedNewtonCG(getattr(fs, name)(intercept="free"), preconditioner="diagonal")

    def predictions(scale: np.ndarray) -> np.ndarray:
        clients = [fs.Client(f"c{j}", (X * scale)[j::3], y[j::3]) for j in range(3)]
        # Further than rounding lets it: what is gained must not be lost again.
        run = fs.run(algorithm, clients, rounds=150, tolerance=0.0)
        return run.model.decision_function(X * scale)

    plain = predictions(np.ones(X.shape[1]))
    for seed in range(3):
        scale = 10.0 ** np.random.default_rng(seed).integers(-8, 9, X.shape[1])
        np.testing.assert_allclose(predictions(scale), plain, rtol=0, atol=1e-8 * np.abs(plain).max())


def test_a_column_of_zeros_without_a_penalty_gets_no_weight() -> None:
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((60, 3)), np.zeros((60, 1))])
    y = (rng.random(60) < 0.5).astype(float)
    clients = [fs.Client(f"c{j}", X[j::2], y[j::2]) for j in range(2)]
    run = fs.run(fs.FedNewtonCG(fs.Logistic(), preconditioner="diagonal"), clients, tolerance=1e-11)
    assert run.converged
    assert run.model.w[3] == 0.0


def test_an_unknown_preconditioner_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"one of 'local inverse', 'diagonal', 'none', or None; got 'jacobi'"):
        fs.FedNewtonCG(fs.Squared(), preconditioner="jacobi")  # type: ignore[arg-type]
