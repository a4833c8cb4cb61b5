"""Factor and solve, where the solution is unique and where it is not."""

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsolve.numerics.linalg import factor, largest_eigenvalue, like, norm, to_numpy
from fedsolve.numerics.structured_arrays import Symmetric

EPS = np.finfo(np.float64).eps
LIBRARIES = pytest.mark.parametrize("xp", [np, strict], ids=["numpy", "strict"])


def definite(n: int, seed: int, condition: float = 100.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.geomspace(1.0, condition, n)) @ Q.T


@LIBRARIES
@pytest.mark.parametrize("columns", [None, 1, 3])
def test_solve_of_a_definite_matrix(xp, columns):
    A = definite(6, 0)
    A = (A + A.T) / 2
    b = np.random.default_rng(1).standard_normal(6 if columns is None else (6, columns))
    made = factor(xp.asarray(A))
    assert made.definite
    x = to_numpy(made.solve(xp.asarray(b)))
    assert x.shape == b.shape
    # Backward stable: ‖Ax − b‖ is a small multiple of n·eps·‖A‖‖x‖ = 6 · 2e-16 · 100 · ‖x‖.
    assert np.abs(A @ x - b).max() <= 20 * 6 * EPS * 100 * np.abs(x).max()


@LIBRARIES
@settings(max_examples=200, deadline=None)
@given(n=st.integers(2, 12), lost=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_solve_of_a_singular_matrix_is_the_least_norm_solution(xp, n, lost, seed):
    """The norm is that in which a coordinate counts by the root of its diagonal entry. As for a Gram matrix of fewer
    samples than features: a Cholesky that slips through divides by rounding errors."""
    rng = np.random.default_rng(seed)
    rank = max(1, n - lost)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0][:, :rank]
    S = Q * np.linspace(1.0, 2.0, rank)  # singular values between 1 and 2: the rank is beyond doubt
    A = S @ S.T
    A = (A + A.T) / 2
    b = A @ rng.standard_normal(n)
    made = factor(xp.asarray(A))
    assert not made.definite
    x = to_numpy(made.solve(xp.asarray(b)))
    # The eigenvalues that are kept lie between 1 and 4, so errors are not amplified: a few n·eps·‖b‖.
    d = np.sqrt(np.diagonal(A))
    expected = np.linalg.pinv(A / np.outer(d, d), hermitian=True, rcond=1e-9) @ (b / d) / d
    scale = np.abs(b / d).max() / d.min() / _least_positive(A / np.outer(d, d))
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-11 * scale)


def _least_positive(A):
    values = np.linalg.eigvalsh(A)
    return values[values > 1e-9 * values[-1]].min()


@LIBRARIES
def test_a_part_of_b_that_no_x_reaches_is_left_out(xp):
    A = np.diag([2.0, 0.0])
    np.testing.assert_array_equal(to_numpy(factor(xp.asarray(A)).solve(xp.asarray(np.array([4.0, 3.0])))), [2.0, 0.0])


@LIBRARIES
def test_a_feature_given_twice_gets_half_the_weight_each(xp):
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.standard_normal((20, 2))
        X = np.column_stack([x, x[:, 0]])
        A, b = X.T @ X, X.T @ rng.standard_normal(20)
        w = to_numpy(factor(xp.asarray(A)).solve(xp.asarray(b)))
        expected = np.linalg.lstsq(x, np.linalg.lstsq(X.T, b, rcond=None)[0], rcond=None)[0]
        np.testing.assert_allclose(w, [expected[0] / 2, expected[1], expected[0] / 2], rtol=0, atol=1e-12)


def test_badly_scaled_is_not_singular():
    """Features in metres and in nanometres: Cholesky does not mind, and no direction may be dropped."""
    scale = np.array([1.0, 1e-9, 1e9])
    A = definite(3, 0, 10.0)
    made = factor(A * np.outer(scale, scale))
    assert made.definite
    x = made.solve(scale * np.ones(3))
    # (DAD)⁻¹D1 = D⁻¹A⁻¹1, each entry to its own relative accuracy of about cond(A)·eps.
    np.testing.assert_allclose(x * scale, np.linalg.solve(A, np.ones(3)), rtol=1e-13)


def test_the_zero_matrix_has_the_zero_solution():
    made = factor(np.zeros((3, 3)))
    assert not made.definite
    np.testing.assert_array_equal(made.solve(np.ones(3)), np.zeros(3))


def test_an_indefinite_matrix_is_not_definite():
    assert not factor(np.diag([1.0, -1.0])).definite


@pytest.mark.parametrize("rank", [3, 5])
def test_packed_and_full_give_the_same_bits(rank):
    """The lower triangle is never read: it may differ by rounding from the upper, which alone travels."""
    rng = np.random.default_rng(0)
    S = rng.standard_normal((5, rank))
    A = S @ S.T
    packed = Symmetric.from_packed(5, A[np.triu_indices(5)])
    untidy = A + np.tril(rng.standard_normal((5, 5)) * 1e-15, -1)
    b = rng.standard_normal(5)
    np.testing.assert_array_equal(factor(packed).solve(b), factor(Symmetric(untidy)).solve(b))
    assert largest_eigenvalue(packed) == largest_eigenvalue(Symmetric(untidy))


@LIBRARIES
def test_largest_eigenvalue(xp):
    A = definite(5, 3, 50.0)
    A = (A + A.T) / 2
    # Eigenvalues of a symmetric matrix are found to n·eps·‖A‖.
    assert largest_eigenvalue(xp.asarray(A)) == pytest.approx(50.0, rel=1e-13)
    assert largest_eigenvalue(Symmetric(xp.asarray(A))) == pytest.approx(50.0, rel=1e-13)


def test_like_and_back():
    a = np.arange(3.0)
    a.flags.writeable = False
    local = like(a, strict.asarray(np.ones(1)))
    assert type(local) is type(strict.asarray(1.0))
    np.testing.assert_array_equal(to_numpy(local), a)
    assert like(a, np.ones(1)) is a


def test_like_goes_to_the_device_of_the_model():
    device = strict.Device("device1")
    assert like(np.ones(2), strict.ones(1, device=device)).device == device


def test_norm_is_over_all_entries():
    assert norm(np.array([[3.0, 0.0], [0.0, 4.0]])) == 5.0
