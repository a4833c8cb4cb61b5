"""Models: what a run is for. They predict, and they are saved without pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError, WireError
from fedsolve.features import FeatureMap
from fedsolve.features.mapped import FeatureDesign
from fedsolve.numerics.design import as_design
from fedsolve.tables.names import match_columns
from fedsolve.typing import Array
from fedsolve.wire import archives
from fedsolve.wire.storage import reading, remove_leftovers, write_atomically

FORMAT = 1
LINKS = ("identity", "logistic", "softmax", "exponential")


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    """x ↦ g(xᵀw), with the intercept last in w. `link`: identity, logistic, softmax, exponential."""

    w: Array
    intercept: bool
    link: str
    classes: tuple[Any, ...] | None = None
    transform: Any = None  # the preprocessing the run agreed on: raw columns go in
    feature_names: tuple[str, ...] | None = None  # of the columns after preprocessing
    features: Any = None  # the map from these columns to those that `coef` is for; None: the same
    inputs: int | None = None  # how many columns that map was fitted on; None: not known (files of older versions)

    def __repr__(self) -> str:
        features, outputs = self.coef.shape[0], self.coef.shape[1:]
        several = f" × {outputs[0]}" if outputs else ""
        kept = "" if self.transform is None else ", takes raw columns"
        mapped = "" if self.features is None else f", of {self.features!r}"
        return f"<LinearModel: {features}{several} weights{mapped}, link {self.link}{kept}>"

    def coefficients(self) -> dict[str, Any]:
        """The weights by name (by number for a feature map), the intercept last; on the scale of the preprocessed
        columns."""
        if self.features is not None:
            names = tuple(f"φ{i}" for i in range(self.coef.shape[0]))
        else:
            names = self.feature_names or tuple(f"x{i}" for i in range(self.coef.shape[0]))
        rows = dict(zip(names, self.coef.tolist(), strict=True))
        return rows | ({"intercept": self.w[-1].tolist()} if self.intercept else {})

    @property
    def coef(self) -> Array:
        return self.w[:-1] if self.intercept else self.w

    @property
    def intercept_(self) -> Any:
        return self.w[-1] if self.intercept else 0.0

    def decision_function(self, X: Array, offset: Array | None = None) -> Array:
        """The linear predictor.

        The columns of a data frame are matched with the model's by name, in any order; those of an array, and those of
        a model without names, are taken by place. Raises DataError if they are not the columns the model takes.
        """
        X = match_columns(
            X, self.input_names, "the data frame", "this model takes exactly its own columns, in any order"
        )
        if self.transform is not None:
            X = self.transform.apply(X)
        X = X if sp.issparse(X) else self._numbers(X)
        if X.ndim != 2:
            raise DataError(f"X is a matrix of samples and columns, got shape {X.shape}")
        if self.features is not None:
            eta = self._mapped(X) + self.intercept_
        elif X.shape[1] != self.coef.shape[0]:
            raise DataError(f"this model takes {self.coef.shape[0]} features, X has shape {X.shape}")
        else:
            eta = X @ self.coef + self.intercept_
        if np.isnan(eta).any():
            self._refuse_missing(X)
        return eta if offset is None else eta + np.asarray(offset)

    def _mapped(self, X: Array) -> Array:
        """Φ coef, a block of rows at a time."""
        expected = self._mapped_columns
        if expected is not None and X.shape[1] != expected:
            raise DataError(f"this model takes {expected} columns, X has shape {X.shape}")
        if not sp.issparse(X) and np.isnan(X).any():
            self._refuse_missing(X)
        design = FeatureDesign(self.features, as_design(sp.csr_array(X) if sp.issparse(X) else X), keep=0)
        if design.shape[1] != self.coef.shape[0]:
            raise DataError(
                f"this model takes {self.coef.shape[0]} features, X of shape {X.shape} has {design.shape[1]}"
            )
        return design.matvec(self.coef)

    def _numbers(self, X: Array) -> Array:
        try:
            return np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            cells = np.asarray(X, dtype=object)
            for row, column in np.ndindex(cells.shape):
                if not _is_number(cells[row, column]):
                    raise DataError(
                        f"column {self._column(column)}, row {row} (from 0): {cells[row, column]!r} is no number, and "
                        "this model takes numbers only"
                    ) from None
            raise

    def _refuse_missing(self, X: Array) -> None:
        if sp.issparse(X):
            entries = sp.coo_array(X)
            missing = np.isnan(entries.data)
            wrong = np.stack([entries.row[missing], entries.col[missing]], axis=1)
            wrong = wrong[np.lexsort((wrong[:, 1], wrong[:, 0]))]
        else:
            wrong = np.argwhere(np.isnan(X))
        if len(wrong):
            row, column = wrong[0]
            raise DataError(
                f"column {self._column(column)}, row {row} (from 0): missing, and this model has no preprocessing that "
                "could impute it"
            )

    def _column(self, place: int) -> str:
        return repr(self.feature_names[place]) if self.feature_names is not None else f"{place} (from 0)"

    @property
    def is_classifier(self) -> bool:
        return self.link in ("logistic", "softmax")

    def predict_proba(self, X: Array) -> Array:
        """The probability of each class, a column for each (0 first)."""
        eta = self.decision_function(X)
        if self.link == "logistic":
            p = 0.5 + 0.5 * np.tanh(0.5 * eta)
            return np.stack([1 - p, p], axis=1)
        if self.link == "softmax":
            e = np.exp(eta - eta.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)
        raise ConfigError("only classifiers have probabilities; this model is a regression")

    def predict(self, X: Array, offset: Array | None = None) -> Array:
        """Values, mean counts, or the most probable class."""
        eta = self.decision_function(X, offset)
        if not self.is_classifier:
            return np.exp(eta) if self.link == "exponential" else eta
        labels = (eta > 0).astype(np.int64) if self.link == "logistic" else eta.argmax(axis=1)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    def classify(self, X: Array) -> Array:
        """The class with the largest output: also of a regression on one-hot targets, whose `predict` gives values."""
        if self.is_classifier:
            return self.predict(X)
        if self.coef.ndim == 1:
            raise ConfigError(
                "a regression of one output has no classes; learn from one-hot targets, data.one_hot(y, k)"
            )
        labels = self.decision_function(X).argmax(axis=1)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the columns that go in, before preprocessing; None if they have none."""
        if self.transform is None:
            return self.feature_names
        return tuple(column.name for column in self.transform.columns)

    @property
    def columns(self) -> int | None:
        """How many columns go in; None if only the feature map could say."""
        if self.transform is not None:
            return len(self.transform.columns)
        return int(self.coef.shape[0]) if self.features is None else self._mapped_columns

    @property
    def _mapped_columns(self) -> int | None:
        if self.inputs is not None or self.feature_names is None:
            return self.inputs
        return len(self.feature_names)

    def with_inputs(self, inputs: int) -> LinearModel:
        return replace(self, inputs=inputs)

    def with_transform(self, transform: Any) -> LinearModel:
        return replace(self, transform=transform)

    def with_names(self, names: tuple[str, ...]) -> LinearModel:
        return replace(self, feature_names=names)

    def with_classes(self, classes: tuple[Any, ...]) -> LinearModel:
        return replace(self, classes=classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz file: the weights, the rest as JSON text, and a checksum over both.

        Raises StorageError if the file cannot be written, or if `path` is a symbolic link.
        """
        path = Path(path)
        rest = {
            "format": FORMAT,
            "kind": "linear",
            "intercept": self.intercept,
            "link": self.link,
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
            "feature_names": self.feature_names,
            "features": None if self.features is None else self.features.to_plain(),
            "inputs": self.inputs,
        }
        data = archives.pack(w=self.w, model=np.array(json.dumps(rest)))
        remove_leftovers(path.parent, [path.name])
        write_atomically(path, data)


def load_model(path: str | os.PathLike[str]) -> LinearModel:
    """Read a model that `save` wrote, also with another version of fedsolve as long as the format is the same.

    Raises DataError for a file that is damaged or is not a model.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no model file {path}")
    try:
        with reading(path) as (file, size):
            arrays = archives.unpack(file, size, ("w", "model"))
    except (WireError, OSError) as error:
        said = (isinstance(error, OSError) and error.strerror) or str(error)
        raise DataError(
            f"{path} is damaged or not a fedsolve model file: {said}. Give a file that LinearModel.save or a run wrote "
            "(model.npz), or restore this one from a copy"
        ) from error
    try:
        return _from_arrays(**arrays)
    except DataError as error:
        raise DataError(f"{path} is not a fedsolve model file that can be read: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a fedsolve model file ({type(error).__name__}: {error})") from error


def _from_arrays(w: Array, model: Array) -> LinearModel:
    rest = json.loads(str(model))
    if not isinstance(rest, dict) or rest.get("format") != FORMAT or rest.get("kind") != "linear":
        found = rest.get("format") if isinstance(rest, dict) else None
        raise DataError(f"it is a model of format {found!r}, this version reads {FORMAT}")
    if rest["link"] not in LINKS or not isinstance(rest["intercept"], bool):
        raise DataError(f"its link is {rest['link']!r} and its intercept {rest['intercept']!r}, which is no model")
    if w.dtype.kind not in "fiu" or w.ndim not in (1, 2):
        raise DataError(f"its weights are of type {w.dtype} and shape {w.shape}, expected a vector or a matrix")
    return LinearModel(
        w,
        rest["intercept"],
        rest["link"],
        _as_tuple(rest["classes"]),
        None if rest["transform"] is None else Transform.from_plain(rest["transform"]),
        _as_tuple(rest["feature_names"]),
        None if rest.get("features") is None else FeatureMap.from_plain(rest["features"]),
        rest.get("inputs"),
    )


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _as_tuple(items: list[Any] | None) -> tuple[Any, ...] | None:
    return None if items is None else tuple(items)
