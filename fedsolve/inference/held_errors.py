"""Errors on held-out rows: how small a difference rounding leaves, and whether there are enough cases to judge by."""

from __future__ import annotations

import numpy as np

from fedsolve.losses import LinearLoss, Poisson, Squared
from fedsolve.typing import Array

_EPS = 2.220446049250313e-16
SOLVED = 1e-8  # to which runs are solved, of the spread of the targets: a smaller residual is no model's merit
SMALLEST = 1e-300  # a square below has lost digits


def rounding(loss: LinearLoss, y: Array) -> float | None:
    """The error of a row below which two models are equally good, in the units of `loss.error`; None where targets are
    so small that their squares have no digits."""
    largest = float(np.max(np.abs(y), initial=0.0))
    if not isinstance(loss, Squared):
        return 4 * _EPS * (1.0 + largest)
    with np.errstate(over="ignore"):
        spread = largest * float(np.sqrt(np.mean(np.var(y / largest, axis=0)))) if largest else 0.0
    residual = max(64 * _EPS * largest, SOLVED * spread)
    return None if residual and residual * residual < SMALLEST else residual * residual


def few_cases(loss: LinearLoss, y: Array, least: int) -> bool:
    """Whether fewer rows than `least` are of another class than most, or have a count above zero.

    Then single rows decide the errors, which no interval from so few can know.
    """
    if isinstance(loss, Poisson):
        return int(np.count_nonzero(y)) < least
    if not loss.classifies:
        return False
    labels = (y > 0.5).astype(np.int64) if y.ndim == 1 else np.argmax(y, axis=1)
    return len(labels) - int(np.bincount(labels).max(initial=0)) < least
