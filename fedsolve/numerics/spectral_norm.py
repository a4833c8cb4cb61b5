"""The spectral norm of a symmetric matrix, from above, for much less than its eigenvalues cost.

FedNL shifts by ‖A‖₂: a little more does no harm, less would. So what is found from below is proved from above. For an
orthonormal basis Q that has seen T = QᵀAQ and R = AQ − QT of A, and not the rest of it, A_⊥,

    ‖A‖_F² = ‖T‖_F² + 2‖R‖_F² + ‖A_⊥‖_F²,      ‖A‖₂ ≤ ‖[[‖T‖₂, ‖R‖₂], [‖R‖₂, ‖A_⊥‖_F]]‖₂

which is near ‖T‖₂ where few eigenvalues have most of the norm, as is usual in differences of Hessians. First Q is the
vector of the power method, then a basis by Lanczos; where both fall short, all eigenvalues are computed.
"""

from __future__ import annotations

from math import hypot, isfinite, sqrt

import numpy as np
from scipy.linalg.blas import dspmv

from fedsolve.typing import Array

SMALL = 32  # the order up to which all eigenvalues cost little more
POWERS = 3  # products with A
LANCZOS = (3, 6, 12, 24)  # the sizes of a basis at which it is asked what it proves
TOLERANCE = 0.05


def spectral_norm(packed: Array, order: int, frobenius: float, slack: float = 0.0) -> float:
    """‖A‖₂ of the symmetric matrix of this packed upper triangle: never below it (to rounding), and above it by at most
    `TOLERANCE` of it or by `slack`, whichever is more; to rounding up to the order `SMALL`."""
    if frobenius == 0.0 or not isfinite(frobenius):
        return frobenius  # NaN where a run diverges: it is seen in the value too
    total = frobenius * frobenius
    if order > SMALL:
        below, above, y = _by_power(packed, order, total, slack)
        if not _close(below, above, slack):
            below, above = _by_lanczos(packed, y, total, slack)
        if _close(below, above, slack):
            return above
    upper = np.zeros((order, order))
    upper[np.triu_indices(order)] = packed
    return float(np.abs(np.linalg.eigvalsh(upper, UPLO="U")).max())


def _close(below: float, above: float, slack: float) -> bool:
    return above - below <= max(TOLERANCE * below, slack)


def _by_power(packed: Array, order: int, total: float, slack: float) -> tuple[float, float, Array]:
    """‖A‖₂ from below and above by the power method, and the vector reached; total is ‖A‖_F²."""
    y = np.full(order, order**-0.5)
    for _ in range(POWERS):
        z = dspmv(order, 1.0, packed, y, lower=1)  # the packed lower triangle, in the order of BLAS
        theta, z2 = abs(float(y.dot(z))), float(z.dot(z))
        residual2 = max(z2 - theta * theta, 0.0)
        unseen = sqrt(max(total - theta * theta - 2.0 * residual2, 0.0))
        above = _norm_of_blocks(theta, unseen, sqrt(residual2))
        if z2 == 0.0 or _close(theta, above, slack):
            break
        y = z / sqrt(z2)
    return theta, above, y


def _by_lanczos(packed: Array, start: Array, total: float, slack: float) -> tuple[float, float]:
    """The same by Lanczos steps, no more of them than the proof needs."""
    order, most = start.size, LANCZOS[-1]
    Q, T = np.empty((most, order)), np.zeros((most, most))
    Q[0] = start
    for size in range(1, most + 1):
        basis, u = Q[:size], dspmv(order, 1.0, packed, Q[size - 1], lower=1)
        along = basis @ u
        u -= along @ basis
        u -= (basis @ u) @ basis  # again: the proof needs a basis that is orthonormal to rounding
        T[size - 1, :size] = T[:size, size - 1] = along
        rest = sqrt(u @ u)
        complete = rest * rest <= 1e-28 * total
        if complete or size in LANCZOS:
            below, above = _bounds(T[:size, :size], rest, total)
            if complete or _close(below, above, slack):
                break
        if size < most:
            Q[size] = u / rest
    return below, above


def _bounds(T: Array, rest: float, total: float) -> tuple[float, float]:
    """What a basis proves, where R has the norm `rest` and only its last column is not zero. It is split once more: its
    best vector, and the others with A_⊥."""
    values, vectors = np.linalg.eigh(T)
    sizes = np.abs(values)
    best = int(sizes.argmax())
    theta, residual = float(sizes[best]), rest * abs(float(vectors[-1, best]))
    sizes[best] = 0.0
    unseen = sqrt(max(total - float(values @ values) - 2.0 * rest * rest, 0.0))
    others = _norm_of_blocks(float(sizes.max()), unseen, rest)
    return theta, _norm_of_blocks(theta, others, residual)


def _norm_of_blocks(a: float, b: float, c: float) -> float:
    """‖[[a, c], [c, b]]‖₂ for a, b, c ≥ 0, which bounds a matrix whose blocks have these norms."""
    return 0.5 * (a + b) + hypot(0.5 * (a - b), c)
