"""The ℓ^∞ oracle: the linear program against brute force, reweighting against the program, γ of equation (10)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, WrongType
from fedsolve.federation.client import client_step
from fedsolve.federation.federation import Federation
from fedsolve.learners import Fitting, Function, WeakLearner, gamma
from fedsolve.learners.minimax import chebyshev
from fedsolve.plain import fingerprint, to_plain
from fedsolve.runfiles.registry import build
from tests.extras import optional


def _fitting(X: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> Fitting:
    return Fitting(X, target, weight, (), np.random.default_rng(0))


def _largest(function: Function, X: np.ndarray, target: np.ndarray) -> float:
    return float(np.abs(function(X) - target).max())


def _brute_force(basis: np.ndarray, target: np.ndarray) -> float:
    """The least largest error is attained with equal errors ±t at some p + 1 rows (a reference of Chebyshev's)."""
    n, p = basis.shape
    value = 0.0
    for rows in combinations(range(n), p + 1):
        part = basis[list(rows)]
        null = np.linalg.svd(part.T)[2][-1]  # nullᵀ part = 0: t of these rows alone is |nullᵀ y| / ‖null‖₁
        value = max(value, abs(null @ target[list(rows)]) / np.abs(null).sum())
    return value


@pytest.mark.parametrize("seed", range(5))
def test_the_program_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis, target = rng.standard_normal((8, 3)), rng.standard_normal(8)
    found = np.abs(basis @ chebyshev(basis, target) - target).max()
    assert found == pytest.approx(_brute_force(basis, target), rel=1e-9)


def test_a_line_through_three_points_by_hand() -> None:
    """y = x² at −1, 0, 1: the best line is ½, off by ½ everywhere; least squares is 2/3, off by 2/3 at 0."""
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, 0.0, 1.0])
    h = fs.Minimax(fs.RidgeLearner(l2=0.0)).fit(_fitting(X, y))
    np.testing.assert_allclose(h(X), 0.5, atol=1e-12)
    assert gamma(y, h(X), norm="largest") == pytest.approx(0.5)
    assert gamma(y, fs.RidgeLearner(l2=0.0).fit(_fitting(X, y))(X), norm="largest") == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(3))
