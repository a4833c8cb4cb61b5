"""Stopping early: when the value, or the loss on held-out rows, has not fallen for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError
from fedsolve.federation.calls import Sum
from fedsolve.federation.federation import Federation
from fedsolve.inference.evaluated import RISING, check_metric
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.sent_model import SentModel
from fedsolve.loop.history import Row
from fedsolve.loop.stopping import Verdict, rounds_in_words
from fedsolve.loop.watching import as_sent, is_finite
from fedsolve.numerics.scalars import is_whole
from fedsolve.typing import Value


@dataclass(frozen=True)
class Best:
    """The best State so far, and for how many rounds there was none better."""

    state: Value
    round: int
    value: float
    objective: float = 1.0  # the share of the clients whose objective the value is of
    since: int = 0


@dataclass(frozen=True)
class Patience:
    """Ends a run after some rounds without progress, with the best State it had.

    Args:
        rounds: How many rounds without progress to wait for. Default 10.
        evaluation: Judge by held-out rows, `fs.Evaluation(loss)`: one exchange more in each round, counted as
            measuring. None, the default, judges by the measured value of the objective.
        least: The progress that counts, relative to the value. Default 0.
        metric: Which figure of the held-out rows to judge by: "value", the default, is the mean loss; or "error",
            "deviance", "accuracy", "auc" (in the coarse bins of one exchange), "brier", "calibration_error".

    If rounds, bytes or seconds end the run before patience does, the run has the best State too.
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


class Waiting:
    """How long one run has been without progress."""

    def __init__(self, rule: Patience, fed: Federation, algorithm: Algorithm) -> None:
        self.kept: Best | None = None
        self._rule, self._fed, self._algorithm = rule, fed, algorithm
        self._sign = -1.0 if rule.metric in RISING else 1.0

    def resume(self, rows: Sequence[Row], kept: Best | None) -> None:
        """Go on from a checkpoint."""
        self.kept = kept

    def judge(self, row: Row, state: Value) -> Verdict | None:
        """Whether patience has run out."""
        best = self.kept
        if best is not None and row.round <= best.round + best.since:
            return None  # judged already, before the run was resumed
        value = self._value(row, state)
        if value is None or not math.isfinite(value):
            return None
        objective = self._fed.objective
        if best is not None and abs(objective - best.objective) > 1e-12:
            best = None  # a client was lost or came back: values of other clients do not compare
        if best is None or self._sign * value < self._sign * best.value - self._rule.least * abs(best.value):
            self.kept = Best(state, row.round, value, objective)
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
        )

    def at_budget(self, verdict: Verdict) -> Verdict:
        """A run that a budget ends has the best State too: what patience would have handed back a few rounds later."""
        best = self.kept
        if best is None or best.since == 0 or abs(self._fed.objective - best.objective) > 1e-12:
            return verdict
        return Verdict(
            verdict.status,
            f"{verdict.message}; the model is that of round {best.round}, where the {self._what} was {best.value:.6g}",
            best.state,
        )

    @property
    def _what(self) -> str:
        if self._rule.evaluation is None:
            return "value"
        return f"{'loss' if self._rule.metric == 'value' else self._rule.metric} on held-out rows"

    def _value(self, row: Row, state: Value) -> float | None:
        """What this row is judged by; None if it has been judged, or cannot be yet."""
        evaluation = self._rule.evaluation
        if evaluation is None:  # a value of some clients does not compare with one of others
            return row.value if row.measured_share >= self._fed.objective - 1e-12 else None
        if row.value is not None:
            return None  # it was judged before it was measured
        w = as_sent(self._algorithm, state, self._fed, evaluation)
        if not is_finite(w):
            return None
        short = self._rule.metric == "value" and not isinstance(w, SentModel)  # then five numbers are enough
        found = self._fed.measure(Sum(evaluation.held_sums, w=w) if short else evaluation.brief(w))
        if found is None or found[1] < self._fed.objective - 1e-12:
            return None
        (sums,), _ = found
        weight, total = (sums[1], sums[2]) if short else (sums.totals[0], None)
        if not weight > 0:
            raise ConfigError("no client has held-out rows to judge by: set some aside with fs.data.hold_out(clients)")
        value: float | None = total / weight if short else getattr(evaluation.glance(sums), self._rule.metric)
        if value is None:
            raise ConfigError(f"the held-out rows have no {self._rule.metric}: all of them are of one class")
        return float(value)
