"""Columns on which no finite estimate exists, and columns that few rows speak for; from counts that
say none, some, or 5 and more.

If all rows with some indicator have one outcome, the likelihood rises for ever as its weight grows: Albert and Anderson
(1984), "On the existence of maximum likelihood estimates in logistic regression models". Combinations of columns that
separate outcomes show in the curvature that is left for each column by the others, which has vanished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.inference.design_columns import DesignColumn
from fedsolve.inference.score_sums import FEW, ScoreSums
from fedsolve.losses import LinearLoss, Logistic, Poisson, Softmax, Squared
from fedsolve.typing import Array

VANISHED = 1e-5  # of the column's sum of squares: curvature that the other columns leave to it, per row
MOST_NAMED = 12
FEW_ROWS = f"fewer than {FEW} rows"
ONE_OUTCOME = "one outcome only"
NEVER = "one of the outcomes never occurs"


@dataclass(frozen=True)
class Columns:
    """What the counts say of the columns, by their places.

    binary     columns whose raw values are 0 and 1
    few        of these, those with fewer than 5 rows of one kind
    one_sided  of these, those of which the rows of one kind lack an outcome, so that no finite estimate exists
    outcomes   how many outcomes there are
    """

    binary: Array
    few: tuple[int, ...]
    one_sided: tuple[int, ...]
    outcomes: int


def inspect_columns(loss: LinearLoss, sums: ScoreSums, columns: Sequence[DesignColumn]) -> Columns:
    """Read the counts: `sums.counts` has rows without and with an indicator, by column and outcome."""
    without, present = sums.counts
    there = (without.sum(axis=1) > 0) & (present.sum(axis=1) > 0)
    binary = (sums.others == 0) & (present.sum(axis=1) > 0)
    few = binary & there & ((present.sum(axis=1) < FEW) | (without.sum(axis=1) < FEW))
    lacking = np.zeros((2, len(binary)), dtype=bool)
    if isinstance(loss, Poisson):  # only counts of zero let a rate fall for ever
        lacking = sums.counts[:, :, 1] == 0
    elif not isinstance(loss, Squared):
        occurs = (without + present) > 0
        lacking = (occurs & (sums.counts == 0)).any(axis=2)
    if loss.intercept is None:  # then only rows with the indicator follow its weight, if those without it are at zero
        lacking = np.stack([np.zeros(len(binary), dtype=bool), lacking[1] & [one.centre == 0 for one in columns]])
    one_sided = lacking.any(axis=0) & binary & there
    return Columns(
        binary, tuple(np.flatnonzero(few).tolist()), tuple(np.flatnonzero(one_sided).tolist()), sums.counts.shape[2]
    )


def missing_outcome(loss: LinearLoss, sums: ScoreSums, labels: Sequence[object]) -> str | None:
    """That an outcome never occurs, so that the intercept itself has no finite estimate; None if all do."""
    if isinstance(loss, Softmax):
        never = [str(label) for label, total in zip(labels, sums.null.tolist(), strict=True) if total <= 0]
        return f"no row has the outcome {' or '.join(never)}" if never else None
    if isinstance(loss, Poisson) and not sums.null[0] > 0:
        return "all counts are zero"
    if isinstance(loss, Logistic) and not 0 < sums.null[0] < sums.totals[0]:
        return "all rows have the same outcome"
    return None


def vanished(bread: Array, sums: ScoreSums, intercept: bool) -> tuple[int, ...]:
    """The columns, by their places, whose curvature has vanished beside that of their squares; the worst first."""
    mean = sums.moments[0] / sums.totals[0]
    squares = np.maximum(sums.moments[1] - mean * sums.moments[0], 0.0)
    p = len(squares) + intercept
    variances = np.diag(bread).reshape(-1, p)[:, : len(squares)].max(axis=0)
    worth = variances * squares
    return tuple(place for place in np.argsort(-worth, kind="stable").tolist() if worth[place] > 1 / VANISHED)


def named(places: Sequence[int], names: Sequence[str], columns: Columns) -> str:
    """The columns with what is known of them: "restecg=other: fewer than 5 rows, one outcome only"."""
    said, lacks = [], ONE_OUTCOME if columns.outcomes <= 2 else NEVER
    for place in places[:MOST_NAMED]:
        known = [FEW_ROWS] * (place in columns.few) + [lacks] * (place in columns.one_sided)
        said.append(names[place] + (f": {', '.join(known)}" if known else ""))
    more = len(places) - MOST_NAMED
    return "; ".join(said) + (f"; and {more} more" if more > 0 else "")
