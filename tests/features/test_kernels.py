"""Exact kernels as objects: their values, on every array library, and as plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import kernels as theirs
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import (
    CallableKernel,
    Cauchy,
    ExactKernel,
    FeatureMap,
    Gaussian,
    Laplace,
    LinearKernel,
    Matern,
    Nystroem,
    NystroemRange,
    PolynomialKernel,
    Sobolev,
)
from fedsolve.features.kernels import kernel_matrix
from fedsolve.numerics.linalg import to_numpy
from fedsolve.plain import fingerprint
from fedsolve.runfiles import registry
from tests.extras import optional

rng = np.random.default_rng(0)
X, Z = rng.random((20, 3)), rng.random((7, 3))


def expected_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.prod(np.minimum(A[:, None], B[None]), axis=2)


EXPECTED: list[tuple[ExactKernel, Any]] = [
    (Gaussian(0.7), lambda A, B: rbf_kernel(A, B, gamma=0.7)),
    (Laplace(0.7), lambda A, B: laplacian_kernel(A, B, gamma=0.7)),
    (Cauchy(0.7), lambda A, B: np.prod(1 / (1 + 0.7 * (A[:, None] - B[None]) ** 2), axis=2)),
    (Sobolev(), expected_product),
    (PolynomialKernel(3, 0.5, 0.7), lambda A, B: polynomial_kernel(A, B, 3, 0.7, 0.5)),
    (LinearKernel(), linear_kernel),
    (LinearKernel(2.0), lambda A, B: linear_kernel(A, B) + 2.0),
    *[
        (Matern(nu, scale), theirs.Matern(length_scale=scale, nu=nu))
        for nu in (0.5, 1.5, 2.5, 0.3, 1.0, 3.7)
        for scale in (0.2, 1.0, 30.0)
    ],
]
KERNELS = [kernel for kernel, _ in EXPECTED]
each = pytest.mark.parametrize("kernel", KERNELS, ids=str)


@pytest.mark.parametrize(("kernel", "expected"), EXPECTED, ids=[str(kernel) for kernel in KERNELS])
def test_values(kernel: ExactKernel, expected: Any) -> None:
    np.testing.assert_allclose(kernel(X, Z), expected(X, Z), rtol=0, atol=1e-13)
    own = expected(X, X)
    if isinstance(kernel, Matern):
        np.fill_diagonal(own, 1.0)  # scikit-learn takes the distance 0 for 2e-16, which a rough kernel notices
    np.testing.assert_allclose(kernel(X), own, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(kernel(X), kernel(X, X))


@pytest.mark.parametrize(("kernel", "expected"), EXPECTED, ids=[str(kernel) for kernel, _ in EXPECTED])
@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_values_of_small_and_large_columns(kernel: ExactKernel, expected: Any, scale: float) -> None:
    """Also below zero, where the kernel allows it."""
    shift = 0.0 if isinstance(kernel, Sobolev) else 0.5
    A, B = scale * (X - shift), scale * (Z - shift)
    right = expected(A, B)
    np.testing.assert_allclose(kernel(A, B), right, rtol=1e-11, atol=1e-13 * max(1.0, np.abs(right).max()))


OFFSETS = [0.0, 2000.0, 1e6, 1e8]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplace(1.0), Cauchy(1.0), Matern(0.8), Matern(1.5)], ids=str)
def test_rows_far_from_zero_keep_their_distances(kernel: ExactKernel, offset: float) -> None:
    """k depends on x − z alone; the differences of the shifted rows are exact. Also with one row that is far off."""
    A = X + offset
    K = kernel(A)
    np.testing.assert_allclose(K, kernel(A - A[0]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] >= -1e-11
    alone = np.concatenate([A, np.full((1, 3), offset - 1e8)])
    np.testing.assert_allclose(kernel(alone)[:20, :20], K, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel(alone, A)[:20], K, rtol=0, atol=1e-12)


@pytest.mark.parametrize("offset", OFFSETS)
def test_nystroem_features_of_rows_far_from_zero(offset: float) -> None:
    """The kernel of its features is the kernel of the shifted rows."""
    of = Nystroem(X + offset, 1.0)
    K = Gaussian(1.0)(X + offset - offset)
    np.testing.assert_allclose(of.block(X + offset) @ of.block(X + offset).T, K, rtol=0, atol=1e-9)


@each
@pytest.mark.parametrize("kind", ["uint8", "int64", "bool"])
def test_whole_numbers_do_not_wrap_around(kernel: ExactKernel, kind: str) -> None:
    A, B = (np.random.default_rng(seed).integers(0, 256, (6, 3)).astype(kind) for seed in (1, 2))
    expected = kernel(A.astype(float), B.astype(float))
    np.testing.assert_array_equal(kernel(A, B), expected)
    np.testing.assert_array_equal(kernel(sp.csr_array(A), B), expected)
    torch = optional("torch")
    np.testing.assert_allclose(to_numpy(kernel(torch.asarray(A), torch.asarray(B))), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kernel", [one for one in KERNELS if not hasattr(one, "constant")], ids=str)
def test_numbers_near_the_end_of_their_range(kernel: ExactKernel) -> None:
    """Rows of 1e200 are far from those of 0, which no product on the way may spoil."""
    far, near = np.full((1, 3), 1e200), np.zeros((1, 3))
    assert kernel(far, near)[0, 0] == 0.0
    if not isinstance(kernel, Sobolev):
        assert kernel(far, far)[0, 0] == 1.0


@each
def test_they_are_kernels(kernel: ExactKernel) -> None:
    K = kernel(X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-15)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] >= -1e-13 * np.linalg.norm(K, 2)


@each
def test_array_libraries(kernel: ExactKernel) -> None:
    K = kernel(X, Z)
    np.testing.assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Z)), K, rtol=0, atol=1e-15)
    device = strict.Device("device1")
    other = kernel(strict.asarray(X, device=device), strict.asarray(Z, device=device))
    assert other.device == device
    np.testing.assert_allclose(to_numpy(other), K, rtol=0, atol=1e-14)
    torch = optional("torch")
    made = kernel(torch.asarray(X), torch.asarray(Z))
    assert isinstance(made, torch.Tensor)
    np.testing.assert_allclose(to_numpy(made), K, rtol=0, atol=1e-14)


@each
def test_written_down_and_read_back(kernel: ExactKernel) -> None:
    plain = json.loads(json.dumps(kernel.to_plain()))
    again = ExactKernel.from_plain(plain)
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert registry.build("kernel", plain) == kernel
    assert fingerprint(again) == fingerprint(kernel)


def test_the_smoother_kernels_of_matern_near_the_ends() -> None:
    """Between the short formulas the Bessel function must agree with them; near 0 and for large ν it stays finite."""
    r = np.concatenate([[0.0], np.geomspace(1e-12, 50, 200)])[:, None]
    origin = np.zeros((1, 1))
    for nu in (0.5, 1.5, 2.5):
        near = Matern(nu + 1e-9)(r, origin)
        np.testing.assert_allclose(near, Matern(nu)(r, origin), rtol=0, atol=1e-7)
    for nu in (1e-3, 0.1, 7.3, 50.0):
        values = Matern(nu)(r, origin)[:, 0]
        assert np.isfinite(values).all()
        assert values[0] == 1.0
        assert (np.diff(values) <= 1e-12).all()
    # Towards ν = ∞ it is exp(−r²/2), with an error of order 1/ν.
    np.testing.assert_allclose(Matern(50.0)(r, origin), np.exp(-(r**2) / 2), rtol=0, atol=0.01)


@pytest.mark.parametrize("nu", [1e-3, 0.5, 0.8, 1.5, 2.5, 7.3, 50.0])
def test_far_points_have_nothing_in_common(nu: float) -> None:
    r = np.concatenate([np.geomspace(1e-300, 1e300, 400), [np.inf]])[:, None]
    values = Matern(nu)(r, np.zeros((1, 1)))[:, 0]
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 1e-12).all()
    assert values[0] == pytest.approx(1.0, abs=0.5 if nu < 0.1 else 1e-12)
    assert (values[r[:, 0] >= 1e4] == 0).all()
    assert np.isnan(Matern(nu)(np.array([[np.nan]]), np.zeros((1, 1)))).all()


def test_near_points_keep_their_digits() -> None:
    """Far from the origin ‖x‖² + ‖z‖² − 2xᵀz loses the distance; its root would lose twice as many digits."""
    points = 1e3 + np.array([[0.0], [1e-6]])
    gap = float(points[1, 0] - points[0, 0])
    assert Matern(0.5)(points)[0, 1] == pytest.approx(np.exp(-gap), rel=1e-15)
    assert Matern(0.5)(points)[0, 0] == 1.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Gaussian(0.0), "gamma"),
        (lambda: Laplace(-1.0), "gamma"),
        (lambda: Cauchy(float("nan")), "gamma"),
        (lambda: Gaussian(True), "gamma"),
        (lambda: Matern(0.0), "nu"),
        (lambda: Matern(float("inf")), "nu"),
        (lambda: Matern(60.0), "at most 50.*Gaussian"),
        (lambda: Matern(1.5, 0.0), "length_scale"),
        (lambda: PolynomialKernel(0), "degree"),
        (lambda: PolynomialKernel(2.5), "degree"),
        (lambda: PolynomialKernel(2, -1.0), "constant"),
        (lambda: LinearKernel(float("inf")), "constant"),
        (lambda: CallableKernel(3), "function of two matrices"),
    ],
)
def test_hyper_parameters_are_checked(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


def test_inputs_are_checked() -> None:
    with pytest.raises(DataError, match=r"same columns, got shapes \(20, 3\) and \(7, 2\)"):
        Gaussian(1.0)(X, Z[:, :2])
    with pytest.raises(DataError, match="matrices"):
        Gaussian(1.0)(X[0])
    with pytest.raises(DataError, match=r"at least 0, got -0\.5; scale"):
        Sobolev()(X, Z - 0.5 - Z.min())
    for kernel in KERNELS:
        assert kernel(X[:0], Z).shape == (0, 7)
        assert kernel(X, Z[:0]).shape == (20, 0)
    wrong: Any
    for wrong in (X.tolist(), pd.DataFrame(X), "rows", 3.0):
        with pytest.raises(DataError, match=f"got {type(wrong).__name__}; convert it"):
            Gaussian(1.0)(wrong)
        with pytest.raises(DataError, match=f"got {type(wrong).__name__}; convert it"):
            Gaussian(1.0)(X, wrong)
    for kind in (object, complex):
        with pytest.raises(DataError, match="real numbers"):
            Gaussian(1.0)(X.astype(kind))


# ── Nyström on any kernel ──


@each
def test_nystroem_features_of_all_rows_are_the_kernel(kernel: ExactKernel) -> None:
    of = Nystroem(X, kernel=kernel)
    K = kernel(X)
    np.testing.assert_allclose(of.block(X) @ of.block(X).T, K, rtol=0, atol=1e-9 * np.abs(K).max())
    again = FeatureMap.from_plain(json.loads(json.dumps(of.to_plain())))
    assert again == of
    assert hash(again) == hash(of)
    assert fingerprint(fs.Squared(features=again)) == fingerprint(fs.Squared(features=of))
    assert registry.build("feature map", json.loads(json.dumps(of.to_plain()))) == of
    np.testing.assert_array_equal(again.block(Z), of.block(Z))


def test_off_the_range_of_the_landmarks_smooth_kernels_lose_digits() -> None:
    """k(z) K⁻¹ k(x) is k(z, x) for landmarks x and any z. Gaussian kernels have eigenvalues near rounding, which count
    where z is outside the range of the landmarks: 1e-9 inside, 1e-6 at three times the range. See `Nystroem`."""
    draw = np.random.default_rng(0)
    landmarks, points = draw.random((60, 2)), draw.random((25, 2))
    for kernel, inside, outside in ((Gaussian(0.1), 1e-9, 1e-6), (Gaussian(1.0), 1e-9, 1e-6), (Matern(), 1e-12, 1e-12)):
        of = Nystroem(landmarks, kernel=kernel)
        for scale, digits in ((1.0, inside), (3.0, outside)):
            found = of.block(scale * points) @ of.block(landmarks).T
            np.testing.assert_allclose(found, kernel(scale * points, landmarks), rtol=0, atol=digits)


def test_nystroem_of_what_is_no_kernel() -> None:
    distance = CallableKernel(lambda A, B: -np.sqrt(np.square(A[:, None] - B[None]).sum(axis=2)))
    with pytest.raises(DataError, match=r"no kernel: .* negative eigenvalue"):
        Nystroem(X, kernel=distance).block(X)
    with pytest.raises(DataError, match="missing or infinite"):
        Nystroem(X, kernel=CallableKernel(lambda A, B: np.full((len(A), len(B)), np.nan))).block(X)


def test_nystroem_with_kernels_by_name_is_unchanged() -> None:
    for name in ("gaussian", "laplace", "cauchy"):
        of = Nystroem(X, 0.3, name)
        points, root = of.draw(3)
        np.testing.assert_array_equal(of.block(Z), kernel_matrix(name, 0.3, Z, points) @ root)
        assert of.to_plain()["kernel"] == name
    assert repr(Nystroem(X, 0.3)) == "Nystroem(landmarks=<20 × 3>, gamma=0.3, kernel='gaussian')"
    assert repr(Nystroem(X, kernel=Sobolev())) == "Nystroem(landmarks=<20 × 3>, kernel=Sobolev())"
    assert Nystroem(X, 0.3) != Nystroem(X, kernel=Gaussian(0.3))  # another description, though the same features


def test_nystroem_ranges_take_kernels() -> None:
    of = Nystroem.from_range(0, 1, 6, kernel=Matern(2.5, 0.5), seed=3)
    assert of == NystroemRange(0.0, 1.0, 6, kernel=Matern(2.5, 0.5), seed=3)
    assert of.block(X).shape == (20, 6)
    assert FeatureMap.from_plain(json.loads(json.dumps(of.to_plain()))) == of


def test_gamma_belongs_to_names_alone() -> None:
    for make in (lambda **given: Nystroem(X, **given), lambda **given: NystroemRange(0, 1, 5, **given)):
        with pytest.raises(ConfigError, match="gamma is a positive number, got None"):
            make()
        with pytest.raises(ConfigError, match=r"has its own hyper-parameters; leave gamma out, got 0\.5"):
            make(gamma=0.5, kernel=Sobolev())
        with pytest.raises(ConfigError, match="kernel is one of"):
            make(gamma=0.5, kernel="matern")


def test_nystroem_on_worker_processes_and_torch_clients() -> None:
    y = rng.standard_normal(20)
    loss = fs.Squared(l2=1e-3, features=Nystroem(Z, kernel=Matern(1.5)))
    clients = [fs.Client("a", X[:12], y[:12]), fs.Client("b", X[12:], y[12:])]
    here, there = (fs.run(fs.Newton(loss), clients, transport=one).model.w for one in ("in_process", "processes"))
    assert np.array_equal(here, there)
    torch = optional("torch")
    on_torch = [fs.Client("a", torch.asarray(X[:12]), y[:12]), fs.Client("b", torch.asarray(X[12:]), y[12:])]
    np.testing.assert_allclose(fs.run(fs.Newton(loss), on_torch).model.w, here, rtol=1e-8)


# ── functions of the user's own ──


def test_a_function_is_a_kernel_that_cannot_be_saved() -> None:
    kernel = CallableKernel(lambda A, B: A @ B.T)
    np.testing.assert_array_equal(kernel(X, Z), X @ Z.T)
    with pytest.raises(ConfigError, match="function <lambda>, which cannot be saved or sent by name"):
        kernel.to_plain()
    with pytest.raises(DataError, match=r"shape \(7, 20\) for 20 and 7 rows; expected a matrix of shape \(20, 7\)"):
        CallableKernel(lambda A, B: B @ A.T)(X, Z)
    with pytest.raises(DataError, match="gave float"):
        CallableKernel(lambda A, B: 1.0)(X, Z)
    assert "CallableKernel" not in registry.names("kernel")
    of = Nystroem(X, kernel=kernel)
    with pytest.raises(ConfigError, match="function"):
        of.to_plain()


def test_a_kernel_of_one_s_own_is_known_by_its_name() -> None:
    @dataclass(frozen=True)
    class Brownian(ExactKernel):
        power: float = 1.0

        def matrix(self, X: Any, Z: Any) -> Any:
            return np.exp(-(np.abs(X[:, :1] - Z[:, :1].T) ** self.power))

    try:
        assert ExactKernel.from_plain({"name": "Brownian", "power": 1}) == Brownian()
    finally:
        ExactKernel.known.pop("Brownian")
    with pytest.raises(DataError, match="unknown kernel 'Brownian'"):
        ExactKernel.from_plain({"name": "Brownian"})
    with pytest.raises(DataError, match="unknown kernel None"):
        ExactKernel.from_plain(["Gaussian"])
    with pytest.raises(DataError, match="not a Matern"):
        ExactKernel.from_plain({"name": "Matern", "nu": -1})
