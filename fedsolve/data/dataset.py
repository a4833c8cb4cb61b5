"""One data set in memory: what the readers make and the schemes divide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsolve.errors import DataError
from fedsolve.tables.column_names import are_counted, chosen_columns, order_of, take_columns
from fedsolve.tables.labels import Classes, positive_rows, with_names
from fedsolve.typing import Array as AnyArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features, targets and what is known of them. `X` is float64, or object for a table with text."""

    name: str
    X: Array | csr_array
    y: Array
    feature_names: tuple[str, ...] | None = None
    target_names: Classes | None = None
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

    @property
    def labels(self) -> AnyArray:
        """The targets with the names of their classes, where they have any."""
        return with_names(self.y, self.target_names)

    def binary(self, positive: str | float | None = None, key_name: str = "positive") -> Dataset:
        """The same data with targets 0 and 1, and their names in `target_names`.

        Args:
            positive: The class that is 1 where all others are 0, by name or number. None: the larger of two labels.
            key_name: What `positive` is called in messages.

        Raises DataError for more than two classes without `positive`, and UnknownName for one that does not occur.

        Example:
            >>> load("iris").binary("setosa").target_names
            ('not setosa', 'setosa')
        """
        if self.y.ndim != 1:
            return replace(self, target_names=None)  # the loss says what is wrong with it
        rows, classes = positive_rows(self.y, self.target_names, positive, self.name, key_name)
        if rows is None:
            return replace(self, target_names=classes)
        one = self.y[rows][0]
        y_test = None if self.y_test is None else (self.y_test == one).astype(np.int64)
        return replace(self, y=rows.astype(np.int64), y_test=y_test, target_names=classes)

    def in_order(self, names: Sequence[str], whose: str, what_to_do: str) -> Dataset:
        """The same data with its columns in this order, by name. A table without names keeps its places.

        Raises DataError if the columns are not these; `whose` and `what_to_do` are for its message.
        """
        if self.feature_names is None:
            return self
        if are_counted(self.feature_names) and set(self.feature_names) != set(names):  # a table without a header
            return replace(self, feature_names=None)
        order = order_of(self.feature_names, names, whose, what_to_do)
        test = None if self.X_test is None else take_columns(self.X_test, order)
        return replace(self, X=take_columns(self.X, order), X_test=test, feature_names=tuple(names))

    def inputs_for(self, wanted: Sequence[str] | None) -> AnyArray:
        """X with the columns that a model takes, in its order: by name where both sides have names, else as it is.

        Columns that the model does not know are left out. Raises DataError for those that are missing.
        """
        known = self.feature_names
        if known is None or wanted is None or are_counted(known) or are_counted(wanted):
            return self.X
        chosen = chosen_columns(self.name, known, wanted)
        return take_columns(self.X, [known.index(name) for name in chosen])

    def __repr__(self) -> str:
        kind = self.X.dtype if isinstance(self.X, np.ndarray) else "sparse"
        test = "" if self.y_test is None else f", {len(self.y_test)} test rows"
        return f"Dataset({self.name!r}, {self.n_samples} x {self.n_features}, {kind}{test})"


def is_missing(values: Array) -> NDArray[np.bool_]:
    """Where a float or object array is NaN, the only value that differs from itself."""
    return np.asarray(values != values, dtype=bool)
