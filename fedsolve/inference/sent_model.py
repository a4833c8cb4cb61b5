"""A model as arrays and plain values, for clients that shall predict with it.

Linear models are sent as weights. Of any other kind a client receives what its file would hold, arrays and one JSON
text, and builds it if its own program knows that kind. No code travels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.features import FeatureMap, Transformer
from fedsolve.federation.client import Client
from fedsolve.inference.metrics import Floats, Kind
from fedsolve.models.base import Model, from_parts, to_parts
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

_LINKS = {Kind.NUMBERS: "identity", Kind.COUNTS: "exponential", Kind.BINARY: "logistic", Kind.CLASSES: "softmax"}


@dataclass(frozen=True)
class SentModel:
    """A model on its way to the clients.

    Attributes:
        text: Its kind and all that is no array, as JSON.
        arrays: Its arrays by name.
    """

    text: str
    arrays: dict[str, Array]


def send(model: Model) -> SentModel:
    """A model as a client can receive it. Raises ConfigError if it has fields that are neither arrays nor plain."""
    return SentModel(*to_parts(model))


def predictor(sent: SentModel, kind: Kind, held: Client, features: FeatureMap | None = None) -> Floats:
    """The model's predictor at some rows of a client: log-odds, logarithms of mean counts, or the values themselves.

    Raises DataError if the model cannot be built, does not take these columns or an offset, or gives no probabilities.
    A scikit-learn transformer that a message names is rejected unless it is the loss's own, `features`, which the
    client was started with: others could take any time.
    """
    model = from_parts(sent.text, {name: to_numpy(array) for name, array in sent.arrays.items()})
    check_kind(model, kind)
    own = getattr(model, "features", None)
    if isinstance(own, Transformer) and own != features:
        raise DataError("a model whose features scikit-learn computes is judged only by a loss with the same features")
    names = model.input_names
    X = held.X if names is None or held.feature_names is None else held.ordered(names)
    X = X if held.is_numpy else to_numpy(X)
    offset = None if held.offset is None else to_numpy(held.offset)
    decision = getattr(model, "decision_function", None)  # as scikit-learn calls what comes before the link
    if decision is not None:
        return np.asarray(decision(X) if offset is None else decision(X, offset), dtype=np.float64)
    if offset is not None:
        raise DataError(f"client {held.name!r} has an offset, which a {type(model).__name__} does not take")
    return _from_predictions(model, kind, X)


def _from_predictions(model: Model, kind: Kind, X: Array) -> Floats:
    if kind is Kind.BINARY:
        p = model.positive_probability(X)
    elif kind is Kind.CLASSES:
        p = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    else:
        values = np.asarray(model.predict(X), dtype=np.float64)
        if kind is not Kind.COUNTS:
            return values
        if not (values >= 0).all():
            raise DataError(f"the {type(model).__name__} predicts counts that are negative or not numbers")
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(values), -745.0))
    if p is None:
        raise DataError(f"a {type(model).__name__} gives no probabilities, which this loss judges")
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(p, dtype=np.float64))
        # A class without probability stays finite: otherwise one row would make every sum infinite.
        if kind is Kind.BINARY:
            return np.asarray(np.clip(logs - np.log1p(-np.asarray(p)), -745.0, 745.0))
    logs = np.maximum(logs, -745.0)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def check_classes(model: Model, classes: tuple[object, ...] | None) -> None:
    """Raise ConfigError if the model's classes are not those of the clients, in the same order."""
    if model.classes is not None and classes is not None and tuple(model.classes) != tuple(classes):
        raise ConfigError(
            f"the model's classes are {list(model.classes)}, the clients' {list(classes)}: declare the same classes in "
            "the same order"
        )


def check_kind(model: Model, kind: Kind) -> None:
    """Raise ConfigError if the model predicts something else than a loss of this kind judges."""
    link, wanted = getattr(model, "link", None), _LINKS.get(kind)
    if wanted is None:
        return
    if link in _LINKS.values() and link != wanted:
        raise ConfigError(
            f"the model has the link {link!r}, and this loss judges predictions of the link {wanted!r}: judge it by "
            "the loss that it was fitted with"
        )
    if model.is_classifier and kind in (Kind.NUMBERS, Kind.COUNTS):
        raise ConfigError(
            f"the {type(model).__name__} predicts classes, and this loss judges numbers: judge it by a loss for classes"
        )
