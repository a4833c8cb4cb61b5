"""X w in twice the precision, where the terms of its sums cancel.

Both factors are cut into parts of a few digits, so few that products of parts, and sums of these over some columns, are
numbers that need no rounding. What is left are sums of a dozen matrices, whose rounding errors are carried along, so
that the result is what twice as many digits would give, rounded once. The work is done by about ten ordinary products
of matrices (K. Ozaki, T. Ogita, S. Oishi, S. M. Rump. Error-free Transformations of Matrix
Multiplication by Using Fast Routines of Matrix Multiplication and Its Applications. Numerical Algorithms 59, 2012).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

ROWS = 1024  # that are worked on at once, for memory
COLUMNS = 128  # whose products are summed at once
# Digits of a part: 128 products of two parts are a sum below 2⁷ · 2²³ · 2²³ = 2⁵³ of their units, which is exact in
# whatever order they are added.
DIGITS = 23
# Of a factor, that is 138 digits below the largest number of a column; rarely are more than four parts not zero.
PARTS = 6
ORDERS = 5  # products of the parts i and j with i + j below this; what is left out is below 2⁻¹¹¹ of the largest term
# Exponent of a column's unit, so that the powers of two that cancel are numbers; larger columns have fewer digits.
LARGEST = 1000


def precise_product(blocks: Iterable[tuple[slice, Numbers]], w: Numbers, start: Numbers) -> Numbers:
    """start + X w, for a vector or for columns. X comes as blocks of rows.

    The error of each output is one rounding of the result and, with m matrices that are added up, 15 for 128 columns,
    at most m² 2⁻¹⁰⁶ of the start and Σ_j max|x_j| |w_j|.
    """
    found = np.array(start, dtype=np.float64)
    columns = w if w.ndim > 1 else w[:, None]
    table = found if w.ndim > 1 else found[:, None]  # the same numbers
    for rows, block in blocks:
        for first in range(rows.start, rows.stop, ROWS):
            some = slice(first, min(first + ROWS, rows.stop))
            table[some] = _product(block[some.start - rows.start : some.stop - rows.start], columns, table[some])
    return found


def _product(X: Numbers, w: Numbers, start: Numbers) -> Numbers:
    total, error = start, np.zeros_like(start)
    for first in range(0, X.shape[1], COLUMNS):
        left, right, units = _scaled(X[:, first : first + COLUMNS], w[first : first + COLUMNS])
        parts = _parts(left)
        if not parts:
            continue
        stacked = np.concatenate(parts)  # one product of matrices is faster than several of fewer rows
        for order, part in enumerate(_parts(right)[:ORDERS]):
            count = min(len(parts), ORDERS - order)
            products = stacked[: count * len(X)] @ part
            for each in np.split(products * units, count):
                total, lost = _two_sum(total, each)
                error += lost
    return total + error


def _scaled(X: Numbers, w: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Factors with the same terms but for a unit of each output, a power of two: no entry is larger than one. A column
    of X and its weights are multiplied by powers of two that cancel, so that units of columns do not matter."""
    exponents = np.clip(np.frexp(np.abs(X).max(axis=0, initial=0.0))[1], -LARGEST, LARGEST)
    right = w * np.ldexp(1.0, exponents)[:, None]
    units = np.clip(np.frexp(np.abs(right).max(axis=0, initial=0.0))[1], -LARGEST, LARGEST)
    return X * np.ldexp(1.0, -exponents), right * np.ldexp(1.0, -units), np.ldexp(1.0, units)


def _parts(numbers: Numbers) -> list[Numbers]:
    """Parts that add up to the numbers, each with DIGITS digits, from the first on."""
    parts: list[Numbers] = []
    rest = numbers
    while len(parts) < PARTS and rest.any():
        round_off = 1.5 * 2.0 ** (52 - DIGITS * (len(parts) + 1))  # at this size nothing below the part's unit is left
        parts.append((rest + round_off) - round_off)
        rest = rest - parts[-1]
    return parts


def _two_sum(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """a + b as it is rounded, and what that leaves out (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