def test_reweighting_approaches_the_program(seed: int) -> None:
    """400 fits: the squared error is within 2 ℓ √(ln n / 400) of the least; in fact within 5 %."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    ridge = fs.RidgeLearner(l2=0.0)
    exact = _largest(fs.Minimax(ridge, method="lp").fit(_fitting(X, y)), X, y)
    near = fs.Minimax(ridge, method="reweighting", rounds=400).fit(_fitting(X, y))
    squares = _largest(ridge.fit(_fitting(X, y)), X, y)
    assert exact <= _largest(near, X, y) <= 1.05 * exact
    assert squares > 1.1 * exact  # what is to be gained over least squares
    bound = 2 * squares**2 * np.sqrt(np.log(40) / 400)
    assert _largest(near, X, y) ** 2 - exact**2 < bound


@dataclass(frozen=True, eq=False)
class _Step(Function):
    """A stump on the first column."""

    at: np.ndarray
    values: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.values[(X[:, 0] > self.at[0]).astype(int)]

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.at, self.values


@dataclass(frozen=True)
class _Steps(WeakLearner):
    """Stumps that minimise weighted squares, at five thresholds."""

    kind: ClassVar[str] = "test steps of minimax"

    def fit(self, fitting: Fitting) -> _Step:
        s = np.ones(len(fitting.target)) if fitting.weight is None else fitting.weight
        found = []
        for at in np.linspace(-1, 1, 5):
            right = fitting.X[:, 0] > at
            values = np.array(
                [
                    np.average(fitting.target[side], weights=s[side], axis=0)
                    if s[side].sum() > 0
                    else np.zeros(fitting.target.shape[1:])
                    for side in (~right, right)
                ]
            )
            residual = fitting.target - values[right.astype(int)]
            found.append((float(s @ (residual**2).reshape(len(s), -1).sum(axis=1)), at, values))
        best = min(found, key=lambda one: one[0])
        return _Step(np.array([best[1]]), best[2])

    def function(self, arrays: tuple[np.ndarray, ...], inputs: int, outputs: tuple[int, ...]) -> _Step:
        if len(arrays) != 2 or arrays[0].shape != (1,) or arrays[1].shape != (2, *outputs):
            raise WrongType("no step")
        return _Step(*arrays)

    def importances(self, function: Function, inputs: int) -> np.ndarray:
        return np.eye(inputs)[0]


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_a_mixture_has_a_smaller_largest_error_and_travels(outputs: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.sin(2 * X[:, 0]) if not outputs else np.stack([np.sin(2 * X[:, 0]), X[:, 0]], axis=1)
    learner = fs.Minimax(_Steps(), rounds=40)
    mixed = learner.fit(_fitting(X, y))
    single = _Steps().fit(_fitting(X, y))
    assert gamma(y, mixed(X), norm="largest") > gamma(y, single(X), norm="largest")
    again = learner.function(mixed.arrays(), 2, outputs)
    np.testing.assert_array_equal(again(X), mixed(X))
    assert [array.ndim for array in mixed.arrays()] == [1, 1, 1]  # always, as an ensemble's file needs
    np.testing.assert_allclose(learner.importances(mixed, 2), [1.0, 0.0])


def test_a_perfect_fit_needs_one_function() -> None:
    X = np.array([[-1.0, 0], [1.0, 0]])
    mixed = fs.Minimax(_Steps()).fit(_fitting(X, np.array([3.0, 5.0])))
    assert mixed.arrays()[0][0] == 1
    assert gamma(np.array([3.0, 5.0]), mixed(X), norm="largest") == 1.0


def test_arrays_of_a_client_that_lies() -> None:
    learner = fs.Minimax(_Steps(), rounds=3)
    X = np.linspace(-2, 2, 9)[:, None]
    shapes, at, values = learner.fit(_fitting(X, X[:, 0] ** 2)).arrays()
    lies = [
        (shapes,),
        (shapes.astype(float), at, values),
        (shapes[:-1], at, values),
        (np.array([4, *shapes[1:]]), at, values),
        (np.array([10**9, *shapes[1:]]), at, values),
        (np.array([shapes[0], 1, 2**62, *shapes[3:]]), at, values),
        (np.array([shapes[0], 1, -1, *shapes[3:]]), at, values),
        (np.array([], dtype=np.int64), at, values),
        (shapes, at, np.append(values, 1.0)),
        (shapes, at[:0], values),
    ]
    for arrays in lies:
        with pytest.raises(WrongType):
            learner.function(arrays, 1, ())


def test_rows_without_weight_are_not_in_the_support() -> None:
    X, y = np.array([[-1.0], [0.0], [1.0], [2.0]]), np.array([1.0, 0.0, 1.0, 50.0])
    h = fs.Minimax(fs.RidgeLearner()).fit(_fitting(X, y, np.array([1.0, 7.0, 0.1, 0.0])))
    np.testing.assert_allclose(h(X[:3]), 0.5, atol=1e-12)
    assert gamma(y, h(X), np.array([1.0, 1, 1, 0]), norm="largest") == pytest.approx(0.5)


def test_units_collinear_columns_and_single_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    plain = _largest(fs.Minimax(fs.RidgeLearner()).fit(_fitting(X, y)), X, y)
    other = np.hstack([X * [1e8, 1e-8, 1.0], X[:, :1]])
    assert _largest(fs.Minimax(fs.RidgeLearner()).fit(_fitting(other, 1e6 * y)), other, 1e6 * y) == pytest.approx(
        1e6 * plain, rel=1e-6
    )
    one = fs.Minimax(fs.RidgeLearner()).fit(_fitting(X[:1], y[:1]))
    assert _largest(one, X[:1], y[:1]) < 1e-12
    nothing = fs.Minimax(fs.RidgeLearner()).fit(_fitting(X, 0 * y))
    assert _largest(nothing, X, 0 * y) < 1e-12


def test_sparse_torch_features_and_several_outputs() -> None:
    torch = optional("torch")
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    for method in ("lp", "reweighting"):
        learner = fs.Minimax(fs.RidgeLearner(), method=method)  # type: ignore[arg-type]
        here = learner.fit(_fitting(X, Y))(X)
        np.testing.assert_allclose(learner.fit(_fitting(sp.csr_array(X), Y))(sp.csr_array(X)), here, atol=1e-7)
        there = learner.fit(_fitting(torch.tensor(X), torch.tensor(Y)))(torch.tensor(X))
        np.testing.assert_allclose(there.numpy(), here, atol=1e-7)
        weight = torch.tensor(np.where(np.arange(20) < 15, 1.0, 0.0))
        part = learner.fit(Fitting(torch.tensor(X), torch.tensor(Y), weight, (), rng))(torch.tensor(X[:15]))
        np.testing.assert_allclose(part.numpy(), learner.fit(_fitting(X[:15], Y[:15]))(X[:15]), atol=1e-7)
    features = fs.Minimax(fs.RidgeLearner(features=fs.Polynomial(degree=2)))
    y = X[:, 0] * X[:, 1] + 1
    assert _largest(features.fit(_fitting(X, y)), X, y) < 1e-9


def test_in_a_run_and_as_a_model(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    y = X[:, 0] + rng.standard_normal(80)
    clients = fs.data.partition(X, y, fs.data.IID(), clients=2, seed=0)
    for learner in (fs.Minimax(fs.RidgeLearner()), fs.Minimax(_Steps(), rounds=5)):
        run = fs.run(fs.FFGB(fs.Squared(), learner, steps=2), clients, rounds=4)
        path = f"{tmp_path}/{type(learner.learner).__name__}.npz"
        run.model.save(path)
        np.testing.assert_array_equal(fs.load_model(path).predict(X), run.model.predict(X))
        other = fs.run(fs.FFGB(fs.Squared(), learner, steps=2), clients, rounds=4, transport="processes")
        np.testing.assert_array_equal(other.model.predict(X), run.model.predict(X))
    read = fs.load_model(f"{tmp_path}/RidgeLearner.npz")
    assert read.learner == fs.Minimax(fs.RidgeLearner())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Agreed(_Steps):
    """Agrees on the number of rows before the first fit, as trees agree on bins."""

    kind: ClassVar[str] = "test steps that agree"

    @client_step
    def rows(self, client: fs.Client) -> float:
        return float(client.n_samples)

    def prepare(self, fed: Federation) -> tuple[np.ndarray, ...]:
        return (np.array([fed.sum(self.rows)]),)

    def fit(self, fitting: Fitting) -> _Step:
        assert fitting.agreed[0].tolist() == [30.0]
        return super().fit(fitting)


def test_a_learner_that_asks_the_clients_is_asked_through() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 1))
    clients = fs.data.partition(X, X[:, 0], fs.data.IID(), clients=3, seed=0)
    for transport in ("in_process", "processes"):
        run = fs.run(fs.FFGB(fs.Squared(), fs.Minimax(_Agreed(), rounds=3)), clients, rounds=2, transport=transport)
        assert len(run.model) == 6  # type: ignore[arg-type]


def test_in_a_run_file() -> None:
    algorithm = fs.FFGB(fs.Squared(), fs.Minimax(fs.RidgeLearner(features=fs.Polynomial(degree=2)), rounds=7))
    again = build("algorithm", {"name": "FFGB", **to_plain(algorithm)})  # type: ignore[dict-item]
    assert again == algorithm
    assert fingerprint(again) == fingerprint(algorithm)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"learner": fs.Minimax(fs.RidgeLearner())}, "no Minimax"),
        ({"learner": 3}, "weak learner such as"),
        ({"learner": fs.RidgeLearner(), "method": "lq"}, "method is one of"),
        ({"learner": _Steps(), "method": "lp"}, "_Steps is none"),
        ({"learner": _Steps(), "rounds": 0}, "rounds"),
    ],
)
def test_wrong_settings(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fs.Minimax(**given)  # type: ignore[arg-type]


def test_gamma_by_hand() -> None:
    phi, h = np.array([3.0, 4.0]), np.array([3.0, 3.0])
    assert gamma(phi, h) == pytest.approx(1 - 1 / 5)
    assert gamma(phi, h, norm="largest") == pytest.approx(1 - 1 / 4)
    assert gamma(phi, h, np.array([1.0, 0.0])) == 1.0
    assert gamma(0 * phi, 0 * h) == 1.0
    assert gamma(0 * phi, h) == -np.inf
    assert gamma(phi, -phi) == -1.0  # no weak learner
    with pytest.raises(ConfigError, match="norm"):
        gamma(phi, h, norm="max")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="for each row"):
        gamma(phi, h[:1])
