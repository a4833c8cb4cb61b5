"""Should a client join? Its error with the federated model against that of the best model it can fit alone.

    gain = expected error on new rows of the client's own best model / that of the federated one

Both errors are measured on the client's held-out rows, noise included, so a gain of 2 means half the error. This is
about predictions. The federation gain of Su, Xu and Yang (Definition 15) is about distances to the true weights, which
nobody knows outside a simulation; without the noise in both errors it is further from one. Their Theorem 16 says up to
what model heterogeneity joining pays (`joining_thresholds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Numeric
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Gather
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Session, opened
from fedsolve.inference.compared import (
    FEW_ROWS,
    LEAST_CASES,
    LEAST_ROWS,
    NOTHING,
    OWN_MODELS,
    UNEQUAL_WEIGHTS,
    Compared,
    fault,
    gain_of,
)
from fedsolve.inference.gain_table import ClientGain, FederationGains
from fedsolve.inference.held_errors import few_cases, rounding
from fedsolve.inference.joining_thresholds import NoGain, bound_threshold, why_no_gain
from fedsolve.inference.judging import as_weights
from fedsolve.inference.own_best_model import own_best_model
from fedsolve.inference.ratio_interval import effective_rows, ratio_of_means
from fedsolve.inference.reopened import AsAgreed, FinishedRun, check_same_rows
from fedsolve.losses import LinearLoss, Squared
from fedsolve.models.base import Model
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import python_numbers, whole
from fedsolve.text import printable
from fedsolve.typing import Array
from fedsolve.wire.messages import Purpose

MOST_WEIGHTS = 4096  # the order of the largest Hessian that clients factorise for their own fits
MOST_FOLDS = 50
LONGEST_REASON = 300  # characters of why a client is missing


@dataclass(frozen=True)
class FederationGain:
    """The protocol that compares the federated model with each client's own. Give it to a `Session` to ask after a run
    whose clients are not in this process: `fs.Session(transport, also={"gain": fs.FederationGain(loss)})`.

    Args:
        loss: The loss of the run. It says what the error is: mean squared error, log-loss, or mean Poisson deviance. A
            client fits it to its own rows, with penalties of its own choice in the place of the run's.
        folds: Of the cross-validation by which a client chooses its penalties, at most 50. Default 5.
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
        whole("folds", self.folds, 2, MOST_FOLDS + 1)
        whole("seed", self.seed, 0, 2**64)
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0 < self.level < 1:
            raise ConfigError(f"level is between 0 and 1, such as 0.95, got {self.level!r}")

    # ── clients ──

    @client_step(sends="the errors of two models on its held-out rows, and how they vary")
    def compare(self, client: Client, w: Array) -> Compared:
        """Fit the client's own best model, and compare both on the held-out rows."""
        held, loss = client.held, self.loss
        loss.check_weights(client, w=w)
        if held is None:
            return Compared(0, FEW_ROWS)
        loss.check(held)
        s = None if held.sample_weight is None else to_numpy(held.sample_weight)
        rows = held.n_samples if s is None else int(np.count_nonzero(s))
        if effective_rows(s, rows) < LEAST_ROWS * (1 - 1e-12):
            return Compared(rows, FEW_ROWS if rows < LEAST_ROWS else UNEQUAL_WEIGHTS)
        counted = np.arange(rows) if s is None else np.flatnonzero(s)
        y = to_numpy(loss.targets(held))[counted]
        least = rounding(loss, y)
        if least is None:
            return Compared(rows, "too small")
        loss.predictor(held, w)  # of which whoever watches these rows is told
        with client.unwatched(), held.unwatched():  # here only the client's own rows decide
            own = own_best_model(client, loss, self.folds, self.seed)
            alone = self._errors(held, own.w)
        local, federated = (np.maximum(each[counted], least) for each in (alone, self._errors(held, w)))
        client.count_as_own(held)
        if not (np.isfinite(local).all() and np.isfinite(federated).all()):
            return Compared(rows, "too large")
        found = ratio_of_means(local, federated, None if s is None else s[counted], self.level)
        numbers = (found.numerator, found.denominator, found.low, found.high)
        return Compared(rows, own.how, *numbers, few_cases(loss, y, LEAST_CASES))

    def _errors(self, held: Client, w: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said
            return to_numpy(self.loss.error(held.xp, self.loss.predictor(held, w), self.loss.targets(held)))

    # ── server ──

    def judge(self, fed: Federation, w: Array, *, standardised: bool = False) -> FederationGains:
        """Ask all clients of an open federation.

        A client that does not answer, fails, or says what cannot be true is listed as missing, with the reason: this
        only measures, and nobody else's answer depends on it.

        Args:
            fed: The clients.
            w: The weights of the federated model.
            standardised: Whether the columns are in units of their own spread, so that distances between weights mean
                something. Without it there are no thresholds.

        Raises:
            DataError: If no client answers, or none has held-out rows.
        """
        asked = fed.measure(Gather(self.compare, w=w), tolerant=True)  # gathered: the question is who gains
        if asked is None:
            raise DataError("no client answered, so nothing is known about anyone's gain")
        answers: dict[str, Compared] = asked[0][0]
        faults = {name: said for name, reply in answers.items() if (said := fault(reply)) is not None}
        replies = {name: reply for name, reply in answers.items() if name not in faults}
        reasons = {**dict(fed.missing), **faults}
        missing = {
            name: printable(reasons.get(name, "did not answer"), LONGEST_REASON)
            for name in fed.clients
            if name not in replies
        }
        if replies and not any(reply.rows for reply in replies.values()):
            raise DataError(
                "no client has held-out rows to compare models on: set some aside before the run, "
                "clients = fs.data.hold_out(clients, 0.3)"
            )
        thresholds = self._thresholds(fed, w, replies) if standardised else {}
        clients = {name: self._gain(reply, *thresholds.get(name, (None, None))) for name, reply in replies.items()}
        return FederationGains(self.loss.error_name, self.level, LEAST_ROWS, clients, missing, fed.ledger)

    @staticmethod
    def _gain(reply: Compared, threshold: float | None, no_gain: NoGain | None) -> ClientGain:
        local, federated = reply.local_error, reply.federated_error
        gain = None if local is None or federated is None else gain_of(local, federated)
        words = {**OWN_MODELS, **NOTHING}[reply.how]
        return ClientGain(
            reply.rows, local, federated, gain, reply.low, reply.high, words, threshold, no_gain, reply.few_cases
        )

    def _thresholds(
        self, fed: Federation, w: Array, replies: Mapping[str, Compared]
    ) -> dict[str, tuple[float, NoGain | None]]:
        """Theorem 16's, by client: for least squares of one target, where σ and B can be estimated, and rows count
        alike: how many rows of equal weight weighted ones are worth is not known here.

        σ² is the median over the clients of the smaller of the two held-out errors, which one client cannot move; it
        errs upwards, by what neither model has learned. B is the norm of the federated weights. A free intercept counts
        for neither, as if the columns were centred.
        """
        told = [min(one.local_error, one.federated_error or 0.0) for one in replies.values() if one.local_error]
        if not isinstance(self.loss, Squared) or w.ndim != 1 or not told:
            return {}
        coefficients = w if self.loss.intercept is None else w[:-1]
        if not coefficients.size or any(info.weight != info.samples for info in fed.info.values()):
            return {}
        total = sum(info.samples for info in fed.info.values())
        noise, norm = float(np.median(told)) ** 0.5, float(np.linalg.norm(coefficients))
        found: dict[str, tuple[float, NoGain | None]] = {}
        for name in replies:
            given = (fed.info[name].samples, total, coefficients.size, noise, norm)
            found[name] = bound_threshold(*given), why_no_gain(*given)
        return found


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
            the run's transport is opened once more, and every client must be there to join; the model's preprocessing
            is kept.
        protocol: The comparison to make. By default that of the session, or `FederationGain(run.algorithm.loss)`.

    Returns:
        A `ClientGain` for each client, and sentences. Print it for a table. Who failed, or said what cannot be true,
        is in `missing`.

    Raises:
        ConfigError: If the run has no loss of a linear model, its model is not for the loss that was given, or an open
            session was not told of this protocol.
        DataError: If no client answers or has held-out rows, or one has other rows than in the run.
    """
    session, protocol = getattr(run, "session", None), python_numbers(protocol)
    if not isinstance(session, Session):
        if hasattr(run, "session"):
            raise ConfigError(
                "this run no longer has its clients, because it was copied or pickled: ask the run that fs.run returned"
            )
        raise ConfigError(f"federation_gain takes the result of fs.run, got {type(run).__name__}")
    if not session.closed:
        return _ask(run, session.fed, _declared(session, protocol))
    protocol = protocol or FederationGain(_loss(run))
    protocols = dict(collect("gain", protocol))
    preprocess = session.preprocess
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
        transform = getattr(run.model, "transform", None)
        if isinstance(preprocess, Preprocess) and isinstance(transform, Transform):
            preprocess = AsAgreed(preprocess, transform)
    with opened(
        session.transport,
        protocols,
        seed=run.seed,
        participation=session.fed.participation,
        preprocess=preprocess,
        after=(session, "gain"),
    ) as fed:
        check_same_rows(session.fed.info, fed.info)
        return _ask(run, fed, protocol)


def _ask(run: FinishedRun, fed: Federation, protocol: FederationGain) -> FederationGains:
    loss = protocol.loss
    order = loss.order(fed.features, fed.outputs)
    if order > MOST_WEIGHTS:
        raise ConfigError(
            f"each client would factorise Hessians of order {order:,} to fit models of its own, and {MOST_WEIGHTS:,} "
            "is the most: use fewer columns, or a feature map of fewer features"
        )
    w = _weights(run.model, fed, loss)
    return protocol.judge(fed, w, standardised=_is_standardised(getattr(run.model, "transform", None)))


def _is_standardised(transform: object) -> bool:
    """Whether no column has units of its own: each is scaled, or a category. What a formula makes is."""
    if not isinstance(transform, Transform) or transform.design is not None:
        return isinstance(transform, Transform)
    return all(one.scaling is not None for one in transform.columns if isinstance(one, Numeric))


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
    """The run's weights, as an evaluation would send them."""
    if not isinstance(model, Model):
        raise ConfigError(f"federation gain compares models of fedsolve, the run made a {type(model).__name__}")
    is_raw = model.transform is not None and "preprocess" not in fed.protocols
    if is_raw or type(model).weights_for is Model.weights_for:
        raise ConfigError(f"a {type(model).__name__} has no weights for these columns, which federation gain compares")
    w = as_weights(model, fed, loss)
    link, expected = getattr(model, "link", None), loss.model(w).link
    if link not in (None, expected):
        raise ConfigError(
            f"the model has the link {link!r} and {type(loss).__name__} is for {expected!r}: its predictions would be "
            "taken for something else; give FederationGain the loss of the run"
        )
    return w
