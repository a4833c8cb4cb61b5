"""Lipschitz extensions and Algorithm 3: exact answers through `fs.run`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.learners import Fitting, Function, SobolevLearner, gamma
from fedsolve.learners.lipschitz import LipschitzLearner, largest_slope
from fedsolve.learners.sobolev import slopes_of
from fedsolve.losses.linear_part import LinearPart
from tests.extras import optional

L = 2.0


def _fitting(X: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> Fitting:
    return Fitting(X, target, weight, (), np.random.default_rng(0))


def _u(client: fs.Client, X: np.ndarray) -> np.ndarray:
    """Equation (13), written out."""
    return np.array([min(y + L * np.linalg.norm(x - at) for y, at in zip(client.y, client.X, strict=True)) for x in X])


def _clients() -> list[fs.Client]:
    """Labels of an L-Lipschitz function, without noise, at clients of unequal size and place; one has a single row."""
    rng = np.random.default_rng(0)
    clients = []
    for i, n in enumerate((12, 1, 30)):
        X = rng.standard_normal((n, 2)) + i
        clients.append(fs.Client(f"c{i}", X, 1.5 * np.abs(X[:, 0]) + np.cos(X[:, 1])))  # slopes √(1.5² + 1) < 2
    return clients


def test_the_extension_is_equation_13() -> None:
    client = _clients()[0]
    h = LipschitzLearner(constant=L).fit(_fitting(client.X, -client.y))
    X = np.random.default_rng(1).standard_normal((50, 2))
    np.testing.assert_allclose(-h(X), _u(client, X), atol=1e-13)
    np.testing.assert_allclose(-h(client.X), client.y, atol=1e-13)  # it interpolates: γ = 1
    assert largest_slope(X, h(X)) <= L * (1 + 1e-12)
    assert gamma(-client.y, h(client.X), norm="largest") == pytest.approx(1.0, abs=1e-13)
    again = LipschitzLearner(constant=L).function(h.arrays(), 2, ())
    np.testing.assert_array_equal(again(sp.csr_array(X)), h(X))


@pytest.mark.parametrize("steps", [1, 3, 5])
@pytest.mark.parametrize("residual", ["round", "carried", None])
def test_algorithm_3_is_the_mean_of_the_extensions(steps: int, residual: str | None) -> None:
    """f^T = (1/N) Σ u_i to 1e-12, clients counted the same whatever their size: μ = 1 in the step and no more."""
    clients = _clients()
    algorithm = fs.FFGB(
        LinearPart(),
        LipschitzLearner(L),
        steps=steps,
        step_size="theorem 4.4",
        tikhonov=1.0,
        residual=residual,  # type: ignore[arg-type]
    )
    run = fs.run(algorithm, clients, rounds=12)
    X = np.random.default_rng(2).standard_normal((40, 2))
    expected = np.mean([_u(client, X) for client in clients], axis=0)
    np.testing.assert_allclose(run.model.decision_function(X), expected, atol=1e-12)


@pytest.mark.parametrize("mu", [0.1, 2.0])
def test_with_a_tikhonov_term_it_is_shrunk(mu: float) -> None:
    """f^T = ū / (1 + μ) to 1e-12."""
    clients = _clients()
    learner = LipschitzLearner(L)
    run = fs.run(fs.FFGB(LinearPart(), learner, steps=2, step_size="theorem 4.4", tikhonov=1 + mu), clients, rounds=12)
    X = np.random.default_rng(2).standard_normal((40, 2))
    expected = np.mean([_u(client, X) for client in clients], axis=0) / (1 + mu)
    np.testing.assert_allclose(run.model.decision_function(X), expected, atol=1e-12)


def test_the_objective_is_the_square_loss() -> None:
    clients = _clients()
    run = fs.run(fs.FFGB(LinearPart(), LipschitzLearner(L), step_size="theorem 4.4", tikhonov=1.0), clients, rounds=9)
    f = [run.model.decision_function(client.X) for client in clients]
    squares = np.mean([np.mean(0.5 * (g - client.y) ** 2) for g, client in zip(f, clients, strict=True)])
    assert run.history[-1].value == pytest.approx(squares, rel=1e-12)


def test_it_is_for_simulation_only(tmp_path: object) -> None:
    algorithm = fs.FFGB(LinearPart(), LipschitzLearner(L), step_size="theorem 4.4", tikhonov=1.0)
    assert LipschitzLearner.simulation_only
    with pytest.raises(ConfigError, match="sends rows of the clients' data and is for simulation in this process only"):
        fs.run(algorithm, _clients(), rounds=2, transport="processes")
    run = fs.run(algorithm, _clients(), rounds=4)
    with pytest.raises(ConfigError, match="is not saved"):
        run.model.save(f"{tmp_path}/model.npz")
    assert not hasattr(fs.learners, "LipschitzLearner")  # so no run file can name it


def test_data_that_have_no_extension() -> None:
    X = np.array([[0.0], [1.0], [1.0]])
    with pytest.raises(DataError, match="differ by 5 times their distance, more than the constant 2"):
        LipschitzLearner(2.0).fit(_fitting(X[:2], np.array([0.0, 5.0])))
    with pytest.raises(DataError, match="same inputs have different targets"):
        LipschitzLearner().fit(_fitting(X, np.array([0.0, 1.0, 2.0])))
    with pytest.raises(DataError, match="one number per row"):
        LipschitzLearner().fit(_fitting(X[:2], np.zeros((2, 2))))
    kept = LipschitzLearner().fit(_fitting(X, np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])))
    assert float(kept.constant) == 1.0
    with pytest.raises(ConfigError, match="positive"):
        LipschitzLearner(-1.0)


def test_arrays_of_a_client_that_lies() -> None:
    learner, h = LipschitzLearner(L), LipschitzLearner(L).fit(_fitting(np.eye(2), np.zeros(2)))
    points, values, constant = h.arrays()
    for arrays in ((points, values), (points, values[:1], constant), (points[:0], values[:0], constant), ()):
        with pytest.raises(WrongType):
            learner.function(arrays, 2, ())
    with pytest.raises(WrongType):
        learner.function(h.arrays(), 3, ())


# ── Sobolev training ──


def test_slopes_by_differences() -> None:
    client = _clients()[0]
    phi = LipschitzLearner(L).fit(_fitting(client.X, -client.y))
    X = np.random.default_rng(3).standard_normal((20, 2))
    found = slopes_of(phi, X)
    for column in range(2):
        step = 1e-6 * np.eye(2)[column]
        np.testing.assert_allclose(found[:, column], (phi(X + step) - phi(X - step)) / 2e-6, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), L)


def test_a_network_follows_values_and_slopes() -> None:
    """Few rows, far apart: the extension is a few cones, and only the slope term of (21) sees them between the rows."""
    optional("torch")
    X = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    target = np.array([1.0, 0.5, 0.0, -0.5])
    learner = SobolevLearner(constant=1.0, steps=300)
    h, plain = learner.fit(_fitting(X, target)), replace(learner, slopes=0.0).fit(_fitting(X, target))
    phi = LipschitzLearner(1.0).fit(_fitting(X, target))
    there = np.random.default_rng(0).uniform(-1, 1, (300, 2))

    def off(function: Function) -> tuple[float, float]:
        step = 1e-5
        found = [(function(there + step * e) - function(there - step * e)) / (2 * step) for e in np.eye(2)]
        slopes = np.mean((np.stack(found, axis=1) - slopes_of(phi, there)) ** 2)
        return float(slopes), float(np.abs(function(there) - phi(there)).max())

    assert gamma(target, h(X), norm="largest") > 0.9
    assert off(h)[0] < 0.5 * off(plain)[0]
    assert off(h)[1] < 0.5 * off(plain)[1]  # and so the values follow too
    np.testing.assert_array_equal(learner.function(h.arrays(), 2, ())(X), h(X))
    np.testing.assert_array_equal(learner.fit(_fitting(X, target))(X), h(X))  # seeded


def test_units_do_not_matter_to_the_network() -> None:
    optional("torch")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20, 2))
    target = X[:, 0]
    learner = SobolevLearner(steps=50)
    scaled = learner.fit(_fitting(1e6 * X + 1e7, 1e3 * target))(1e6 * X + 1e7)
    np.testing.assert_allclose(scaled / 1e3, learner.fit(_fitting(X, target))(X), rtol=1e-4, atol=1e-4)


def test_a_run_with_networks_on_both_transports() -> None:
    optional("torch")
    algorithm = fs.FFGB(
        LinearPart(), SobolevLearner(constant=L, steps=30, hidden=(16,)), step_size="theorem 4.4", tikhonov=1.0
    )
    clients = _clients()
    run = fs.run(algorithm, clients, rounds=3)
    other = fs.run(algorithm, clients, rounds=3, transport="processes")
    X = np.random.default_rng(2).standard_normal((20, 2))
    np.testing.assert_array_equal(other.model.predict(X), run.model.predict(X))


@pytest.mark.parametrize(
    "given", [{"constant": 0.0}, {"steps": 0}, {"hidden": (0,)}, {"learning_rate": 0.0}, {"slopes": -1.0}]
)
def test_wrong_settings(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SobolevLearner(**given)  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="arrays of shapes"):
        SobolevLearner().function((np.zeros(3),), 2, ())
    with pytest.raises(DataError, match="one number per row"):
        SobolevLearner().fit(_fitting(np.zeros((2, 1)), np.zeros((2, 2))))
