"""Which columns are linear combinations of those before them, from a Hessian: what R's `glm` reports as NA.

In the order of the columns, the intercept first, each is kept unless what those before it leave of it is nothing but
rounding. Weights of the columns that are left out go over to the others, so that every prediction stays as it is:
where X_a = X_k T, X_k θ_k + X_a θ_a = X_k (θ_k + T θ_a), and T = H_kk⁻¹ H_ka for any weighting of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fedsolve.typing import Array

# 1 − R² of a column with those before it. Rounding leaves about 1e-15 times the number of columns; see decision 046.
COLLINEAR = 1e-11
NEARLY = 1e-7  # below it standard errors have lost about half of their digits
ROUNDING = 1e-13  # 1 − R² that may be nothing but rounding
PART = 1e-6  # of the largest part, each column in units of its own: columns with less are not named


@dataclass(frozen=True)
class Aliases:
    """Which parameters are kept; for each other one those it is a combination of; and the least 1 − R² of the kept."""

    kept: Array
    combinations: dict[int, tuple[int, ...]]
    least: float


def find_aliases(hessian: Array, order: Sequence[int]) -> Aliases:
    """Go through the parameters in this order."""
    units = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    safe = np.where(units > 0, units, 1.0)
    scaled = hessian / np.outer(safe, safe)
    q, count, least = len(units), 0, 1.0
    L = np.zeros((q, q))
    kept: list[int] = []
    combinations: dict[int, tuple[int, ...]] = {}
    for j in order:
        if not units[j] > 0:
            combinations[j] = ()
            continue
        part = L[:count, :count]
        row = solve_triangular(part, scaled[kept, j], lower=True, check_finite=False) if count else np.zeros(0)
        left = 1.0 - float(row @ row)
        if left <= COLLINEAR:
            parts = np.abs(solve_triangular(part, row, lower=True, trans="T", check_finite=False))
            combinations[j] = tuple(kept[i] for i in np.flatnonzero(parts > PART * parts.max()))
            continue
        L[count, :count], L[count, count] = row, left**0.5
        kept.append(j)
        count, least = count + 1, min(least, left)
    return Aliases(np.array(sorted(kept), dtype=np.intp), combinations, least)


def taken_over(hessian: Array, weights: Array, aliases: Aliases) -> Array:
    """The kept parameters, with what the others contribute."""
    kept, gone = aliases.kept, sorted(aliases.combinations)
    moved = hessian[np.ix_(kept, gone)] @ weights[gone]
    return weights[kept] + inverse(hessian[np.ix_(kept, kept)]) @ moved


def left_out(hessian: Array, weights: Array, aliases: Aliases) -> float:
    """What the fit gains by that part of the aliased columns which the others do not have: θ_aᵀ S θ_a, with
    S = H_aa − H_ak H_kk⁻¹ H_ka. Zero for columns that are combinations of others to rounding."""
    kept, gone = aliases.kept, sorted(aliases.combinations)
    theta, among = weights[gone], hessian[np.ix_(gone, gone)]
    crossed = hessian[np.ix_(kept, gone)]
    gain = float(theta @ (among - crossed.T @ inverse(hessian[np.ix_(kept, kept)]) @ crossed) @ theta)
    return gain if gain > ROUNDING * float(theta**2 @ np.diag(among)) else 0.0


def inverse(matrix: Array) -> Array:
    """The inverse of a positive definite matrix, in units in which its diagonal is one."""
    units = np.sqrt(np.diag(matrix))
    both = np.outer(units, units)
    L = np.linalg.cholesky(matrix / both)
    half = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
    return (half.T @ half) / both
