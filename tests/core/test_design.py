"""Designs: whatever holds the inputs, the products are those of the explicit matrix."""

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

from fedsolve.numerics.design import WithIntercept, as_design
from fedsolve.numerics.linalg import to_numpy

N, P = 9, 4
X = np.random.default_rng(0).standard_normal((N, P)) * (np.random.default_rng(1).random((N, P)) < 0.6)
ONES = np.column_stack([X, np.ones(N)])

KINDS = {
    "dense": (lambda a: a, X),
    "fortran": (np.asfortranarray, X),
    "sparse": (sp.csr_array, X),
    "strict": (strict.asarray, X),
}
# Sums of 9 products of numbers below 3: a few roundings of numbers below 100.
TOLERANCE = {"rtol": 0, "atol": 1e-13}


@pytest.fixture(params=[*KINDS, *(f"{kind} with intercept" for kind in KINDS)])
def case(request):
    """A design, the matrix it stands for, and how its library writes a NumPy array."""
    kind, _, intercept = request.param.partition(" ")
    make, matrix = KINDS[kind]
    design = as_design(make(matrix))
    own = strict.asarray if kind == "strict" else np.asarray
    return (WithIntercept(design), ONES, own) if intercept else (design, matrix, own)


def test_shape(case):
    design, matrix, _ = case
    assert tuple(design.shape) == matrix.shape


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_matvec(case, columns):
    design, matrix, own = case
    p = matrix.shape[1]
    w = np.random.default_rng(2).standard_normal(p if columns is None else (p, columns))
    np.testing.assert_allclose(to_numpy(design.matvec(own(w))), matrix @ w, **TOLERANCE)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_rmatvec(case, columns):
    design, matrix, own = case
    r = np.random.default_rng(3).standard_normal(N if columns is None else (N, columns))
    np.testing.assert_allclose(to_numpy(design.rmatvec(own(r))), matrix.T @ r, **TOLERANCE)


@pytest.mark.parametrize("weighted", [False, True])
def test_gram(case, weighted):
    design, matrix, own = case
    s = np.random.default_rng(4).random(N)
    s[0] = 0.0
    gram = to_numpy(design.gram(own(s) if weighted else None).full())
    expected = matrix.T @ np.diag(s) @ matrix if weighted else matrix.T @ matrix
    np.testing.assert_allclose(gram, expected, **TOLERANCE)


@pytest.mark.parametrize("weighted", [False, True])
def test_gram_is_symmetric_to_the_bit(case, weighted):
    """Only one triangle travels: a matrix used at home must be the one that the other side unpacks."""
    design, _, own = case
    s = np.random.default_rng(4).random(N)
    gram = to_numpy(design.gram(own(s) if weighted else None).full())
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("index", [[0], [3, 1, 1, 8], []])
def test_rows(case, index):
    design, matrix, own = case
    index = np.array(index, dtype=np.int64)
    w = np.ones(matrix.shape[1])
    part = design.rows(index)
    assert tuple(part.shape) == (len(index), matrix.shape[1])
    np.testing.assert_allclose(to_numpy(part.matvec(own(w))), matrix[index] @ w, **TOLERANCE)


def test_blocks_are_the_rows(case):
    design, matrix, _ = case
    found = list(design.blocks())
    np.testing.assert_array_equal(np.concatenate([to_numpy(block) for _, block in found]), matrix)
    for part, block in found:
        np.testing.assert_array_equal(to_numpy(block), matrix[part])


def test_sparse_blocks_of_several_rows():
    found = list(as_design(sp.csr_array(X)).blocks(size=4))
    assert [(part.start, part.stop) for part, _ in found] == [(0, 4), (4, 8), (8, 9)]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), X)


def test_an_intercept_on_another_device():
    device = strict.Device("device1")
    design = WithIntercept(as_design(strict.asarray(X, device=device)))
    s = strict.asarray(np.ones(N), device=device)
    for gram in (design.gram(), design.gram(s)):
        assert gram.full().device == device
    assert design.rmatvec(s).device == device
    assert next(design.blocks())[1].device == device
