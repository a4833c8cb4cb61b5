"""The one loop: choose the cohort, run a round, measure, report, save, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve.algorithms.base import Algorithm, Finished
from fedsolve.errors import ConfigError, LinkExceeded, QuorumNotReached
from fedsolve.federation.calls import Call, Mean
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger, Total
from fedsolve.federation.memory import Memory
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import collect, describe, types_of
from fedsolve.federation.transports import Transport
from fedsolve.loop.agreement import as_server, warm_start_by_name
from fedsolve.loop.checkpoint import Checkpoint, Progress
from fedsolve.loop.confirm import UNASKED, confirm, separated
from fedsolve.loop.history import Row, Run
from fedsolve.loop.interrupts import deferred
from fedsolve.loop.measure import Certificate, Inspect, Measure, Scale, certificate
from fedsolve.loop.preflight import (
    as_transport,
    check_algorithm,
    check_needs,
    check_resources,
    checked_seed,
    warm_weights,
)
from fedsolve.loop.stopping import (
    CONVERGED,
    DIVERGED,
    FINISHED,
    QUORUM,
    Stopping,
    Verdict,
    rounds_in_words,
    unattainable,
)
from fedsolve.losses.measurement import Measurement
from fedsolve.numerics.linalg import norm
from fedsolve.numerics.scalars import python_numbers, whole
from fedsolve.numerics.structured_arrays import Symmetric
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
    rounds, tolerance   the two usual limits, 100 rounds and a gradient of 1e-8 relative to the problem's own scale by
                   default (it means the same in any units); tolerance=0 never stops early; `stopping=Stopping(…)` has
                   all limits there are, the norm of the gradient in the data's units among them
    transport      "in_process" or "processes"
    warm_start     a model to start from, whose weights are matched by the names of its columns, or an array of weights
    server         data of the server's own, for algorithms that use it; it has the clients' columns, and is
                   preprocessed as theirs are
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
    algorithm, preprocess = python_numbers(algorithm), python_numbers(preprocess)
    checkpoint_every, measure = whole("checkpoint_every", checkpoint_every, 1), whole("measure", measure, 0)
    warm_weights(warm_start)  # rejects now what is no warm start at all
    loop = _Loop(
        algorithm,
        as_transport(clients, transport),
        stopping,
        participation or Participation(),
        checked_seed(seed),
        warm_start,
        server,
        preprocess,
        measure,
        None if checkpoint is None else Path(checkpoint),
        checkpoint_every,
        resume,
        on_round,
    )
    return loop.run()


NO_MINIMUM = (
    "there is no finite minimum: the value falls for ever along a direction that no sample is against (the classes can "
    "be separated, or a class or a count never occurs); penalise all weights, the intercept too"
)
# Rounds that change nothing after which nothing will change.
STANDING = 3
# Column scales that differ by more than this are named where a run ends without convergence.
SPREAD = 1e3


class _Enough(Exception):
    """Raised inside a round whose first exchange showed that the model before it was good enough, or lost."""


@dataclass
class _Loop:
    algorithm: Any
    transport: Transport
    stopping: Stopping
    participation: Participation
    seed: int
    warm_start: Any
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
        self.inspect = None if self.loss is None else Inspect(self.loss)
        if self.measure is not None:
            protocols["measure"], protocols["inspect"] = self.measure, self.inspect
        if self.preprocess is not None:
            protocols.update(collect("preprocess", self.preprocess))
        self.history: list[Row] = []
        self.last_certificate: Certificate | None = None
        self.scale: Scale | None = None
        self.endless = False  # whether it was shown that there is no minimum
        self.standing = 0  # rounds in a row, with everyone, that returned the very state they were given
        self.verdict: Verdict | None = None
        self.counted, self.sums = 0, {"algorithm": Total(), "measure": Total()}
        self.elapsed = 0.0
        extra = frozenset({Row}) | frozenset(getattr(self.preprocess, "transform_types", ()))
        self.types = types_of(protocols) | extra
        self.checkpoint = (
            None if self.checkpoint_path is None else Checkpoint(self.checkpoint_path, self.algorithm, protocols, extra)
        )
        if self.resume and self.checkpoint is None:
            raise ConfigError("resume=True needs checkpoint=, the file to go on from")
        if self.checkpoint is not None:
            self.checkpoint.open(self.resume)
        try:
            self.transport.open(protocols)
            self.fed = Federation(
                self.transport, protocols, seed=self.seed, participation=self.participation, server=self.server
            )
            self.fed.checkpointing = self.checkpoint is not None
            self.identity = describe((self.algorithm, self.preprocess, self.seed, self.fed.clients))
            self.began = time.perf_counter()
            beginning = self._first()
            with deferred(self.checkpoint is not None) as self.interrupts:
                state = self._rounds(*beginning)
        finally:
            try:
                self.transport.close()
            finally:
                if self.checkpoint is not None:
                    self.checkpoint.close()
        assert self.verdict is not None
        model = self.algorithm.model(state)
        if self.transform is not None:
            model = model.with_transform(self.transform)
        if self.fed.feature_names is not None and hasattr(model, "with_names"):
            model = model.with_names(self.fed.feature_names)
        if self.fed.classes is not None and hasattr(model, "with_classes"):
            model = model.with_classes(self.fed.classes)
        if getattr(model, "features", None) is not None and hasattr(model, "with_inputs"):
            model = model.with_inputs(self.fed.features)  # some maps take any number of columns
        return Run(
            self.algorithm,
            model,
            state,
            self.verdict.status,
            self.verdict.message + self.fed.whose_objective(),
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
        columns = self.fed.feature_names
        self.fed.begin_round(0)
        self.transform = None
        if self.preprocess is not None:
            self.transform = self.preprocess.fit(self.fed)
            self.fed.join()
        as_server(self.server, self.fed, self.loss, columns, self.transform, self.types)
        self.fed.warm_start = warm_start_by_name(self.warm_start, self.fed, self.loss, self.transform)
        check_resources(self.algorithm, self.loss, self.fed)
        self._learn_scale()
        state, done = _unwrap(self.algorithm.start(self.fed))
        self._note_server(0)
        return state, self._row(0, state, None), False, done

    def _resumed(self) -> tuple[Value, Row, bool, bool]:
        assert self.checkpoint is not None
        progress, ledger = self.checkpoint.load(self.identity)
        if progress.round > self.stopping.rounds:
            raise ConfigError(
                f"{self.checkpoint_path} is a run after {rounds_in_words(progress.round)}, and rounds = "
                f"{self.stopping.rounds} would end it before that: allow more rounds, or begin a new run"
            )
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
        self._learn_scale()
        return progress.state, progress.pending, progress.measured, False

    def _learn_scale(self) -> None:
        """Learn the problem's own units from sums, if anything depends on them."""
        if self.inspect is None:
            return
        solves = "solve" in getattr(self.algorithm, "needs", ())
        unpenalised = solves and self.inspect.loss.strong_convexity() <= 0
        if not (self.stopping.converges or unpenalised):
            return
        _ = self.fed.features, self.fed.outputs  # raise if the clients do not agree on them
        with self.fed.setting_up():
            self.scale = self.inspect.made_scale(self.fed.mean(self.inspect.scale))
            if unpenalised:  # then local systems may have many solutions
                self.fed.sum(self.inspect.agree, units=self.scale.columns)

    # ── the loop ──

    def _rounds(self, state: Value, row: Row, measured: bool, done: bool) -> Value:
        if done:
            self.verdict = self._finished(row)
        while True:
            ended = self.verdict or self.stopping.budget(row)
            if not measured:
                measured = self._measure_now(state, row, ended is not None)
            if self._is_over(state, ended):
                return state
            if self.checkpoint is not None and (row.round % self.checkpoint_every == 0 or self.interrupts.pending):
                self._save(state, row, measured)
                self.interrupts.saved()
            if not measured:
                self._measure_later(state, row)
            try:
                self.fed.begin_round(row.round + 1)
                following, done = _unwrap(self.algorithm.round(self.fed, state))
            except _Enough:
                self._is_over(state, None)
                return state
            except QuorumNotReached as error:
                if self.fed.detach():  # the question how good this model is travelled with what failed
                    self._ask(state, row)
                self.verdict = Verdict(QUORUM, str(error))
                return state
            if self.fed.detach():  # a round without an exchange: nothing travelled, so ask now
                self._ask(state, row)
                if self._is_over(state, None):
                    return state
            self._note_server(row.round + 1)
            # Only if nobody was missing, and not once: a round may prepare something at the clients.
            everyone = self.fed.cohort.share >= self.fed.objective - 1e-12
            self.standing = self.standing + 1 if everyone and _equal(following, state) else 0
            self.interrupts.unsaved = self.checkpoint is not None
            row, measured = self._row(row.round + 1, following, state), False
            state = following
            if done:
                self.verdict = self._finished(row)
            elif self.standing >= STANDING and self.stopping.converges:
                self.verdict = unattainable(self.history[-1], "no step lowers the value any more")

    def _is_over(self, state: Value, ended: Verdict | None) -> bool:
        """Whether the run ends here."""
        self.verdict = self.verdict or ended
        if self.verdict is None:
            return False
        if self.verdict.status not in (CONVERGED, FINISHED, QUORUM) and not self.endless:
            self._explain(state, self.verdict)
        return True

    def _explain(self, state: Value, verdict: Verdict) -> None:
        """What a run that ends without convergence can say of the reason."""
        w, inspect = getattr(state, "w", None), self.inspect if self.scale is not None else None
        if inspect is not None and w is not None and separated(self._ask_all, inspect, w):
            self.verdict, self.last_certificate = Verdict(DIVERGED, NO_MINIMUM), None
        else:
            self.verdict = replace(verdict, message=verdict.message + self._advice(verdict.status))

    def _advice(self, status: str) -> str:
        """What to try, where a run ends without convergence."""
        name = type(self.algorithm).__name__
        others = [one for one in ("Newton", "FedNewtonCG") if one != name]
        said = []
        if self.scale is not None and self.scale.spread() > SPREAD:
            said.append(
                f"the columns' scales differ by a factor of {self.scale.spread():.0e}: standardise them, for instance "
                "with preprocess=Preprocess()"
            )
        if status == DIVERGED:
            said.append(
                f"try smaller or fewer local steps, a larger l2, standardised features, or {' or '.join(others)}"
            )
        doubts = [row.doubt for row in self.history if row.doubt is not None]
        if doubts:
            said.insert(0, doubts[-1])
        return "".join(f"; {one}" for one in said)

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
            missing=self.fed.missing,
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
            self._measured(row, known, self.fed.cohort.share, state)
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

    def _call(self, state: Value) -> Mean[tuple[float, Array]]:
        assert self.measure is not None
        return Mean(self.measure.value_and_gradient, w=state.w)

    def _ask(self, state: Value, row: Row) -> None:
        """Measure in an exchange of its own."""
        found = self.fed.measure(self._call(state))
        row = replace(row, missing=self.fed.missing)
        if found is None:
            self._publish(row)
            return
        ((value, gradient),), share = found
        self._measured(row, Measurement(value, gradient), share, state)

    def _measure_later(self, state: Value, row: Row) -> None:
        """Let the question travel with the first exchange of the next round."""

        def receive(results: tuple[Any, ...]) -> None:
            value, gradient = results[0]
            self._measured(row, Measurement(value, gradient), self.fed.cohort.share, state)
            if self.verdict is not None:
                raise _Enough

        self.fed.attach((self._call(state),), receive)

    def _measured(self, row: Row, measurement: Measurement, share: float, state: Value) -> None:
        scale, value = self.scale, measurement.value
        first = next((one.value for one in self.history if one.value is not None), None)
        # A gradient of some clients certifies nothing about the objective of all (or of all that are not lost).
        proof = None
        if self.loss is not None and share >= self.fed.objective - 1e-12:
            unit = max(abs(value), abs(first or 0.0), 0.0 if scale is None else abs(scale.value))
            proof = certificate(self.loss, measurement, unit)
        row = replace(
            row,
            value=value,
            gradient_norm=norm(measurement.gradient),
            relative_gradient=None if scale is None else scale.relative(measurement.gradient),
            gap=None if proof is None else proof.gap,
            gap_is_bound=proof is not None and proof.is_bound,
            measured_share=share,
            objective_share=self.fed.objective,
        )
        sizes = [] if first is None else [first] if scale is None else [scale.value, first]
        found = self.stopping.judge(row, sizes)
        if found is not None and found.status == CONVERGED:
            found, row, proof = self._confirmed(found, row, proof, measurement, getattr(state, "w", None))
        self._publish(row, proof)
        self.verdict = found or self.verdict or self.stopping.stalled(self.history)

    def _confirmed(
        self, verdict: Verdict, row: Row, proof: Certificate | None, measurement: Measurement, w: Array | None
    ) -> tuple[Verdict | None, Row, Certificate | None]:
        """The verdict that a point is a minimum, after the clients were asked; None if there is a doubt."""
        if self.inspect is None or self.scale is None or w is None:
            return verdict, row, proof
        if not self._worth_confirming(row):
            return None, row, proof
        gained = max(0.0, self.scale.value - measurement.value)
        enough = max(self.stopping.gap or 0.0, (self.stopping.tolerance or 0.0) * gained)
        found = confirm(self._ask_all, self.inspect, self.scale, w, measurement, enough)
        if found.endless:
            self.endless = True
            return Verdict(DIVERGED, NO_MINIMUM), row, None
        if found.doubt is not None:
            return None, replace(row, doubt=found.doubt), proof
        if found.newton is not None and proof is None:
            proof = Certificate("newton decrement", 0.5 * found.newton.decrement)
            row = replace(row, gap=proof.gap)
        if found.newton is not None and found.newton.singular:
            text = f"{verdict.message}; the Hessian is singular, so other weights fit as well as these"
            verdict = Verdict(verdict.status, text)
        return verdict, row, proof

    def _worth_confirming(self, row: Row) -> bool:
        """A doubt is not raised again until the gradient is ten times smaller."""
        norms = [one.gradient_norm for one in self.history if one.doubt not in (None, UNASKED) and one.gradient_norm]
        return not norms or row.gradient_norm is None or row.gradient_norm <= 0.1 * min(norms)

    def _ask_all(self, *calls: Call[Any]) -> tuple[Any, ...] | None:
        """What all clients together answer; None if one of them does not, or has no room for it on its link."""
        try:
            found = self.fed.measure(*calls)
        except LinkExceeded:
            return None
        return None if found is None or found[1] < self.fed.objective - 1e-12 else found[0]

    def _publish(self, row: Row, proof: Certificate | None = None) -> None:
        self.last_certificate = proof
        self.history.append(row)
        if self.on_round is not None:
            self.interrupts.call(self.on_round, row)

    # ── saving ──

    def _save(self, state: Value, row: Row, measured: bool) -> None:
        assert self.checkpoint is not None
        progress = Progress(
            self.identity,
            row.round,
            state,
            self.fed.position(),
            self.history,
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


def _equal(new: Any, old: Any) -> bool:
    """Whether two states are the same to the bit, so that the next round would be the last one again."""
    if new is old:
        return True
    if type(new) is not type(old):
        return False
    if is_dataclass(new):
        return all(_equal(getattr(new, one.name), getattr(old, one.name)) for one in fields(new))
    if isinstance(new, tuple | list):
        return len(new) == len(old) and all(map(_equal, new, old))
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(_equal(new[key], old[key]) for key in new)
    if isinstance(new, np.ndarray):
        return np.array_equal(new, old)
    if isinstance(new, Symmetric):
        return np.array_equal(new.packed(), old.packed())
    return isinstance(new, int | float | str | bytes) and bool(new == old)


def _change(new: Array | None, old: Array | None) -> float | None:
    if new is None or old is None or np.shape(new) != np.shape(old):
        return None
    return norm(new - old) / max(norm(new), 1e-300)
