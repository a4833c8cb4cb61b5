"""Evaluating a model: the exchanges, and what follows from them for all clients and for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from fedsolve.errors import ConfigError, DataError, WrongType
from fedsolve.federation.aggregation import weighted_sum
from fedsolve.federation.calls import Call, Gather, Sum
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Preprocessing, Session, TransportKind, opened
from fedsolve.federation.transports import Transport
from fedsolve.inference import recalibration
from fedsolve.inference.checked_sums import (
    check_array,
    check_line,
    check_masses,
    check_nulls,
    check_sums,
    expected,
)
from fedsolve.inference.evaluated import ClientEvaluation, Evaluated, Figures, HeldSums, explained, figures, with_area
from fedsolve.inference.evaluation import Evaluation, no_rows, stacked
from fedsolve.inference.metrics import Floats, Kind, kind_of
from fedsolve.inference.remembered_model import Remembered
from fedsolve.inference.sent_model import SentModel, check_classes, check_kind, send
from fedsolve.losses import Loss
from fedsolve.models.base import Model, Task
from fedsolve.typing import Array

T = TypeVar("T")

ALL = ""  # the name under which the figures of all clients stand; no client has it


class Unusable(Exception):
    """A client's reply that cannot be used."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(client, reason)
        self.client, self.reason = client, reason


def judge(
    protocol: Evaluation, fed: Federation, w: Array | SentModel | Remembered, by_client: bool = True
) -> Evaluated:
    """Ask all clients of an open federation. Raises DataError if no client has rows to judge by."""
    with fed.setting_up():
        return Judging(protocol, fed, w, by_client).evaluated()


