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
from fedsolve.inference.evaluation import Evaluation
from fedsolve.loop.history import Row
from fedsolve.loop.states import weights_of
from fedsolve.loop.stopping import Verdict, rounds_in_words
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
        evaluation: Judge by the loss on held-out rows, `fs.Evaluation(loss)`: one exchange more in each round, counted
            as measuring. None, the default, judges by the measured value of the objective.
        least: The fall that counts as progress, relative to the value. Default 0.
    """

    rounds: int = 10
    evaluation: Evaluation | None = None
    least: float = 0.0

    kept_types: ClassVar[tuple[type[object], ...]] = (Best,)

    def __post_init__(self) -> None:
        if not is_whole(self.rounds) or self.rounds < 1:
            raise ConfigError(f"rounds is a whole number of at least 1, got {self.rounds!r}")
        if not 0 <= self.least < 1:
            raise ConfigError(f"least is a share of the value, at least 0 and below 1, got {self.least!r}")

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> Waiting:
        """Begin to wait. Raises ConfigError if a State has no weights to evaluate."""
        if self.evaluation is not None and weights_of(state) is None:
            raise ConfigError(
                f"Patience evaluates weights, and the State of {type(algorithm).__name__} has none: leave evaluation "
                "out, to judge by what the algorithm measures"
            )
        return Waiting(self, fed)


class Waiting:
    """How long one run has been without progress."""

    def __init__(self, rule: Patience, fed: Federation) -> None:
        self.kept: Best | None = None
        self._rule, self._fed = rule, fed

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
        if best is None or value < best.value - self._rule.least * abs(best.value):
            self.kept = Best(state, row.round, value, objective)
            return None
        self.kept = replace(best, since=row.round - best.round)
        if self.kept.since < self._rule.rounds:
            return None
        return Verdict(
            "patience",
            f"the {self._what} has not fallen below {best.value:.6g} in {rounds_in_words(self.kept.since)}; "
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
        return "value" if self._rule.evaluation is None else "loss on held-out rows"

    def _value(self, row: Row, state: Value) -> float | None:
        """What this row is judged by; None if it has been judged, or cannot be yet."""
        evaluation = self._rule.evaluation
        if evaluation is None:  # a value of some clients does not compare with one of others
            return row.value if row.measured_share >= self._fed.objective - 1e-12 else None
        if row.value is not None:
            return None  # it was judged before it was measured
        found = self._fed.measure(Sum(evaluation.held_sums, w=weights_of(state)))
        if found is None or found[1] < self._fed.objective - 1e-12:
            return None
        ((_, weight, total, _, _),), _ = found
        if not weight > 0:
            raise ConfigError("no client has held-out rows to judge by: set some aside with fs.data.hold_out(clients)")
        return float(total / weight)
