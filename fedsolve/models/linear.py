"""Linear models: x ↦ g(xᵀw)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.features import FeatureMap
from fedsolve.features.mapped import FeatureDesign
from fedsolve.models.base import Description, Plain, Task
from fedsolve.models.linked import LINKS, LinkedModel, with_offset
from fedsolve.numerics.design import as_design
from fedsolve.tables.column_names import difference
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

T = TypeVar("T")

IN_WORDS = {
    "identity": "a linear regression by least squares",
    "logistic": "a logistic regression",
    "softmax": "a multinomial logistic regression",
    "exponential": "a Poisson regression",
}
MOST_WEIGHTS, MOST_OUTPUTS = 60, 6  # that a description lists one by one


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(LinkedModel):
    """x ↦ g(xᵀw), with the intercept last in w.

    Attributes:
        w: The weights; with several outputs a matrix, a column for each.
        intercept: Whether the last row of w is an intercept.
        link: What g is: "identity", "logistic", "softmax" or "exponential".
        classes: What the labels 0, 1, … stand for, where that is known; `predict` gives these.
        transform: The preprocessing the run agreed on: raw columns go in.
        feature_names: The names of the columns after preprocessing.
        features: The map from these columns to those that `coef` is for; None: they are the same.
        inputs: How many columns that map was fitted on; None: not known.
    """

    w: Array
    intercept: bool
    link: str
    classes: Classes | None = None
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None
    features: FeatureMap | None = None
    inputs: int | None = None

    kind: ClassVar[str] = "linear"

    def __repr__(self) -> str:
        features, outputs = self.coef.shape[0], self.coef.shape[1:]
        several = f" × {outputs[0]}" if outputs else ""
        kept = "" if self.transform is None else ", takes raw columns"
        mapped = "" if self.features is None else f", of {self.features!r}"
        return f"<LinearModel: {features}{several} weights{mapped}, link {self.link}{kept}>"

    @property
    def in_words(self) -> str:
        """What kind of model it is, for a report."""
        mapped = "" if self.features is None else f" on features of its columns ({type(self.features).__name__})"
        return IN_WORDS[self.link] + mapped

    def coefficients(self) -> dict[str, float | list[float]]:
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
        """The weights of the columns, or of the features of a map; all but the intercept."""
        return self.w[:-1] if self.intercept else self.w

    @property
    def intercept_(self) -> Array | float:
        """The intercept, one number or one for each output; 0 where there is none."""
        return self.w[-1] if self.intercept else 0.0

    def decision_function(self, X: Array, offset: Array | None = None) -> Array:
        """The linear predictor of each row of X (see `prepared` for what X may be)."""
        X = self.prepared(X)
        if self.features is not None:
            eta = self._mapped(self.features, X) + self.intercept_
        elif X.shape[1] != self.coef.shape[0]:
            raise DataError(f"this model takes {self.coef.shape[0]} features, X has shape {X.shape}")
        else:
            eta = X @ self.coef + self.intercept_
        if np.isnan(eta).any():
            self._refuse_missing(X)
        return with_offset(eta, offset)

    def _mapped(self, features: FeatureMap, X: Array) -> Array:
        """Φ coef, a block of rows at a time."""
        expected = self._mapped_columns
        if expected is not None and X.shape[1] != expected:
            raise DataError(f"this model takes {expected} columns, X has shape {X.shape}")
        if not sp.issparse(X) and np.isnan(X).any():
            self._refuse_missing(X)
        design = FeatureDesign(features, as_design(sp.csr_array(X) if sp.issparse(X) else X), keep=0)
        if design.shape[1] != self.coef.shape[0]:
            raise DataError(
                f"this model takes {self.coef.shape[0]} features, X of shape {X.shape} has {design.shape[1]}"
            )
        return design.matvec(self.coef)

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

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of the predictor of one row."""
        return tuple(map(int, self.coef.shape[1:]))

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

    # ── describing ──

    def described(self, names: Sequence[str] | None = None) -> Description:
        """The weights by name, unless there are too many; `names` are those of the raw columns."""
        w = self.w
        outputs = w.reshape(len(w), -1)
        if outputs.shape[1] > MOST_OUTPUTS:
            shape = " × ".join(map(str, w.shape))
            return Description((f"A LinearModel. Its weights have shape {shape}.",))
        if len(w) > MOST_WEIGHTS:
            return Description((f"A linear model with {len(w)} weights, of norm {float((w**2).sum() ** 0.5):.4g}.",))
        names = self._names(names)
        known = names if names is not None and len(names) == len(self.coef) else None
        labels = [*(known or [f"feature {index}" for index in range(len(self.coef))])]
        labels += ["(intercept)"] * self.intercept
        wide = outputs.shape[1] > 1
        classes = self.classes if wide and self.classes is not None and len(self.classes) == outputs.shape[1] else None
        heads = [str(one) for one in classes or range(outputs.shape[1])] if wide else ["weight"]
        said = [] if self.transform is None else ["Weights are those of the columns after preprocessing."]
        if not wide and self.is_classifier and self.classes is not None:
            said.append(f"A positive weight speaks for “{self.classes[1]}”, against “{self.classes[0]}”.")
        rows = [(label, *(f"{one:.6g}" for one in row)) for label, row in zip(labels, outputs.tolist(), strict=True)]
        return Description(tuple(said), ("feature", *heads), tuple(rows))

    def _names(self, names: Sequence[str] | None) -> Sequence[str] | None:
        """What the columns are called: as the model has it, or the transform, or the data, in this order; a transform
        that was told no names numbers them, and the data may know better."""
        if self.features is not None:  # weights of features, which have no names
            return None
        if self.feature_names is not None:
            return self.feature_names
        if self.transform is None:
            return names
        made = tuple(self.transform.feature_names())
        numbered = made == tuple(f"x{index}" for index in range(len(made)))
        return names if numbered and names is not None and len(names) == len(made) else made

    # ── what a run adds, and asks ──

    def fitted_on(
        self,
        *,
        transform: Transform | None = None,
        feature_names: tuple[str, ...] | None = None,
        classes: Classes | None = None,
        inputs: int | None = None,
    ) -> LinearModel:
        """The model with what a run knows of its data. The number of inputs is kept only behind a feature map, of which
        some take any number of columns."""
        known = inputs if self.features is not None else None
        return super().fitted_on(transform=transform, feature_names=feature_names, classes=classes, inputs=known)

    def weights_for(self, task: Task) -> Array:
        """The weights in the order of the task's columns.

        Weights mean nothing to other columns: raises ConfigError if the model was fitted on others, on columns that
        were preprocessed where these are not or the other way round, or on other features of them.
        """
        run, start, instead = task.whole, task.role, task.instead
        if task.architecture is not None:
            raise ConfigError(
                f"{start} is a linear model, and {run} trains a {task.architecture!r}: start from a network of "
                "the same architecture"
            )
        if (self.transform is not None) != task.preprocessed:
            ours, theirs = ("a preprocess=", "without one") if task.preprocessed else ("no preprocess=", "behind one")
            raise ConfigError(f"{run} has {ours}, and the model of {start} was fitted {theirs}; {instead}")
        if self.features != task.features:
            raise ConfigError(
                f"{start}'s weights are for the features {self.features!r}, {run}'s for {task.features!r}; {instead}"
            )
        if task.intercept is not None and bool(self.intercept) != task.intercept:
            with_, without = (start, "this loss") if self.intercept else ("this loss", start)
            raise ConfigError(f"{with_} has an intercept and {without} has none; {instead}")
        if self.classes is not None and task.classes is not None and self.classes != task.classes:
            raise ConfigError(
                f"{start}'s classes are {list(self.classes)}, {run}'s {list(task.classes)}; declare the same classes "
                "in the same order"
            )
        before, now = self.feature_names, task.columns
        if before is None or now is None or before == now:
            return self.w
        if said := difference(before, now):
            raise ConfigError(f"the model of {start} was fitted on other columns: it {said}; {instead}")
        if self.features is not None:
            raise ConfigError(
                f"{start}'s feature map was fitted on the same columns in another order, which changes what its "
                "features are; give the clients the columns in the order of model.feature_names"
            )
        places = {name: place for place, name in enumerate(before)}
        rows = [places[name] for name in now]
        return self.w[[*rows, len(rows)] if self.intercept else rows]

    # ── files ──

    def arrays(self) -> dict[str, Array]:
        """What is saved as arrays, by name."""
        return {"w": self.w}

    def settings(self) -> Plain:
        """What is saved as JSON, by name."""
        return {
            "intercept": self.intercept,
            "link": self.link,
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
            "feature_names": self.feature_names,
            "features": None if self.features is None else self.features.to_plain(),
            "inputs": self.inputs,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], settings: Plain) -> LinearModel:
        """The model that `arrays` and `settings` were of. Raises DataError if they are of none."""
        w = arrays["w"]
        if settings["link"] not in LINKS or not isinstance(settings["intercept"], bool):
            raise DataError(
                f"its link is {settings['link']!r} and its intercept {settings['intercept']!r}, which is no model"
            )
        if w.dtype.kind not in "fiu" or w.ndim not in (1, 2):
            raise DataError(f"its weights are of type {w.dtype} and shape {w.shape}, expected a vector or a matrix")
        return cls(
            w,
            settings["intercept"],
            settings["link"],
            _as_tuple(settings["classes"]),
            None if settings["transform"] is None else Transform.from_plain(settings["transform"]),
            _as_tuple(settings["feature_names"]),
            None if settings.get("features") is None else FeatureMap.from_plain(settings["features"]),
            settings.get("inputs"),
        )


def _as_tuple(items: list[T] | None) -> tuple[T, ...] | None:
    return None if items is None else tuple(items)
