"""Sums of replies, leaf by leaf."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsolve.errors import TooLarge, WrongType
from fedsolve.federation.aggregation import weighted_sum
from fedsolve.numerics.structured_arrays import LowRank, Quantised, Symmetric, TopK
from fedsolve.typing import Array
from fedsolve.wire.encoding import Part


@dataclass(frozen=True)
class Pair:
    w: Array
    n: int


WEIGHTS = [0.25, 0.5, 0.25]


def test_numbers():
    assert weighted_sum([1.0, 2.0, 4.0], WEIGHTS) == 2.25
    assert weighted_sum([1.0, 2.0, 4.0], None) == 7.0


def test_a_sum_of_counts_is_a_count():
    total = weighted_sum([2**60, 1, 2], None)
    assert total == 2**60 + 3
    assert type(total) is int


@given(st.integers(1, 4), st.data())
def test_arrays_are_added_in_the_order_of_the_clients(count, data):
    arrays = [data.draw(hnp.arrays(np.float64, 3, elements=st.floats(-1e6, 1e6))) for _ in range(count)]
    weights = [data.draw(st.floats(0, 1)) for _ in range(count)]
    expected = arrays[0] * weights[0]
    for array, weight in zip(arrays[1:], weights[1:], strict=True):
        expected = expected + array * weight
    np.testing.assert_array_equal(weighted_sum(arrays, weights), expected)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("weights", [None, [0.1, 0.7, 0.2]])
def test_short_floats_are_added_in_double(dtype, weights):
    arrays = [np.array([0.1, 3.3], dtype=dtype) * k for k in (1, 3, 7)]
    expected = weighted_sum([array.astype(np.float64) for array in arrays], weights)
    np.testing.assert_array_equal(weighted_sum(arrays, weights), expected)


def test_half_floats_do_not_overflow():
    arrays = [np.array([60000.0], dtype=np.float16)] * 3
    assert weighted_sum(arrays, None) == [180000.0]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "?"])
def test_whole_numbers(dtype):
    arrays = [np.ones(2, dtype=dtype)] * 3
    total = weighted_sum([array * 1 if dtype != "?" else array for array in arrays], None)
    np.testing.assert_array_equal(total, [3, 3])
    np.testing.assert_array_equal(weighted_sum(arrays, WEIGHTS), [1.0, 1.0])


def test_small_integers_do_not_wrap():
    total = weighted_sum([np.array([200], dtype=np.uint8)] * 3, None)
    assert total == [600]
    assert total.dtype == np.int64


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_whole_numbers_and_floats_mix_in_any_order(order):
    arrays = [np.array([1, 2]), np.array([0.5, 0.5])]
    np.testing.assert_array_equal(weighted_sum([arrays[i] for i in order], None), [1.5, 2.5])


@pytest.mark.parametrize("weights", [None, [0.5, 0.5]])
def test_a_sum_of_arrays_without_dimensions_is_one(weights):
    total = weighted_sum([np.array(1.0), np.array(3.0)], weights)
    assert type(total) is np.ndarray
    assert total.shape == ()


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_replies_are_not_changed_by_adding_them(weights):
    arrays = [np.ones(2) for _ in range(3)]
    weighted_sum(arrays, weights)
    assert all((array == 1).all() for array in arrays)
    frozen = [Part(array).value for array in arrays]
    assert weighted_sum(frozen, weights).flags.writeable


def test_containers_and_dataclasses():
    replies = [({"a": np.full(2, k)}, [float(k), None], Pair(np.full(1, float(k)), k)) for k in (1, 2, 3)]
    table, items, pair = weighted_sum(replies, None)
    np.testing.assert_array_equal(table["a"], [6, 6])
    assert items == [6.0, None]
    assert pair == Pair(np.array([6.0]), 6)
    assert isinstance(weighted_sum(replies, WEIGHTS), tuple)


def test_dicts_are_added_by_key_and_not_by_place():
    assert weighted_sum([{"a": 1.0, "b": 2.0}, {"b": 20.0, "a": 10.0}], None) == {"a": 11.0, "b": 22.0}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_symmetric_sums_have_the_same_bits_in_either_form(weights):
    rng = np.random.default_rng(0)
    matrices = [A + A.T for A in rng.standard_normal((3, 4, 4))]
    full = weighted_sum([Symmetric(A) for A in matrices], weights)
    packed = weighted_sum([Symmetric.from_packed(4, A[np.triu_indices(4)]) for A in matrices], weights)
    np.testing.assert_array_equal(full.packed(), packed.packed())
    np.testing.assert_array_equal(full.full(), weighted_sum(matrices, weights))


def test_compressed_arrays_are_added_as_what_they_stand_for():
    dense = [np.array([1.0, -5.0, 2.0]), np.array([4.0, 0.0, 3.0])]
    np.testing.assert_array_equal(weighted_sum([TopK.of(a, 1) for a in dense], None), [4.0, -5.0, 0.0])
    low = [LowRank(np.eye(2)[:, :1], np.array([k])) for k in (1.0, 2.0)]
    np.testing.assert_array_equal(weighted_sum(low, [0.5, 0.5]), [[1.5, 0.0], [0.0, 0.0]])
    coarse = [Quantised.of(np.array([0.0, 255.0]))] * 2
    np.testing.assert_array_equal(weighted_sum(coarse, None), [0.0, 510.0])


@pytest.mark.parametrize(
    "replies",
    [
        ["a", "b"],
        [b"a", b"b"],
        [True, True],
        [None, 1.0],
        [1.0, None],
        [1.0, "x"],
        [1.0, np.ones(2)],
        [1.0, np.ones(1)],
        [1, True],
        [np.ones(2), None],
        [np.ones(2), 1.0],
        [np.ones(2), np.ones(3)],
        [np.ones(2), np.ones((2, 1))],
        [np.ones((1, 1)), sp.csr_array(np.ones((1, 1)))],
        [np.ones(2), [1.0, 1.0]],
        [(1.0, 2.0), [1.0, 2.0]],
        [(1.0, 2.0), np.ones(2)],
        [(1.0, 2.0), (1.0,)],
        [{"a": 1.0}, {"b": 1.0}],
        [{"a": 1.0}, {"a": 1.0, "b": 1.0}],
        [{"a": 1.0}, [1.0]],
        [Pair(np.ones(1), 1), (np.ones(1), 1)],
        [Pair(np.ones(1), 1), Pair(np.ones(2), 1)],
        [Symmetric(np.eye(2)), Symmetric(np.eye(3))],
        [Symmetric(np.eye(2)), np.eye(2)],
        [TopK.of(np.ones(2), 1), np.ones(2)],
        [TopK.of(np.ones(2), 1), TopK.of(np.ones(3), 1)],
    ],
)
@pytest.mark.parametrize("weights", [None, [0.5, 0.5]])
def test_replies_that_cannot_be_added_are_refused(replies, weights):
    with pytest.raises(WrongType):
        weighted_sum(replies, weights)


# ── whole numbers ──


def test_sums_of_whole_numbers_are_exact_or_rejected():
    """Numbers of 2⁶³ and more became negative, and the second reply of them raised an error of NumPy."""
    large = np.array([2**63, 1], dtype=np.uint64)
    with pytest.raises(WrongType, match="2⁶³"):
        weighted_sum([large, large], None)
    fits = np.array([2**62, 1], dtype=np.uint64)
    assert weighted_sum([fits], None).tolist() == [2**62, 1]
    for dtype in (np.uint64, np.int64):
        with pytest.raises(WrongType, match="64 bits"):
            weighted_sum([fits.astype(dtype), fits.astype(dtype)], None)
    least = np.array([-(2**63)])
    with pytest.raises(WrongType, match="64 bits"):
        weighted_sum([least, np.array([-1])], None)
    assert weighted_sum([least, np.array([2**63 - 1])], None).tolist() == [-1]
    small = [np.array([200, 7], dtype=np.uint8), np.array([100, 1], dtype=np.uint64), np.array([-1, 0], dtype=np.int16)]
    assert weighted_sum(small, None).tolist() == [299, 8]


def test_an_array_that_a_reply_only_claims_is_an_error_of_ours(monkeypatch):
    def no_memory(*arguments, **options):
        raise MemoryError

    claim = TopK((2**29,), np.zeros(1, dtype=np.uint32), np.ones(1))
    monkeypatch.setattr("fedsolve.federation.aggregation.np.zeros", no_memory)
    with pytest.raises(TooLarge, match="memory"):
        weighted_sum([claim], [0.5])
