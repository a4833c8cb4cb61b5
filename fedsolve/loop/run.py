"""The one loop: choose the cohort, run a round, measure, report, save, stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError, FewRowsWarning, QuorumNotReached
from fedsolve.federation.client import Client
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import collect, describe, steps, types_of
from fedsolve.federation.session import Preprocessing, Session, TransportKind, checked_seed
from fedsolve.federation.transports import Transport
from fedsolve.inference.evaluation import Evaluation
from fedsolve.loop.advice import explained
from fedsolve.loop.beginning import Beginning, note_server, resume, start
from fedsolve.loop.checkpoint import Checkpoint
from fedsolve.loop.few_rows import MIN_ROWS, notices
from fedsolve.loop.health import unattainable
from fedsolve.loop.history import Row, Run
from fedsolve.loop.interrupts import deferred
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.loop.measuring import Enough, Measuring
from fedsolve.loop.patience import Waiting
from fedsolve.loop.preflight import check_algorithm, check_intercept, check_missing, check_needs, warm_weights
from fedsolve.loop.rows import Rows
from fedsolve.loop.rules import KEPT_TYPES, as_rules, at_the_end, check_measured, hand_over, kept_by
from fedsolve.loop.saving import Saving
from fedsolve.loop.states import equal, unwrapped
from fedsolve.loop.stopping import FINISHED, QUORUM, Stopping, StoppingRule, Verdict, rounds_in_words
from fedsolve.loop.telling import Telling
from fedsolve.loop.watching import Watching
from fedsolve.losses import LinearLoss, Loss
from fedsolve.models.base import Model
from fedsolve.numerics.scalars import python_numbers, whole
from fedsolve.typing import Array, Value

# Rounds that change nothing after which nothing will change.
STANDING = 3


def run(
    algorithm: Algorithm,
    clients: Sequence[Client] | Transport | Session,
    *,
    rounds: int | None = None,
    tolerance: float | None = None,
    stopping: StoppingRule | Sequence[StoppingRule] | None = None,
    participation: Participation | None = None,
    transport: TransportKind = "in_process",
    seed: int = 0,
    warm_start: Model | Array | None = None,
    server: Client | None = None,
    preprocess: Preprocessing | None = None,
    measure: int = 1,
    evaluation: Evaluation | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    on_round: Callable[[Row], None] | None = None,
    min_rows: int = MIN_ROWS,
) -> Run:
    """Fit one model to the data of all clients.

    Args:
        algorithm: What to run, such as `fs.Newton(fs.Logistic(l2=0.01))`.
        clients: `Client` objects, a transport that already holds them, or a `Session`, which stays open after the run.
        rounds: The most rounds to run, 100 by default.
        tolerance: How small the gradient shall be, relative to the problem's own scale, so that it means the same in
            any units; 1e-8 by default, 0 never stops early.
        stopping: All limits there are, `Stopping(…)`, or one or several other stopping rules. Rules without a
            `Stopping` among them are combined with the usual limits.
        participation: Who is asked in a round, and how long to wait for whom; everyone by default.
        transport: "in_process" or "processes".
        seed: Seeds everything random in the run.
        warm_start: A model to start from, matched by the names of its columns, or an array of weights.
        server: Data of the server's own, for algorithms that use it; with the clients' columns, preprocessed alike.
        preprocess: A preprocessing protocol, agreed on before the first round.
        measure: Measure value and gradient norm every so many rounds; 0: only at the end.
        evaluation: Judge the model by held-out rows, `fs.Evaluation(loss)`: every `evaluation.every` rounds in the
            history (`row.held_out`), and in full, by client, at the end (`run.evaluation`).
        checkpoint: A file to save progress in, every `checkpoint_every` rounds.
        resume: Go on from the checkpoint if it is there.
        on_round: Called with each finished row of the history.
        min_rows: Warn of clients with fewer rows, or fewer than three for each parameter of the fit; 5 by default. One
            row is rejected unless this is 1; 0 also leaves out the warnings, for simulations with many tiny clients.

    Returns:
        The model, the history of the run and its ledger.
    """
    limits, rules = as_rules(stopping, rounds, tolerance)
    algorithm, preprocess = python_numbers(algorithm), python_numbers(preprocess)
    checkpoint_every, measure = whole("checkpoint_every", checkpoint_every, 1), whole("measure", measure, 0)
    few = _checked(algorithm, warm_start, checkpoint, resume, min_rows)
    session = clients if isinstance(clients, Session) else Session(clients, transport)
    loop = _Loop(algorithm, session, limits, rules, checked_seed(seed), measure, preprocess, server, evaluation, few)
    saved = None if checkpoint is None else loop.checkpoint(Path(checkpoint), resume)
    try:
        return loop.run(participation or Participation(), warm_start, saved, checkpoint_every, resume, on_round)
    finally:
        _close(session if session is not clients else None, saved)


def _checked(
    algorithm: object, warm_start: Model | Array | None, checkpoint: str | Path | None, resume: bool, min_rows: int
) -> int:
    """Raise ConfigError for what makes no run; returns `min_rows` as a Python integer."""
    warm_weights(warm_start)  # rejects now what is no warm start at all
    if resume and checkpoint is None:
        raise ConfigError("resume=True needs checkpoint=, the file to go on from")
    check_algorithm(algorithm)
    return whole("min_rows", min_rows, 0)


def _close(session: Session | None, saved: Checkpoint | None) -> None:
    """Close what the run itself has opened."""
    try:
        if session is not None:
            session.close()
    finally:
        if saved is not None:
            saved.close()


@dataclass
class _Loop:
    """One run: what it is made of, and its rounds."""

    algorithm: Algorithm
    session: Session
    limits: Stopping
    rules: tuple[StoppingRule, ...]
    seed: int
    every: int
    preprocess: Preprocessing | None
    server: Client | None
    evaluation: Evaluation | None
    min_rows: int

    def __post_init__(self) -> None:
        loss = getattr(self.algorithm, "loss", None)
        check_measured(self.rules, self.every)
        check_needs(self.algorithm, loss)
        check_missing(self.algorithm, self.preprocess)
        check_intercept(self.algorithm, loss, self.preprocess)
        if hasattr(self.algorithm, "telling"):  # no weights, whose units could be learned or minimum inspected
            loss = None
        self.loss = loss if isinstance(loss, Loss) else None
        self.measure = None if self.loss is None else Measure(self.loss)
        self.inspect = Inspect(loss) if isinstance(loss, LinearLoss) else None
        self.protocols: dict[str, object] = dict(collect("algorithm", self.algorithm))
        for name, protocol in (("measure", self.measure), ("inspect", self.inspect)):
            if protocol is not None:
                self.protocols[name] = protocol
        if self.preprocess is not None:
            self.protocols.update(collect("preprocess", self.preprocess))
        if self.evaluation is not None:
            if not isinstance(self.evaluation, Evaluation):
                raise ConfigError(f"evaluation is an Evaluation, such as fs.Evaluation(loss), got {self.evaluation!r}")
            self.protocols.update(collect("evaluation", self.evaluation))
        for place, rule in enumerate(self.rules):
            asked = dict(collect(f"stopping.{place}", rule))
            self.protocols.update((name, one) for name, one in asked.items() if steps(one))
        transforms: tuple[type[object], ...] = getattr(self.preprocess, "transform_types", ())
        kept = (one for rule in self.rules for one in getattr(rule, "kept_types", ()))
        self.extra: frozenset[type[object]] = frozenset((Row, *KEPT_TYPES, *transforms, *kept))

    def checkpoint(self, path: Path, resume: bool) -> Checkpoint:
        """The file to save in, taken for this run."""
        found = Checkpoint(path, self.algorithm, self.protocols, self.extra)
        found.open(resume)
        return found

    def run(
        self,
        participation: Participation,
        warm_start: Model | Array | None,
        saved: Checkpoint | None,
        save_every: int,
        going_on: bool,
        on_round: Callable[[Row], None] | None,
    ) -> Run:
        """Open the federation, begin or go on, run the rounds, and make the model."""
        self.fed = fed = self.session.open(
            self.protocols, seed=self.seed, participation=participation, server=self.server
        )
        self.session.preprocess = self.preprocess
        fed.checkpointing = saved is not None
        self.telling = telling = Telling(self.algorithm, fed)
        self.watching = None if self.evaluation is None else Watching(self.evaluation, self.algorithm, fed, telling)
        self.rows = Rows(self.algorithm, fed, on_round)
        self.measuring = measuring = Measuring(
            self.algorithm, self.loss, self.measure, self.inspect, self.limits, self.every, fed, self.rows, telling
        )
        self.saving = None
        if saved is not None:
            identity = describe((self.algorithm, self.preprocess, self.seed, fed.clients))
            self.saving = Saving(saved, identity, save_every, fed, self.server)
        if self.saving is not None and going_on and self.saving.checkpoint.exists():
            beginning = resume(self.algorithm, self.session, measuring, self.rows, self.saving, self.min_rows)
            transform = self.saving.transform
        else:
            types = types_of(self.protocols) | self.extra
            given = self.preprocess, self.server, warm_start, types, self.min_rows
            beginning, transform = start(self.algorithm, self.session, measuring, self.rows, *given)
            if self.saving is not None:
                self.saving.scale = measuring.scale
            if self.saving is not None:
                self.saving.transform = transform
        self.notices = notices(fed, self.loss, self.min_rows)
        for notice in self.notices:
            warnings.warn(notice, FewRowsWarning, stacklevel=3)  # at the line that calls fs.run
        self._prepare_rules(beginning)
        with deferred(saved is not None) as self.rows.interrupts:
            state = self._rounds(beginning)
        return self._finished_run(state, transform)

    def _prepare_rules(self, beginning: Beginning) -> None:
        with self.fed.setting_up():
            judges = tuple(rule.prepare(self.fed, self.algorithm, beginning.state) for rule in self.rules)
        if beginning.kept is not None:
            hand_over(self.rules, judges, beginning.kept, self.rows.history)
        with self.fed.setting_up():
            for judge in judges:
                if hasattr(judge, "begin"):
                    judge.begin()
                if isinstance(judge, Waiting):
                    judge.telling = self.telling
        self.measuring.judges = judges

    def _kept(self) -> tuple[Value, ...]:
        return kept_by(self.rules, self.measuring.judges)

    def _finished_run(self, state: Value, transform: Value) -> Run:
        verdict = self.measuring.verdict
        assert verdict is not None
        note_server(self.server, self.fed, self.rows.history[-1].round)  # what only measured the last row
        verdict = at_the_end(verdict, self.measuring.judges)
        latest = verdict.state is None
        if verdict.state is not None:  # what was certified is the latest State, not this one
            state, self.measuring.certificate = verdict.state, None
        model = self.algorithm.model(state)
        if isinstance(model, Model):
            fed, widths = self.fed, {info.features for info in self.fed.info.values()}
            model = model.fitted_on(
                transform=transform,
                feature_names=fed.feature_names,
                classes=fed.classes,
                inputs=widths.pop() if len(widths) == 1 else None,
            )
        elif transform is not None:
            raise ConfigError(
                f"{type(self.algorithm).__name__} makes a {type(model).__name__}, which takes no preprocessing: let it "
                "be a fedsolve Model"
            )
        found, failed = (None, "") if self.watching is None else self.watching.at_the_end(model, state, latest)
        return Run(
            self.algorithm,
            model.left_by(verdict.status) if isinstance(model, Model) else model,
            state,
            verdict.status,
            verdict.message + failed + self.fed.whose_objective(),
            self.rows.history,
            self.fed.ledger.copy(),  # what a session is asked later is not the run's
            self.measuring.certificate,
            self.seed,
            evaluation=found,
            session=self.session,
            model_round=self.rows.history[-1].round if verdict.state is None else verdict.round,
            notices=self.notices,
        )

    # ── the rounds ──

    def _rounds(self, beginning: Beginning) -> Value:
        """Round after round until there is a verdict; returns the last State."""
        state, row, measured = beginning.state, beginning.row, beginning.measured
        measuring, interrupts, standing = self.measuring, self.rows.interrupts, 0
        if beginning.done is not None:
            measuring.verdict = self._finished(row, beginning.done)
        while True:
            if self.watching is not None:
                row = self.watching.noted(row, state)
            ended = measuring.verdict or measuring.judge(row, state)
            row = self.rows.with_missing(row)  # a rule may have asked, too
            if not measured:
                measured = measuring.now(state, row, ended is not None)
            state = self.telling.noted(state)
            if self._is_over(state, ended):
                return state
            if self.saving is not None:
                self.saving.between_rounds(state, row, measured, self.rows.history, self._kept, interrupts)
            if not measured:
                measuring.later(state, row)
            following, done = self._round(state, row)
            note_server(self.server, self.fed, row.round + 1)
            if self._is_over(state, None):
                return state
            # Only if nobody was missing, and not once: a round may prepare something at the clients.
            everyone = self.fed.cohort.share >= self.fed.objective - 1e-12
            standing = standing + 1 if everyone and equal(following, state) else 0
            interrupts.unsaved = self.saving is not None
            row, measured = self.rows.row(row.round + 1, following, state), False
            state = following
            if done is not None:
                measuring.verdict = self._finished(row, done)
            elif standing >= STANDING and self.limits.converges:
                measuring.verdict = unattainable(self.rows.history[-1], "no step lowers the value any more")

    def _round(self, state: Value, row: Row) -> tuple[Value, str | None]:
        """The next State, and why the algorithm is done, if it is. If it turns out that the run ends with the State
        before, there is a verdict instead."""
        try:
            self.fed.begin_round(row.round + 1)
            following, done = unwrapped(self.algorithm.round(self.fed, state))
        except Enough:
            return state, None
        except QuorumNotReached as error:
            if self.fed.detach():  # the question how good this model is travelled with what failed
                self.measuring.ask(state, row)
            self.measuring.verdict = Verdict(QUORUM, str(error))
            return state, None
        if self.fed.detach():  # a round without an exchange: nothing travelled, so ask now
            self.measuring.ask(state, row)
        return following, done

    def _is_over(self, state: Value, ended: Verdict | None) -> bool:
        """Whether the run ends here."""
        verdict = self.measuring.verdict or ended
        if verdict is not None:
            self.measuring.verdict = explained(verdict, self.measuring, state)
        return verdict is not None

    def _finished(self, row: Row, reason: str) -> Verdict:
        done = f"{type(self.algorithm).__name__} is done after {rounds_in_words(row.round)}"
        return Verdict(FINISHED, f"{done}: {reason}" if reason else done)
