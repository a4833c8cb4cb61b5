"""Structured arrays: each stands for the dense array it claims to."""

import array_api_strict as xp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsolve.errors import WrongType
from fedsolve.numerics.structured_arrays import LowRank, Quantised, Symmetric, TopK

FLOATS = st.floats(-1e6, 1e6)
VECTORS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), elements=FLOATS)
ORDERS = st.integers(0, 6)


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A + A.T


# ── Symmetric ──


@pytest.mark.parametrize("n", range(6))
def test_packing_is_the_upper_triangle_row_by_row(n):
    A = symmetric(n)
    np.testing.assert_array_equal(Symmetric(A).packed(), A[np.triu_indices(n)])


@pytest.mark.parametrize("n", range(6))
def test_unpacking_gives_the_matrix_back(n):
    A = symmetric(n)
    np.testing.assert_array_equal(Symmetric.from_packed(n, A[np.triu_indices(n)]).full(), A)


def test_packing_reads_a_matrix_in_any_memory_order():
    A = symmetric(4)
    wide = np.repeat(A, 2, axis=1)[:, ::2]
    for view in (np.asfortranarray(A), wide):
        np.testing.assert_array_equal(Symmetric(view).packed(), A[np.triu_indices(4)])


def in_both_forms(A: np.ndarray) -> list[Symmetric]:
    return [Symmetric(A), Symmetric.from_packed(A.shape[0], A[np.triu_indices(A.shape[0])])]


@pytest.mark.parametrize("n", range(5))
def test_add_diagonal_in_both_forms_and_any_memory_order(n):
    A, d = symmetric(n), np.arange(1.0, n + 1)
    wide = np.repeat(A, 2, axis=1)[:, ::2]
    for form in [*in_both_forms(A.copy()), Symmetric(A.copy(order="F")), Symmetric(wide)]:
        form.packed()
        assert form.add_diagonal(d) is form
        np.testing.assert_array_equal(form.full(), A + np.diag(d))
        np.testing.assert_array_equal(form.packed(), (A + np.diag(d))[np.triu_indices(n)])


def test_a_matrix_that_has_been_sent_is_not_added_to():
    for form in in_both_forms(symmetric(3)):
        form.freeze()
        with pytest.raises(ValueError, match="read-only"):
            form.add_diagonal(np.ones(3))


def test_add_diagonal_of_another_library():
    A, d = symmetric(3), np.arange(3.0)
    made = Symmetric(xp.asarray(A)).add_diagonal(xp.asarray(d))
    np.testing.assert_array_equal(np.asarray(made.full()), A + np.diag(d))


@given(ORDERS, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_map_gives_the_same_in_any_mixture_of_forms(n, packed):
    matrices = [symmetric(n, seed) for seed in range(3)]
    chosen = [in_both_forms(A)[form] for A, form in zip(matrices, packed, strict=True)]
    result = chosen[0].map(lambda a, b, c: a + 2 * b * c, *chosen[1:])
    np.testing.assert_array_equal(result.full(), matrices[0] + 2 * matrices[1] * matrices[2])


def test_freeze_makes_both_forms_read_only():
    held = Symmetric(symmetric(3))
    held.packed()
    held.freeze()
    assert not held.full().flags.writeable
    assert not held.packed().flags.writeable


@pytest.mark.parametrize("shape", [(2,), (2, 3), (), (2, 2, 2)])
def test_only_square_matrices_are_symmetric(shape):
    with pytest.raises(WrongType):
        Symmetric(np.zeros(shape))


@pytest.mark.parametrize(("n", "size"), [(2, 2), (2, 4), (-2, 1), (-1, 0), (0, 1), (2.0, 3)])
def test_a_triangle_has_n_n_plus_1_over_2_entries(n, size):
    with pytest.raises(WrongType):
        Symmetric.from_packed(n, np.zeros(size))


# ── TopK ──


def largest(array: np.ndarray, k: int) -> np.ndarray:
    """The reference: a full, stable sort."""
    flat = array.reshape(-1)
    order = np.argsort(-np.abs(flat), kind="stable")[:k]
    kept = np.zeros_like(flat)
    kept[order] = flat[order]
    return kept.reshape(array.shape)


@settings(max_examples=300, deadline=None)
@given(VECTORS, st.integers(0, 130))
def test_topk_keeps_exactly_the_k_largest(array, k):
    made = TopK.of(array, k)
    assert made.indices.size == made.values.size == min(k, array.size)
    assert np.unique(made.indices).size == made.indices.size
    np.testing.assert_array_equal(made.dense(), largest(array, k))


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(0, 12), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])),
    st.integers(0, 14),
)
def test_topk_among_ties_keeps_the_earlier(array, k):
    made = TopK.of(array, k)
    assert made.indices.size == min(k, array.size)
    np.testing.assert_array_equal(made.dense(), largest(array, k))


@pytest.mark.parametrize("k", range(5))
def test_topk_takes_not_a_number_and_infinity_for_the_largest(k):
    """Whatever is wrong with the numbers, k of them are sent: the size of a message does not depend on luck."""
    array = np.array([1.0, np.nan, -np.inf, 2.0])
    made = TopK.of(array, k)
    assert made.indices.size == k
    assert set(made.indices.tolist()) == set([1, 2, 3, 0][:k])


@pytest.mark.parametrize("dtype", ["i1", "i8"])
def test_topk_of_the_most_negative_integer(dtype):
    array = np.array([3, np.iinfo(dtype).min, 5], dtype=dtype)
    assert TopK.of(array, 1).indices.tolist() == [1]


def test_topk_keeps_the_dtype_and_sends_small_indices():
    made = TopK.of(np.arange(4, dtype=np.float32), 2)
    assert made.dense().dtype == np.float32
    assert made.indices.dtype == np.uint32


