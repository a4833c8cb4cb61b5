"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedsolve.algorithms.base import Algorithm
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.session import Session
from fedsolve.inference.evaluated import Evaluated
from fedsolve.inference.standard_errors import StandardErrors
from fedsolve.inference.summarised import Errors, Summary
from fedsolve.inference.summarising import summary
from fedsolve.loop.measure_protocols import Certificate
from fedsolve.loop.stopping import rounds_in_words
from fedsolve.typing import Value


@dataclass(frozen=True)
class Row:
    """One line of a run's history: the model after `round` rounds, and all that was sent until then.

    Bytes and scalars are the algorithm's, cumulative; what measuring took is kept apart.
    """

    round: int
    value: float | None = None
    gradient_norm: float | None = None
    relative_gradient: float | None = None  # its norm in the problem's own units, see `measure.Scale`
    gap: float | None = None
    gap_is_bound: bool = False
    change: float | None = None
    seconds: float = 0.0
    exchanges: int = 0
    scalars_up: int = 0
    scalars_down: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    measure_bytes_up: int = 0
    measure_bytes_down: int = 0
    cohort: int = 0
    share: float = 1.0  # of the weight, of those who took part
    measured_share: float = 1.0  # and of those behind value and gradient norm
    objective_share: float = 1.0  # and of those whose objective it is: all clients that are not lost
    missing: tuple[tuple[str, str], ...] = ()  # clients that are missing from (a part of) the round, and why
    # A factor by which, in theory, the error fell or tends to fall in this round, where the algorithm knows one.
    contraction: float | None = None
    doubt: str | None = None  # why a gradient within the tolerance was not called convergence
    # Figures of held-out rows by name, in rounds in which they were asked for: `fs.run(…, evaluation=…)`.
    held_out: dict[str, float] | None = None


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        algorithm: What ran.
        model: What it made. As a rule a `Model`: it predicts, and it can be saved.
        state: The State that the model is made from.
        status: Why the run ended, in one word: "converged", "finished", "rounds", "diverged" and others.
        message: The same in a sentence.
        history: A row for each round.
        ledger: All that was sent, by exchange, call and client.
        certificate: How far the value can be from its minimum, where that is known.
        seed: What everything random was seeded with.
        evaluation: How good the model is on held-out rows, where the run was given an `evaluation`.
        session: The clients that were asked, and may be asked more (`fs.federation_gain`). It is closed, unless the run
            was given a session of yours. A copy or a pickled run has none: it would hold the clients' rows.
        notices: What has to be said of the clients, a sentence each: who has very few rows.
    """

    algorithm: Algorithm
    model: Any  # as a rule a `Model`; whatever the algorithm makes
    state: Value
    status: str
    message: str
    history: list[Row]
    ledger: Ledger
    certificate: Certificate | None
    seed: int
    evaluation: Evaluated | None = None
    session: Session | None = field(default=None, compare=False, repr=False)
    model_round: int | None = None  # the round whose State the model is made from; None: not known
    notices: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "session": None}

    @property
    def model_row(self) -> Row:
        """The row of the history that is about the model; one without figures where that is not known or measured."""
        return next((row for row in reversed(self.history) if row.round == self.model_round), Row(self.rounds))

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return self.history[-1].round if self.history else 0

    @property
    def converged(self) -> bool:
        """Whether the run ended at a minimum, within its tolerance."""
        return self.status == "converged"

    def all_sent(self) -> Ledger:
        """The ledger of the run with what its clients were asked since: standard errors, federation gain. Their purpose
        is "summary" and "gain" there, and that of questions about held-out rows is "evaluation"."""
        session = self.session
        if session is None:
            return self.ledger.with_others()
        return self.ledger.with_others(session.earlier, [*session.later, (None, session.fed.ledger)])

    def summary(
        self,
        protocol: StandardErrors | None = None,
        *,
        errors: Errors = "model",
        level: float = 0.95,
        use_t: bool = False,
    ) -> Summary:
        """Coefficients with standard errors, intervals and p values, AIC, BIC and deviance; see `fs.summary`."""
        return summary(self, protocol, errors=errors, level=level, use_t=use_t)

    def __repr__(self) -> str:
        total = self.ledger.total()
        last = self.model_row
        value = "" if last.value is None else f", value {last.value:.6g}"
        if last.gradient_norm is not None:
            value += f", gradient norm {last.gradient_norm:.1e}"
        return (
            f"<Run of {type(self.algorithm).__name__}: {self.status} after {rounds_in_words(self.rounds)}{value}, "
            f"{total.bytes_up:,} bytes up, {total.bytes_down:,} down>"
        )
