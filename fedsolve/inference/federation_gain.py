"""Should a client join? Its error with the federated model against that of the best model it can fit alone.

    gain = expected error on new rows of the client's own best model / that of the federated one

Both errors are measured on the client's held-out rows, noise included, so a gain of 2 means half the error. This is
about predictions. The federation gain of Su, Xu and Yang (Definition 15) is about distances to the true weights, which
nobody knows outside a simulation; without the noise in both errors it is further from one. Their Theorem 16 says up to
what model heterogeneity joining pays (`joining_thresholds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Gather
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Session, opened
from fedsolve.inference.gain_table import ClientGain, FederationGains
from fedsolve.inference.joining_thresholds import bound_threshold
from fedsolve.inference.own_best_model import own_best_model
from fedsolve.inference.ratio_interval import effective_rows, ratio_of_means
from fedsolve.losses import LinearLoss, Squared
from fedsolve.models.base import Model, Task
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import python_numbers, whole
from fedsolve.typing import Array
from fedsolve.wire.messages import Purpose

LEAST_ROWS = 30  # held-out rows, below which nothing is said
MOST_WEIGHTS = 4096  # the order of the largest Hessian that clients factorise for their own fits


@dataclass(frozen=True)
class Compared:
    """What leaves a client: how many held-out rows it has, the two errors and the interval of their ratio.

    With fewer than 30 rows (or weights so unequal that they say no more than that) nothing else leaves.
    """

    rows: int
    effective_rows: float
    local_error: float | None = None
    federated_error: float | None = None
    low: float | None = None
    high: float | None = None
    how: str = ""


@dataclass(frozen=True)
class FederationGain:
    """The protocol that compares the federated model with each client's own. Give it to a `Session` to ask after a run
    whose clients are not in this process: `fs.Session(transport, also={"gain": fs.FederationGain(loss)})`.

    Args:
        loss: The loss of the run. It says what the error is: mean squared error, log-loss, or mean Poisson deviance. A
            client fits it to its own rows, with a penalty l2 of its own choice in the place of the run's.
        folds: Of the cross-validation by which a client chooses its penalty. Default 5.
        level: How often the interval shall hold the true ratio. Default 0.95.
        seed: Divides the clients' rows into folds, together with their names. Default 0.
    """

    loss: LinearLoss
    folds: int = 5
    level: float = 0.95
    seed: int = 0

    purpose: ClassVar[Purpose] = "measure"

    def __post_init__(self) -> None:
        if not isinstance(self.loss, LinearLoss):
            raise ConfigError(
                f"federation gain compares linear models (Squared, Logistic, Softmax, Poisson), got {self.loss!r}"
            )
        whole("folds", self.folds, 2)
        whole("seed", self.seed, 0, 2**64)
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0 < self.level < 1:
            raise ConfigError(f"level is between 0 and 1, such as 0.95, got {self.level!r}")

    # ── clients ──

    @client_step
    def compare(self, client: Client, w: Array) -> Compared:
        """Fit the client's own best model, and compare both on the held-out rows."""
        held, loss = client.held, self.loss
        loss.check_weights(client, w=w)
        if held is None:
            return Compared(0, 0.0)
        loss.check(held)
        s = None if held.sample_weight is None else to_numpy(held.sample_weight)
        rows = held.n_samples if s is None else int(np.count_nonzero(s))
        effective = effective_rows(s, rows)
        if effective < LEAST_ROWS * (1 - 1e-12):
            return Compared(rows, effective)
        own = own_best_model(client, loss, self.folds, self.seed)
        counted = slice(None) if s is None else s > 0
        local, federated = (self._errors(held, weights)[counted] for weights in (own.w, w))
        for what, amount in held.counts.items():  # its work is the client's
            client.count(what, amount)
        held.counts = {}
        if not (np.isfinite(local).all() and np.isfinite(federated).all()):
            return Compared(rows, effective, how="an error is not finite: give the columns a smaller scale")
        found = ratio_of_means(local, federated, None if s is None else s[counted], self.level)
        return Compared(rows, effective, found.numerator, found.denominator, found.low, found.high, own.how)

    def _errors(self, held: Client, w: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said
            errors = to_numpy(self.loss.error(held.xp, self.loss.predictor(held, w), self.loss.targets(held)))
        return np.maximum(errors, 0.0)  # a deviance of zero may come out below it by rounding

    # ── server ──

    def judge(self, fed: Federation, w: Array) -> FederationGains:
        """Ask all clients of an open federation.

        A client that does not answer is listed as missing, and so is one that fails if the run has a quorum below 1;
        otherwise its failure is raised. Raises DataError if no client has held-out rows.
        """
        asked = fed.measure(Gather(self.compare, w=w))  # gathered: the question is who gains
        if asked is None:
            raise DataError("no client answered, so nothing is known about anyone's gain")
        replies: dict[str, Compared] = asked[0][0]
        if not any(reply.rows for reply in replies.values()):
            raise DataError(
                "no client has held-out rows to compare models on: set some aside before the run, "
                "clients = fs.data.hold_out(clients, 0.3)"
            )
        reasons = dict(fed.missing)
        missing = {name: reasons.get(name, "did not answer") for name in fed.clients if name not in replies}
        thresholds = self._thresholds(fed, w, replies)
        clients = {name: self._gain(reply, thresholds.get(name)) for name, reply in replies.items()}
        return FederationGains(self.loss.error_name, self.level, LEAST_ROWS, clients, missing)

    @staticmethod
    def _gain(reply: Compared, threshold: float | None) -> ClientGain:
        local, federated = reply.local_error, reply.federated_error
        gain = None if local is None or not federated else local / federated
        return ClientGain(
            reply.rows, reply.effective_rows, local, federated, gain, reply.low, reply.high, reply.how, threshold
        )

    def _thresholds(self, fed: Federation, w: Array, replies: dict[str, Compared]) -> dict[str, float]:
        """Theorem 16's, by client: for least squares of one target, where σ and B can be estimated.

        σ² is the smaller of the two held-out errors, averaged over the clients; it errs upwards, by what neither model
        has learned. B is the norm of the federated weights. A free intercept counts for neither, as if the columns were
        centred.
        """
        told = [one for one in replies.values() if one.local_error is not None and one.federated_error is not None]
        if not isinstance(self.loss, Squared) or w.ndim != 1 or not told:
            return {}
        coefficients = w if self.loss.intercept is None else w[:-1]
        if not coefficients.size:
            return {}
        rows = sum(one.rows for one in told)
        variance = sum(one.rows * min(one.local_error or 0.0, one.federated_error or 0.0) for one in told) / rows
        total = sum(info.samples for info in fed.info.values())
        norm = float(np.linalg.norm(coefficients))
        return {
            name: bound_threshold(fed.info[name].samples, total, coefficients.size, variance**0.5, norm)
            for name in replies
        }


class FinishedRun(Protocol):
    """What `federation_gain` needs of a run: `fs.Run` has it."""

    @property
    def algorithm(self) -> object: ...

    @property
    def model(self) -> object: ...

    @property
    def seed(self) -> int: ...

    @property
    def session(self) -> Session | None: ...


def federation_gain(run: FinishedRun, protocol: FederationGain | None = None) -> FederationGains:
    """Whom the federated model serves better than a model of their own, and by how much.

    For each client: the expected error on new rows of its best own model over that of the federated one, measured on
    its held-out rows (`fs.data.hold_out`), with a 95 % interval. A gain above 1 speaks for joining. With fewer than 30
    held-out rows nothing is said about a client.

        clients = fs.data.hold_out(clients, 0.3)
        run = fs.run(fs.Newton(loss), clients, preprocess=fs.data.Preprocess())
        print(fs.federation_gain(run))

    Each client chooses the penalty of its own model by cross-validation on the rows it learns from, and sends back the
    two errors and the interval. Columns are preprocessed as in the run, for both models.

    Args:
        run: A finished run. If it was given a `Session` that is still open, the same clients are asked through it, and
            the session must have been told so: `fs.Session(clients, also={"gain": fs.FederationGain(loss)})`. Otherwise
            the run's transport is opened once more, and its preprocessing agreed on again.
        protocol: The comparison to make. By default that of the session, or `FederationGain(run.algorithm.loss)`.

    Returns:
        A `ClientGain` for each client, and sentences. Print it for a table.

    Raises:
        ConfigError: If the run has no loss of a linear model, or an open session was not told of this protocol.
        DataError: If no client has held-out rows.
    """
    session, protocol = getattr(run, "session", None), python_numbers(protocol)
    if not isinstance(session, Session):
        raise ConfigError(f"federation_gain takes the result of fs.run, got {type(run).__name__}")
    if not session.closed:
        return _ask(run, session.fed, _declared(session, protocol))
    protocol = protocol or FederationGain(_loss(run))
    protocols = dict(collect("gain", protocol))
    if session.preprocess is not None:
        protocols.update(collect("preprocess", session.preprocess))
    with opened(
        session.transport,
        protocols,
        seed=run.seed,
        participation=session.fed.participation,
        preprocess=session.preprocess,
    ) as fed:
        return _ask(run, fed, protocol)


def _ask(run: FinishedRun, fed: Federation, protocol: FederationGain) -> FederationGains:
    loss = protocol.loss
    order = loss.order(fed.features, fed.outputs)
    if order > MOST_WEIGHTS:
        raise ConfigError(
            f"each client would factorise Hessians of order {order:,} to fit models of its own, and {MOST_WEIGHTS:,} "
            "is the most: use fewer columns, or a feature map of fewer features"
        )
    return protocol.judge(fed, _weights(run.model, fed, loss))


def _declared(session: Session, protocol: FederationGain | None) -> FederationGain:
    """The protocol that the clients of an open session answer."""
    declared = [one for one in session.fed.protocols.values() if isinstance(one, FederationGain)]
    if protocol is None and declared:
        return declared[0]
    if protocol is None or protocol not in declared:
        has = "other settings of it" if declared else "none"
        raise ConfigError(
            "the clients of an open session answer only protocols that it was told of, and there is "
            f'{has}: fs.Session(clients, also={{"gain": fs.FederationGain(loss)}})'
        )
    return protocol


def _loss(run: FinishedRun) -> LinearLoss:
    loss = getattr(run.algorithm, "loss", None)
    if not isinstance(loss, LinearLoss):
        raise ConfigError(
            f"{type(run.algorithm).__name__} has no loss of a linear model, by which a client could fit one of its "
            "own: give it, federation_gain(run, fs.FederationGain(fs.Squared(intercept='free')))"
        )
    return loss


def _weights(model: object, fed: Federation, loss: LinearLoss) -> Array:
    """The run's weights, matched by the names of columns as in an evaluation."""
    if not isinstance(model, Model):
        raise ConfigError(f"federation gain compares models of fedsolve, the run made a {type(model).__name__}")
    preprocessed = "preprocess" in fed.protocols
    task = Task(fed.feature_names, fed.classes, preprocessed, loss.features, loss.intercept is not None)
    w = np.asarray(model.weights_for(task), dtype=np.float64)
    shape = loss.shape(fed.features, fed.outputs)
    if w.shape != shape:
        raise ConfigError(f"the model has weights of shape {w.shape}, this loss needs {shape}")
    return w
