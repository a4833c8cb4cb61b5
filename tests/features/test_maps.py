"""Feature maps: what kernel they stand for, and that both sides have the same one."""

from __future__ import annotations

import json
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem as TheirNystroem
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer, StandardScaler

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import FeatureMap, Monomials, Nystroem, NystroemRange, Polynomial, RandomFourier, Transformer
from fedsolve.features.kernels import kernel_matrix
from fedsolve.numerics.linalg import to_numpy
from fedsolve.plain import fingerprint

rng = np.random.default_rng(0)
X = 0.7 * rng.standard_normal((40, 5))
SPLINES = SplineTransformer(knots=np.linspace(-5, 5, 6)[:, None] * np.ones(5))

MAPS: list[FeatureMap] = [
    RandomFourier(30, 0.3),
    RandomFourier(30, 0.3, kernel="laplace", seed=4),
    RandomFourier(30, 0.3, kernel="cauchy"),
    RandomFourier(30, 0.3, variant="orthogonal"),
    RandomFourier(30, 0.3, kernel="laplace", variant="qmc"),
    RandomFourier.fednewton(0.1, 30, 1),
    Nystroem(rng.standard_normal((9, 5)), 0.3),
    Nystroem(rng.standard_normal((9, 5)), 0.3, "cauchy"),
    Nystroem.from_range(-1, 1, 9, 0.3, "laplace", seed=2),
    Nystroem.from_range([-1, -1, -2, -1, -1], 2.0, 9, 0.3),
    Polynomial(3),
    Polynomial(2, interaction_only=True, bias=True),
    Monomials(3),
    Transformer(PolynomialFeatures(2)),
    Transformer(RBFSampler(n_components=12, random_state=3)),
    Transformer(SPLINES),
]
each = pytest.mark.parametrize("of", MAPS, ids=[f"{i}-{type(one).__name__}" for i, one in enumerate(MAPS)])


def exact(kernel: str, gamma: float) -> np.ndarray:
    if kernel == "gaussian":
        return rbf_kernel(X, gamma=gamma)
    if kernel == "laplace":
        return laplacian_kernel(X, gamma=gamma)
    return np.prod(1 / (1 + gamma * (X[:, None] - X[None]) ** 2), axis=2)


# ── any map ──


@each
def test_shape_and_kinds_of_arrays(of: FeatureMap) -> None:
    phi = of.block(X)
    assert phi.shape == (40, of.dimension(5))
    assert phi.dtype == np.float64
    np.testing.assert_allclose(of.block(sp.csr_array(X)), phi, rtol=0, atol=1e-13)
    device = strict.Device("device1")
    theirs = of.block(strict.asarray(X, device=device))
    assert theirs.device == device
    np.testing.assert_allclose(to_numpy(theirs), phi, rtol=0, atol=1e-13)


@each
def test_written_down_and_read_back(of: FeatureMap) -> None:
    again = FeatureMap.from_plain(json.loads(json.dumps(of.to_plain())))
    assert again == of
    assert hash(again) == hash(of)
    assert fingerprint(fs.Squared(features=again)) == fingerprint(fs.Squared(features=of))
    np.testing.assert_array_equal(again.block(X), of.block(X))


def test_a_map_nobody_knows() -> None:
    with pytest.raises(DataError, match="unknown feature map 'Wavelets'"):
        FeatureMap.from_plain({"name": "Wavelets"})
    with pytest.raises(DataError, match="not a Monomials"):
        FeatureMap.from_plain({"name": "Monomials", "degree": 0})


# ── random Fourier features ──


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "cauchy"])
def test_exact_kernels(kernel: Any) -> None:
    np.testing.assert_allclose(kernel_matrix(kernel, 0.4, X, X), exact(kernel, 0.4), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "variant"),
    [(k, v) for k in ("gaussian", "laplace", "cauchy") for v in ("iid", "qmc")] + [("gaussian", "orthogonal")],
)
def test_products_are_the_kernel_on_average(kernel: Any, variant: Any) -> None:
    # The standard deviation of φᵀφ is below √(1.5/M) ≈ 0.0039 for iid frequencies; of 1600 pairs none is beyond 5.
    phi = RandomFourier(100_000, 0.4, kernel=kernel, variant=variant, seed=1).block(X)
    assert np.abs(phi @ phi.T - exact(kernel, 0.4)).max() < 5 * np.sqrt(1.5 / 100_000)


def spread(variant: Any, M: int, seeds: int) -> float:
    """The mean square error of the kernel over seeds and pairs."""
    phis = [RandomFourier(M, 0.4, variant=variant, seed=seed).block(X) for seed in range(seeds)]
    errors = [phi @ phi.T - exact("gaussian", 0.4) for phi in phis]
    return float(np.mean(np.square(errors)))


def test_orthogonal_frequencies_vary_less() -> None:
    assert spread("orthogonal", 50, 200) < 0.9 * spread("iid", 50, 200)


def test_qmc_is_nearer_at_equal_count() -> None:
    assert spread("qmc", 512, 5) < 0.5 * spread("iid", 512, 5)


