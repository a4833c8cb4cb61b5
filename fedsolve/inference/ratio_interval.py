"""An interval for the ratio of two expected errors, from the errors of two models on the same rows.

Fieller's interval ("Some problems in interval estimation", Journal of the Royal Statistical Society B 16, 1954) holds
every ratio ρ for which a t-test does not reject that a_i − ρ b_i has mean zero. The errors are paired, so what makes a
row hard for both models cancels. Nothing random is in it. In simulated federations it covers the true ratio at least as
often as the bootstrap, percentile or BCa, and as the t interval of the logarithm (docs/decisions/036-joining.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsolve.typing import Array

DIGITS = 1e-16  # of the larger mean: an error below that counts as that, so that no ratio is beyond 1e16


@dataclass(frozen=True)
class RatioInterval:
    """Two means and their ratio, with an interval.

    Attributes:
        numerator: The mean of the first errors.
        denominator: The mean of the second.
        low: The lower end of the interval of the ratio; 0 where the first errors do not exclude it.
        high: The upper end; None where there is none, because the second errors may be zero on average.
    """

    numerator: float
    denominator: float
    low: float
    high: float | None

    @property
    def ratio(self) -> float:
        """The first mean over the second; 1 where both are zero."""
        return 1.0 if self.denominator == 0 else self.numerator / self.denominator


def effective_rows(weights: Array | None, rows: int) -> float:
    """How many rows of equal weight say as much about a mean, (Σs)² / Σs² (Kish); all of them without weights."""
    if weights is None:
        return float(rows)
    total = float(np.sum(weights))
    if not total > 0:
        return 0.0
    shares = np.asarray(weights) / total
    return float(1.0 / np.sum(shares * shares))


def ratio_of_means(first: Array, second: Array, weights: Array | None = None, level: float = 0.95) -> RatioInterval:
    """Σ s a / Σ s b with Fieller's interval.

    Args:
        first, second: The errors a_i and b_i of the same rows, none of them negative.
        weights: The sample weights s_i; all 1 by default. With weights the variance of a mean is
            Σ s² (z − z̄)² / (Σ s)², and the degrees of freedom are those of `effective_rows`.
        level: How often the interval shall hold the true ratio.
    """
    from scipy.special import stdtrit  # slow to import, and scipy.stats, which has it too, slower still

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    shares = np.full(len(a), 1.0 / len(a)) if weights is None else np.asarray(weights) / np.sum(weights)
    # What is zero on one side only is as small as float64 can tell: both sides are treated alike.
    least = DIGITS * max(float(shares @ a), float(shares @ b))
    a, b = np.maximum(a, least), np.maximum(b, least)
    mean_a, mean_b = float(shares @ a), float(shares @ b)
    rows = effective_rows(weights, len(a))
    if mean_a == 0:  # then both are zero
        return RatioInterval(0.0, 0.0, 1.0, 1.0)
    if rows <= 1:
        return RatioInterval(mean_a, mean_b, 0.0, None)
    # In units of the two means, in which nothing overflows: ρ = (1 + e) mean_a / mean_b.
    u, v = a / mean_a - 1.0, b / mean_b - 1.0
    d = u - v  # and not what it comes to in squares: models that are nearly equal have few digits between them
    correction = rows / (rows - 1.0) * float(stdtrit(rows - 1.0, 0.5 + level / 2)) ** 2
    squares = shares * shares
    dd, dv, uu, vv = (correction * float(squares @ product) for product in (d * d, d * v, u * u, v * v))
    # e² ≤ t² Var(d − e v):  p e² + 2 dv e − dd ≤ 0, which e = 0 always satisfies.
    p, ratio = 1.0 - vv, mean_a / mean_b
    root = math.sqrt(max(dv * dv + p * dd, 0.0))
    if p > 0:  # the second mean is not zero: a bounded interval around e = 0. Of its ends one may cancel.
        near = dd / (root + abs(dv)) if dd else 0.0
        far = (root + abs(dv)) / p
        below, above = (far, near) if dv > 0 else (near, far)
        return RatioInterval(mean_a, mean_b, ratio * max(0.0, 1.0 - below), ratio * (1.0 + above))
    # The second mean may be zero. Only if the first one may not is there a lower end, the root next to e = 0.
    low = ratio * max(0.0, 1.0 - dd / (root - dv)) if uu < 1 and root > dv else 0.0
    return RatioInterval(mean_a, mean_b, low, None)
