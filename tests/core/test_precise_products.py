"""Products in twice the precision, beside exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedsolve.numerics.precise_products import precise_product


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
