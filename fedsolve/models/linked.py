"""Models with a predictor η and a link: what η says of values, counts and classes, however it is computed."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.models.base import Model
from fedsolve.typing import Array

LINKS = ("identity", "logistic", "softmax", "exponential")


def with_offset(eta: Array, offset: Array | None) -> Array:
    """η and an offset, which has a number for each of η's, or is one number. Raises DataError for another."""
    if offset is None:
        return eta
    found = np.asarray(offset)
    if found.dtype.kind not in "fiub" or found.shape not in (eta.shape, ()):
        raise DataError(f"offset has shape {found.shape} and type {found.dtype}, expected numbers of shape {eta.shape}")
    return eta + found


class LinkedModel(Model):
    """x ↦ g(η(x)), with g by its name: "identity", "logistic", "softmax" or "exponential"."""

    link: str

    @abstractmethod
    def decision_function(self, X: Array, offset: Array | None = None) -> Array:
        """η of each row of X (see `prepared` for what X may be)."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[int, ...]:
        """The shape of η of one row: () for a number, (k,) for k of them."""

    def predict_proba(self, X: Array, offset: Array | None = None) -> Array:
        """The probability of each class, a column for each (0 first)."""
        if not self.is_classifier:
            raise ConfigError("only classifiers have probabilities; this model is a regression")
        eta = self.decision_function(X, offset)
        if self.link == "logistic":
            p = 0.5 + 0.5 * np.tanh(0.5 * eta)
            return np.stack([1 - p, p], axis=1)
        e = np.exp(eta - eta.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def predict(self, X: Array, offset: Array | None = None) -> Array:
        """Values, mean counts, or the most probable class."""
        eta = self.decision_function(X, offset)
        if not self.is_classifier:
            return np.exp(eta) if self.link == "exponential" else eta
        labels = self._codes(eta)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    def classify(self, X: Array) -> Array:
        """The class with the largest output: also of a regression on one-hot targets, whose `predict` gives values."""
        if self.is_classifier:
            return self.predict(X)
        if not self.outputs:
            raise ConfigError(
                "a regression of one output has no classes; learn from one-hot targets, data.one_hot(y, k)"
            )
        labels = self.decision_function(X).argmax(axis=1)
        return labels if self.classes is None else np.asarray(self.classes)[labels]

    def class_codes(self, X: Array) -> Array:
        """The predicted classes as 0, 1, …, whatever they are called."""
        return self._codes(self.decision_function(X)) if self.is_classifier else super().class_codes(X)

    def _codes(self, eta: Array) -> Array:
        return (eta > 0).astype(np.int64) if self.link == "logistic" else eta.argmax(axis=1)

    @property
    def one_against_rest(self) -> bool:
        """Whether it tells one class from everything else."""
        return self.link == "logistic"

    def positive_probability(self, X: Array, offset: Array | None = None) -> Array | None:
        """The probability of the second of two classes; None for other models."""
        return self.predict_proba(X, offset)[:, 1] if self.link == "logistic" else None

    @property
    def n_classes(self) -> int | None:
        """How many classes it tells apart; None for a regression."""
        if self.link == "logistic":
            return 2
        return self.outputs[0] if self.link == "softmax" else None
