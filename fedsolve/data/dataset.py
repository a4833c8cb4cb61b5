"""One data set in memory: what the readers make and the schemes divide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsolve.errors import ConfigError, DataError
from fedsolve.tables.cells import key
from fedsolve.tables.column_names import are_counted, chosen_columns, order_of, take_columns
from fedsolve.tables.labels import Classes, positive_rows, same_label, with_names
from fedsolve.tables.outcomes import Condition, Positive, condition, looks_like_condition
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
    sample_weight: Array | None = None
    offset: Array | None = None
    notes: tuple[str, ...] = ()  # what was recognised when it was read, a sentence each
    offset_name: str | None = None  # the column that the offsets are from

    def __post_init__(self) -> None:
        if self.X.shape[0] == 0:
            raise DataError(f"{self.name}: no rows; expected at least one.")
        each = {"targets": self.y, "groups": self.groups, "weights": self.sample_weight, "offsets": self.offset}
        for what, values in each.items():
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

    def binary(self, positive: Positive | None = None, key_name: str = "positive") -> Dataset:
        """The same data with targets 0 and 1, and their names in `target_names`.

        Args:
            positive: The class that is 1 where all others are 0, by name or number; a list of several; or a condition
                on numbers, "> 0" or "1..4". None: the larger of two labels.
            key_name: What `positive` is called in messages.

        Raises DataError for more than two classes without `positive`, and UnknownName for one that does not occur.

        Example:
            >>> load("iris").binary("setosa").target_names
            ('not setosa', 'setosa')
        """
        if self.y.ndim != 1:
            return replace(self, target_names=None)  # the loss says what is wrong with it
        if (wanted := self._condition(positive, key_name)) is not None:
            rows = wanted.holds(self.labels)
            if not rows.any():
                raise DataError(f"{self.name}: {key_name} = {positive!r} holds of no row; check it against the target")
            y_test = None if self.y_test is None else wanted.holds(with_names(self.y_test, self.target_names))
            y_test = None if y_test is None else y_test.astype(np.int64)
            return replace(self, y=rows.astype(np.int64), y_test=y_test, target_names=wanted.classes)
        rows, classes = positive_rows(self.y, self.target_names, positive, self.name, key_name)
        if rows is None:
            return replace(self, target_names=classes)
        one = self.y[rows][0]
        y_test = None if self.y_test is None else (self.y_test == one).astype(np.int64)
        return replace(self, y=rows.astype(np.int64), y_test=y_test, target_names=classes)

    def _condition(self, positive: Positive | None, key_name: str) -> Condition | None:
        """The condition that `positive` is; None where it is a label."""
        if any(same_label(positive, name) for name in self.target_names or ()):
            return None
        if self.target_names is None and isinstance(positive, str) and isinstance(key(positive), float):
            return Condition(positive.strip(), values=(key(positive),))  # a number in quotes
        found = condition(positive)
        if found is None and looks_like_condition(positive):
            raise ConfigError(f'{key_name} = {positive!r} is no comparison with a number; write one such as "> 0"')
        return found

    def rows(self, chosen: Array) -> Dataset:
        """Some of the rows; what is known of whose they are, and of other columns, is left behind."""
        weight, offset = (None if one is None else one[chosen] for one in (self.sample_weight, self.offset))
        X, y = self.X[chosen], self.y[chosen]
        return replace(self, X=X, y=y, groups=None, columns=None, sample_weight=weight, offset=offset)

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
