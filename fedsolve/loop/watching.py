"""Held-out rows in a run: figures for the history every few rounds, and all of them at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError, FedsolveError
from fedsolve.federation.federation import Federation
from fedsolve.inference.checked_sums import is_sum
from fedsolve.inference.evaluated import Evaluated, Figures, HeldSums
from fedsolve.inference.evaluation import Evaluation, no_rows
from fedsolve.inference.judging import judge, payload
from fedsolve.inference.metrics import kind_of
from fedsolve.inference.remembered_model import Remembered
from fedsolve.inference.sent_model import SentModel
from fedsolve.loop.history import Row
from fedsolve.loop.states import weights_of
from fedsolve.loop.telling import Telling, Told
from fedsolve.losses import Loss
from fedsolve.models.base import Model
from fedsolve.typing import Array, Value


def as_sent(
    algorithm: Algorithm, state: Value, fed: Federation, evaluation: Evaluation
) -> Array | SentModel | Remembered:
    """A State as clients are sent it to judge it: its weights if it has any, else the model that it stands for. Of one
    whose predictions they keep, they are sent no more than what they have not heard of, by `Telling`.

    Raises ConfigError if it is neither.
    """
    if hasattr(algorithm, "telling") and isinstance(state, Told):
        check_judged(algorithm, evaluation)
        return Remembered(len(state.parts))
    w = _judged_weights(algorithm, state, evaluation)
    made = algorithm.model(state) if w is None else None
    if w is None and not isinstance(made, Model):
        raise ConfigError(
            f"held-out rows judge weights or a fedsolve Model, and {type(algorithm).__name__} makes a "
            f"{type(made).__name__}: leave evaluation out"
        )
    unused = weights_of(state) is not None  # as of a network that another loss judges
    whole = isinstance(made, Model) and (unused or type(made).weights_for is Model.weights_for)
    if whole and "preprocess" in fed.protocols:
        raise ConfigError(
            f"a {type(made).__name__} is judged on the columns as the clients have them, and this run preprocesses "
            "them: evaluate its model after the run, fs.evaluate(run.model, clients, loss)"
        )
    return payload(made if w is None else w, fed, evaluation.loss)


def check_judged(algorithm: Algorithm, evaluation: Evaluation) -> None:
    """Raise ConfigError if what an algorithm learns predicts something else than an evaluation judges."""
    learned: Loss | None = getattr(algorithm, "loss", None)
    if learned is not None and kind_of(learned) is not evaluation.kind:
        raise ConfigError(
            f"the run learns by {type(learned).__name__} and is judged by {type(evaluation.loss).__name__}: judge it "
            "by the loss that it learns by"
        )


def _judged_weights(algorithm: Algorithm, state: Value, evaluation: Evaluation) -> Array | None:
    """The weights of a State, if the evaluation's loss takes them: those of a network are not for another loss."""
    own = getattr(getattr(algorithm, "loss", None), "architecture", None)
    fits = own is None or own == getattr(evaluation.loss, "architecture", None)
    return weights_of(state) if fits else None


def is_finite(sent: Array | SentModel | Remembered) -> bool:
    """Whether there is anything to judge: not where weights have diverged."""
    return isinstance(sent, SentModel | Remembered) or bool(np.isfinite(sent).all())


def glance(evaluation: Evaluation, fed: Federation, sums: HeldSums, share: float) -> Figures | None:
    """The figures of one exchange to which clients with this share of the weight contributed; None if there are none.

    Raises ConfigError if no client at all has rows to judge by. That cannot be said while some are missing, which may
    be those that have them. Sums that are no sums over rows say nothing either: the evaluation at the end finds out
    whose they are.
    """
    if not is_sum(evaluation, fed, sums):
        return None
    figures = evaluation.glance(sums)
    if figures.weight > 0:
        return figures
    if share >= 1 - 1e-12:
        raise ConfigError(no_rows(evaluation))
    return None


@dataclass(frozen=True)
class Watching:
    """Asks how good the model is on held-out rows while a run goes on."""

    evaluation: Evaluation
    algorithm: Algorithm
    fed: Federation
    telling: Telling

    def noted(self, row: Row, state: Value) -> Row:
        """The row with the figures of held-out rows, if this is a round to ask for them: one exchange, counted as
        measuring. A resumed run does not ask again for what its row has."""
        if row.held_out is not None or row.round % self.evaluation.every:
            return row
        sent = as_sent(self.algorithm, state, self.fed, self.evaluation)
        found = self.telling.measure(state, self.evaluation.brief(sent)) if is_finite(sent) else None
        if found is None:  # nobody answered, or the run has diverged, which its own measuring says
            return row
        (sums,), share = found
        figures = glance(self.evaluation, self.fed, sums, share)
        if figures is None:
            return row
        numbers = {name: float(value) for name, value in figures.plain().items() if isinstance(value, int | float)}
        return replace(row, held_out=numbers if share >= 1 - 1e-12 else {**numbers, "share": share})

    def at_the_end(self, model: Value, state: Value, latest: bool) -> tuple[Evaluated | None, str]:
        """All figures, by client and together; or None, and what went wrong, such as a client that does not answer:
        what was learned is not lost by that. `latest` says whether this is the State that clients heard of last."""
        w = _judged_weights(self.algorithm, state, self.evaluation)
        try:
            sent: Array | SentModel | Remembered
            if latest and isinstance(state, Told) and state.is_known(self.fed.clients):
                sent = as_sent(self.algorithm, state, self.fed, self.evaluation)
            else:
                sent = payload(model if w is None else w, self.fed, self.evaluation.loss)
            return (judge(self.evaluation, self.fed, sent) if is_finite(sent) else None), ""
        except FedsolveError as error:
            return None, f"; held-out rows could not be asked about the last model: {error}"
