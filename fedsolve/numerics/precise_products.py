"""X w in twice the precision, where the terms of its sums cancel.

Products and sums carry their rounding errors along and add them at the end, so that the result is what twice as many
digits would give, rounded once (T. Ogita, S. M. Rump, S. Oishi. Accurate Sum and Dot Product. SIAM Journal on
Scientific Computing 26, 2005; Algorithm 5.3).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_SPLIT = 2.0**27 + 1  # halves the 53 digits of a number (Veltkamp)


def precise_product(blocks: Iterable[tuple[slice, Numbers]], w: Numbers, start: Numbers) -> Numbers:
    """start + X w, for a vector or for columns. X comes as blocks of rows."""
    found = np.array(start, dtype=np.float64)
    for rows, block in blocks:
        found[rows] = _product(block, w, found[rows])
    return found


def _product(X: Numbers, w: Numbers, start: Numbers) -> Numbers:
    total, error = start.copy(), np.zeros_like(start)
    columns = np.ascontiguousarray(X.T)
    for column, weight in zip(columns if w.ndim == 1 else columns[:, :, None], w, strict=True):
        term, lost = _two_product(column, weight)
        total, also_lost = _two_sum(total, term)
        error += lost + also_lost
    return total + error


def _two_sum(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """a + b as it is rounded, and what that leaves out (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """a b as it is rounded, and what that leaves out (Dekker)."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(a: Numbers) -> tuple[Numbers, Numbers]:
    scaled = _SPLIT * a
    upper = scaled - (scaled - a)
    return upper, a - upper
