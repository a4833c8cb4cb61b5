"""What a row of data says about a model: losses, deviances, hits, and how well probabilities are calibrated.

All are sums over rows, so that those of several clients add up to those of the pooled rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from fedsolve.losses import LinearLoss, Loss, Network, Pointwise, Poisson, Softmax, Squared

Floats = NDArray[np.float64]

TABLE = 10  # bins of the calibration table, of equal width


class Kind(Enum):
    """What a loss is about."""

    NUMBERS = "numbers"
    COUNTS = "counts"
    BINARY = "two classes"
    CLASSES = "classes"
    OTHER = "other"  # a loss of which no more is known than its value


def kind_of(loss: Loss) -> Kind:
    """What a loss is about, and so which figures it has."""
    if isinstance(loss, Network):  # what ℓ of its outputs is about
        return kind_of(loss.loss) if isinstance(loss.loss, LinearLoss) else Kind.OTHER
    if isinstance(loss, Squared):
        return Kind.NUMBERS
    if isinstance(loss, Poisson):
        return Kind.COUNTS
    if isinstance(loss, Softmax):
        return Kind.CLASSES
    if isinstance(loss, Pointwise) and loss.classifies:
        return Kind.BINARY
    return Kind.OTHER


def judges_rows(loss: Loss) -> TypeGuard[LinearLoss | Network]:
    """Whether a loss says of single rows what they are predicted and judged as, and not only what its value is."""
    return isinstance(loss, LinearLoss) or (isinstance(loss, Network) and kind_of(loss) is not Kind.OTHER)


def classes_of(loss: Loss) -> int:
    """How many classes a loss of more than two has; 0 for others."""
    inner = loss.loss if isinstance(loss, Network) else loss
    return inner.classes if isinstance(inner, Softmax) else 0


@dataclass(frozen=True)
class Rows:
    """Predictions and targets of some rows.

    eta  the predictor of each row: log-odds of two classes, logarithms of means of counts, a column for each class
    y    the targets, a column for each class
    s    the sample weights
    """

    eta: Floats
    y: Floats
    s: Floats


def responses(kind: Kind, eta: Floats) -> Floats:
    """The mean of the target, or the probability of each class, at a predictor."""
    if kind is Kind.COUNTS:
        return np.exp(np.minimum(eta, 300.0))
    if kind is Kind.BINARY:
        return 0.5 + 0.5 * np.tanh(0.5 * eta)
    if kind is Kind.CLASSES:
        e = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))
    return eta


def deviances(kind: Kind, loss: Pointwise | Network, rows: Rows) -> Floats:
    """Of each row twice the log-likelihood that is lost against a model that predicts its target, as in scikit-learn's
    mean_squared_error, mean_poisson_deviance and 2·log_loss. Several outputs are averaged."""
    lost = np.asarray(loss.error(np, rows.eta, rows.y))
    if kind in (Kind.NUMBERS, Kind.COUNTS):
        return lost
    return 2.0 * (lost - _entropy(kind, rows.y))


def null_deviances(kind: Kind, y: Floats, mean: Floats) -> Floats:
    """The same for a model that predicts the mean of the targets for every row."""
    if kind is Kind.NUMBERS:
        squares = (y - mean) ** 2
        return squares if squares.ndim == 1 else np.asarray(squares.mean(axis=1))
    if kind is Kind.COUNTS:
        return np.asarray(2.0 * (mean - y + _times_log(y, y) - _times_log(y, mean)))
    both = (_two(y), _two(mean)) if kind is Kind.BINARY else (y, mean)
    crossed = -_times_log(*both).sum(axis=1)
    return np.asarray(2.0 * (crossed - _entropy(kind, y)))


def squares(y: Floats, mean: Floats) -> Floats:
    """(y − mean)² of each row and output, the outputs in columns."""
    return np.asarray((y - mean).reshape(len(y), -1) ** 2)


def _entropy(kind: Kind, y: Floats) -> Floats:
    """Of the target itself: 0 for a class, more for a soft label."""
    shares = _two(y) if kind is Kind.BINARY else y
    return np.asarray(-_times_log(shares, shares).sum(axis=1))


def _two(p: Floats) -> Floats:
    return np.stack([1.0 - p, p], axis=-1)


def _times_log(a: Floats, b: Floats) -> Floats:
    """a log b, and 0 where a is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 0, a * np.log(b), 0.0)


def likeliest(kind: Kind, eta: Floats) -> NDArray[np.int64]:
    """The likeliest class of each row."""
    return np.asarray((eta > 0).astype(np.int64) if kind is Kind.BINARY else eta.argmax(axis=1))


def confusion(rows: Rows, guess: NDArray[np.int64]) -> Floats:
    """The weight of the rows of each true class (by row) that are predicted as each class (by column)."""
    binary = rows.y.ndim == 1
    true, k = ((rows.y > 0.5).astype(np.int64), 2) if binary else (rows.y.argmax(axis=1), rows.y.shape[1])
    found = np.zeros((k, k))
    np.add.at(found, (true, guess), rows.s)
    return found


def brier(kind: Kind, p: Floats, y: Floats) -> Floats:
    """(p − y)² of each row, summed over the classes where there are more than two."""
    squared = (p - y) ** 2
    return squared if kind is Kind.BINARY else np.asarray(squared.sum(axis=1))


def reliability(kind: Kind, p: Floats, rows: Rows) -> tuple[Floats, NDArray[np.int64]]:
    """Weight, predicted and observed probability, summed over the rows in each bin of the predicted one; and how many
    rows are there. With more than two classes it is that of the class that is predicted."""
    said, seen = p, rows.y
    if kind is Kind.CLASSES:
        guess = p.argmax(axis=1)
        said, seen = p.max(axis=1), np.take_along_axis(rows.y, guess[:, None], axis=1)[:, 0]
    place = np.minimum((said * TABLE).astype(int), TABLE - 1)
    found = np.zeros((TABLE, 3))
    for column, each in enumerate((rows.s, rows.s * said, rows.s * seen)):
        np.add.at(found[:, column], place, each)
    return found, np.bincount(place[rows.s > 0], minlength=TABLE)


def log_odds(kind: Kind, eta: Floats) -> Floats:
    """Each class against the rest, a row for each class: the scores that the ROC curve is made of."""
    if kind is Kind.BINARY:
        return eta[None, :]
    rest = np.empty_like(eta)
    for c in range(eta.shape[1]):
        others = np.delete(eta, c, axis=1)
        top = others.max(axis=1)
        rest[:, c] = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return np.ascontiguousarray((eta - rest).T)


def shares(kind: Kind, y: Floats) -> Floats:
    """How much each row is of each class, a row for each class as in `log_odds`; a soft label counts for several."""
    return y[None, :] if kind is Kind.BINARY else np.ascontiguousarray(y.T)
