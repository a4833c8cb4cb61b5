"""Gradient descent converges linearly (Jadbabaie et al., 2023, section II-C): each gap beside that of the step before.

The gap is F − F*. The bound of Lemma 2, accumulated from the start, is tested in `theory_orders` and `theory_descent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.fedlrgd.cost_problem import L2, posed
from fedsolve.reproduce.fedlrgd.theory_descent import Pooled, pooled
from fedsolve.reproduce.fedlrgd.two_sided import named
from fedsolve.typing import Array

QUADRATIC = Check(
    "Section II-C",
    "exact gradient descent, κ = 10 and 100: F − F* over (1 − 1/κ) times that of the step before",
    "times",
)
LOGISTIC = Check(
    "Section II-C", "… and on a logistic regression, κ = L_1/μ, with an allowance for the rounding of F − F*", "times"
)
CHECKS = (QUADRATIC, LOGISTIC)
STARTS, STEPS = 50, 100  # of the logistic regression
# A value of F is wrong by at most 32 roundings, of half an ε each: 22 of the sum over 1,008 samples, which numpy adds
# up in pairs of blocks, and at most 10 of a term. Each of the two gaps of a step is a difference of two values.
ROUNDINGS = 4 * 32 / 2 * float(np.finfo(np.float64).eps)


def measured(seed: int) -> dict[str, float]:
    return named({QUADRATIC: max(_quadratic(seed, kappa) for kappa in (10.0, 100.0)), LOGISTIC: _logistic(seed)})


def slowest(gaps: Sequence[float], shrink: float, rounding: float = 0.0) -> float:
    """The largest ratio of a gap to `shrink` times the one before and the allowance `rounding`."""
    return max(after / (shrink * before + rounding) for before, after in pairwise(gaps))


def _quadratic(seed: int, kappa: float) -> float:
    """200 steps. The minimum is 0 at 0, so that gaps are exact to a few roundings of their own size."""
    H, theta, gaps = np.linspace(1 / kappa, 1, 8), np.random.default_rng([seed, 43]).standard_normal(8), []
    for _ in range(201):
        gaps.append(float(theta @ (H * theta)) / 2)
        theta = theta - H * theta
    return slowest(gaps, 1 - 1 / kappa)


def _logistic(seed: int) -> float:
    F, (best, _) = pooled(seed), posed("different", seed).solved
    starts = 5 * np.random.default_rng([seed, 44]).standard_normal((STARTS, F.X.shape[1]))
    return max(descended(F, theta, best, 1 - L2 / F.L_1) for theta in starts)


def descended(F: Pooled, theta: Array, best: Array, shrink: float) -> float:
    """`slowest` of the steps of 1/L_1 from `theta`."""
    gaps, least, L_1, size = [], F.value(best), F.L_1, F.size(best)
    for _ in range(STEPS + 1):
        gaps.append(F.value(theta) - least)
        size = max(size, F.size(theta))
        theta = theta - F.slope(theta) / L_1
    return slowest(gaps, shrink, ROUNDINGS * size)
