"""How good a model is on rows that it was not learned from, from sums over these rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from fedsolve.errors import ConfigError, WrongType
from fedsolve.federation.calls import Sum
from fedsolve.federation.client import Client, client_step
from fedsolve.inference import recalibration
from fedsolve.inference.client_sums import (
    at_the_line,
    held_rows,
    nothing,
    predicted,
    recounted,
    spread,
    summed,
)
from fedsolve.inference.evaluated import Figures, HeldSums, figures
from fedsolve.inference.metrics import Floats, Kind, Rows, classes_of, confusion, judges_rows, kind_of
from fedsolve.inference.remembered_model import Remembered, recall
from fedsolve.inference.score_bins import FIRST, GRID, area, refined, unsplit
from fedsolve.inference.sent_model import SentModel
from fedsolve.losses import Loss
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_finite, require_shape
from fedsolve.wire.messages import Purpose

T = TypeVar("T")


@dataclass(frozen=True)
class Evaluation:
    """The protocol that judges a model by rows it was not learned from. Give it to a `Session` to evaluate after a run.

    What leaves a client are sums over its rows: how many there are and their weight; losses, deviances and hits; the
    targets and the squares of residuals; the deviance of predicting the mean of all clients, and its own; a confusion
    matrix; a table of predicted and observed probabilities in ten bins; for the AUC the weight of positives and
    negatives in bins of the score; and for the calibration line the derivatives of the log-loss at some ten lines, and
    its own line. Each client's reply reaches the server by itself.

    The bins are split where the AUC asks for it, until a bin may hold a single row. Then whoever sees that client's
    reply knows the row's score to within the bin, and its class. With `least` a client joins the bins of a fixed grid
    until they hold so many rows, and predicts the rows of such a run as one, so that no class is predicted for fewer.
    All replies about one model then tell of the same runs of rows, so their differences tell of no fewer. This covers
    score bins, hits, confusion matrix and calibration table, not all that is said of a client's rows:

    - With more than two classes each class, and the table, have runs of their own.
    - Another model has other runs, and the history and `Patience` ask about another model in each round. Where a row
      goes from one run to the next is one bit about it, so that some fifty models tell a threshold that one row lies
      on. Give them a larger `every`, or leave them out, where that matters; sites answer a limited number of questions.

    Args:
        loss: The loss to judge by, as a rule that of the algorithm.
        every: In `fs.run(…, evaluation=…)`, evaluate every so many rounds for the history. Default 1.
        rows: "held", the default, judges by held-out rows (`fs.data.hold_out`, `fs.data.with_test_rows`); "own" by the
            rows that each client has, for clients that are made of test rows, and for training figures.
        least: Each client joins bins of probability 1/1024 until they hold at least so many of its rows, and a client
            with fewer rows in all counts as one without any. The AUC's bound grows accordingly and stays a bound, and
            is not refined further; the calibration table has a run of rows in the bin of its mean, and the run around a
            probability of ½ is predicted by its mean, in accuracy and confusion matrix. Default 1: nothing is joined.
        auc_error: Split the bins until the bound on the AUC's error is at most this. Default 1e-4; 0 goes on until it
            is exact, or `exchanges` are used up.
        exchanges: The most exchanges to spend on the bins. Default 6. Many equal scores are known to be equal only
            after some ten; until then their pairs, which count ½ as they should, are within the bound.
        bins: About how many bins each of them adds. Default 512.
    """

    loss: Loss
    every: int = 1
    rows: Literal["held", "own"] = "held"
    least: int = 1
    auc_error: float = 1e-4
    exchanges: int = 6
    bins: int = 512

    purpose: ClassVar[Purpose] = "setup"  # which a link is not charged for

    def __post_init__(self) -> None:
        for name in ("every", "least", "exchanges", "bins"):
            if not is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ConfigError(f"{name} is a whole number of at least 1, got {getattr(self, name)!r}")
        if self.rows not in ("held", "own"):
            raise ConfigError(f"rows is 'held' or 'own', got {self.rows!r}")
        if not 0 <= self.auc_error < 1:
            raise ConfigError(f"auc_error is at least 0 and below 1, got {self.auc_error!r}")

    @property
    def kind(self) -> Kind:
        """What the loss is about, and so which figures there are."""
        return kind_of(self.loss)

    # ── clients ──

    @client_step(sends="sums over its held-out rows")
    def held_sums(self, client: Client, w: Array) -> tuple[int, float, float, float, float]:
        """Rows, weight, and the weighted sums of loss, error and hits; zeros at a client without held-out rows."""
        held = self._rows(client, w)
        if held is None:
            return 0, 0.0, 0.0, 0.0, 0.0
        value = (self.loss.value(held, w) - self.loss.penalty(w)) * held.weight
        if not judges_rows(self.loss):
            return self._counted(client, held, (held.n_samples, held.weight, value, 0.0, 0.0))
        rows = held_rows(self.loss, held, w)
        error = float(rows.s @ self.loss.error(np, rows.eta, rows.y))
        classes = self.kind in (Kind.BINARY, Kind.CLASSES)
        hits = float(np.trace(confusion(rows, predicted(self.kind, rows, self.least)))) if classes else 0.0
        return self._counted(client, held, (held.n_samples, held.weight, value, error, hits))

    @client_step(sends="sums over its held-out rows, and counts by predicted score")
    def held_figures(self, client: Client, w: Array | SentModel | Remembered, edges: Array) -> HeldSums:
        """All sums that one exchange can bring; zeros at a client without held-out rows. A row of `edges` holds the cut
        points of one class, filled up with infinity."""
        held, cuts = self._rows(client, w), self._cuts(client, edges)
        if held is None:
            return nothing(self.loss, client, len(cuts), edges.shape[1] + 1)
        return self._counted(client, held, summed(self.loss, held, w, cuts, self.least))

    @client_step(sends="sums over its held-out rows, and counts by predicted score")
    def held_spread(
        self, client: Client, w: Array | SentModel | Remembered, mean: Array, edges: Array
    ) -> tuple[Array, Array, Array]:
        """The deviance of a model that predicts this mean, or the client's own, and the weight in other bins."""
        held, cuts = self._rows(client, w), self._cuts(client, edges)
        require_shape("mean", mean, nothing(self.loss, client, len(cuts), 1).targets.shape[0])
        require_finite("mean", mean)
        if held is None:
            found = nothing(self.loss, client, len(cuts), edges.shape[1] + 1)
            return np.zeros_like(found.residuals), np.zeros_like(found.residuals), found.masses
        return self._counted(client, held, spread(self.loss, held, w, client.globalise(mean), cuts, self.least))

    @client_step(sends="counts of its held-out rows by predicted score")
    def held_bins(self, client: Client, w: Array | SentModel | Remembered, edges: Array) -> Array:
        """The weight of positives and negatives in bins of the score."""
        held, cuts = self._rows(client, w), self._cuts(client, edges)
        if held is None:
            return nothing(self.loss, client, len(cuts), edges.shape[1] + 1).masses
        return self._counted(client, held, recounted(self.loss, held, w, cuts, self.least))

    @client_step(sends="sums over its held-out rows, for the calibration")
    def held_recalibration(self, client: Client, w: Array | SentModel | Remembered, line: Array) -> Array:
        """Sums for one Newton step on the calibration intercept and slope; zeros unless there are two classes."""
        held = self._rows(client, w)
        require_shape("line", line, 2)
        require_finite("line", line)
        if held is None or self.kind is not Kind.BINARY:
            return np.zeros(6)
        intercept, slope = np.asarray(client.globalise(line)).tolist()
        rows = held_rows(self.loss, held, w)
        at_the_line(self.loss, held, rows, intercept, slope)
        return self._counted(client, held, recalibration.sums(rows, intercept, slope))

    @client_step(sends="calibration intercept and slope on its held-out rows")
    def own_recalibration(self, client: Client, w: Array | SentModel | Remembered) -> tuple[float, float] | None:
        """The calibration intercept and slope of the client's own rows; None where they are not defined."""
        held = self._rows(client, w)
        if held is None or self.kind is not Kind.BINARY:
            return None
        rows: Rows = held_rows(self.loss, held, w)
        return self._counted(
            client,
            held,
            recalibration.fitted(lambda lines: [recalibration.sums(rows, a, b) for a, b in lines], held.weight),
        )

    def _rows(self, client: Client, w: Array | SentModel | Remembered) -> Client | None:
        """The rows to judge by; None where there are none, or fewer than may be told of."""
        held = client.held if self.rows == "held" else client
        if not isinstance(w, SentModel | Remembered):
            self.loss.check_weights(client, w=w)
        if held is None:
            return None
        if isinstance(w, Remembered):
            recall(w, client, held)
        s = held.sample_weight
        if (held.n_samples if s is None else int((to_numpy(s) > 0).sum())) < self.least:
            return None
        self.loss.check(held)
        return held

    def _cuts(self, client: Client, edges: Array) -> list[Floats]:
        """The cut points of each class. Raises WrongType if they are not in ascending order, or of other classes."""
        require_shape("edges", edges, len(self.edges()), range(2**20))
        found = np.asarray(client.globalise(edges))
        if np.isnan(found).any() or (found[:, 1:] < found[:, :-1]).any():
            raise WrongType("edges should be cut points in ascending order, a row for each class")
        return list(found)

    @staticmethod
    def _counted(client: Client, held: Client, found: T) -> T:
        """Held-out rows are the client's work."""
        client.count_as_own(held)
        return found

    # ── server ──

    def edges(self) -> tuple[Floats, ...]:
        """The cut points of the first exchange, for each class."""
        kind = self.kind
        count = classes_of(self.loss) if kind is Kind.CLASSES else int(kind is Kind.BINARY)
        return (FIRST,) * count

    def brief(self, w: Array | SentModel | Remembered) -> Sum[HeldSums]:
        """The call whose sum `glance` reads: one exchange, for the history and for `Patience`."""
        return Sum(self.held_figures, w=w, edges=stacked(self.edges()))

    def glance(self, sums: HeldSums) -> Figures:
        """The figures of one exchange: all but `d2` and the calibration's intercept and slope, the AUC in coarse
        bins."""
        return figures(self.kind, sums, self.edges(), self.least)

    def finer(
        self, masses: Floats, cuts: tuple[Floats, ...], before: tuple[Floats, tuple[Floats, ...]] | None = None
    ) -> tuple[Floats, ...]:
        """Cut points for the next exchange, finer for the classes whose AUC is not known well enough; the same object
        if nothing more can be known. Clients that join bins do so on one grid, which is all there is to know of them.

        Args:
            masses: The weight in bins between `cuts`, of all clients.
            cuts: The cut points it was asked with.
            before: The same of the exchange before.
        """
        finer = []
        for place, (one, edges) in enumerate(zip(masses, cuts, strict=True)):
            one, stuck = one[: len(edges) + 1], None
            found = area(one, edges, self.least <= 1)
            if found is None or found[1] <= self.auc_error:
                finer.append(edges)
            elif self.least > 1:
                finer.append(GRID)
            else:
                if before is not None:
                    earlier = before[1][place]
                    stuck = unsplit(one, edges, before[0][place][: len(earlier) + 1], earlier)
                finer.append(refined(one, edges, self.bins, stuck))
        same = all(len(one) == len(other) for one, other in zip(finer, cuts, strict=True))
        return cuts if same else tuple(finer)

    @property
    def error_name(self) -> str:
        """What `error` is."""
        return self.loss.error_name if judges_rows(self.loss) else "loss"


def stacked(cuts: Sequence[Floats]) -> Floats:
    """Cut points of several classes as one array, filled up with infinity."""
    most = max((len(one) for one in cuts), default=0)
    found = np.full((len(cuts), most), np.inf)
    for row, one in zip(found, cuts, strict=True):
        row[: len(one)] = one
    return found


def no_rows(evaluation: Evaluation) -> str:
    """Why there is nothing to judge by, if all clients have answered."""
    if evaluation.least > 1:
        return (
            f"no client has {evaluation.least} rows to judge by, which least = {evaluation.least} asks for: choose a "
            "smaller least, or set more rows aside before the run, clients = fs.data.hold_out(clients, 0.2)"
        )
    if evaluation.rows == "own":
        return "no client has rows to judge by"
    return "no client has held-out rows: set some aside before the run, clients = fs.data.hold_out(clients, 0.2)"
