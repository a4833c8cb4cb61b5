"""Stopping early: when the value, or the loss on held-out rows, has not fallen for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError, WrongType
from fedsolve.federation.calls import Sum
from fedsolve.federation.federation import Federation
from fedsolve.inference.checked_sums import check_masses
from fedsolve.inference.evaluated import RISING, Figures, check_metric, with_area
from fedsolve.inference.evaluation import Evaluation, no_rows, stacked
from fedsolve.inference.metrics import Floats
from fedsolve.inference.remembered_model import Remembered
from fedsolve.inference.sent_model import SentModel
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import Verdict, rounds_in_words
from fedsolve.loop.telling import Telling
from fedsolve.loop.watching import as_sent, glance, is_finite
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Array, Value

UNKNOWN = 0.5  # a bound on the error of an AUC that says nothing


@dataclass(frozen=True)
class Best:
    """The best State so far, and for how many rounds there was none better."""

    state: Value
    round: int
    value: float
    objective: float = 1.0  # the share of the clients whose objective the value is of
    since: int = 0
    error: float = 0.0  # how far the value is from the exact one, at most: of an AUC, which counts scores in bins
    lost: tuple[str, ...] = ()  # the clients that the value is not of


@dataclass(frozen=True)
class Patience:
    """Ends a run after some rounds without progress, with the best State it had.

    Args:
        rounds: How many rounds without progress to wait for. Default 10.
        evaluation: Judge by held-out rows, `fs.Evaluation(loss)`: one exchange more in each round, counted as
            measuring. None, the default, judges by the measured value of the objective.
        least: The progress that counts, relative to the value. Default 0.
        metric: Which figure of the held-out rows to judge by: "value", the default, is the mean loss; or "error",
            "deviance", "accuracy", "auc", "brier", "calibration_error". The AUC takes a few exchanges more in each
            round, until its bound is `auc_error` of the evaluation. One AUC counts as better than another only if it is
            so by more than both bounds together; one that is not known at all, because all scores are equal, is not
            judged.

    If the run ends before patience does, it has the best State too, unless it converged or its algorithm is done. Where
    a client is lost or comes back, the best value of the others does not compare: patience begins anew. In rounds
    in which a client does not answer it does not judge.
    """

    rounds: int = 10
    evaluation: Evaluation | None = None
    least: float = 0.0
    metric: str = "value"

    kept_types: ClassVar[tuple[type[object], ...]] = (Best,)

    def __post_init__(self) -> None:
        if not is_whole(self.rounds) or self.rounds < 1:
            raise ConfigError(f"rounds is a whole number of at least 1, got {self.rounds!r}")
        if not 0 <= self.least < 1:
            raise ConfigError(f"least is a share of the value, at least 0 and below 1, got {self.least!r}")
        if self.evaluation is not None:
            check_metric(self.evaluation.kind, self.metric)
        elif self.metric != "value":
            raise ConfigError(f"metric = {self.metric!r} is of held-out rows: give evaluation=Evaluation(loss) too")

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Waiting:
        """Begin to wait. Raises ConfigError if a State makes nothing that held-out rows could judge."""
        if self.evaluation is not None:
            as_sent(algorithm, state, fed, self.evaluation)
        return Waiting(self, fed, algorithm)

    def kept_as(self) -> Patience:
        """The rule without what may be changed when a run is resumed: how long to wait, and how often the history asks,
        which is no matter of patience."""
        evaluation = None if self.evaluation is None else replace(self.evaluation, every=1)
        return replace(self, rounds=1, evaluation=evaluation)


class Waiting:
    """How long one run has been without progress."""

    def __init__(self, rule: Patience, fed: Federation, algorithm: Algorithm) -> None:
        self.kept: Best | None = None
        self._rule, self._fed, self._algorithm = rule, fed, algorithm
        self.telling = Telling(algorithm, fed)  # the run puts its own here, so that nobody is told twice
        self._sign = -1.0 if rule.metric in RISING else 1.0

    def resume(self, rows: Sequence[Row], kept: Best | None) -> None:
        """Go on from a checkpoint."""
        self.kept = kept

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Whether patience has run out."""
        best = self.kept
        if best is not None and row.round <= best.round + best.since:
            return None  # judged already, before the run was resumed
        value, error = self._value(row, state)
        if value is None or not math.isfinite(value):
            return None
        if best is not None and self._lost() != best.lost:
            best = None  # a client was lost or came back: values of other clients do not compare
        if best is None or self._is_better(best, value, error):
            self.kept = Best(state, row.round, value, self._fed.objective, error=error, lost=self._lost())
            return None
        self.kept = replace(best, since=row.round - best.round)
        if self.kept.since < self._rule.rounds:
            return None
        direction = "risen above" if self._sign < 0 else "fallen below"
        return Verdict(
            "patience",
            f"the {self._what} has not {direction} {best.value:.6g} in {rounds_in_words(self.kept.since)}; "
            f"the model is that of round {best.round}",
            best.state,
            best.round,
        )

    def _is_better(self, best: Best, value: float, error: float) -> bool:
        """Whether there is progress for certain, and as much as counts."""
        counts = self._rule.least * abs(best.value) + best.error + error
        return self._sign * value < self._sign * best.value - counts

    def _lost(self) -> tuple[str, ...]:
        """The clients whose rows are not in a value that counts: it is of all others."""
        lost = self._fed.position().lost if self._fed.participation.is_tolerant else {}
        return tuple(name for name in self._fed.clients if name in lost)

    def at_budget(self, verdict: Verdict) -> Verdict:
        """A run that ends otherwise has the best State too: what patience would have handed back a few rounds later."""
        best = self.kept
        if best is None or best.since == 0 or self._lost() != best.lost:
            return verdict
        return Verdict(
            verdict.status,
            f"{verdict.message}; the model is that of round {best.round}, where the {self._what} was {best.value:.6g}",
            best.state,
            best.round,
        )

    @property
    def _what(self) -> str:
        if self._rule.evaluation is None:
            return "value"
        return f"{'loss' if self._rule.metric == 'value' else self._rule.metric} on held-out rows"

    def _value(self, row: Row, state: Value) -> tuple[float | None, float]:
        """What this row is judged by, and the bound on its error; None if it has been judged, or cannot be yet."""
        evaluation = self._rule.evaluation
        if evaluation is None:  # a value of some clients does not compare with one of others
            return (row.value if row.measured_share >= self._fed.objective - 1e-12 else None), 0.0
        if row.value is not None:
            return None, 0.0  # it was judged before it was measured
        w = as_sent(self._algorithm, state, self._fed, evaluation)
        if not is_finite(w):
            return None, 0.0
        short = self._rule.metric == "value" and not isinstance(
            w, SentModel | Remembered
        )  # then five numbers are enough
        found = self.telling.measure(state, Sum(evaluation.held_sums, w=w) if short else evaluation.brief(w))
        if found is None or found[1] < self._fed.objective - 1e-12:
            return None, 0.0
        (sums,), share = found
        if short:
            return self._mean_loss(evaluation, sums[1], sums[2], share), 0.0
        figures = glance(evaluation, self._fed, sums, share)
        if figures is not None and self._rule.metric == "auc":
            figures = self._sharper(evaluation, state, w, figures, sums.masses)
        if figures is None:
            return None, 0.0
        value: float | None = getattr(figures, self._rule.metric)
        if value is None and share >= 1 - 1e-12:
            raise ConfigError(f"the held-out rows have no {self._rule.metric}: all of them are of one class")
        error = (figures.auc_error or 0.0) if self._rule.metric == "auc" else 0.0
        if error >= UNKNOWN:  # all scores are equal, as far as bins can tell: the constant that boosting begins with
            return None, 0.0
        return value, error

    def _sharper(
        self, evaluation: Evaluation, state: Value, w: Array | SentModel | Remembered, figures: Figures, masses: Floats
    ) -> Figures | None:
        """The AUC in finer bins: in those of one exchange it would say more of the bins than of the model."""
        cuts, before = evaluation.edges(), None
        for _ in range(evaluation.exchanges - 1):
            finer = evaluation.finer(masses, cuts, before)
            if finer is cuts:
                break
            edges = stacked(finer)
            found = self.telling.measure(state, Sum(evaluation.held_bins, w=w, edges=edges))
            if found is None or found[1] < self._fed.objective - 1e-12:
                return None
            try:
                check_masses(found[0][0], (len(finer), edges.shape[1] + 1, 4), figures.weight)
            except WrongType:
                return None
            before, masses, cuts = (masses, cuts), found[0][0], finer
        return with_area(figures, evaluation.kind, masses, cuts, evaluation.least)

    @staticmethod
    def _mean_loss(evaluation: Evaluation, weight: float, total: float, share: float) -> float | None:
        if not weight > 0 and share >= 1 - 1e-12:
            raise ConfigError(no_rows(evaluation))
        return total / weight if weight > 0 else None
