"""Compressors against a sort, against eigh, and against the contraction that FedNL's theory asks of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedsolve as fs
from fedsolve.curvature.compressors import Compressor
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.numerics.sparse_symmetric import Entries, Support, everywhere
from fedsolve.numerics.structured_arrays import LowRank, Symmetric, TopK, largest

CLIENT = Client("c", np.ones((1, 1)), np.ones(1))
ENTRIES = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, -1.0, 2.0])


@st.composite
def matrices(draw, least: int = 1) -> Entries:
    """Symmetric matrices, on the whole triangle or on some places of it."""
    n = draw(st.integers(least, 7))
    size = n * (n + 1) // 2
    chosen = np.flatnonzero(draw(hnp.arrays(bool, size))) if draw(st.booleans()) else np.arange(size)
    values = draw(hnp.arrays(np.float64, chosen.size, elements=ENTRIES))
    return Entries(Support(n, chosen), values)


def full(A: Entries) -> np.ndarray:
    return A.symmetric().full()


def decoded(sent: TopK | LowRank, compressor: Compressor, n: int) -> np.ndarray:
    return Symmetric.from_packed(n, compressor.triangle_of(sent.dense())).full()


# ── top-k ──


@given(hnp.arrays(np.float64, st.integers(0, 300), elements=st.floats(allow_nan=False) | ENTRIES), st.integers(-1, 310))
def test_the_largest_are_those_a_sort_puts_first(values: np.ndarray, k: int) -> None:
    expected = np.sort(np.argsort(-np.abs(values), kind="stable")[: max(k, 0)])
    np.testing.assert_array_equal(largest(values, k), expected)


@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("k", [1, 137, 2408, 6367, 6368, 9000])
def test_the_largest_of_many_on_any_scale(scale: float, k: int) -> None:
    rng = np.random.default_rng(k)
    values = rng.standard_normal(6368) * np.exp(scale * rng.standard_normal(6368))
    values[rng.random(6368) < 0.3] = values[17]  # many equals
    np.testing.assert_array_equal(largest(values, k), np.sort(np.argsort(-np.abs(values), kind="stable")[:k]))


@given(matrices(), st.integers(1, 4))
def test_top_k_keeps_exactly_the_k_largest_pairs(A: Entries, multiple: int) -> None:
    compressor = fs.TopKPairs(multiple)
    sent, kept = compressor.compress(A, CLIENT)
    triangle = A.packed()
    k = min(multiple * A.n, A.values.size)
    assert sent.indices.size == k
    expected = np.zeros(triangle.size)
    on = A.support.places[np.argsort(-np.abs(A.values), kind="stable")[:k]]
    expected[on] = triangle[on]
    np.testing.assert_array_equal(sent.dense(), expected)
    np.testing.assert_array_equal(Entries(A.support, kept).packed(), expected)
    left = np.sort(np.abs(triangle - expected))[::-1]
    assert left.size == 0 or k == 0 or left[0] <= np.abs(sent.values).min(initial=np.inf)


# ── rank-r ──


@given(matrices(), st.integers(1, 8))
def test_rank_r_keeps_the_eigenpairs_of_largest_magnitude(A: Entries, rank: int) -> None:
    compressor = fs.RankR(rank)
    A = A.widened()
    sent, kept = compressor.compress(A, CLIENT)
    assert sent.vectors.shape == (A.n, min(rank, A.n))
    values = np.linalg.eigvalsh(full(A))
    scale = max(np.abs(values).max(), 1e-300)
    best = np.sort(np.abs(values))[::-1][:rank]
    np.testing.assert_allclose(np.abs(sent.values), best, atol=1e-12 * scale)
    error = np.linalg.norm(full(A) - decoded(sent, compressor, A.n))
    np.testing.assert_allclose(error, np.sqrt((np.sort(np.abs(values))[::-1][rank:] ** 2).sum()), atol=1e-11 * scale)
    np.testing.assert_array_equal(Entries(A.support, kept).packed(), compressor.triangle_of(sent.dense()))


# ── what all must do ──


@given(matrices(), st.integers(1, 3), st.sampled_from([fs.TopKPairs, fs.RankR]))
def test_contraction(A: Entries, size: int, kind: type) -> None:
    compressor = kind(size)
    A = A if compressor.keeps_support else A.widened()
    sent, _ = compressor.compress(A, CLIENT)
    whole, left = np.linalg.norm(full(A)), np.linalg.norm(full(A) - decoded(sent, compressor, A.n))
    assert 0 < compressor.contraction(A.n) <= 1
    assert left**2 <= (1 - compressor.contraction(A.n)) * whole**2 + 1e-9 * whole**2


def test_the_contraction_of_top_k_is_reached() -> None:
    """All entries of one size, and the first on the diagonal: as bad as it can be."""
    n = 2
    A = Entries(everywhere(n), np.array([1.0, 1.0, 1.0]))
    diagonal = Entries(everywhere(n), np.array([1.0 + 1e-9, 1.0, 1.0 + 1e-9]))
    sent, _ = fs.TopKPairs(1).compress(diagonal, CLIENT)
    left = np.linalg.norm(full(diagonal) - decoded(sent, fs.TopKPairs(1), n)) ** 2
    assert left / np.linalg.norm(full(A)) ** 2 == pytest.approx(1 - fs.TopKPairs(1).contraction(n), rel=1e-6)


def test_random_k_keeps_every_entry_as_often() -> None:
    """So the expected loss is (1 − δ)‖A‖² for every A, entries as they are."""
    n, draws = 6, 4000
    A = Entries(everywhere(n), np.arange(1.0, 22.0))
    compressor = fs.RandomKPairs(1)
    kept = np.zeros(21)
    for draw in range(draws):
        CLIENT.enter(CLIENT.memory, (0, draw, 0, 0))
        sent, values = compressor.compress(A, CLIENT)
        assert sent.indices.size == 6
        assert (np.diff(sent.indices.astype(int)) > 0).all()
        np.testing.assert_array_equal(sent.values, A.values[sent.indices])
        np.testing.assert_array_equal(values, sent.dense())
        kept += values > 0
    share = compressor.contraction(n)
    assert np.abs(kept / draws - share).max() < 5 * np.sqrt(share * (1 - share) / draws)


def test_random_k_is_drawn_anew_in_every_round_and_alike_when_asked_again() -> None:
    A = Entries(everywhere(6), np.arange(1.0, 22.0))

    def drawn(round: int) -> list[int]:
        CLIENT.enter(CLIENT.memory, (7, round, 0, 0))
        return fs.RandomKPairs(1).compress(A, CLIENT)[0].indices.tolist()

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@given(matrices(), st.sampled_from([fs.TopKPairs(), fs.RandomKPairs(), fs.RankR()]))
def test_the_whole_is_the_matrix(A: Entries, compressor) -> None:
    A = A if compressor.keeps_support else A.widened()
    np.testing.assert_allclose(decoded(compressor.whole(A), compressor, A.n), full(A), atol=1e-10)


@pytest.mark.parametrize("make", [lambda: fs.TopKPairs(0), lambda: fs.RandomKPairs(-1), lambda: fs.RankR(0)])
def test_nothing_kept_is_refused(make) -> None:
    with pytest.raises(ConfigError, match="at least one"):
        make()


# ── entries ──


@given(matrices())
def test_norms_of_entries(A: Entries) -> None:
    exact = np.abs(np.linalg.eigvalsh(full(A))).max()
    assert A.frobenius() == pytest.approx(np.linalg.norm(full(A)), rel=1e-12, abs=1e-150)
    assert A.spectral() == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_a_sparse_client_has_few_places_and_the_same_hessian() -> None:
    rng = np.random.default_rng(0)
    import scipy.sparse as sp

    X = sp.random_array((30, 60), density=0.03, rng=rng, format="csr")
    y = (rng.random(30) < 0.5).astype(float)
    w = rng.standard_normal(61)
    loss = fs.Logistic(l2=0.1, intercept="penalised")
    thin, dense = fs.Client("a", X, y), fs.Client("b", X.toarray(), y)
    few, all_ = loss.data_hessian(thin, w), loss.data_hessian(dense, w)
    assert few.values.size < 300
    assert all_.values.size == 61 * 62 // 2
    np.testing.assert_allclose(few.packed(), all_.packed(), atol=1e-15)
    np.testing.assert_allclose(
        all_.packed(), (loss.hessian(dense, w).full() - 0.1 * np.eye(61))[np.triu_indices(61)], atol=1e-15
    )
    assert few.spectral() == pytest.approx(all_.spectral(), rel=0.05)
