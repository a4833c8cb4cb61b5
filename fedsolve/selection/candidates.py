"""What cross-validation found: the errors of every point of the grid, the choice, and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedsolve.federation.ledger import Ledger
from fedsolve.losses import LinearLoss


@dataclass(frozen=True)
class Candidate:
    """One point of the grid, with the error on each fold of the fit to the others.

    The error is the mean over the fold's samples (by weight) of what `loss.error_name` says: the squared error, the
    log-loss, the deviance. It is infinite where a fit has no finite minimum; `trouble` then says so.
    """

    loss: LinearLoss
    errors: tuple[float, ...]
    accuracies: tuple[float, ...] | None = None  # of a classifier
    trouble: str | None = None

    @property
    def error(self) -> float:
        """The mean over the folds."""
        return float(np.mean(self.errors))

    @property
    def standard_error(self) -> float:
        """Of that mean, as if the folds were independent, which they nearly are."""
        if not math.isfinite(self.error):
            return math.inf
        return float(np.std(self.errors, ddof=1) / math.sqrt(len(self.errors)))

    @property
    def accuracy(self) -> float | None:
        """The mean over the folds."""
        return None if self.accuracies is None else float(np.mean(self.accuracies))


@dataclass(frozen=True, repr=False)
class Selection:
    """What cross-validation found, best first, and what it cost. Of equals, the first of the grid is the better."""

    candidates: tuple[Candidate, ...]
    ledger: Ledger
    folds: int
    seed: int

    def __repr__(self) -> str:
        first, total = self.candidates[0], self.ledger.total()
        points = f"{len(self.candidates)} loss{'' if len(self.candidates) == 1 else 'es'}"
        return (
            f"<Selection of {points} by {self.folds}-fold cross-validation: best {first.loss!r}, "
            f"{first.loss.error_name} {first.error:.4g} ± {first.standard_error:.2g}, "
            f"{total.bytes_up:,} bytes up, {total.bytes_down:,} down>"
        )

    @property
    def best(self) -> LinearLoss:
        """The loss with the least error."""
        return self.candidates[0].loss

    @property
    def simplest(self) -> LinearLoss:
        """The largest l2 whose error is within a standard error of the least, all else as in `best`."""
        first = self.candidates[0]
        near = (
            each.loss
            for each in self.candidates
            if each.error <= first.error + first.standard_error and replace(each.loss, l2=first.loss.l2) == first.loss
        )
        return max(near, key=lambda loss: loss.l2)
