"""What an evaluation found, by client and for all together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.inference.metrics import Floats, Kind
from fedsolve.inference.score_bins import area, roc
from fedsolve.typing import Array

# Figures of which more is better; of all others less is.
RISING = ("accuracy", "auc", "d2")
METRICS = ("value", "error", "deviance", "accuracy", "auc", "d2", "brier", "calibration_error")
TOTALS = ("weight", "value", "error", "deviance", "hits", "brier")


@dataclass(frozen=True)
class HeldSums:
    """What a client says of its rows: sums, which add up over clients.

    totals     Σs, and Σs · of loss, error, deviance, hits and squared distance of probabilities (`TOTALS`)
    targets    Σs·y of each output or class
    residuals  Σs·(prediction − y)² of each output of a regression
    confusion  Σs by true and predicted class
    table      Σs, Σs·p, Σs·y in bins of the predicted probability
    masses     what `score_bins.binned` says, for each class
    """

    samples: int
    totals: Array
    targets: Array
    residuals: Array
    confusion: Array
    table: Array
    masses: Array


@dataclass(frozen=True)
class Figures:
    """Figures of some rows. What is not defined is None: without rows, for another kind of loss, or, of the AUC, where
    all rows are of one class.

    Attributes:
        samples: How many rows there are.
        weight: The sum of their sample weights.
        value: The mean loss, without penalties.
        error: The mean error, `Evaluated.error_name`.
        accuracy: The share of rows whose class is predicted.
        deviance: The mean deviance: the mean squared error, the Poisson deviance, or twice the log-loss.
        d2: The share of the deviance explained, 1 − deviance / that of the mean of the same rows: R² of a regression.
        auc: The area under the ROC curve; with more than two classes the mean of one against the rest.
        auc_error: How far, at most, it is from the exact one, because scores were counted in bins.
        aucs: One against the rest by class, each None if the class or the rest is missing. Of two classes one entry.
        brier: The mean squared distance of the probabilities from the classes.
        calibration_error: The expected calibration error: |predicted − observed share|, averaged over the table's bins.
        calibration_intercept, calibration_slope: Of the logistic regression of the classes on the log-odds; 0 and 1
            are ideal. Of two classes only.
        confusion: The weight by true class (row) and predicted class (column).
        calibration: Bins of predicted probabilities: weight, mean prediction, observed share.
        curve: Points of the ROC curve, false and true positive rates. Of two classes only.
    """

    samples: int
    weight: float
    value: float | None = None
    error: float | None = None
    accuracy: float | None = None
    deviance: float | None = None
    d2: float | None = None
    auc: float | None = None
    auc_error: float | None = None
    aucs: tuple[float | None, ...] = field(default=(), repr=False)
    brier: float | None = None
    calibration_error: float | None = None
    calibration_intercept: float | None = None
    calibration_slope: float | None = None
    confusion: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    calibration: tuple[tuple[float, float, float], ...] = field(default=(), repr=False)
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    @property
    def r2(self) -> float | None:
        """`d2` under its name for a regression."""
        return self.d2

    def plain(self) -> dict[str, object]:
        """The numbers by name, without curve, for a history or a JSON object."""
        names = ("samples", "weight", *METRICS, "auc_error", "calibration_intercept", "calibration_slope")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class ClientEvaluation(Figures):
    """One client's rows."""


@dataclass(frozen=True)
class Evaluated(Figures):
    """All clients' rows together, and each client's.

    Attributes:
        error_name: What `error` is: "mean squared error", "log-loss", "mean deviance" or "loss".
        clients: The same by client; empty where only sums were asked for.
        missing: Clients whose rows are not in these figures: they were lost, or their replies could not be used.
        reasons: Why, by client.
    """

    error_name: str = "loss"
    clients: dict[str, ClientEvaluation] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        """The numbers by name, those of each client, and who is missing and why."""
        rest = {"confusion": self.confusion, "calibration": self.calibration} if self.confusion else {}
        by_client = {name: one.plain() for name, one in self.clients.items()}
        missing = {"missing": {name: self.reasons.get(name, "") for name in self.missing}} if self.missing else {}
        return {**super().plain(), "error_name": self.error_name, **rest, "clients": by_client, **missing}