@dataclass
class Judging:
    """One evaluation: the exchanges, and what follows from them, for all clients and for each.

    left_out  clients whose replies are no sums over rows, and why; they count as missing
    """

    protocol: Evaluation
    fed: Federation
    w: Array | SentModel | Remembered
    by_client: bool
    left_out: dict[str, str] = field(default_factory=dict)

    def evaluated(self) -> Evaluated:
        while True:
            try:
                return self._once()
            except Unusable as bad:  # all figures are those of the others, so these are asked for again
                self.left_out[bad.client] = bad.reason

    def _once(self) -> Evaluated:
        protocol, kind, cuts = self.protocol, self.protocol.kind, self.protocol.edges()
        edges = stacked(cuts)
        empty = expected(protocol, self.fed, edges.shape[1] + 1)
        total, each = self._ask(
            protocol.held_figures, lambda one, _: check_sums(kind, one, empty), w=self.w, edges=edges
        )
        if not total.totals[0] > 0:
            raise DataError(self._nothing())
        found = {name: figures(kind, one, cuts, protocol.least) for name, one in ((ALL, total), *each.items())}
        if kind is not Kind.OTHER:
            self._go_on(found, total, each, cuts)
        pooled = found.pop(ALL)
        clients = {name: ClientEvaluation(**vars(one)) for name, one in found.items()}
        why = self._reasons()
        return Evaluated(
            **vars(pooled), error_name=protocol.error_name, clients=clients, missing=tuple(why), reasons=why
        )

    def _reasons(self) -> dict[str, str]:
        """Why clients are missing from these figures: all that are not lost were asked, and have answered."""
        lost, said = self.fed.position().lost, dict(self.fed.missing)
        found = {name: said.get(name, f"lost in round {since}: {why}") for name, (since, why) in lost.items()}
        found |= {name: "it has not joined" for name in self.fed.clients if name not in self.fed.info}
        found |= self.left_out
        return {name: found[name] for name in self.fed.clients if name in found}

    def _nothing(self) -> str:
        if why := self._reasons():
            said = ", ".join(f"{name} ({reason})" for name, reason in why.items())
            return f"the clients that can be asked have no rows to judge by; missing: {said}"
        return no_rows(self.protocol)

    def _go_on(
        self, found: dict[str, Figures], total: HeldSums, each: dict[str, HeldSums], cuts: tuple[Floats, ...]
    ) -> None:
        """The further exchanges: the deviance of the mean, bins where the AUC needs them, and recalibration."""
        protocol, kind = self.protocol, self.protocol.kind
        mean = total.targets / total.totals[0]
        weights = {name: one.weight for name, one in found.items()}

        def check(one: tuple[Floats, Floats, Floats], name: str) -> None:
            for null in one[:2]:
                check_nulls(null, total.residuals.shape, weights[name], float(np.abs(mean).max()))
            check_masses(one[2], (len(finer), stacked(finer).shape[1] + 1, 4), weights[name])

        before, finer = (total.masses, cuts), cuts
        if protocol.exchanges > 1:
            finer = protocol.finer(total.masses, cuts)
        (null, own_null, masses), others = self._ask(
            protocol.held_spread, check, w=self.w, mean=mean, edges=stacked(finer)
        )
        found[ALL] = replace(found[ALL], d2=explained(kind, total, null, own_null))
        own = {name: one[2] for name, one in others.items()}
        for name, (_, one, _) in others.items():
            found[name] = replace(found[name], d2=explained(kind, each[name], one, one))
        if kind not in (Kind.BINARY, Kind.CLASSES):
            return
        masses, own, cuts = self._recounted(masses, own, finer, before, weights)
        for name, one in ((ALL, masses), *own.items()):
            if found[name].weight > 0:
                found[name] = with_area(found[name], kind, one, cuts, protocol.least)
        if kind is Kind.BINARY:
            self._recalibrate(found)

    # ── bins ──

    def _recounted(
        self,
        masses: Floats,
        own: dict[str, Floats],
        cuts: tuple[Floats, ...],
        before: tuple[Floats, tuple[Floats, ...]],
        weights: dict[str, float],
    ) -> tuple[Floats, dict[str, Floats], tuple[Floats, ...]]:
        """The masses in finer and finer bins, as long as that helps and exchanges are left."""
        for _ in range(self.protocol.exchanges - 2):
            finer = self.protocol.finer(masses, cuts, before)
            if finer is cuts:
                break
            edges = stacked(finer)
            shape = (len(finer), edges.shape[1] + 1, 4)
            before = masses, cuts
            masses, own = self._ask(
                self.protocol.held_bins,
                lambda one, name, shape=shape: check_masses(one, shape, weights[name]),  # type: ignore[misc]
                w=self.w,
                edges=edges,
            )
            cuts = finer
        return masses, own, cuts

    # ── calibration ──

    def _recalibrate(self, found: dict[str, Figures]) -> None:
        protocol, pooled = self.protocol, found[ALL]
        lines: dict[str, tuple[float, float] | None] = {}
        if pooled.auc is not None and 0 < pooled.auc < 1:  # else the scores separate the classes
            lines[ALL] = recalibration.fitted(self._at_lines, pooled.weight)
        if self.by_client:  # gathered for the same reason as all else here
            own = self.fed.gather(protocol.own_recalibration, w=self.w)
            lines |= self._usable(own, lambda one, _: check_line(one))
        for name, line in lines.items():
            if line is not None:
                found[name] = replace(found[name], calibration_intercept=line[0], calibration_slope=line[1])

    def _at_lines(self, lines: Sequence[tuple[float, float]]) -> list[Floats]:
        """The sums for recalibration at several lines, in one exchange."""
        step, given = self.protocol.held_recalibration, [np.array(one) for one in lines]
        if not self.by_client:
            return list(self.fed.exchange(*(Sum(step, w=self.w, line=one) for one in given)))
        every = self.fed.exchange(*(Gather(step, w=self.w, line=one) for one in given))
        usable = [self._usable(each, lambda one, _: check_array("sums", one, (6,))) for each in every]
        return [weighted_sum(list(each.values()), None) for each in usable]

    # ── asking ──

    def _ask(
        self, step: Callable[..., T], check: Callable[[T, str], None], **arguments: Array | SentModel | Remembered
    ) -> tuple[T, dict[str, T]]:
        """What all clients say together, and, if it is wanted, each by itself. Raises Unusable for a reply that does
        not pass the check; of a sum nobody can say whose fault it is."""
        call: Call[T]
        if not self.by_client:
            call = Sum(step, **arguments)
            total = self.fed.exchange(call)[0]
            try:
                check(total, ALL)
            except WrongType as error:
                raise DataError(f"{error}; ask by client, by_client=True, to learn whose reply that is") from None
            return total, {}
        # Gathered: the question is at whose rows the model is good.
        each: dict[str, T] = self._usable(self.fed.exchange(Gather(step, **arguments))[0], check)
        if not each:
            raise DataError(self._nothing())
        return weighted_sum(list(each.values()), None), each

    def _usable(self, each: dict[str, T], check: Callable[[T, str], None]) -> dict[str, T]:
        """The replies of all clients that were not left out."""
        kept = {name: one for name, one in each.items() if name not in self.left_out}
        for name, one in kept.items():
            try:
                check(one, name)
            except WrongType as error:
                raise Unusable(name, str(error)) from None
        return kept


