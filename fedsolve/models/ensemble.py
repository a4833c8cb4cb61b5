"""Ensembles: x ↦ g(f(x)), with f a sum of functions that boosting has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import DataError, WrongType
from fedsolve.learners.base import Function, WeakLearner
from fedsolve.learners.parts import Part, added, built, constant_at
from fedsolve.models.base import Description, Plain
from fedsolve.models.linked import LINKS, LinkedModel, with_offset
from fedsolve.models.packed_functions import packed, unpacked
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

MOST_INPUTS = 20  # whose importances a description lists


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(LinkedModel):
    """x ↦ g(f(x)), with f^0 a constant and f^{t+1} = decay_t f^t + Σ_j c_j h_j: a part for each round.

    Attributes:
        learner: What the functions are of.
        constant: f^0, a number or one for each output.
        parts: What the rounds have added.
        inputs: How many columns go into the functions.
        link: What g is: "identity", "logistic", "softmax" or "exponential".
        classes: What the labels 0, 1, … stand for, where that is known; `predict` gives these.
        transform: The preprocessing the run agreed on: raw columns go in.
        feature_names: The names of the columns after preprocessing.
    """

    learner: WeakLearner
    constant: Array
    parts: tuple[Part, ...]
    inputs: int
    link: str = "identity"
    classes: Classes | None = None
    transform: Transform | None = None
    feature_names: tuple[str, ...] | None = None

    kind: ClassVar[str] = "ensemble"

    def __repr__(self) -> str:
        kept = "" if self.transform is None else ", takes raw columns"
        return f"<Ensemble: {len(self)} functions of {self.learner!r}, link {self.link}{kept}>"

    @property
    def in_words(self) -> str:
        """What kind of model it is, for a report."""
        return f"a sum of {len(self):,} boosted functions ({type(self.learner).__name__})"

    def __len__(self) -> int:
        """How many functions there are."""
        return sum(len(part.functions) for part in self.parts)

    # ── predicting ──

    def decision_function(self, X: Array, offset: Array | None = None) -> Array:
        """f of each row of X (see `prepared` for what X may be)."""
        X = self.prepared(X)
        if X.shape[1] != self.inputs:
            raise DataError(f"this model takes {self.inputs} columns, X has shape {X.shape}")
        X = sp.csr_array(X) if sp.issparse(X) else X
        f = constant_at(self.constant, np.zeros(X.shape[0]))
        for part, functions in zip(self.parts, self._functions, strict=True):
            f = added(self.learner, part.decay, part.coefficients.tolist(), functions, f, X)
        if np.isnan(f).any():
            self._reject_missing(X)
        return with_offset(f, offset)

    def _reject_missing(self, X: Array) -> None:
        wrong = np.argwhere(np.isnan(X.toarray() if sp.issparse(X) else X))
        if len(wrong):
            row, column = wrong[0]
            raise DataError(
                f"column {self._column(column)}, row {row} (from 0): missing, and this model has no preprocessing that "
                "could impute it"
            )

    @cached_property
    def _functions(self) -> list[list[Function]]:
        return [built(self.learner, part, self.inputs, self.outputs) for part in self.parts]

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of f of one row."""
        return tuple(np.shape(self.constant))

    # ── describing ──

    def weights(self) -> Array:
        """What each function counts in f: its coefficient times the decays of all later rounds."""
        left, found = 1.0, []
        for part in reversed(self.parts):
            found.append(left * part.coefficients)
            left *= part.decay
        return np.concatenate(found[::-1]) if found else np.zeros(0)

    def importances(self) -> dict[str, float] | None:
        """How much each column adds, by name, as shares that sum to 1; None if the learner does not say.

        The importances of the functions, each counted by its part in f.
        """
        total = np.zeros(self.inputs)
        every = [function for functions in self._functions for function in functions]
        for weight, function in zip(np.abs(self.weights()).tolist(), every, strict=True):
            found = self.learner.importances(function, self.inputs)
            if found is None:
                return None
            total += weight * np.asarray(found)
        if not len(self):
            return None
        names = self.feature_names or tuple(f"x{i}" for i in range(self.inputs))
        whole = float(total.sum()) or 1.0
        return dict(zip(names, (total / whole).tolist(), strict=True))

    def described(self, names: Sequence[str] | None = None) -> Description:
        """How many functions of what, and the columns that matter most; `names` are those of the raw columns."""
        said = (f"An ensemble of {len(self)} functions from {len(self.parts)} rounds.", f"Each is of {self.learner!r}.")
        shares = self.importances()
        if shares is None:
            return Description(said)
        labels = list(shares)
        if self.feature_names is None and names is not None and len(names) == len(shares):
            labels = list(names)
        ranked = sorted(zip(labels, shares.values(), strict=True), key=lambda one: -one[1])[:MOST_INPUTS]
        rows = tuple((name, f"{share:.4f}") for name, share in ranked)
        return Description(said, ("feature", "importance"), rows)

    # ── files ──

    def arrays(self) -> dict[str, Array]:
        """What is saved as arrays, by name: all functions together in a few long ones."""
        return {
            "constant": np.asarray(self.constant),
            "decays": np.array([part.decay for part in self.parts]),
            "counts": np.array([len(part.functions) for part in self.parts], dtype=np.int64),
            "coefficients": np.concatenate([np.zeros(0), *(part.coefficients for part in self.parts)]),
            **packed([arrays for part in self.parts for arrays in part.functions]),
        }

    def settings(self) -> Plain:
        """What is saved as JSON, by name."""
        return {
            "learner": self.learner.to_plain(),
            "columns": self.inputs,
            "link": self.link,
            "classes": self.classes,
            "transform": None if self.transform is None else self.transform.to_plain(),
            "feature_names": self.feature_names,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], settings: Plain) -> Ensemble:
        """The model that `arrays` and `settings` were of. Raises DataError if they are of none."""
        if settings["link"] not in LINKS:
            raise DataError(f"its link is {settings['link']!r}, which is no link of a model")
        if any(arrays[name].dtype != np.float64 for name in ("constant", "decays", "coefficients")):
            raise DataError("its constant, decays and coefficients are not all float64 numbers")
        if settings["feature_names"] is not None and len(settings["feature_names"]) != settings["columns"]:
            raise DataError(f"it has {len(settings['feature_names'])} names for {settings['columns']} columns")
        decays, counts, numbers = (arrays[name] for name in ("decays", "counts", "coefficients"))
        functions = unpacked(arrays, int(counts.sum()))
        if decays.shape != counts.shape or numbers.shape != (len(functions),) or (counts < 0).any():
            raise DataError(f"it has {len(functions)} functions and {numbers.shape} coefficients, one is for each")
        ends = np.cumsum(counts)
        parts = tuple(
            Part(float(decay), numbers[end - count : end], tuple(functions[end - count : end]))
            for decay, count, end in zip(decays.tolist(), counts.tolist(), ends.tolist(), strict=True)
        )
        classes, names, transform = (settings[name] for name in ("classes", "feature_names", "transform"))
        found = cls(
            WeakLearner.from_plain(settings["learner"]),
            arrays["constant"],
            parts,
            int(settings["columns"]),
            settings["link"],
            None if classes is None else tuple(classes),
            None if transform is None else Transform.from_plain(transform),
            None if names is None else tuple(names),
        )
        try:
            _ = found._functions
        except WrongType as error:
            raise DataError(f"it has arrays that are no functions: {error}") from None
        return found
