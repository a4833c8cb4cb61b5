"""The l1 penalty, by proximal Newton steps at the server, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression

import fedsolve as fs
from fedsolve.numerics import proximal as prox

RNG = np.random.default_rng(0)
N, P = 300, 20
X = RNG.standard_normal((N, P))
TRUTH = np.concatenate([[3.0, -2.0, 1.0, 0.5, -0.2], np.zeros(15)])
Y = X @ TRUTH + 0.5 + RNG.standard_normal(N)
LABELS = (X @ TRUTH + RNG.logistic(size=N) > 0).astype(float)


@pytest.mark.parametrize(("l1", "l2"), [(0.1, 0.05), (0.5, 0.0), (0.01, 1.0)])
def test_squared_equals_the_pooled_elastic_net(l1: float, l2: float) -> None:
    clients = fs.data.partition(X, Y, fs.data.Homogeneity(0.1), clients=4)
    loss = fs.Squared(l1=l1, l2=l2, intercept="free")
    run = fs.run(fs.Newton(loss), clients, rounds=20, tolerance=1e-12)
    pooled = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-15, max_iter=100_000).fit(X, Y)
    answer = np.append(pooled.coef_, pooled.intercept_)
    assert run.converged
    assert np.linalg.norm(run.model.w - answer) <= 1e-8 * np.linalg.norm(answer)
    assert np.array_equal(run.model.w == 0, answer == 0)


def test_logistic_equals_the_pooled_fit_with_the_same_zeros() -> None:
    l1, l2 = 0.02, 0.01
    clients = fs.data.partition(X, LABELS, fs.data.Dirichlet(0.5), clients=4)
    run = fs.run(fs.Newton(fs.Logistic(l1=l1, l2=l2)), clients, rounds=30, tolerance=1e-12)
    pooled = LogisticRegression(
        solver="saga", C=1 / (N * (l1 + l2)), l1_ratio=l1 / (l1 + l2), tol=1e-13, max_iter=100_000, fit_intercept=False
    ).fit(X, LABELS)
    assert run.converged
    assert np.linalg.norm(run.model.w - pooled.coef_[0]) <= 1e-8 * np.linalg.norm(pooled.coef_)
    assert run.history[-1].gap_is_bound
    values = [row.value for row in run.history]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("loss", [fs.Squared(l1=0.1, l2=0.01), fs.Softmax(l1=0.01, l2=0.01, classes=3)])
def test_several_columns_meet_the_optimality_conditions(loss: fs.Squared | fs.Softmax) -> None:
    y = np.stack([Y, -Y], axis=1) if isinstance(loss, fs.Squared) else np.digitize(Y, [-2, 2]).astype(float)
    clients = [fs.Client(f"client-{j}", X[j::3], y[j::3]) for j in range(3)]
    run = fs.run(fs.Newton(loss), clients, rounds=40, tolerance=1e-10)
    assert run.converged
    g = sum(client.weight / N * loss.gradient(client, run.model.w) for client in clients)
    assert np.linalg.norm(prox.subgradient(g, run.model.w, np.full(g.shape, loss.l1))) <= 1e-9
    assert (run.model.w == 0).any()


def test_a_large_penalty_leaves_the_intercept_alone() -> None:
    run = fs.run(fs.Newton(fs.Squared(l1=100.0, intercept="free")), [fs.Client("a", X, Y)], tolerance=1e-12)
    assert (run.model.w[:-1] == 0).all()
    assert run.model.w[-1] == pytest.approx(Y.mean(), rel=1e-12)


@pytest.mark.parametrize(
    "algorithm", [fs.FedAvg, fs.Scaffold, fs.DKRR, fs.FedProx, fs.FedNewton, fs.FedNewtonCG, fs.FedNL]
)
def test_algorithms_without_a_proximal_step_refuse_it(algorithm: type) -> None:
    with pytest.raises(fs.errors.ConfigError, match="no step for an l1 penalty; use Newton"):
        fs.run(algorithm(fs.Squared(l1=0.1, l2=0.1)), [fs.Client("a", X, Y)])


def test_a_step_size_must_be_given_where_smoothness_has_no_bound() -> None:
    with pytest.raises(fs.errors.ConfigError, match="give GradientSteps a step_size"):
        fs.run(fs.FedAvg(fs.Poisson()), [fs.Client("a", X, LABELS)])


@pytest.mark.parametrize(("at", "level"), [(100.0, 0.0), (2000.0, 0.0), (100.0, 1e6), (-5.0, 1e3)])
def test_columns_and_targets_far_from_zero(at: float, level: float) -> None:
    """Such columns are nearly parallel to the intercept, and a step that creeps along both is no step at all."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5)) + at
    y = X @ [1.0, 0.0, -2.0, 0.0, 0.5] + 0.1 * rng.normal(size=300) + level
    clients = fs.data.partition(X, y, fs.data.IID(), clients=3)
    run = fs.run(fs.Newton(fs.Squared(l2=0.01, l1=0.05, intercept="free")), clients)
    pooled = ElasticNet(alpha=0.06, l1_ratio=0.05 / 0.06, tol=1e-15, max_iter=100_000).fit(X - X.mean(0), y)
    assert run.converged
    assert run.rounds <= 2
    np.testing.assert_allclose(run.model.coef.ravel(), pooled.coef_, rtol=1e-7, atol=1e-7)


def test_a_penalised_column_that_is_the_intercept_again() -> None:
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=200), np.full(200, 7.0)])
    y = X[:, 0] + 3.0 + 0.1 * rng.normal(size=200)
    clients = fs.data.partition(X, y, fs.data.IID(), clients=2)
    run = fs.run(fs.Newton(fs.Squared(l1=0.05, intercept="free")), clients)
    assert run.converged
    assert run.model.coef.ravel()[1] == 0.0