def test_topk_of_a_negative_number_keeps_nothing():
    assert TopK.of(np.arange(3.0), -1).dense().tolist() == [0, 0, 0]


def test_topk_with_64_bit_indices():
    made = TopK((3,), np.array([2], dtype=np.uint64), np.array([5.0]))
    np.testing.assert_array_equal(made.dense(), [0, 0, 5])


# ── LowRank ──


@given(st.integers(0, 5), st.integers(0, 3))
def test_low_rank_is_its_sum_of_outer_products(n, r):
    rng = np.random.default_rng(n + 10 * r)
    V, values = rng.standard_normal((n, r)), rng.standard_normal(r)
    expected = sum((values[k] * np.outer(V[:, k], V[:, k]) for k in range(r)), start=np.zeros((n, n)))
    # A sum of r ≤ 3 products of numbers below 5: a few roundings of numbers below 100.
    np.testing.assert_allclose(LowRank(V, values).dense(), expected, rtol=0, atol=1e-13)


def test_low_rank_of_all_eigenvectors_is_the_matrix():
    A = symmetric(5)
    values, vectors = np.linalg.eigh(A)
    # eigh is backward stable: ‖VΛVᵀ − A‖ is a small multiple of n·eps·‖A‖ ≈ 1e-14.
    np.testing.assert_allclose(LowRank(vectors, values).dense(), A, rtol=0, atol=1e-13)


def test_low_rank_in_single_precision_is_multiplied_in_double():
    V = np.full((2, 1), 0.1, dtype=np.float32)
    product = float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(LowRank(V, np.ones(1)).dense(), np.full((2, 2), product), rtol=1e-15)


@pytest.mark.parametrize(("vectors", "values"), [((3, 2), (3,)), ((3,), (3,)), ((3, 2), (2, 1)), ((3, 2), ())])
def test_low_rank_needs_as_many_values_as_columns(vectors, values):
    with pytest.raises(WrongType):
        LowRank(np.zeros(vectors), np.zeros(values))


# ── Quantised ──


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(0, 8), elements=st.floats(-1e300, 1e300)),
    st.sampled_from([8, 16]),
)
def test_quantised_is_off_by_at_most_half_a_step(array, bits):
    made = Quantised.of(array, bits)
    size = float(np.abs(array).max()) if array.size else 0.0
    # Half a step, and the roundings of offset + step · code, each below eps times the largest number.
    slack = 4 * np.finfo(float).eps * size + 5e-324
    assert (np.abs(made.dense() - array) <= made.step / 2 + slack).all()
    assert made.step <= 2 * size / (2**bits - 1) * (1 + 1e-15) + 5e-324  # and the step is no larger than it must be


def test_quantised_numbers_too_small_to_divide():
    array = np.array([0.0, 100.0, 300.0]) * 5e-324
    made = Quantised.of(array)
    assert made.codes.tolist() == sorted(made.codes.tolist())
    assert (np.abs(made.dense() - array) <= made.step).all()


def test_quantised_ends_are_hit():
    made = Quantised.of(np.array([-1.0, 0.3, 1.0]))
    assert made.codes.tolist()[0::2] == [0, 255]


def test_quantised_constants_are_exact():
    np.testing.assert_array_equal(Quantised.of(np.full((2, 2), 0.1)).dense(), np.full((2, 2), 0.1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_quantised_refuses_what_has_no_range(bad):
    with pytest.raises(WrongType, match="finite"):
        Quantised.of(np.array([0.0, bad]))


@pytest.mark.parametrize("bits", [0, 4, 12, 32])
def test_quantised_has_8_or_16_bits(bits):
    with pytest.raises(WrongType):
        Quantised.of(np.zeros(2), bits)


# ── Quantised, by chance ──


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(0, 8), elements=st.floats(-1e300, 1e300)),
    st.sampled_from([8, 16]),
    st.integers(0, 2**32),
)
def test_rounded_by_chance_it_is_off_by_less_than_a_step(array, bits, seed):
    made = Quantised.of(array, bits, np.random.default_rng(seed))
    size = float(np.abs(array).max()) if array.size else 0.0
    slack = 4 * np.finfo(float).eps * size + 5e-324  # the roundings of offset + step · code
    assert (np.abs(made.dense() - array) <= made.step + slack).all()
    assert made.step == Quantised.of(array, bits).step
    if array.size and made.step > 1e-300:  # the ends of the grid are no matter of chance
        assert made.codes[array == array.min()].max() == 0
        assert made.codes[array == array.max()].min() == 2**bits - 1


@pytest.mark.parametrize("bits", [8, 16])
def test_rounded_by_chance_the_mean_is_the_number_itself(bits):
    """2,000 generators. The error of a number that lies a share f of a step above the grid has the variance
    f (1 − f) step²; six standard deviations of its mean over the generators."""
    array = np.random.default_rng(1).standard_normal(12)
    made = [Quantised.of(array, bits, np.random.default_rng([7, seed])) for seed in range(2000)]
    step = made[0].step
    f = (array - array.min()) / step % 1.0
    error = np.mean([one.dense() - array for one in made], axis=0)
    assert (np.abs(error) <= 6 * step * np.sqrt(f * (1 - f) / 2000) + 1e-14).all()
    assert (np.var([one.codes for one in made], axis=0) <= 0.25 + 1e-12).all()
    assert len({one.codes.tobytes() for one in made}) > 100


def test_rounded_by_chance_constants_are_exact_and_take_no_draw():
    rng = np.random.default_rng(0)
    for value in (0.0, -0.1, 1e308):
        np.testing.assert_array_equal(Quantised.of(np.full((2, 2), value), 8, rng).dense(), np.full((2, 2), value))
    assert rng.random() == np.random.default_rng(0).random()
