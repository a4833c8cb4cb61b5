"""What losses compute without a Hessian equals what they compute with one."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.features import RandomFourier
from fedsolve.losses import linear, penalised
from fedsolve.numerics.conjugate_gradients import Recurrence, forcing
from fedsolve.numerics.lanczos import largest_eigenvalue_by_products

N, P = 40, 5
LOSSES = {
    "squared": fs.Squared(l2=0.1),
    "two outputs": fs.Squared(l2=0.1, intercept="free"),
    "logistic": fs.Logistic(l2=0.1, intercept="penalised"),
    "poisson": fs.Poisson(l2=0.1, intercept="free"),
    "softmax": fs.Softmax(l2=0.1, classes=3, intercept="free"),
    "softmax without l2": fs.Softmax(classes=3),
    "mapped": fs.Logistic(l2=0.1, intercept="free", features=RandomFourier(7, gamma=0.3)),
}


@pytest.fixture(params=["dense", "sparse", "weighted"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, kind: str) -> tuple[linear.LinearLoss, fs.Client, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N, P)) < 0.6, rng.standard_normal((N, P)), 0.0)
    y = rng.integers(0, 3 if "softmax" in name else 2, N).astype(float)
    if name == "two outputs":
        y = rng.standard_normal((N, 2))
    weights = rng.integers(0, 4, N).astype(float) if kind == "weighted" else None
    loss, client = LOSSES[name], fs.Client("a", sp.csr_array(X) if kind == "sparse" else X, y, weights)
    shape = loss.shape(P, client.y.shape[1:])
    return loss, client, 0.3 * rng.standard_normal(shape), rng.standard_normal(shape)


@pytest.mark.parametrize("name", LOSSES)
def test_the_data_s_part_and_the_penalty_s_make_the_product(name: str, kind: str) -> None:
    loss, client, w, v = made(name, kind)
    parts = loss.data_product(client, w, v) + loss.penalty_product(v)
    np.testing.assert_allclose(parts, loss.row_product(client, w, v), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(parts, loss.hessian_product(client, w, v), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_the_diagonal_is_that_of_the_hessian(name: str, kind: str) -> None:
    loss, client, w, _ = made(name, kind)
    data = loss.data_diagonal(client, w)
    assert data.size == loss.order(P, client.y.shape[1:])
    diagonal = data + loss.penalty_curvature(data.shape)
    np.testing.assert_allclose(diagonal.ravel(), np.diagonal(loss.hessian(client, w).full()), rtol=1e-12)


def by_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every problem count as one of many columns."""
    monkeypatch.setattr(linear, "BY_PRODUCTS", 0)
    monkeypatch.setattr(penalised, "BY_PRODUCTS", 0)


@pytest.mark.parametrize("name", ["squared", "logistic", "softmax", "softmax without l2", "mapped"])
def test_smoothness_from_products_is_a_bound_and_nearly_the_eigenvalue(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, client, _, _ = made(name, kind)
    by_matrix = loss.smoothness(client)
    client.forget()
    by_products(monkeypatch)
    assert by_matrix * (1 - 1e-12) <= loss.smoothness(client) <= by_matrix * 1.002


@pytest.mark.parametrize("name", ["logistic", "poisson", "softmax", "softmax without l2"])
def test_penalties_along_a_line_are_a_parabola(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, client, w, p = made(name, "dense")
    steps = np.array([0.0, 1.0, 0.5, 1e-3])
    values, slopes = loss.along(client, w, p, steps), loss.slopes_along(client, w, p, steps)
    by_products(monkeypatch)
    np.testing.assert_allclose(loss.along(client, w, p, steps), values, rtol=1e-13)
    np.testing.assert_allclose(loss.slopes_along(client, w, p, steps), slopes, rtol=1e-11)


@pytest.mark.parametrize("of", [np, strict])
def test_lanczos_finds_the_largest_eigenvalue(of: object) -> None:
    rng = np.random.default_rng(3)
    for order, rank in ((1, 1), (4, 2), (60, 60), (400, 20)):
        B = rng.standard_normal((rank, order))
        own = of.asarray(B)  # type: ignore[attr-defined]
        found = largest_eigenvalue_by_products(lambda v, own=own: own.T @ (own @ v), order, own[0, ...])
        true = float(np.linalg.eigvalsh(B @ B.T)[-1])
        assert true * (1 - 1e-12) <= found <= true * 1.0011
    zeros = largest_eigenvalue_by_products(lambda v: 0.0 * v, 10, np.zeros(10))
    assert zeros == 0.0


def solve(H: np.ndarray, g: np.ndarray, M: np.ndarray, iterations: int) -> Recurrence:
    inner = Recurrence.begun(g, separable=True)
    for _ in range(iterations):
        d, rz = inner.direction(inner.r / (M if g.ndim == 1 else M[:, None]))
        inner, _ = inner.advanced(d, rz, H @ d)
    return inner


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_the_recurrence_solves_the_system(outputs: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    B = rng.standard_normal((30, 8))
    H, g = B.T @ B, rng.standard_normal((8, *outputs))
    inner = solve(H, g, np.diagonal(H), 8)
    np.testing.assert_allclose(inner.p, -np.linalg.solve(H, g), rtol=1e-9)
    np.testing.assert_allclose(inner.energy, (inner.p * (H @ inner.p)).sum(axis=0), rtol=1e-9)
    mass = (inner.d * (np.diagonal(H) * inner.d.T).T).sum(axis=0)
    np.testing.assert_allclose(inner.mass, mass, rtol=1e-6)


def test_the_recurrence_stays_out_of_directions_without_curvature() -> None:
    """A repeated column: the system has many solutions, and rounding must not choose one far away."""
    rng = np.random.default_rng(2)
    A, target = rng.standard_normal((30, 5)), rng.standard_normal(30)
    B = np.hstack([A, A[:, :1] + A[:, 1:2]]) * 10.0 ** np.array([0, 3, -4, 7, -8, 5])
    H = B.T @ B
    inner = solve(H, B.T @ target, np.diagonal(H), 60)
    Q = np.linalg.qr(A)[0]
    np.testing.assert_allclose(B @ inner.p, -Q @ (Q.T @ target), atol=1e-7)


def test_units_of_the_columns_change_no_test() -> None:
    rng = np.random.default_rng(4)
    B, scale = rng.standard_normal((30, 6)), 10.0 ** np.array([0, 3, -4, 7, -8, 5])
    H, g = B.T @ B, rng.standard_normal(6)
    plain = [solve(H, g, np.diagonal(H), count) for count in range(1, 6)]
    scaled = [solve(H * np.outer(scale, scale), g * scale, np.diagonal(H) * scale**2, count) for count in range(1, 6)]
    for accuracy in (0.5, 0.1, 1e-2, 1e-4):
        assert [one.within(accuracy) for one in plain] == [one.within(accuracy) for one in scaled]
    np.testing.assert_allclose([one.energy for one in plain], [one.energy for one in scaled], rtol=1e-9)


def test_steps_are_computed_as_well_as_the_distance_deserves() -> None:
    assert forcing(1.0, 0.0) == 0.3  # the first
    assert forcing(2.0, 1.0) == 0.3
    assert forcing(0.04, 1.0) == pytest.approx(0.04)
    assert forcing(1e-20, 1.0) == 1e-3