def test_orthogonal_frequencies_are_orthogonal() -> None:
    omega, _ = RandomFourier(12, 0.4, variant="orthogonal").draw(5)
    for start in (0, 5):
        G = omega[:, start : start + 5].T @ omega[:, start : start + 5]
        np.testing.assert_allclose(G, np.diag(np.diagonal(G)), rtol=0, atol=1e-14)


@pytest.mark.parametrize("variant", ["iid", "orthogonal", "qmc"])
def test_the_seed_is_the_map(variant: Any) -> None:
    one, same, other = (RandomFourier(20, 0.4, variant=variant, seed=seed) for seed in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(one.draw(5), same.draw(5), strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(one.draw(5), other.draw(5), strict=True))


def test_the_map_of_paper_000() -> None:
    # Without √2: half the kernel, exp(−std² ‖x − z‖² / 2).
    of = RandomFourier.fednewton(0.1, 5000, seed=0)
    omega, b = of.draw(5)
    assert omega.std() == pytest.approx(0.1, rel=0.02)
    phi = of.block(X)
    np.testing.assert_allclose(phi, np.cos(X @ omega + b) / np.sqrt(5000), rtol=0, atol=1e-14)
    assert np.abs(phi @ phi.T - 0.5 * rbf_kernel(X, gamma=0.005)).max() < 0.05


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"features": 0}, "features"),
        ({"gamma": -1.0}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"kernel": "matern"}, "kernel"),
        ({"variant": "sobol"}, "variant"),
        ({"variant": "orthogonal", "kernel": "laplace"}, "gaussian"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RandomFourier(**{"features": 10, "gamma": 1.0, **wrong})


# ── Nyström ──


def test_nystroem_is_scikit_learns_on_the_same_basis() -> None:
    points = np.random.default_rng(3).standard_normal((12, 5))
    theirs = TheirNystroem(gamma=0.3, n_components=12, random_state=0).fit(points)  # its basis: the points, reordered
    ours = Nystroem(theirs.components_, 0.3).block(X)
    np.testing.assert_allclose(ours, theirs.transform(X), rtol=0, atol=1e-10)  # cond(K_mm)^½ roundings


def test_nystroem_is_exact_on_its_landmarks_even_if_they_repeat() -> None:
    points = np.vstack([X[:10], X[:10]])
    phi = Nystroem(points, 0.3).block(X[:10])
    np.testing.assert_allclose(phi @ phi.T, rbf_kernel(X[:10], gamma=0.3), rtol=0, atol=1e-10)


def test_landmarks_from_a_range() -> None:
    of = NystroemRange([0.0, -3.0], [1.0, -2.0], 500, 1.0)
    points = of.landmarks_for(2)
    assert points.shape == (500, 2)
    assert (points >= [0, -3]).all()
    assert (points <= [1, -2]).all()
    assert not np.array_equal(points, NystroemRange([0.0, -3.0], [1.0, -2.0], 500, 1.0, seed=1).landmarks_for(2))


def test_landmarks_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="landmarks have 5 columns, the inputs 3"):
        Nystroem(X, 1.0).dimension(3)
    with pytest.raises(DataError, match="low is for 2 columns"):
        NystroemRange([0, 0], 1, 5, 1.0).dimension(3)
    for wrong in ([1.0, 2.0], [[float("nan")]], "text", [[1.0], [1.0, 2.0]]):
        with pytest.raises(ConfigError, match="landmarks"):
            Nystroem(wrong, 1.0)
    with pytest.raises(ConfigError, match="low is below high"):
        NystroemRange(1, 0, 5, 1.0)
    with pytest.raises(ConfigError, match="different numbers"):
        NystroemRange([0, 0], [1, 1, 1], 5, 1.0)


# ── polynomials and transformers ──


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
@pytest.mark.parametrize("interaction_only", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_polynomial_is_scikit_learns(degree: int, interaction_only: bool, bias: bool) -> None:
    theirs = PolynomialFeatures(degree, interaction_only=interaction_only, include_bias=bias).fit_transform(X)
    ours = Polynomial(degree, interaction_only, bias)
    assert ours.dimension(5) == theirs.shape[1]
    np.testing.assert_allclose(ours.block(X), theirs, rtol=1e-13)


def test_monomials() -> None:
    np.testing.assert_allclose(Monomials(3).block(X), np.hstack([X, X**2, X**3]), rtol=1e-14)


def test_transformers_that_need_no_data() -> None:
    by_name = Transformer("PolynomialFeatures", {"degree": 3, "include_bias": False})
    assert by_name == Transformer(PolynomialFeatures(3, include_bias=False))
    np.testing.assert_allclose(by_name.block(X), Polynomial(3).block(X), rtol=1e-13)
    # sklearn's splines on given knots
    np.testing.assert_allclose(Transformer(SPLINES).block(X), SPLINES.fit(X).transform(X), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (StandardScaler(), "depends on the data"),
        (RBFSampler(n_components=3), "random_state"),
        (SplineTransformer(), "depends on the data"),
        ("QuantileTransformer", "depends on the data"),
        ("GaussianRandomProjection", "cannot be fitted|depends"),
    ],
)
def test_transformers_that_need_data_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Transformer(wrong).dimension(5)


@pytest.mark.parametrize("wrong", ["LinearRegression", "os", FunctionTransformer(np.log1p), 3])
def test_what_is_no_plain_transformer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"transformer|func"):
        Transformer(wrong)
