"""Follows an algorithm round by round on test rows, through `fs.run`, until it is good enough or time is up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.loop.history import Row
from fedsolve.loop.run import run
from fedsolve.loop.stopping import Stopping, Verdict
from fedsolve.models.base import Model
from fedsolve.typing import Array, Value

ENOUGH, TIME = "good enough", "time"


@dataclass(frozen=True)
class Trace:
    """The accuracy on test rows after 0, 1, 2, … rounds.

    ended    why there are no more: "good enough", "rounds" or "time"
    seconds  that a round took, on average
    """

    accuracies: tuple[float, ...]
    ended: str
    seconds: float

    @property
    def rounds(self) -> int:
        return len(self.accuracies) - 1

    @property
    def is_whole(self) -> bool:
        """Whether it ended by itself, and not because time was up."""
        return self.ended != TIME

    def rounds_to(self, target: float) -> float:
        """The first round that reaches an accuracy, which is as many models as each client was sent; infinite where
        none does."""
        return next((float(round) for round, one in enumerate(self.accuracies) if one >= target), inf)

    def plain(self) -> dict[str, object]:
        """As JSON knows it."""
        return {"accuracies": list(self.accuracies), "ended": self.ended, "seconds": self.seconds}


def trace_of(plain: dict[str, object]) -> Trace:
    """The trace that `Trace.plain` described."""
    accuracies, seconds = plain["accuracies"], plain["seconds"]
    assert isinstance(accuracies, list)
    assert isinstance(seconds, float)
    return Trace(tuple(accuracies), str(plain["ended"]), seconds)


@dataclass(frozen=True)
class Seen:
    """What a checkpoint keeps of a trace: the accuracies so far, and the seconds that they took."""

    accuracies: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Watch:
    """A stopping rule: ends a run once the model is good enough on test rows, or when time is up.

    deadline  on the clock of `time.monotonic`
    found     the accuracies so far
    first     the model after the first round, unless that round was in a run that this one goes on from
    began     when the first round began, on the clock of `time.perf_counter`, as if all had been run at one go
    """

    X: Array
    y: Array
    target: float
    deadline: float = inf
    found: list[float] = field(default_factory=list)
    first: list[Model] = field(default_factory=list)
    began: list[float] = field(default_factory=lambda: [time.perf_counter()])

    kept_types: ClassVar[tuple[type[object], ...]] = (Seen,)

    def kept_as(self) -> str:
        """Its name in a checkpoint: a run may go on with another target and deadline."""
        return "accuracies on test rows"

    def prepare(self, fed: Federation, algorithm: Algorithm, state: Value) -> _Watching:
        return _Watching(self, algorithm)

    @property
    def seconds(self) -> float:
        """Since the first round began."""
        return time.perf_counter() - self.began[0]


class _Watching:
    def __init__(self, rule: Watch, algorithm: Algorithm) -> None:
        self._rule, self._algorithm = rule, algorithm

    @property
    def kept(self) -> Seen:
        return Seen(tuple(self._rule.found), self._rule.seconds)

    def resume(self, history: Sequence[Row], kept: Value) -> None:
        """Go on with the accuracies of the rounds that a checkpoint has."""
        assert isinstance(kept, Seen)
        self._rule.found[:] = kept.accuracies
        self._rule.began[0] -= kept.seconds

    def judge(self, row: Row, state: Value) -> Verdict | None:
        rule = self._rule
        if row.round < len(rule.found):  # a row is judged again once it is measured
            return None
        model = self._algorithm.model(state)
        assert isinstance(model, Model)
        if row.round == 1:
            rule.first.append(model)
        rule.found.append(accuracy(model, rule.X, rule.y))
        if rule.found[-1] >= rule.target:
            return Verdict(ENOUGH, f"the accuracy is {rule.found[-1]:.3f}")
        return Verdict(TIME, "time is up") if time.monotonic() >= rule.deadline else None


def accuracy(model: Model, X: Array, y: Array) -> float:
    """The share of rows whose class is predicted."""
    return float(np.mean(np.asarray(model.predict(X)) == y))


@dataclass(frozen=True, eq=False)
class Arena:
    """What algorithms are compared on: clients, the server's rows, test rows and the seed of the runs."""

    clients: Sequence[Client]
    server: Client
    X_test: Array
    y_test: Array
    seed: int

    def follow(
        self,
        algorithm: Algorithm,
        rounds: int,
        target: float = inf,
        *,
        warm_start: Model | None = None,
        deadline: float = inf,
        checkpoint: Path | None = None,
    ) -> tuple[Trace, Model | None]:
        """Run an algorithm until its model has the target accuracy, for at most so many rounds; with a checkpoint, go
        on from the rounds that it has. Returns the model after the first round beside the trace; None where a
        checkpoint had that round."""
        watch = Watch(self.X_test, self.y_test, target, deadline)
        found = run(
            algorithm,
            InProcess(self.clients, together=True),
            stopping=[Stopping(rounds=rounds, tolerance=None), watch],
            min_rows=0,
            seed=self.seed,
            server=self.server,
            warm_start=warm_start,
            measure=0,
            checkpoint=checkpoint,
            resume=checkpoint is not None,
        )
        trace = Trace(tuple(watch.found), found.status, watch.seconds / max(1, len(watch.found) - 1))
        return trace, watch.first[0] if watch.first else None
