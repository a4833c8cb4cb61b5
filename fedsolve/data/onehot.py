"""Labels as targets of a regression: a column for each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsolve.errors import DataError
from fedsolve.typing import Array


def one_hot(y: Array, classes: int) -> NDArray[np.float64]:
    """Rows of 0 with a 1 at the label, 0 … classes − 1. The number of classes is said, not counted: a client may lack
    some of them."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iufb":
        raise DataError(f"labels are one whole number each, got shape {labels.shape} of {labels.dtype}")
    if labels.size and ((labels != np.floor(labels)).any() or labels.min() < 0 or labels.max() >= classes):
        raise DataError(f"labels of {classes} classes are 0 … {classes - 1}, got {labels.min():g} … {labels.max():g}")
    rows = np.zeros((len(labels), classes))
    rows[np.arange(len(labels)), labels.astype(np.int64)] = 1.0
    return rows
