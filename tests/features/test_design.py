"""Designs of features: the products are those of the explicit matrix, whatever is kept and however it is cut."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.features import FeatureDesign, RandomFourier
from fedsolve.numerics.design import as_design, with_intercept
from fedsolve.numerics.linalg import to_numpy

N, M = 103, 24
rng = np.random.default_rng(0)
X = rng.standard_normal((N, 6)) * (rng.random((N, 6)) < 0.7)
MAP = RandomFourier(M, 0.2)
PHI = MAP.block(X)
TOLERANCE = {"rtol": 0, "atol": 1e-12}
CUTS = {"whole": {}, "kept blocks": {"block": 8 * M * 10}, "blocks": {"keep": 0, "block": 8 * M * 10}}


@pytest.fixture(params=[(kind, cut, one) for kind in ("dense", "sparse", "strict") for cut in CUTS for one in (0, 1)])
def case(request: Any) -> tuple[Any, np.ndarray, Any]:
    kind, cut, intercept = request.param
    make = {"dense": np.asarray, "sparse": sp.csr_array, "strict": strict.asarray}[kind]
    design: Any = FeatureDesign(MAP, as_design(make(X)), **CUTS[cut])
    if intercept:
        design = with_intercept(design)
    own = strict.asarray if kind == "strict" else np.asarray
    return design, np.hstack([PHI, np.ones((N, 1))]) if intercept else PHI, own


def test_products(case: tuple[Any, np.ndarray, Any]) -> None:
    design, phi, own = case
    draw = np.random.default_rng(1)
    s = draw.random(N)
    assert tuple(design.shape) == phi.shape
    for _ in range(2):  # the second time from what is kept, where it is
        for extra in ((), (3,)):
            w, r = draw.standard_normal((phi.shape[1], *extra)), draw.standard_normal((N, *extra))
            np.testing.assert_allclose(to_numpy(design.matvec(own(w))), phi @ w, **TOLERANCE)
            np.testing.assert_allclose(to_numpy(design.rmatvec(own(r))), phi.T @ r, **TOLERANCE)
            for weights in (None, s):
                expected = phi.T @ (phi if weights is None else weights[:, None] * phi)
                given = None if weights is None else own(weights)
                gram, product = design.normal(given, own(r))
                np.testing.assert_allclose(to_numpy(gram.full()), expected, **TOLERANCE)
                np.testing.assert_allclose(to_numpy(product), phi.T @ r, **TOLERANCE)
                np.testing.assert_allclose(to_numpy(design.gram(given).full()), expected, **TOLERANCE)


def test_rows_and_blocks(case: tuple[Any, np.ndarray, Any]) -> None:
    design, phi, own = case
    np.testing.assert_allclose(np.vstack([to_numpy(b) for _, b in design.blocks()]), phi, **TOLERANCE)
    for part, block in design.blocks():
        np.testing.assert_allclose(to_numpy(block), phi[part], **TOLERANCE)
        np.testing.assert_allclose(to_numpy(design.take(part)), phi[part], **TOLERANCE)
    w = np.ones(phi.shape[1])
    for index in ([5, 2, 2, 90], []):
        part = design.rows(np.array(index, dtype=np.int64))
        assert tuple(part.shape) == (len(index), phi.shape[1])
        np.testing.assert_allclose(to_numpy(part.matvec(own(w))), phi[index] @ w, **TOLERANCE)
        np.testing.assert_allclose(to_numpy(part.gram().full()), phi[index].T @ phi[index], **TOLERANCE)


def test_what_is_kept_changes_no_bit() -> None:
    kept, not_kept = (FeatureDesign(MAP, as_design(X), keep=keep, block=8 * M * 10) for keep in (2**28, 0))
    w, r = rng.standard_normal(M), rng.standard_normal(N)
    for _ in range(2):
        assert np.array_equal(kept.matvec(w), not_kept.matvec(w))
        assert np.array_equal(kept.rmatvec(r), not_kept.rmatvec(r))
        assert np.array_equal(kept.gram().full(), not_kept.normal(None, r)[0].full())


def test_rows_are_mapped_once_if_kept_and_once_a_product_if_not() -> None:
    for keep, expected in ((2**28, N), (0, 3 * N)):
        counted: list[int] = []
        design = FeatureDesign(MAP, as_design(X), counted.append, keep=keep, block=8 * M * 10)
        design.matvec(np.ones(M))
        design.normal(None, np.ones(N))
        with_intercept(design).normal(None, np.ones(N))
        assert sum(counted) == expected


def test_a_gram_matrix_keeps_nothing() -> None:
    counted: list[int] = []
    design = FeatureDesign(MAP, as_design(X), counted.append, block=8 * M * 10)
    first = design.gram().full()
    design.matvec(np.ones(M))
    assert sum(counted) == 2 * N
    assert np.array_equal(design.gram().full(), first)
    assert sum(counted) == 2 * N


def test_the_ledger_counts_rows_of_features() -> None:
    clients = [fs.Client("a", X, X[:, 0]), fs.Client("b", X[:50], X[:50, 1])]
    loss = fs.Squared(l2=1e-3, intercept="free", features=MAP)
    run = fs.run(fs.FedNewtonCG(loss), clients, rounds=3, tolerance=0.0)
    purposes = ("setup", "algorithm", "measure")
    mapped = {purpose: run.ledger.total(purpose).counts.get("features", 0) for purpose in purposes}
    assert mapped == {"setup": N + 50, "algorithm": 0, "measure": 0}  # for the problem's scale; kept for all the rest
    assert run.ledger.total().counts["factorisations"] == 2


def test_minibatches_map_their_rows() -> None:
    client = fs.Client("a", X, X[:, 0])
    algorithm = fs.FedAvg(fs.Squared(l2=1e-3, features=MAP), fs.GradientSteps(2, step_size=0.1, batch_size=20))
    run = fs.run(algorithm, [client], rounds=1, measure=0)
    assert run.ledger.total().counts["features"] == 40
    assert run.ledger.total().counts["gradients"] == 40


LARGE = """
import resource, sys
import numpy as np
import fedsolve as fs
n, M = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, 10))
client = fs.Client("large", X, -np.abs(X.sum(axis=1)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run = fs.run(fs.{algorithm}(fs.Squared(l2=1e-6, features=fs.RandomFourier(M, 0.01))), [client], rounds=2, measure=0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measured = run.ledger.total("measure").counts.get("features", 0)
print(peak / 1024, (peak - before) / 1024, run.ledger.total().counts["features"] / n, measured / n)
"""


def used(algorithm: str, n: int, M: int) -> list[float]:
    """MiB at most, MiB since the data was there, passes over the rows by the algorithm, and by measuring."""
    script = LARGE.replace("{algorithm}", algorithm)
    ran = subprocess.run([sys.executable, "-c", script, str(n), str(M)], capture_output=True, text=True, check=True)
    return [float(word) for word in ran.stdout.split()]


@pytest.mark.parametrize("algorithm", ["FedNewton", "FedNewtonCG", "DKRR"])
def test_features_are_never_whole_in_memory(algorithm: str) -> None:
    # 60,000 × 600 features would be 275 MiB.
    _, extra, passes, _ = used(algorithm, 60_000, 600)
    assert extra < 200
    assert passes == 1


@pytest.mark.slow
def test_a_client_of_200_000_rows_and_2000_features_in_2_gb() -> None:
    peak, _, passes, _ = used("FedNewtonCG", 200_000, 2000)  # Φ would have 3.2 GB
    assert peak * 2**20 < 2e9
    assert passes == 1