def figures(kind: Kind, sums: HeldSums, edges: Sequence[Floats], least: int) -> Figures:
    """The figures that follow from one exchange."""
    totals = dict(zip(TOTALS, sums.totals.tolist(), strict=True))
    weight = totals.pop("weight")
    if not weight > 0:
        return Figures(sums.samples, weight)
    means = {name: total / weight for name, total in totals.items()}
    if kind is Kind.OTHER:
        return Figures(sums.samples, weight, means["value"])
    found = Figures(sums.samples, weight, means["value"], means["error"], deviance=means["deviance"])
    if kind in (Kind.NUMBERS, Kind.COUNTS):
        return found
    table = sums.table[sums.table[:, 0] > 0]
    found = replace(
        found,
        accuracy=means["hits"],
        brier=means["brier"],
        confusion=tuple(map(tuple, sums.confusion.tolist())),
        calibration=tuple((s, p / s, y / s) for s, p, y in table.tolist()),
        calibration_error=float(np.abs(table[:, 1] - table[:, 2]).sum() / weight),
    )
    return with_area(found, kind, sums.masses, edges, least)


def with_area(found: Figures, kind: Kind, masses: Floats, edges: Sequence[Floats], least: int) -> Figures:
    """Figures with the AUC that follows from these masses in bins."""
    areas = [area(one[: len(cuts) + 1], cuts, least <= 1) for one, cuts in zip(masses, edges, strict=True)]
    known = [one for one in areas if one is not None]
    each = tuple(None if one is None else one[0] for one in areas)
    if len(known) < len(areas):  # as in scikit-learn, a mean over some of the classes is no mean over all
        return replace(found, auc=None, auc_error=None, aucs=each)
    curve = tuple(zip(*(one.tolist() for one in roc(masses[0])), strict=True)) if kind is Kind.BINARY else ()
    auc, error = (float(np.mean(one)) for one in zip(*known, strict=True))
    return replace(found, auc=auc, auc_error=error, aucs=each, curve=curve)


def explained(kind: Kind, sums: HeldSums, null: Floats, own: Floats) -> float | None:
    """`d2`, from the deviances of the mean: those of each output for a regression, the sum for other kinds. None if
    all targets are equal.

    Args:
        kind, sums: The kind of loss, and the sums over all rows.
        null: The deviance of the mean of all rows.
        own: The sum of the deviances of each client's own mean. It is exactly 0 if the targets of each client are
            equal; `null` then is what they differ by from client to client, or rounding of the mean.
    """
    weight = float(sums.totals[0])
    if not weight > 0:
        return None
    mean = np.abs(sums.targets) / weight
    rounding = max(sums.samples, 64) * np.finfo(np.float64).eps  # of a mean of so many numbers, relative
    if kind is Kind.NUMBERS:
        noise = weight * (rounding * mean) ** 2
    else:  # rounding of logarithms, or of shares, whose logarithms are what the deviance is made of
        noise = np.full(null.shape, 8 * weight * rounding * (1 + mean.max()) * (1 + abs(math.log(mean.max() or 1.0))))
    if not ((own > 0) | (null > noise)).all() or not (null > 0).all():
        return None
    if kind is Kind.NUMBERS:
        return float(np.mean(1 - sums.residuals / null))
    return float(1 - sums.totals[TOTALS.index("deviance")] / null[0])


def check_metric(kind: Kind, metric: str) -> None:
    """Raise ConfigError if a loss of this kind does not have this figure from one exchange."""
    numbers = ("value", "error", "deviance")
    known = {
        Kind.OTHER: ("value",),
        Kind.NUMBERS: numbers,
        Kind.COUNTS: numbers,
        Kind.BINARY: (*numbers, "accuracy", "auc", "brier", "calibration_error"),
        Kind.CLASSES: (*numbers, "accuracy", "auc", "brier", "calibration_error"),
    }[kind]
    if metric not in known:
        raise ConfigError(f"metric is one of {', '.join(known)} for this loss, got {metric!r}")
