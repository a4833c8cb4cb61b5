"""How good predictions are: accuracy of a classifier, R² of a regression."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fedsolve.errors import DataError
from fedsolve.tables.labels import same_label
from fedsolve.text import shortened
from fedsolve.typing import Array


class Scored(Protocol):
    """What a score needs to know of a model."""

    @property
    def is_classifier(self) -> bool: ...

    @property
    def one_against_rest(self) -> bool: ...

    @property
    def classes(self) -> tuple[object, ...] | None: ...


def score_name(model: object) -> str:
    """What `score` gives."""
    return "accuracy" if getattr(model, "is_classifier", False) else "R²"


def score(model: Scored, predictions: Array, truth: Array) -> float | None:
    """The share of rows whose class is predicted, or R²; None where all targets are the same, so that there is no R².

    Args:
        model: The model that made the predictions.
        predictions: What `model.predict` gave.
        truth: The targets: labels as the model calls its classes (0, 1, … where it has no names for them), a row of
            class probabilities for each sample, or numbers for a regression.

    For a model of two classes whatever is not the second one counts as the first. Raises DataError for text where the
    model is a regression, and where not a single target is one of the model's classes: then both call them otherwise.
    """
    if not model.is_classifier:
        return _r_squared(predictions, truth)
    labels = truth if np.ndim(truth) == 1 else np.argmax(truth, axis=1)
    _check_names(model, predictions, labels)
    if model.one_against_rest:
        positive = 1 if model.classes is None else model.classes[1]
        return float(np.mean(_are(predictions, positive) == _are(labels, positive)))
    pairs = zip(predictions.tolist(), labels.tolist(), strict=True)
    return float(np.mean([same_label(guess, true) for guess, true in pairs]))


def _check_names(model: Scored, predictions: Array, labels: Array) -> None:
    given = set(labels.tolist())
    known = model.classes
    if known is None:
        known = (0, 1) if model.one_against_rest else tuple(range(1 + int(np.max(predictions, initial=1))))
    if known[0] == f"not {known[1]}":  # made by `load(…, positive=…)`: any other label is this class
        return
    if given and not any(same_label(one, other) for one in given for other in known):
        theirs, ours = (shortened([str(one) for one in names]) for names in (sorted(given, key=str), known))
        raise DataError(
            f"the targets are {theirs}, and this model calls its classes {ours}: write the targets as the model "
            "does, or leave them out"
        )


def _are(labels: Array, label: object) -> Array:
    """Where the labels are this one; each different label is compared once."""
    values = labels.tolist()
    same = {value: same_label(value, label) for value in set(values)}
    return np.array([same[value] for value in values])


def _r_squared(predictions: Array, truth: Array) -> float | None:
    try:
        numbers = np.asarray(truth, dtype=float)
    except ValueError:
        raise DataError("the targets are text, and this model is a regression; leave --target out") from None
    residual = float(np.sum((numbers - predictions) ** 2))
    spread = float(np.sum((numbers - np.mean(numbers, axis=0)) ** 2))
    return 1 - residual / spread if spread > 0 else None
