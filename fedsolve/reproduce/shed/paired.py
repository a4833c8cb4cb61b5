"""Means of paired differences over seeds, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsolve.typing import Array

ERRORS = 2.0  # standard errors that a mean must be away from 0 by


def mean_error(values: Sequence[float] | Array) -> tuple[float, float]:
    """The mean and its standard error, which is 0 for one value."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error
