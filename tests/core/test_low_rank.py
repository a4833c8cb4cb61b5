"""Functions known by their values, and zeros of fields: against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.numerics.function_bases import conditions, inverses, leading_functions, truncated
from fedsolve.numerics.vector_fields import newton_direction, secant_correction, zero

RNG = np.random.default_rng(3)


def test_both_bases_give_back_the_weights_of_a_combination() -> None:
    table = RNG.standard_normal((3, 5, 5))
    weights = RNG.standard_normal((5, 3))
    values = np.einsum("fi,ifk->ik", weights, table)
    for bases in (inverses(table), truncated(table, 5, 1e-12)):
        sent = np.stack([values[i] @ bases.sent[i] for i in range(3)], axis=1)
        assert sent.shape == (bases.rank, 3) == (5, 3)
        np.testing.assert_allclose(bases.weights(sent), weights, rtol=1e-9)


def test_truncation_is_least_squares_of_the_best_rank() -> None:
    """Among all combinations of r directions the leading singular ones lose least of the functions themselves."""
    table = RNG.standard_normal((2, 6, 20)) * np.geomspace(1, 1e-4, 6)[:, None]
    for most in (1, 3, 6):
        bases = truncated(table, most, 1e-12)
        for i in range(2):
            basis = bases.sent[i]
            np.testing.assert_allclose(basis.T @ basis, np.eye(most), atol=1e-12)
            lost = np.linalg.norm(table[i] - table[i] @ basis @ basis.T)
            singular = np.linalg.svd(table[i], compute_uv=False)
            np.testing.assert_allclose(lost, np.linalg.norm(singular[most:]), rtol=1e-9, atol=1e-14)


def test_directions_that_are_rounding_are_left_out() -> None:
    low = RNG.standard_normal((4, 2)) @ RNG.standard_normal((2, 30))
    full = RNG.standard_normal((4, 30))
    bases = truncated(np.stack([low, full, 0 * low]), 4, 1e-10)
    assert bases.rank == 4
    assert not bases.sent[0][:, 2:].any()
    assert not bases.sent[2].any()
    assert np.isfinite(bases.back).all()
    assert truncated(np.stack([low, low]), 4, 1e-10).rank == 2
    found = conditions(np.stack([low[:, :4], np.eye(4), np.zeros((4, 4))]))
    assert found[0] > 1e14
    assert found[1] == 1
    assert found[2] == np.inf


def test_leading_functions_leave_out_copies() -> None:
    table = RNG.standard_normal((3, 4, 9))
    doubled = np.concatenate([table, table[:, :2], 0 * table[:, :1]], axis=1)  # places 4 and 5 are 0 and 1 again
    chosen = leading_functions(doubled, 4)
    assert sorted({0: 0, 4: 0, 1: 1, 5: 1, 2: 2, 3: 3}[one] for one in chosen.tolist()) == [0, 1, 2, 3]


def test_the_zero_of_a_nonlinear_field() -> None:
    A = RNG.standard_normal((5, 5))
    H = A @ A.T + np.eye(5)
    target = RNG.standard_normal(5)

    def field(points: np.ndarray) -> np.ndarray:
        return np.tanh(points - target) + 0.3 * (points - target) @ H

    np.testing.assert_allclose(zero(field, np.zeros(5), np.inf), target, atol=1e-12)
    near = zero(field, np.zeros(5), 0.25 * float(np.abs(target).max()))
    assert np.abs(near).max() <= 0.25 * np.abs(target).max() + 1e-12
    assert np.linalg.norm(field(near[None])) < np.linalg.norm(field(np.zeros((1, 5))))


def test_a_field_without_a_zero_is_left_by_one_step() -> None:
    np.testing.assert_array_equal(zero(np.ones_like, np.zeros(3), 10.0), -np.ones(3))
    np.testing.assert_array_equal(zero(np.ones_like, np.zeros(3), 0.5), -0.5 * np.ones(3))

    def steep(points: np.ndarray) -> np.ndarray:
        return np.where(points == 0, 1.0, np.nan)

    np.testing.assert_array_equal(zero(steep, np.zeros(3), 10.0), -np.ones(3))
    curved = np.diag([2.0, -1.0, 0.0])
    np.testing.assert_allclose(newton_direction(curved, np.array([2.0, 3.0, 5.0])), [1.0, 3.0, 0.0])


def test_a_correction_agrees_with_every_point_and_finds_a_linear_difference() -> None:
    M, e = RNG.standard_normal((4, 4)), RNG.standard_normal(4)
    points = RNG.standard_normal((5, 4))
    differences = e + points @ M.T
    shift, tilt = secant_correction(points, differences)
    np.testing.assert_allclose(tilt, M, atol=1e-9)
    np.testing.assert_allclose(shift, differences[-1])
    few_shift, few = secant_correction(points[:3], differences[:3])
    np.testing.assert_allclose(few_shift + (points[:3] - points[2]) @ few.T, differences[:3], atol=1e-10)
    assert np.linalg.matrix_rank(few, tol=1e-9) == 2  # the smallest such matrix knows nothing else
    assert not secant_correction(points[:1], differences[:1])[1].any()
    twice = np.concatenate([points[:2], points[1:2]])
    assert np.isfinite(secant_correction(twice, differences[[0, 1, 1]])[1]).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_correction_has_no_unit(scale: float) -> None:
    points, differences = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    _, tilt = secant_correction(points, differences)
    np.testing.assert_allclose(secant_correction(scale * points, differences)[1] * scale, tilt, rtol=1e-9)


@pytest.mark.parametrize("curved", [True, False])
def test_newtons_direction_has_no_unit(curved: bool) -> None:
    """In other units of the coordinates it is the same direction, though the Jacobian's entries differ by 1e24; also if
    it is not definite, where the diagonal is the unit."""
    A = RNG.standard_normal((4, 4))
    H = A @ A.T + 0.1 * np.eye(4) if curved else np.array([[1.0, 2.0], [2.0, 1.0]])
    value, units = RNG.standard_normal(len(H)), 10.0 ** np.array([-6.0, 6.0, 0.0, 3.0])[: len(H)]
    expected = np.linalg.solve(H, value) if curved else np.array([[2.0, -1.0], [-1.0, 2.0]]) @ value / 3  # |λ| = 3, 1
    np.testing.assert_allclose(newton_direction(H, value), expected, rtol=1e-9)
    found = newton_direction(units[:, None] * H * units, units * value)
    np.testing.assert_allclose(units * found, expected, rtol=1e-9)
