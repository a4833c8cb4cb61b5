"""The history as it grows: a row for each round, with all that was sent until then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger, Total
from fedsolve.loop.history import Row
from fedsolve.loop.interrupts import Interrupts
from fedsolve.loop.states import change, weights_of
from fedsolve.typing import Value

OnRound = Callable[[Row], None]


class Rows:
    """Makes rows from the ledger and the clock, and publishes them."""

    def __init__(self, algorithm: Algorithm, fed: Federation, on_round: OnRound | None) -> None:
        self.history: list[Row] = []
        self.interrupts = Interrupts()
        self._algorithm, self._fed, self._on_round = algorithm, fed, on_round
        self._counted, self._sums = 0, {"algorithm": Total(), "measure": Total()}
        self._began, self._elapsed = time.perf_counter(), 0.0

    def resume(self, history: list[Row], seconds: float) -> None:
        """Go on after these rows, `seconds` into the run."""
        self.history, self._elapsed = history, seconds
        self._account()

    def row(self, round: int, state: Value, before: Value) -> Row:
        """The row of a State, not measured yet."""
        self._account()
        ours, theirs = self._sums["algorithm"], self._sums["measure"]
        cohort = self._fed.cohort
        contraction = getattr(self._algorithm, "contraction", None)
        return Row(
            round,
            change=change(weights_of(state), weights_of(before)),
            seconds=self._elapsed + time.perf_counter() - self._began,
            exchanges=ours.exchanges,
            scalars_up=ours.scalars_up,
            scalars_down=ours.scalars_down,
            bytes_up=ours.bytes_up,
            bytes_down=ours.bytes_down,
            measure_bytes_up=theirs.bytes_up,
            measure_bytes_down=theirs.bytes_down,
            cohort=len(cohort),
            share=cohort.share,
            missing=self._fed.missing,
            contraction=None if contraction is None or not round else contraction(state),
        )

    def with_missing(self, row: Row) -> Row:
        """The row with those who were missing when more was asked about it, such as its held-out rows."""
        since = [(name, why) for name, why in self._fed.missing if name not in dict(row.missing)]
        return replace(row, missing=(*row.missing, *since)) if since else row

    def publish(self, row: Row) -> None:
        """Add a finished row, and hand it to the user's `on_round`."""
        self.history.append(row)
        if self._on_round is not None:
            self.interrupts.call(self._on_round, row)

    def _account(self) -> None:
        """Add what is new in the ledger to the running sums."""
        new = Ledger(self._fed.ledger.records[self._counted :])
        self._counted = len(self._fed.ledger.records)
        for purpose in ("algorithm", "measure"):
            self._sums[purpose] = self._sums[purpose] + new.total(purpose)
