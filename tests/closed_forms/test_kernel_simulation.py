"""Kernel FedAvg and FedProx: simulation, closed recursion, and the library's own runs on finite features agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.closed_forms.kernel_simulation import simulate
from fedsolve.closed_forms.linear_path import linear_path
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.closed_forms.recursion import Decomposition, P_matrix, gamma, local_blocks, psi, recursion
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import (
    CallableKernel,
    Cauchy,
    ExactKernel,
    Gaussian,
    Laplace,
    LinearKernel,
    Matern,
    PolynomialKernel,
    Sobolev,
)
from fedsolve.models import KernelExpansion

rng = np.random.default_rng(1)
SIZES = (30, 1, 20, 9)
N = sum(SIZES)
X = rng.random((N, 2))
NEW = rng.random((25, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(N)
TWO = np.stack([Y, rng.standard_normal(N)], axis=1)


def wave(A: Any, B: Any) -> Any:
    """A kernel that the library has none of: cos(x − z) in the first column."""
    return np.cos(3 * (A[:, :1] - B[:, :1].T))


KERNELS: list[ExactKernel] = [
    Gaussian(3.0),
    Laplace(1.0),
    Cauchy(2.0),
    Matern(0.5),
    Matern(1.5, 0.5),
    Matern(0.8),
    Sobolev(),
    PolynomialKernel(3, gamma=0.5),
    LinearKernel(1.0),
    CallableKernel(wave),
]
METHODS: list[Method] = [LocalSteps(0.1), LocalSteps(0.1, 7), ProximalStep(0.2), ProximalStep(5.0)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
each_method = pytest.mark.parametrize("method", METHODS, ids=str)


def largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


# ── Proposition 3 ──


@each_kernel
@each_method
def test_the_recursion_is_the_simulated_algorithm(kernel: ExactKernel, method: Method) -> None:
    K, start = kernel(X), 0.4 * TWO[::-1]
    path = simulate(K, SIZES, TWO, method, 40, start=start)
    assert largest(path.values, recursion(K, SIZES, TWO, method, 40, start)) <= 1e-12
    # In any round without a loop.
    assert largest(path.values[17], Decomposition.of(K, SIZES, method).values(TWO, 17, start)) <= 1e-12


@each_kernel
@each_method
def test_lemma_2(kernel: ExactKernel, method: Method) -> None:
    """One round moves any f by y·Ψ − f(x)·Ψ, on and off the rows, with Ψ = (η/N) P k_x."""
    K, K_new = kernel(X), kernel(NEW, X)
    start = KernelExpansion(X, rng.standard_normal(N), kernel)
    path = simulate(K, SIZES, Y, method, 1, start=start.predict(X))
    moved = psi(K, SIZES, method, K_new) @ (Y - start.predict(X))
    assert largest(path.values_at(K_new, start.predict(NEW))[1], start.predict(NEW) + moved) <= 1e-12
    P = P_matrix(K, SIZES, method)
    np.testing.assert_allclose(psi(K, SIZES, method, K), method.step_size * K @ P / N, rtol=1e-12, atol=1e-15)
    for place, (own, n) in enumerate(zip(local_blocks(K, SIZES, method), SIZES, strict=True)):
        at = sum(SIZES[:place])
        local = method.step_size * K[at : at + n, at : at + n] / n
        if isinstance(method, LocalSteps):
            expected = sum(np.linalg.matrix_power(np.eye(n) - local, tau) for tau in range(method.steps))
        else:
            expected = np.linalg.inv(np.eye(n) + local)
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(P[at : at + n, at : at + n], own)
        P[at : at + n, at : at + n] = 0.0
    assert not P.any()


# ── Lemmas 4 and 5 ──


@each_kernel
@each_method
def test_eigenvalues_and_condition_number(kernel: ExactKernel, method: Method) -> None:
    K = kernel(X)
    found = Decomposition.of(K, SIZES, method)
    rounding = 1e-13
    if found.gamma < 1 or isinstance(method, ProximalStep):
        decay = np.linalg.eigvals(np.eye(N) - method.step_size * K @ P_matrix(K, SIZES, method) / N)
        assert np.abs(decay.imag).max() <= 1e-7  # the eigenvalues of a matrix that is not symmetric, as far as known
        assert decay.real.min() >= -rounding
        assert decay.real.max() <= 1 + rounding
        np.testing.assert_allclose(np.sort(decay.real), np.sort(found.decay), rtol=0, atol=1e-10)
    assert found.gamma == pytest.approx(gamma(K, SIZES, method.step_size), rel=1e-12)
    if found.gamma < 1 or isinstance(method, ProximalStep):
        assert np.linalg.cond(P_matrix(K, SIZES, method)) <= found.kappa * (1 + 1e-10)
        # Equation 15, Ostrowski's inequality.
        s, lam, Lam = method.steps, found.kernel_eigenvalues, found.eigenvalues
        assert (Lam <= s * lam + rounding).all()
        assert (Lam >= s * lam / found.kappa - rounding).all()


def test_kappa_is_reached() -> None:
    """A client with eigenvalue γ/η beside a rank it does not fill: the condition number of P is κ itself."""
    for method in (LocalSteps(0.5, 6), ProximalStep(0.5)):
        K = np.diag([3.0, 0.0])  # one client of two rows: K/n has the eigenvalues 1.5 and 0
        found = Decomposition.of(K, (2,), method)
        assert found.gamma == pytest.approx(0.75)
        assert np.linalg.cond(P_matrix(K, (2,), method)) == pytest.approx(found.kappa, rel=1e-12)
    with pytest.raises(ConfigError, match="below 1"):
        LocalSteps(0.5, 6).kappa(1.0)


# ── where it ends ──


@each_kernel
@each_method
def test_the_limit(kernel: ExactKernel, method: Method) -> None:
    """A kernel that can reach y fits it; one of low rank keeps what it cannot reach (Remark 6)."""
    K = kernel(X)
    found = Decomposition.of(K, SIZES, method)
    start = 0.3 * Y[::-1]
    limit = found.limit(Y, start)
    np.testing.assert_allclose(psi(K, SIZES, method, K) @ (Y - limit), 0.0, atol=1e-9)  # a fixed point of (13)
    if np.linalg.matrix_rank(K) < N / 2:
        # 1 − ηΛ is known to 1e-16: three times 10⁷ of it is 3e-9 for each direction that the kernel cannot reach
        assert largest(found.values(Y, 3 * 10**7, start), limit) <= 1e-7
        assert largest(limit, Y) > 0.1
    with pytest.raises(ConfigError, match=r"diverges|positive definite"):
        Decomposition.of(1e4 * K, SIZES, LocalSteps(0.1, 4)).limit(Y)
    with pytest.raises(ConfigError, match="positive definite"):
        Decomposition.of(1e4 * K, SIZES, LocalSteps(0.1, 4001))


def test_one_step_that_is_too_long_has_no_limit() -> None:
    """With s = 1 P is the identity whatever the step size, and only the eigenvalues say that the run diverges."""
    found = Decomposition.of(300 * Gaussian(1.0)(X), SIZES, LocalSteps(0.1))
    assert found.decay.min() < -1
    with pytest.raises(ConfigError, match="diverges on this kernel"):
        found.limit(Y)
    with pytest.raises(ConfigError, match="beyond all numbers"):
        recursion(1e200 * Gaussian(1.0)(X), SIZES, Y, LocalSteps(0.1, 3), 2)


@each_method
def test_a_matrix_that_is_no_kernel_is_rejected(method: Method) -> None:
    """−‖x − z‖ is symmetric and has a negative eigenvalue, which clipping would turn into another algorithm."""
    K = -np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2))
    for call in (
        lambda: recursion(K, SIZES, Y, method, 3),
        lambda: Decomposition.of(K, SIZES, method),
        lambda: gamma(K, SIZES, 0.1),
    ):
        with pytest.raises(DataError, match="not positive semidefinite"):
            call()
    # With clients of one row each the local blocks are zero, and only the whole matrix shows it.
    ones = np.ones((2, 2)) - np.eye(2)
    with pytest.raises(DataError, match="not positive semidefinite"):
        Decomposition.of(ones, (1, 1), method)
    if isinstance(method, ProximalStep):
        with pytest.raises(DataError, match="not positive semidefinite"):
            simulate(1e3 * K, SIZES, Y, method, 3)


# ── the same on finite features ──


@each_kernel
@pytest.mark.parametrize("method", [LocalSteps(0.1, 7), ProximalStep(0.2)], ids=str)
def test_runs_on_nystroem_features_of_all_rows_are_the_exact_kernel(kernel: ExactKernel, method: Method) -> None:
    loss = fs.Squared(features=fs.Nystroem(X, kernel=kernel))
    if isinstance(method, LocalSteps):
        algorithm: Any = fs.FedAvg(loss, fs.GradientSteps(method.steps, method.step_size))
    else:
        algorithm = fs.FedProx(loss, pull=1 / method.step_size)
    ends = np.cumsum(SIZES)
    parts = [slice(end - n, end) for end, n in zip(ends, SIZES, strict=True)]
    clients = [fs.Client(f"c{j}", X[part], TWO[part]) for j, part in enumerate(parts)]
    first = rng.standard_normal((N, 2)) / N
    run = fs.run(algorithm, clients, rounds=25, warm_start=first, measure=0, tolerance=0.0)
    f0 = loss.model(first).with_inputs(2)
    path = simulate(kernel(X), SIZES, TWO, method, 25, start=f0.predict(X))
    assert largest(run.model.predict(X), path.values[-1]) <= 1e-9
    assert largest(run.model.predict(NEW), path.values_at(kernel(NEW, X), f0.predict(NEW))[-1]) <= 1e-9
    assert largest(path.values[-1], path.values[0]) > 0.01


@pytest.mark.parametrize("name", ["gaussian", "laplace", "cauchy"])
def test_kernels_by_name_are_the_same_features(name: Any) -> None:
    kinds = {"gaussian": Gaussian, "laplace": Laplace, "cauchy": Cauchy}
    by_name, by_object = fs.Nystroem(X, 0.7, name), fs.Nystroem(X, kernel=kinds[name](0.7))
    np.testing.assert_array_equal(by_name.block(NEW), by_object.block(NEW))


# ── minibatches ──


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_minibatches_are_those_of_the_linear_model(method: Method, shuffled: bool) -> None:
    """With the linear kernel f_t(x) = xᵀθ_t, whose path `linear_path` computes on d × d matrices."""
    K = LinearKernel()(X)
    ends = np.cumsum(SIZES)
    parts = [slice(end - n, end) for end, n in zip(ends, SIZES, strict=True)]
    batches: Any = {"batch_size": 8, "shuffled": shuffled, "seed": 4}
    path = simulate(K, SIZES, TWO, method, 12, start=X @ np.ones((2, 2)), **batches)
    theta = linear_path([X[p] for p in parts], [TWO[p] for p in parts], method, 12, np.ones((2, 2)), **batches)
    assert largest(path.values, X @ theta) <= 1e-12
    assert largest(path.values_at(NEW @ X.T, NEW @ np.ones((2, 2))), NEW @ theta) <= 1e-12
    whole = simulate(K, SIZES, TWO, method, 12, start=X @ np.ones((2, 2)))
    assert largest(path.values, whole.values) > 1e-6


def test_shuffled_batches_are_seeded() -> None:
    K = KERNELS[0](X)
    one, same, other = (
        simulate(K, SIZES, Y, METHODS[1], 5, batch_size=8, shuffled=True, seed=seed).values for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert largest(one, other) > 1e-6


# ── the path as a model ──


@each_kernel
def test_the_path_is_a_model_that_predicts_anywhere(kernel: ExactKernel) -> None:
    path = simulate(kernel(X), SIZES, TWO, METHODS[1], 9, every=4)
    assert path.rounds.tolist() == [0, 4, 8, 9]
    model = path.model(X, kernel)
    np.testing.assert_allclose(model.predict(X), path.values[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict(NEW), path.values_at(kernel(NEW, X))[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.model(X, kernel, at=1).predict(X), path.values[1], rtol=0, atol=1e-12)
    start = KernelExpansion(NEW, np.ones((25, 2)) / 25, kernel)
    moved = simulate(kernel(X), SIZES, TWO, METHODS[1], 9, start=start.predict(X))
    again = moved.model(X, kernel, start=start)
    np.testing.assert_allclose(again.predict(X), moved.values[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        again.predict(NEW), moved.values_at(kernel(NEW, X), start.predict(NEW))[-1], rtol=0, atol=1e-12
    )


def test_a_path_that_began_elsewhere_says_so() -> None:
    kernel = KERNELS[0]
    path = simulate(kernel(X), SIZES, Y, METHODS[1], 4, start=np.full(N, 3.0))
    with pytest.raises(ConfigError, match="did not start from 0; give start=f_0 at these points"):
        path.values_at(kernel(NEW, X))
    with pytest.raises(ConfigError, match="did not start from 0; give start=f_0 as a KernelExpansion"):
        path.model(X, kernel)
    with pytest.raises(DataError, match="start is f_0"):
        path.values_at(kernel(NEW, X), np.zeros(3))
    np.testing.assert_allclose(path.values_at(kernel(X), np.full(N, 3.0)), path.values, rtol=0, atol=1e-12)


def test_a_model_of_another_kernel_or_other_points_is_rejected() -> None:
    path = simulate(KERNELS[0](X), SIZES, Y, METHODS[1], 4)
    start = KernelExpansion(NEW, np.ones(25), KERNELS[0])
    for points, kernel, first in (
        (X, Gaussian(2.0), None),
        (X[::-1], KERNELS[0], None),
        (X + 0.1 * X**2, KERNELS[0], None),
        (X, KERNELS[0], start),
    ):
        with pytest.raises(DataError, match="not the f_t of the path"):
            path.model(points, kernel, start=first)
    with pytest.raises(DataError, match="a coefficient for each"):
        path.model(X[:-1], KERNELS[0])
    with pytest.raises(DataError, match=r"for all 60 rows .* got shape \(25, 59\)"):
        path.values_at(np.ones((25, 59)))
    with pytest.raises(DataError, match=r"for all 60 rows .* got shape \(25, 59\)"):
        psi(KERNELS[0](X), SIZES, METHODS[0], np.ones((25, 59)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"K": np.ones((3, 4))}, "square matrix"),
        ({"K": np.full((N, N), np.nan)}, "finite"),
        ({"K": [[1.0, 2.0], [3.0]]}, "entries of K are not an array of numbers, got list"),
        ({"y": ["a"] * N}, "targets are not an array of numbers"),
        ({"start": "zero"}, "start are not an array of numbers, got str"),
        ({"K": np.triu(np.ones((N, N)))}, "not symmetric"),
        ({"sizes": (30, 30, 30)}, "add up to 90 rows, K has 60"),
        ({"sizes": 60}, "a number of rows for each client, got 60"),
        ({"sizes": (60, 0)}, "a size is a whole number"),
        ({"y": Y[:-1]}, "target for each of 60 rows"),
        ({"y": np.full(N, np.nan)}, "finite target"),
        ({"start": 1.0}, r"start is f_0 at the rows, of shape \(60,\)"),
        ({"rounds": -1}, "rounds"),
        ({"every": 0}, "every"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"K": KERNELS[0](X), "sizes": SIZES, "y": Y, "method": METHODS[0], "rounds": 2} | change
    with pytest.raises((DataError, ConfigError), match=said):
        simulate(**given)
