"""One data set in memory: what the readers make and the schemes divide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsolve.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features, targets and what is known of them. `X` is float64, or object for a table with text."""

    name: str
    X: Array | csr_array
    y: Array
    feature_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    description: str = ""
    X_test: Array | csr_array | None = None
    y_test: Array | None = None
    groups: Array | None = None  # whose each row is, where the data itself says so
    columns: Mapping[str, Array] | None = None  # further columns by name, also those that are not features

    def __post_init__(self) -> None:
        if self.X.shape[0] == 0:
            raise DataError(f"{self.name}: no rows; expected at least one.")
        for what, values in {"targets": self.y, "groups": self.groups}.items():
            if values is not None and len(values) != self.X.shape[0]:
                raise DataError(f"{self.name}: {self.X.shape[0]} rows but {len(values)} {what}; expected one per row.")
        if (self.X_test is None) != (self.y_test is None):
            raise DataError(f"{self.name}: X_test and y_test come together; only one was given.")
        if self.X_test is not None and self.y_test is not None:
            expected = (len(self.y_test), self.X.shape[1])
            if self.X_test.shape != expected:
                raise DataError(f"{self.name}: the test features are {self.X_test.shape}; expected {expected}.")

    @property
    def n_samples(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        kind = self.X.dtype if isinstance(self.X, np.ndarray) else "sparse"
        test = "" if self.y_test is None else f", {len(self.y_test)} test rows"
        return f"Dataset({self.name!r}, {self.n_samples} x {self.n_features}, {kind}{test})"


def is_missing(values: Array) -> NDArray[np.bool_]:
    """Where a float or object array is NaN, the only value that differs from itself."""
    return np.asarray(values != values, dtype=bool)
