"""Products in twice the precision, beside exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedsolve.numerics.precise_products import precise_product
from fedsolve.typing import Array


@pytest.mark.parametrize("outputs", [(), (3,)])
@pytest.mark.parametrize("large", [1.0, 1e8, 1e14])
def test_sums_are_rounded_once(large: float, outputs: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(40, 6)), rng.normal(size=(6, *outputs))
    X[:, 5], w[5] = 1 - X[:, 4], w[4]  # these two add up to their weight, which the start takes away
    w[4:] *= large
    start = np.broadcast_to(-w[4], (40, *outputs))
    blocks = [(slice(0, 15), X[:15]), (slice(15, 40), X[15:])]
    found = precise_product(blocks, w, start)
    columns, rows = w.reshape(6, -1), found.reshape(40, -1)
    for i, k in np.ndindex(rows.shape):
        exact = Fraction(start.reshape(40, -1)[i, k]) + sum(
            Fraction(x) * Fraction(v) for x, v in zip(X[i], columns[:, k], strict=True)
        )
        assert rows[i, k] == pytest.approx(float(exact), rel=2e-16, abs=1e-16 * large * 1e-13)


def _beside_fractions(X: Array, w: Array, start: Array) -> float:
    """The largest error of the product beside one rounding of it, over the bound of sums whose rounding errors are
    carried along: m² 2⁻¹⁰⁶ Σ_j max|x_j| |w_j|, m of them (15 for 128 columns) and the start."""
    found, worst = precise_product([(slice(0, len(X)), X)], w, start), 0.0
    count = 15 * -(-len(w) // 128) + 1
    scale = sum(Fraction(float(np.abs(x).max())) * abs(Fraction(float(v))) for x, v in zip(X.T, w, strict=True))
    bound = (scale + max(abs(Fraction(float(one))) for one in start)) * count**2 / 2**106
    for row, first, product in zip(X, start, found, strict=True):
        terms = [Fraction(float(x)) * Fraction(float(v)) for x, v in zip(row, w, strict=True)]
        exact = Fraction(float(first)) + sum(terms)
        rounded = abs(exact) * Fraction(1, 2**53)
        left = abs(Fraction(float(product)) - exact) - rounded
        worst = max(worst, float(left / bound))
    return worst


@pytest.mark.parametrize("columns", [1, 127, 128, 129, 300])
def test_many_columns_in_any_units_are_added_up_exactly(columns: int) -> None:
    rng = np.random.default_rng(columns)
    units = 10.0 ** rng.integers(-12, 13, size=columns)
    X = rng.normal(size=(5, columns)) * 10.0 ** rng.integers(-3, 4, size=(5, columns))
    w = rng.normal(size=columns)
    start = -(X @ w)  # so that nearly everything cancels
    assert _beside_fractions(X * units, w / units, start) < 1


def test_the_ends_of_the_range_of_numbers() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(4, 6)), rng.normal(size=6)
    X[:, 1], X[:, 2], w[3] = 0.0, X[:, 2] * 1e-300, 0.0
    X[:, 4], w[4] = X[:, 4] * 1e300, w[4] * 1e-300
    w[5] = w[4] * 1e-10
    assert _beside_fractions(X, w, np.zeros(4)) < 1
    np.testing.assert_array_equal(precise_product([(slice(0, 4), 0 * X)], w, np.ones(4)), np.ones(4))
    np.testing.assert_array_equal(precise_product([(slice(0, 4), X)], 0 * w, np.ones(4)), np.ones(4))


def test_sums_of_the_largest_parts_are_exact() -> None:
    """All digits are used and nothing cancels within the products: these are the largest sums that must not round."""
    rng = np.random.default_rng(0)
    X, w = 1.0 - rng.uniform(0, 1e-3, size=(5, 256)), 1.0 - rng.uniform(0, 1e-3, size=256)
    assert _beside_fractions(X, w, -(X @ w)) < 1


def test_outputs_of_very_different_size_have_their_digits_each() -> None:
    rng = np.random.default_rng(0)
    X, one = rng.normal(size=(5, 8)), rng.normal(size=8)
    X[:, 7] = 1 - X[:, 6]
    w = np.stack([one, 2.0**-60 * one, 2.0**-120 * one], axis=1)
    w[6:, 1:] = np.array([2.0**-10, 2.0**-70])
    start = -np.tile(w[7], (5, 1))
    found = precise_product([(slice(0, 5), X)], w, start)
    for k in range(3):
        np.testing.assert_array_equal(found[:, k], precise_product([(slice(0, 5), X)], w[:, k], start[:, k]))
        assert _beside_fractions(X, w[:, k], start[:, k]) < 1


def test_many_rows_are_worked_on_in_pieces() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(3000, 4)), rng.normal(size=(4, 2))
    start = rng.normal(size=(3000, 2))
    blocks = [(slice(0, 1100), X[:1100]), (slice(1100, 3000), X[1100:])]
    one_by_one = [precise_product([(slice(0, 1), X[i : i + 1])], w, start[i : i + 1])[0] for i in range(3000)]
    np.testing.assert_array_equal(precise_product(blocks, w, start), np.stack(one_by_one))
