"""The one loop: choose the cohort, run a round, measure, report, save, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve.calls import Mean
from fedsolve.checkpoint import Checkpoint, Progress
from fedsolve.client import Client, Memory
from fedsolve.errors import ConfigError, QuorumNotReached
from fedsolve.federation import Federation
from fedsolve.history import Row, Run
from fedsolve.ledger import Ledger, Total
from fedsolve.linalg import norm
from fedsolve.measure import Certificate, Measure, Measurement, certificate
from fedsolve.participation import Participation
from fedsolve.preflight import (
    as_transport,
    check_algorithm,
    check_needs,
    check_resources,
    checked_seed,
    warm_weights,
)
from fedsolve.protocol import collect, describe
from fedsolve.rounds import Algorithm, Finished
from fedsolve.stopping import CONVERGED, DIVERGED, FINISHED, QUORUM, Stopping, Verdict, rounds_in_words
from fedsolve.transports import Transport
from fedsolve.typing import Array, Value


def run(
    algorithm: Algorithm,
    clients: Sequence[Client] | Transport,
    *,
    rounds: int | None = None,
    tolerance: float | None = None,
    stopping: Stopping | None = None,
    participation: Participation | None = None,
    transport: str | type[Any] = "in_process",
    seed: int = 0,
    warm_start: Any = None,
    server: Client | None = None,
    preprocess: Any = None,
    measure: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    on_round: Callable[[Row], None] | None = None,
) -> Run:
    """Fit one model to the data of all clients.

    clients        `Client` objects, or a transport that already holds them
    rounds, tolerance   the two usual limits, 100 rounds and a gradient norm of 1e-8 by default; tolerance=0 never
                   stops early; `stopping=Stopping(…)` has all limits there are
    transport      "in_process" or "processes"
    warm_start     a model (or its weights) to start from
    server         data of the server's own, for algorithms that use it
    preprocess     a preprocessing protocol, agreed before the first round
    measure        value and gradient norm every so many rounds (0: only at the end)
    checkpoint     a file to save progress in, every `checkpoint_every` rounds; `resume=True` goes on from it if it is
                   there
    on_round       called with each finished row of the history
    """
    if stopping is not None and (rounds is not None or tolerance is not None):
        raise ConfigError("give either stopping=Stopping(…) or rounds= and tolerance=, not both")
    if stopping is None:
        stopping = Stopping(
            Stopping.rounds if rounds is None else rounds, Stopping.tolerance if tolerance is None else tolerance
        )
    if checkpoint_every < 1 or measure < 0:
        raise ConfigError(
            f"checkpoint_every is at least 1 and measure at least 0, got {checkpoint_every} and {measure}"
        )
    loop = _Loop(
        algorithm,
        as_transport(clients, transport),
        stopping,
        participation or Participation(),
        checked_seed(seed),
        warm_weights(warm_start),
        server,
        preprocess,
        measure,
        None if checkpoint is None else Path(checkpoint),
        checkpoint_every,
        resume,
        on_round,
    )
    return loop.run()


class _Enough(Exception):
    """Raised inside a round whose first exchange showed that the model before it was good enough, or lost."""


@dataclass
class _Loop:
    algorithm: Any
    transport: Transport
    stopping: Stopping
    participation: Participation
    seed: int
    warm_start: Array | None
    server: Client | None
    preprocess: Any
    measure_every: int
    checkpoint_path: Path | None
    checkpoint_every: int
    resume: bool
    on_round: Callable[[Row], None] | None

    def run(self) -> Run:
        check_algorithm(self.algorithm)
        protocols = dict(collect("algorithm", self.algorithm))
        self.loss = getattr(self.algorithm, "loss", None)
        check_needs(self.algorithm, self.loss)
        self.measure = None if self.loss is None else Measure(self.loss)
        if self.measure is not None:
            protocols["measure"] = self.measure
        if self.preprocess is not None:
            protocols.update(collect("preprocess", self.preprocess))
        self.history: list[Row] = []
        self.last_certificate: Certificate | None = None
        self.verdict: Verdict | None = None
        self.counted, self.sums = 0, {"algorithm": Total(), "measure": Total()}
        self.elapsed = 0.0
        extra = frozenset({Row}) | frozenset(getattr(self.preprocess, "transform_types", ()))
        self.checkpoint = (
            None if self.checkpoint_path is None else Checkpoint(self.checkpoint_path, self.algorithm, protocols, extra)
        )
        if self.resume and self.checkpoint is None:
            raise ConfigError("resume=True needs checkpoint=, the file to go on from")
        if self.checkpoint is not None and self.checkpoint.exists() and not self.resume:
            raise ConfigError(
                f"there is already a checkpoint {self.checkpoint_path}; go on from it with resume=True, or remove it"
            )
        self.transport.open(protocols)
        try:
            self.fed = Federation(
                self.transport, protocols, seed=self.seed, participation=self.participation, server=self.server
            )
            self.fed.warm_start = self.warm_start
            self.fed.checkpointing = self.checkpoint is not None
            self.identity = describe((self.algorithm, self.preprocess, self.seed, self.fed.clients))
            self.began = time.perf_counter()
            state = self._rounds(*self._first())
        finally:
            self.transport.close()
        assert self.verdict is not None
        model = self.algorithm.model(state)
        if self.transform is not None:
            model = model.with_transform(self.transform)
        if self.fed.feature_names is not None and hasattr(model, "with_names"):
            model = model.with_names(self.fed.feature_names)
        if getattr(model, "features", None) is not None and hasattr(model, "with_inputs"):
            model = model.with_inputs(self.fed.features)  # some maps take any number of columns
        return Run(
            self.algorithm,
            model,
            state,
            self.verdict.status,
            self.verdict.message,
            self.history,
            self.fed.ledger,
            self.last_certificate,
            self.seed,
        )

    # ── beginning ──

    def _first(self) -> tuple[Value, Row, bool, bool]:
        """The state to go on from, its row, whether it was measured, and whether the algorithm is done."""
        if self.resume and self.checkpoint is not None and self.checkpoint.exists():
            return self._resumed()
        self.fed.join()
        self.fed.begin_round(0)
        self.transform = None
        if self.preprocess is not None:
            self.transform = self.preprocess.fit(self.fed)
            self.fed.join()
            if self.server is not None:
                self.server.memory["transform"] = self.transform
        check_resources(self.algorithm, self.loss, self.fed)
        state, done = _unwrap(self.algorithm.start(self.fed))
        self._note_server(0)
        return state, self._row(0, state, None), False, done

    def _resumed(self) -> tuple[Value, Row, bool, bool]:
        assert self.checkpoint is not None
        progress, ledger = self.checkpoint.load(self.identity)
        if progress.memories is not None:
            self.transport.restore(progress.memories, progress.position.attempt)
        self.fed.ledger = ledger
        self.fed.resume(progress.position, progress.round)
        self.history, self.transform = list(progress.rows), progress.transform
        if self.server is not None:
            self.server.memory = Memory(progress.server, self.checkpoint.types)
        if self.history and self.history[-1].gap is not None:
            kind = "strong convexity" if self.history[-1].gap_is_bound else "newton decrement"
            self.last_certificate = Certificate(kind, self.history[-1].gap)
        self._account()
        self.elapsed = progress.pending.seconds
        # The new attempt is on disk before anyone hears of it, so that no two servers share a number.
        self._save(progress.state, progress.pending, progress.measured)
        self.fed.join()
        check_resources(self.algorithm, self.loss, self.fed)
        return progress.state, progress.pending, progress.measured, False

    # ── the loop ──

    def _rounds(self, state: Value, row: Row, measured: bool, done: bool) -> Value:
        if done:
            self.verdict = self._finished(row)
        while True:
            ended = self.verdict or self.stopping.budget(row)
            if not measured:
                measured = self._measure_now(state, row, ended is not None)
            self.verdict = self.verdict or ended
            if self.verdict is not None:
                return state
            if self.checkpoint is not None and row.round % self.checkpoint_every == 0:
                self._save(state, row, measured)
            if not measured:
                self._measure_later(state, row)
            try:
                self.fed.begin_round(row.round + 1)
                following, done = _unwrap(self.algorithm.round(self.fed, state))
            except _Enough:
                return state
            except QuorumNotReached as error:
                self.verdict = Verdict(QUORUM, str(error))
                if self.fed.detach():
                    self._publish(row)
                return state
            if self.fed.detach():  # a round without an exchange: nothing travelled, so ask now
                self._ask(state, row)
                if self.verdict is not None:
                    return state
            self._note_server(row.round + 1)
            row, measured = self._row(row.round + 1, following, state), False
            state = following
            if done:
                self.verdict = self._finished(row)

    def _row(self, round: int, state: Value, before: Value) -> Row:
        self._account()
        ours, theirs = self.sums["algorithm"], self.sums["measure"]
        cohort = self.fed.cohort
        return Row(
            round,
            change=_change(getattr(state, "w", None), getattr(before, "w", None)),
            seconds=self.elapsed + time.perf_counter() - self.began,
            exchanges=ours.exchanges,
            scalars_up=ours.scalars_up,
            scalars_down=ours.scalars_down,
            bytes_up=ours.bytes_up,
            bytes_down=ours.bytes_down,
            measure_bytes_up=theirs.bytes_up,
            measure_bytes_down=theirs.bytes_down,
            cohort=len(cohort),
            share=cohort.share,
            contraction=getattr(self.algorithm, "contraction", lambda state: None)(state) if round else None,
        )

    def _account(self) -> None:
        """Add what is new in the ledger to the running sums."""
        new = Ledger(self.fed.ledger.records[self.counted :])
        self.counted = len(self.fed.ledger.records)
        for purpose in ("algorithm", "measure"):
            self.sums[purpose] = self.sums[purpose] + new.total(purpose)

    def _finished(self, row: Row) -> Verdict:
        return Verdict(FINISHED, f"{type(self.algorithm).__name__} is done after {rounds_in_words(row.round)}")

    # ── measuring ──

    def _measure_now(self, state: Value, row: Row, last: bool) -> bool:
        """Complete the row if the state knows its own measurement, or if this is the last chance to ask."""
        known = getattr(self.algorithm, "measured", lambda state: None)(state)
        if known is not None:
            self._measured(row, known, self.fed.cohort.share)
            return True
        if self.measure is None or not (last or self._due(row)):
            self._publish(row)
            return True
        if last:
            self._ask(state, row)
            return True
        return False

    def _due(self, row: Row) -> bool:
        return self.measure_every > 0 and row.round % self.measure_every == 0

    def _call(self, state: Value) -> Mean:
        assert self.measure is not None
        return Mean(self.measure.value_and_gradient, w=state.w)

    def _ask(self, state: Value, row: Row) -> None:
        """Measure in an exchange of its own."""
        found = self.fed.measure(self._call(state))
        if found is None:
            self._publish(row)
            return
        ((value, gradient),), share = found
        self._measured(row, Measurement(value, gradient), share)

    def _measure_later(self, state: Value, row: Row) -> None:
        """Let the question travel with the first exchange of the next round."""

        def receive(results: tuple[Any, ...]) -> None:
            value, gradient = results[0]
            self._measured(row, Measurement(value, gradient), self.fed.cohort.share)
            if self.verdict is not None:
                raise _Enough

        self.fed.attach((self._call(state),), receive)

    def _measured(self, row: Row, measurement: Measurement, share: float) -> None:
        # A gradient of some clients certifies nothing about the objective of all.
        proof = None
        if self.loss is not None and share >= 1 - 1e-12:
            proof = certificate(self.loss, measurement)
        self.last_certificate = proof
        row = replace(
            row,
            value=measurement.value,
            gradient_norm=norm(measurement.gradient),
            gap=None if proof is None else proof.gap,
            gap_is_bound=proof is not None and proof.is_bound,
            measured_share=share,
        )
        first = next((one.value for one in self.history if one.value is not None), None)
        self._publish(row)
        found = self.stopping.judge(row, first)
        if found is not None and found.status == CONVERGED:
            found = self._doubted(found, measurement)
        self.verdict = found or self.verdict

    def _doubted(self, verdict: Verdict, measurement: Measurement) -> Verdict:
        """Convergence to what is no minimum, or not the only one, is said."""
        doubt, infos = None, self.fed.info.values()
        if self.loss is not None and all(info.weight == info.samples for info in infos):
            doubt = self.loss.doubt(measurement.value, sum(info.samples for info in infos))
        if doubt is not None:
            return Verdict(DIVERGED, doubt)
        if measurement.moving:
            return Verdict(
                DIVERGED,
                "the gradient vanishes but Newton's step does not, so there is no finite minimum (classes that can be "
                "separated, a class or a count that never occurs); penalise all weights, the intercept too",
            )
        if measurement.singular:
            return Verdict(
                verdict.status, f"{verdict.message}; the Hessian is singular, so other weights fit as well as these"
            )
        return verdict

    def _publish(self, row: Row) -> None:
        self.history.append(row)
        if self.on_round is not None:
            self.on_round(row)

    # ── saving ──

    def _save(self, state: Value, row: Row, measured: bool) -> None:
        assert self.checkpoint is not None
        progress = Progress(
            self.identity,
            row.round,
            state,
            self.fed.position(),
            list(self.history),
            row,
            measured,
            self.transform,
            self.transport.memories(),
            {} if self.server is None else self.server.memory.data,
        )
        self.checkpoint.save(progress, self.fed.ledger)
        self.fed.checkpointed()

    def _note_server(self, round: int) -> None:
        if self.server is not None and self.server.counts:
            self.fed.ledger.server_counts.append((round, self.server.counts))
            self.server.counts = {}


def _unwrap(outcome: Any) -> tuple[Any, bool]:
    if outcome is None:
        raise ConfigError("start and round return the State, or Finished(state); this one returned None")
    return (outcome.state, True) if isinstance(outcome, Finished) else (outcome, False)


def _change(new: Array | None, old: Array | None) -> float | None:
    if new is None or old is None or np.shape(new) != np.shape(old):
        return None
    return norm(new - old) / max(norm(new), 1e-300)