def evaluate(
    model: Model | Array,
    clients: Sequence[Client] | Transport | Session | Federation,
    loss: Loss | Evaluation,
    *,
    by_client: bool = True,
    preprocess: Preprocessing | None = None,
    transport: TransportKind = "in_process",
    seed: int = 0,
) -> Evaluated:
    """How good a model is on rows that it was not learned from, by client and for all together.

    The figures of all clients together are those of the pooled rows: sums are exact, and the AUC comes with a bound on
    its error. Two to some twenty exchanges, counted as setting up; see `Evaluation` for what leaves a client.

        clients = fs.data.hold_out(clients, 0.2)
        run = fs.run(fs.Newton(loss), clients)
        found = fs.evaluate(run.model, clients, loss)
        found.auc, found.auc_error, found.calibration_slope, found.clients["site-1"].accuracy

    Args:
        model: A model, or an array of weights. A model that is linear in the clients' columns is sent as weights,
            matched by the names of its columns. Any other, and one with a preprocessing of its own, is sent as arrays
            and plain values, and built by clients that know its kind; it takes the columns as they were given.
        clients: Clients or a transport, for which a federation is opened; or a session or federation that is open and
            has this `Evaluation` among its protocols, so that what was agreed for a run holds here too.
        loss: What to judge by, or an `Evaluation` with a choice of rows and bins.
        by_client: Ask for each client's figures. False asks for sums over all clients only.
        preprocess: The preprocessing to agree on first, where the clients are not open yet; for weights that were
            learned behind it. A model that a run with a preprocessing made has its own, and takes none here.
        transport, seed: As in `fs.run`, where the clients are not open yet.

    Returns:
        Figures over all rows, and by client.

    Raises:
        DataError: If no client has rows to judge by.
        ConfigError: If the model does not fit the clients' columns or classes, predicts something else than the loss
            judges, or has a preprocessing of its own and is given another.
    """
    if preprocess is not None and isinstance(model, Model) and model.transform is not None:
        raise ConfigError(
            "the model has a preprocessing of its own, learned from the rows it was fitted to: leave preprocess= out, "
            "or it would see columns that were scaled by other rows"
        )
    protocol = loss if isinstance(loss, Evaluation) else Evaluation(loss)
    if isinstance(clients, Session | Federation):
        fed = clients.fed if isinstance(clients, Session) else clients
        if not isinstance(loss, Evaluation):  # the one that the clients were started with, whatever its options
            known = (one for one in fed.protocols.values() if isinstance(one, Evaluation) and one.loss == loss)
            protocol = next(known, protocol)
        return judge(protocol, fed, finite(payload(model, fed, protocol.loss)), by_client)
    protocols = dict(collect("evaluation", protocol))
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
    with opened(clients, protocols, transport=transport, seed=seed, preprocess=preprocess) as fed:
        return judge(protocol, fed, finite(payload(model, fed, protocol.loss)), by_client)


def finite(sent: Array | SentModel) -> Array | SentModel:
    """What is sent, unless it has weights that are no numbers: raises ConfigError, because they judge nothing."""
    w = sent.arrays.get("w") if isinstance(sent, SentModel) else sent
    if w is not None and w.dtype.kind == "f" and not np.isfinite(w).all():
        raise ConfigError("the model's weights are not finite: the run that made it has diverged")
    return sent


def payload(model: Model | Array, fed: Federation, loss: Loss) -> Array | SentModel:
    """A model as the clients are sent it: as weights if they fit the clients' columns, else whole.

    A model with a preprocessing of its own is sent whole, and takes the columns as they were given: its weights mean
    nothing behind another preprocessing, which these clients may have agreed on.
    """
    if isinstance(model, Model):
        check_kind(model, kind_of(loss))
        other = getattr(model, "architecture", None) != getattr(loss, "architecture", None)  # a network under another ℓ
        if type(model).weights_for is Model.weights_for or model.transform is not None or other:
            check_classes(model, fed.classes)
            return send(model)
    return as_weights(model, fed, loss)


def as_weights(model: Model | Array, fed: Federation, loss: Loss) -> Array:
    """The model's weights for the clients' columns: behind their preprocessing, which must be the model's own."""
    w = model
    if isinstance(model, Model):
        intercept = getattr(loss, "intercept", None) is not None
        features = getattr(loss, "features", None)
        preprocessed = "preprocess" in fed.protocols
        w = model.weights_for(
            Task(
                *(fed.feature_names, fed.classes, preprocessed, features, intercept),
                architecture=getattr(loss, "architecture", None),
                whole="this evaluation",
                role="the model to judge",
                instead="judge it as it was fitted, or give its weights alone, model.w, if you know that they fit",
            )
        )
    w = np.asarray(w, dtype=np.float64)
    shape = loss.shape(fed.features, fed.outputs)
    if w.shape != shape:
        raise ConfigError(f"the model has weights of shape {w.shape}, this loss needs {shape}")
    return w
