"""Heterogeneity, effective dimensions, and the theorems of the FedNewton paper."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.data.synthetic import heterogeneous
from fedsolve.diagnose import contraction, heterogeneity, regime, upsilon
from fedsolve.errors import ConfigError
from fedsolve.reproduce.fednewton.rounds import problem
from tests.core.federations import TRANSPORTS
from tests.problems import PROBLEMS


def _covariance(client: fs.Client) -> np.ndarray:
    X = client.X.toarray() if sp.issparse(client.X) else client.X
    s = np.ones(len(X)) if client.sample_weight is None else client.sample_weight
    return X.T @ (s[:, None] * X) / s.sum()


@pytest.mark.parametrize(
    "name", ["squared | weighted", "squared, free intercept | sparse", "logistic | label-skewed", "softmax | balanced"]
)
@pytest.mark.parametrize("most", [2048, 4])
def test_against_dense_matrices(name: str, most: int) -> None:
    posed = PROBLEMS[name]
    clients = posed.clients()
    found = heterogeneity(posed.loss, clients, most=most)
    C = np.average([_covariance(one) for one in clients], axis=0, weights=[one.weight for one in clients])
    values = np.linalg.eigvalsh(C)
    assert found.scale == pytest.approx(values[-1], rel=1e-8)
    assert found.dimension == pytest.approx((values / (values + posed.loss.l2)).sum(), rel=1e-8)
    for one in clients:
        assert found.data[one.name] == pytest.approx(np.linalg.norm(C - _covariance(one), 2), rel=1e-7)
        own = np.linalg.eigvalsh(_covariance(one))
        local = found.dimensions[one.name]
        if most > 4:
            assert local == pytest.approx((own / (own + posed.loss.l2)).sum(), rel=1e-8)
    if most == 4:
        assert found.model is None
        assert found.data_error < 1e-10  # a sketch of rank p is all of C
        return
    assert found.model is not None
    w = posed.pooled()
    hessians = [posed.loss.hessian(one, w).full() for one in clients]
    H = np.average(hessians, axis=0, weights=[one.weight for one in clients])
    for one in clients:
        apart = (posed.loss.minimise(one) - w).reshape(H.shape[0], -1)
        assert found.model[one.name] == pytest.approx(np.sqrt(np.sum(apart * (H @ apart))), rel=1e-4)


def test_a_sketch_bounds_its_error() -> None:
    clients = problem(20, 500, 1.0, 0).clients
    loss = fs.Squared(l2=1e-6)
    exact, sketch = heterogeneity(loss, clients), heterogeneity(loss, clients, most=100)
    assert 0 < sketch.data_error < 1e-3 * exact.scale
    for name, value in exact.data.items():
        assert sketch.data[name] == pytest.approx(value, abs=sketch.data_error + 1e-12)
    assert sketch.dimension <= exact.dimension <= sketch.dimension + sketch.dimension_error


def test_the_effective_dimension_of_the_synthetic_set() -> None:
    found = [heterogeneity(fs.Squared(l2=1e-6), problem(10, 1000, 0.0, seed).clients).dimension for seed in range(5)]
    assert np.median(found) == pytest.approx(91, abs=2)


def test_identical_clients() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30)
    for most in (2048, 2):
        found = heterogeneity(fs.Squared(l2=0.1), [fs.Client(name, X, y) for name in "abc"], most=most)
        assert max(found.data.values()) <= 1e-12
        if found.model is not None:
            assert max(found.model.values()) <= 1e-8


def test_more_shift_is_more_heterogeneity() -> None:
    def worst(alpha: float) -> float:
        return max(heterogeneity(fs.Squared(l2=1e-6), problem(10, 500, alpha, 0).clients).data.values())

    assert worst(0.0) < worst(0.1) < worst(1.0)


def test_a_client_that_cannot_fit_alone_is_said() -> None:
    posed = PROBLEMS["logistic | one class at a client"]
    found = heterogeneity(fs.Logistic(), posed.clients())
    assert found.model is not None
    assert not np.isfinite(max(found.model.values()))
    assert "alone" in found.sentences()["model"]


@pytest.mark.parametrize("most", [2048, 4])
def test_bit_equal_across_transports(most: int) -> None:
    posed = PROBLEMS["logistic | unbalanced"]
    found = [heterogeneity(posed.loss, make(posed.clients()), most=most) for make in TRANSPORTS.values()]
    assert found[0] == found[1]


# ── theory ──


def test_upsilon_by_hand() -> None:
    samples, locals_, C = [np.diag([1.0, 2.0])], [np.diag([2.0, 2.0])], np.diag([2.0, 3.0])
    # λ = 1: P = 3/2, R = 1/3, Δ = 1
    assert upsilon(samples, locals_, C, 1.0) == pytest.approx(1.5 * (2 / 3 + 1) * 2)
    assert upsilon([C, C], [C, C], C, 0.1, [3, 1]) == 0.0
    # R = ‖diag(1/3, 1/4)‖ = 1/3 here too, as C − C_D = diag(1, 1)
    assert upsilon(samples, locals_, C, 1.0, form="proof") == pytest.approx(1.5 * (1 / 3 + 1 / 3 + 1) * 2)
    with pytest.raises(ConfigError):
        upsilon(samples, locals_, C, 0.0)
    with pytest.raises(ConfigError):
        upsilon(samples, locals_, C, 1.0, form="other")  # type: ignore[arg-type]


def test_the_printed_upsilon_bounds_nothing() -> None:
    """Ten clients in one dimension: ρ = A H − 1 with A = 0.9/1.001 + 0.1/20.001 and H = 2.901."""
    samples, C = [np.array([[1.0]])] * 9 + [np.array([[20.0]])], np.array([[1.0]])
    rho = (0.9 / 1.001 + 0.1 / 20.001) * 2.901 - 1
    assert rho > 1
    assert upsilon(samples, [C] * 10, C, 1e-3) == pytest.approx(0.1 * (1.001 / 20.001) * 2 * 19 / 1.001)
    R, R_j = 1.9 / 1.001, 19 / 1.001
    assert upsilon(samples, [C] * 10, C, 1e-3, form="proof") == pytest.approx(
        0.9 * R + 0.1 * (1.001 / 20.001) * (R + R_j)
    )
    clients = [fs.Client(f"c{j}", np.sqrt(S)[[0]], np.ones(1)) for j, S in enumerate(samples)]
    assert contraction(fs.Squared(l2=1e-3), clients, steps=1).rho == pytest.approx(rho)


@pytest.mark.parametrize("l2", [1e-6, 1e-2, 1.0, 10.0])
def test_rho_is_at_most_the_upsilon_of_the_proof(l2: float) -> None:
    drawn = heterogeneous(4, 2000, seed=1)
    rng = np.random.default_rng(2)
    omega, b = 0.1 * rng.standard_normal((10, 20)), rng.uniform(0, 2 * np.pi, 20)

    def phi(X: np.ndarray) -> np.ndarray:
        return np.cos(X @ omega + b) / np.sqrt(20)

    population = phi(np.random.default_rng(5).standard_normal((200_000, 10)))
    C = population.T @ population / len(population)
    parts = [(phi(X), y) for X, y in drawn.parts]
    samples = [X.T @ X / len(X) for X, _ in parts]
    clients = [fs.Client(f"c{j}", *part) for j, part in enumerate(parts)]
    bound = upsilon(samples, [C] * 4, C, l2, form="proof")
    rho = contraction(fs.Squared(l2=l2), clients, steps=20).rho
    assert rho <= bound


def test_the_regimes() -> None:
    # r = 1/2, γ = 1 and 10,000 samples: the boundaries are 100 and 1,000 (0.5 and 0.75 in the paper).
    assert [regime(n, 10_000).case for n in (99, 101, 999, 1001)] == [2, 3, 3, 4]
    assert regime(400, 10_000).factor == pytest.approx(0.5)
    assert regime(400, 10_000).rate == pytest.approx(0.1)
    assert not regime(99, 10_000).iterations_help
    # γ = 1/2, r = 1/2: |D|^(1/3), |D|^(2/3), |D|^(5/6)
    assert [regime(n, 10**6, 0.5, 0.5).case for n in (99, 101, 9_999, 10_001, 99_999, 100_001)] == [1, 2, 2, 3, 3, 4]
    for edge in (1e2, 1e4, 1e5):  # ℵ is continuous
        low, high = regime(int(edge) - 1, 10**6, 0.5, 0.5), regime(int(edge) + 1, 10**6, 0.5, 0.5)
        assert low.aleph == pytest.approx(high.aleph, rel=0.1)
    for wrong in ((0, 10, 0.5, 1.0), (11, 10, 0.5, 1.0), (5, 10, 0.1, 0.5), (5, 10, 0.5, 1.5)):
        with pytest.raises(ConfigError):
            regime(*wrong)


def test_inputs_are_held_against_what_chance_makes() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 10))
    clients = fs.data.partition(X, X[:, 0], fs.data.IID(), clients=8)
    found = heterogeneity(fs.Squared(l2=0.1), clients)
    assert found.rank == pytest.approx(np.trace(X.T @ X) / np.linalg.norm(X.T @ X, 2))
    assert max(found.data.values()) > 0.1 * found.scale
    said = found.sentences()["data"]
    assert "of ‖C‖, and chance can make up to about" in said
    assert "no sign that inputs are not alike" in said
    other = [*clients[1:], fs.Client("other", 3 * clients[0].X, clients[0].y)]
    said = heterogeneity(fs.Squared(l2=0.1), other).sentences()["data"]
    assert said.startswith("in its inputs other differs most")
    assert said.endswith("inputs are not alike")
    assert "no sign" not in said


def test_no_sentence_begins_with_a_name() -> None:
    for name in ("squared | unbalanced", "logistic | label-skewed", "softmax | balanced"):
        posed = PROBLEMS[name]
        clients = posed.clients()
        for sentence in heterogeneity(posed.loss, clients).sentences().values():
            assert not any(sentence.startswith(one.name) for one in clients)
