"""Three roads to the eigenpairs of a client's Hessian lead to the same place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.curvature.eigenpairs import eigenpairs, lanczos_pays
from fedsolve.losses import LinearLoss


def client(samples: int, n: int, kind: str = "dense", labels: str = "binary") -> fs.Client:
    rng = np.random.default_rng(samples + n)
    X = rng.standard_normal((samples, n)) * np.logspace(0, -2, n)
    if kind == "sparse":
        X = sp.csr_array(X * (rng.random(X.shape) < 0.3))
    y = rng.integers(0, 2, samples).astype(float) if labels == "binary" else rng.standard_normal((samples, 2))
    return fs.Client("one", X, y, rng.uniform(0.5, 2, samples) if kind == "weighted" else None)


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize(("samples", "n", "few"), [(40, 25, None), (15, 25, None), (300, 260, 5), (500, 6, None)])
@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (fs.Logistic(l2=1e-3), "binary"),
        (fs.Logistic(l2=1e-3, intercept="free"), "binary"),
        (fs.Logistic(l2=1e-3, intercept="penalised"), "binary"),
        (fs.Poisson(l2=1e-2), "binary"),
        (fs.Squared(l2=1e-3), "two"),
        (fs.Softmax(l2=1e-3, classes=2), "binary"),
    ],
    ids=["logistic", "free intercept", "penalised intercept", "poisson", "squared", "softmax"],
)
def test_they_are_those_of_the_hessian(
    kind: str, samples: int, n: int, few: int | None, loss: LinearLoss, labels: str
) -> None:
    one = client(samples, n, kind, labels)
    w = 0.1 * np.random.default_rng(1).standard_normal(loss.shape(n, one.y.shape[1:]))
    H = loss.hessian(one, w).full()
    values = np.linalg.eigvalsh(H)[::-1]
    found = eigenpairs(loss, one, w, few)
    scale = values[0]
    np.testing.assert_allclose(found.values, values[: found.values.size], atol=1e-12 * scale)
    # Eigenvectors: (H − λ_j) v_j = 0, and unit vectors at right angles, as far as their eigenvalues are above rounding.
    worth = found.worth_sending
    V = found.vectors[:, :worth]
    np.testing.assert_allclose(H @ V, V * found.values[:worth], atol=1e-12 * scale)
    assert found.after(worth) == pytest.approx(values[worth], abs=1e-12 * scale)
    assert found.least <= values[-1] + 1e-12 * scale
    if few is None:  # the pairs worth sending, and what stands for the rest, are the whole Hessian
        whole = (V * (found.values[:worth] - found.after(worth))) @ V.T + found.after(worth) * np.eye(H.shape[0])
        np.testing.assert_allclose(whole, H, atol=H.shape[0] * 1e-12 * scale)
    else:
        assert worth >= few


def test_fewer_samples_than_unknowns_leave_less_to_send() -> None:
    found = eigenpairs(fs.Logistic(l2=1e-3), client(15, 25), np.zeros(25))
    assert found.worth_sending == 15
    assert found.after(15) == 1e-3


@pytest.mark.parametrize("kind", ["generic", "tied", "of rank one"])
def test_the_same_matrix_gives_the_same_bits(kind: str) -> None:
    """Where eigenvalues are tied, Lanczos must draw new vectors: from a seed."""
    rng = np.random.default_rng(0)
    X = {
        "generic": rng.standard_normal((300, 260)),
        "tied": np.diag(np.repeat([4.0, 3.0, 2.0, 1.0], 65)),
        "of rank one": np.outer(rng.standard_normal(300), rng.standard_normal(260)),
    }[kind]
    one, loss = fs.Client("one", X, np.zeros(len(X))), fs.Logistic(l2=1e-3)
    assert lanczos_pays(6, *X.shape)
    a, b = (eigenpairs(loss, one, np.zeros(260), 5) for _ in range(2))
    assert np.array_equal(a.vectors, b.vectors)
    np.testing.assert_allclose(a.values[:5], np.linalg.eigvalsh(loss.hessian(one, np.zeros(260)).full())[::-1][:5])


@pytest.mark.parametrize("scale", [0.0, 1e-170])
def test_rows_of_zeros_have_nothing_to_send(scale: float) -> None:
    one = fs.Client("one", np.full((300, 260), scale), np.zeros(300))
    found = eigenpairs(fs.Logistic(l2=1e-3), one, np.zeros(260), 5)
    assert found.worth_sending == 0
    assert found.after(0) == pytest.approx(1e-3)


@pytest.mark.parametrize(("samples", "n", "few"), [(40, 25, None), (15, 25, None), (300, 260, 5)])
def test_other_libraries_arrays(samples: int, n: int, few: int | None) -> None:
    strict = pytest.importorskip("array_api_strict")
    one, loss = client(samples, n), fs.Logistic(l2=1e-3)
    theirs = fs.Client("one", strict.asarray(one.X), strict.asarray(one.y))
    found = eigenpairs(loss, theirs, strict.zeros(n, dtype=strict.float64), few)
    expected = eigenpairs(loss, one, np.zeros(n))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-14)
