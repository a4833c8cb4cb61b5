"""Three roads to the eigenpairs of a client's Hessian lead to the same place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.eigen import eigenpairs
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
    gaps = values[worth] if few is None else found.after(worth)
    assert found.after(worth) == pytest.approx(gaps, abs=1e-12 * scale)
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


def test_the_same_matrix_gives_the_same_bits() -> None:
    one, loss = client(300, 260), fs.Logistic(l2=1e-3)
    a, b = (eigenpairs(loss, one, np.zeros(260), 5) for _ in range(2))
    assert np.array_equal(a.vectors, b.vectors)
