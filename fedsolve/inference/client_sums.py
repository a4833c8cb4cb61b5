"""What a client computes of its rows for an evaluation. All of it is sums; see `evaluated.HeldSums`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.inference import metrics
from fedsolve.inference.evaluated import TOTALS, HeldSums
from fedsolve.inference.metrics import TABLE, Floats, Kind, Rows, judges_rows, kind_of
from fedsolve.inference.remembered_model import Remembered, recalled
from fedsolve.inference.score_bins import binned, joined, runs_of
from fedsolve.inference.sent_model import SentModel, predictor
from fedsolve.losses import LinearLoss, Loss, Network
from fedsolve.numerics.linalg import to_numpy
from fedsolve.typing import Array

LARGEST = 1e150  # whose square is a number too
LARGEST_LOG = 300.0  # of a mean count, whose square is one as well


def held_rows(loss: Loss, held: Client, w: Array | SentModel | Remembered) -> Rows:
    """Predictor, targets and weights of the rows that have a weight, as NumPy arrays."""
    held.count("losses", held.n_samples)
    assert judges_rows(loss)
    y = to_numpy(loss.targets(held))
    if isinstance(w, SentModel):
        eta = told(loss, held, predictor(w, kind_of(loss), held, getattr(loss, "features", None)))
    elif isinstance(w, Remembered):
        eta = told(loss, held, recalled(held))
    else:
        eta = to_numpy(loss.predictor(held, w))
    if eta.shape != y.shape:
        raise DataError(f"client {held.name!r}: predictions of shape {eta.shape} for targets of shape {y.shape}")
    if np.isnan(eta).any():
        raise DataError(f"client {held.name!r}: the model's predictions are not numbers: its weights are too large")
    eta = np.clip(eta, -LARGEST, LARGEST_LOG if kind_of(loss) is Kind.COUNTS else LARGEST)
    s = np.ones(len(y)) if held.sample_weight is None else to_numpy(held.sample_weight)
    counts = s > 0
    return Rows(eta[counts], y[counts], s[counts])


def told(loss: LinearLoss | Network, held: Client, eta: Floats) -> Floats:
    """Predictions of which whoever watches these rows has been told, as of those of weights."""
    if held.watch is not None:
        held.watch.visit(loss.loss if isinstance(loss, Network) else loss, held, None, eta)
    return eta


def at_the_line(loss: Loss, held: Client, rows: Rows, intercept: float, slope: float) -> None:
    """Tell whoever watches these rows that they are looked at where a calibration moves and stretches predictions."""
    if held.watch is not None and judges_rows(loss):
        eta = np.zeros(held.n_samples)
        s = held.sample_weight
        eta[slice(None) if s is None else to_numpy(s) > 0] = intercept + slope * rows.eta
        told(loss, held, eta)


def nothing(loss: Loss, client: Client, classes: int, bins: int) -> HeldSums:
    """What a client without rows says."""
    shape = loss.outputs(client) if judges_rows(loss) else ()
    return no_sums(loss, shape, classes, bins)


def no_sums(loss: Loss, shape: tuple[int, ...], classes: int, bins: int) -> HeldSums:
    """Zeros, as many as there are sums. `shape` is that of one target."""
    outputs = int(np.prod(shape, dtype=int))
    k = {Kind.BINARY: 2, Kind.CLASSES: classes}.get(kind_of(loss), 0)
    residuals = outputs if kind_of(loss) is Kind.NUMBERS else 1
    return HeldSums(
        0,
        np.zeros(len(TOTALS)),
        np.zeros(outputs),
        np.zeros(residuals),
        np.zeros((k, k)),
        np.zeros((TABLE, 3)),
        np.zeros((classes, bins, 4)),
    )


def summed(loss: Loss, held: Client, w: Array | SentModel | Remembered, cuts: Sequence[Floats], least: int) -> HeldSums:
    """All sums that one exchange can bring."""
    kind, bins = kind_of(loss), (len(cuts[0]) if len(cuts) else 0) + 1
    empty = nothing(loss, held, len(cuts), bins)
    totals = dict.fromkeys(TOTALS, 0.0)
    totals["weight"] = held.weight
    if not judges_rows(loss):
        if isinstance(w, SentModel | Remembered):
            raise DataError(f"{type(loss).__name__} judges weights, and the model has none for it")
        totals["value"] = (loss.value(held, w) - loss.penalty(w)) * held.weight
        return HeldSums(held.n_samples, np.array(list(totals.values())), *list(vars(empty).values())[2:])
    rows = held_rows(loss, held, w)
    s = rows.s
    totals["value"] = float(s @ loss.pointwise(np, rows.eta, rows.y))
    totals["error"] = float(s @ loss.error(np, rows.eta, rows.y))
    if kind is not Kind.OTHER:
        totals["deviance"] = float(s @ metrics.deviances(kind, loss, rows))
    residuals, confusion, table = empty.residuals, empty.confusion, empty.table
    if kind is Kind.NUMBERS:
        residuals = s @ metrics.squares(rows.y, rows.eta)
    if kind in (Kind.BINARY, Kind.CLASSES):
        p = metrics.responses(kind, rows.eta)
        confusion = metrics.confusion(rows, predicted(kind, rows, least))
        totals["hits"] = float(np.trace(confusion))
        totals["brier"] = float(s @ metrics.brier(kind, p, rows.y))
        table = _table(kind, p, rows, least)
    targets = s @ rows.y.reshape(len(s), -1)
    masses = _masses(kind, rows, cuts, least, empty.masses)
    return HeldSums(held.n_samples, np.array(list(totals.values())), targets, residuals, confusion, table, masses)


def spread(
    loss: Loss, held: Client, w: Array | SentModel | Remembered, mean: Floats, cuts: Sequence[Floats], least: int
) -> tuple[Floats, Floats, Floats]:
    """The deviance of predicting `mean`, and of predicting the mean of these rows; and the weight in bins."""
    kind = kind_of(loss)
    rows = held_rows(loss, held, w)
    y = rows.y.reshape(len(rows.s), -1)
    own = y[0] + (rows.s / rows.s.max()) @ (y - y[0]) / (rows.s / rows.s.max()).sum()  # exact where all are equal
    null = [_null(kind, rows, np.asarray(one).reshape(-1)) for one in (mean, own)]
    empty = nothing(loss, held, len(cuts), (len(cuts[0]) if len(cuts) else 0) + 1).masses
    return null[0], null[1], _masses(kind, rows, cuts, least, empty)


def recounted(
    loss: Loss, held: Client, w: Array | SentModel | Remembered, cuts: Sequence[Floats], least: int
) -> Floats:
    """The weight in other bins."""
    empty = nothing(loss, held, len(cuts), (len(cuts[0]) if len(cuts) else 0) + 1).masses
    return _masses(kind_of(loss), held_rows(loss, held, w), cuts, least, empty)


def predicted(kind: Kind, rows: Rows, least: int) -> NDArray[np.int64]:
    """The class that each row is predicted to be of. With `least` no class is predicted for fewer rows: of two classes
    the rows of a run (`score_bins.joined`) are predicted as one, by their mean probability; of more, a row is of the
    likeliest class among those that are predicted often enough."""
    guess = metrics.likeliest(kind, rows.eta)
    if least <= 1:
        return guess
    if kind is Kind.BINARY:
        runs, _ = joined(rows.eta, least)
        weights, sums = (np.bincount(runs, weights=one) for one in (rows.s, rows.s * metrics.responses(kind, rows.eta)))
        return np.asarray((sums > 0.5 * weights)[runs].astype(np.int64))
    often = np.bincount(guess, minlength=rows.eta.shape[1])
    kept = often >= min(least, int(often.max()))
    return np.asarray(np.where(kept, rows.eta, -np.inf).argmax(axis=1))


def _null(kind: Kind, rows: Rows, mean: Floats) -> Floats:
    if kind is Kind.NUMBERS:
        return np.asarray(rows.s @ metrics.squares(rows.y, mean if rows.y.ndim == 2 else mean[0]))
    centre = mean if kind is Kind.CLASSES else mean[0]
    return np.array([rows.s @ metrics.null_deviances(kind, rows.y, np.asarray(centre))])


def _masses(kind: Kind, rows: Rows, cuts: Sequence[Floats], least: int, empty: Floats) -> Floats:
    if not len(cuts):
        return empty
    scores, shares = metrics.log_odds(kind, rows.eta), metrics.shares(kind, rows.y)
    found = [
        binned(score, rows.s * share, rows.s * (1 - share), edges, least)
        for score, share, edges in zip(scores, shares, cuts, strict=True)
    ]
    return np.stack(found)


def _table(kind: Kind, p: Floats, rows: Rows, least: int) -> Floats:
    """The calibration table. With `least` it tells of the runs of rows that the score bins tell of, and of no others,
    each in the bin of its mean probability. Of more than two classes, bins with too few rows are added to the first one
    of a run with enough."""
    table, counts = metrics.reliability(kind, p, rows)
    if least <= 1:
        return table
    found = np.zeros_like(table)
    if kind is Kind.CLASSES:
        np.add.at(found, runs_of(counts, least)[0], table)
        return found
    runs, _ = joined(rows.eta, least)
    sums = np.stack([np.bincount(runs, weights=one) for one in (rows.s, rows.s * p, rows.s * rows.y)], axis=1)
    np.add.at(found, np.minimum((TABLE * sums[:, 1] / sums[:, 0]).astype(int), TABLE - 1), sums)
    return found
