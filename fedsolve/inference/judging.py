"""Evaluating a model: the exchanges, and what follows from them for all clients and for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.aggregation import weighted_sum
from fedsolve.federation.calls import Call, Gather, Sum
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Preprocessing, Session, TransportKind, opened
from fedsolve.federation.transports import Transport
from fedsolve.inference import recalibration
from fedsolve.inference.evaluated import ClientEvaluation, Evaluated, Figures, HeldSums, explained, figures, with_area
from fedsolve.inference.evaluation import Evaluation, stacked
from fedsolve.inference.metrics import Floats, Kind, kind_of
from fedsolve.inference.score_bins import area, refined
from fedsolve.inference.sent_model import SentModel, check_classes, check_kind, send
from fedsolve.losses import Loss
from fedsolve.models.base import Model, Task
from fedsolve.typing import Array

T = TypeVar("T")

ALL = ""  # the name under which the figures of all clients stand; no client has it
NO_ROWS = "no client has held-out rows: set some aside before the run, clients = fs.data.hold_out(clients, 0.2)"


def judge(protocol: Evaluation, fed: Federation, w: Array | SentModel, by_client: bool = True) -> Evaluated:
    """Ask all clients of an open federation. Raises DataError if no client has rows to judge by."""
    with fed.setting_up():
        return Judging(protocol, fed, w, by_client).evaluated()


@dataclass
class Judging:
    """One evaluation: the exchanges, and what follows from them, for all clients and for each."""

    protocol: Evaluation
    fed: Federation
    w: Array | SentModel
    by_client: bool

    def evaluated(self) -> Evaluated:
        protocol, kind, cuts = self.protocol, self.protocol.kind, self.protocol.edges()
        total, each = self._ask(protocol.held_figures, w=self.w, edges=stacked(cuts))
        if not total.totals[0] > 0:
            raise DataError(NO_ROWS if protocol.rows == "held" else "no client has rows to judge by")
        found = {name: figures(kind, one, cuts, protocol.least) for name, one in ((ALL, total), *each.items())}
        if kind is not Kind.OTHER:
            self._go_on(found, total, each, cuts)
        pooled = found.pop(ALL)
        clients = {name: ClientEvaluation(**vars(one)) for name, one in found.items()}
        lost = tuple(name for name in self.fed.clients if name not in self.fed.info or name in dict(self.fed.missing))
        return Evaluated(**vars(pooled), error_name=protocol.error_name, clients=clients, missing=lost)

    def _go_on(
        self, found: dict[str, Figures], total: HeldSums, each: dict[str, HeldSums], cuts: tuple[Floats, ...]
    ) -> None:
        """The further exchanges: the deviance of the mean, bins where the AUC needs them, and recalibration."""
        protocol, kind = self.protocol, self.protocol.kind
        masses = total.masses
        mean = total.targets / total.totals[0]
        cuts = self._refined(masses, cuts)
        (null, _, masses), others = self._ask(protocol.held_spread, w=self.w, mean=mean, edges=stacked(cuts))
        found[ALL] = replace(found[ALL], d2=explained(kind, total, null))
        own = {name: one[2] for name, one in others.items()}
        for name, (_, own_null, _) in others.items():
            found[name] = replace(found[name], d2=explained(kind, each[name], own_null))
        if kind not in (Kind.BINARY, Kind.CLASSES):
            return
        for _ in range(protocol.exchanges - 2):
            finer = self._refined(masses, cuts)
            if all(len(one) == len(other) for one, other in zip(finer, cuts, strict=True)):
                break
            again, others_own = self._ask(protocol.held_bins, w=self.w, edges=stacked(finer))
            if self._bound(again, finer) >= self._bound(masses, cuts):
                break  # clients that join bins may join other ones, and gain nothing
            masses, own, cuts = again, others_own, finer
        for name, one in ((ALL, masses), *own.items()):
            if found[name].weight > 0:
                found[name] = with_area(found[name], kind, one, cuts, protocol.least)
        if kind is Kind.BINARY:
            self._recalibrate(found)

    def _refined(self, masses: Floats, cuts: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """Finer cut points for the classes whose AUC is not known well enough."""
        finer = []
        for one, edges in zip(masses, cuts, strict=True):
            enough = self._bound(one[None], (edges,)) <= self.protocol.auc_error
            finer.append(edges if enough else refined(one[: len(edges) + 1], edges, self.protocol.bins))
        return tuple(finer)

    def _bound(self, masses: Floats, cuts: tuple[Floats, ...]) -> float:
        """The largest bound on the AUC of a class; 0 where it has none."""
        pairs = zip(masses, cuts, strict=True)
        found = [area(one[: len(edges) + 1], edges, self.protocol.least <= 1) for one, edges in pairs]
        return max((one[1] for one in found if one is not None), default=0.0)

    def _recalibrate(self, found: dict[str, Figures]) -> None:
        protocol, pooled = self.protocol, found[ALL]
        lines: dict[str, tuple[float, float] | None] = {}
        if pooled.auc is not None and 0 < pooled.auc < 1:  # else the scores separate the classes
            lines[ALL] = recalibration.fitted(
                lambda a, b: self.fed.sum(protocol.held_recalibration, w=self.w, line=np.array([a, b])), pooled.weight
            )
        if self.by_client:  # gathered for the same reason as all else here
            lines |= self.fed.gather(protocol.own_recalibration, w=self.w)
        for name, line in lines.items():
            if line is not None:
                found[name] = replace(found[name], calibration_intercept=line[0], calibration_slope=line[1])

    def _ask(self, step: Callable[..., T], **arguments: Array | SentModel) -> tuple[T, dict[str, T]]:
        """What all clients say together, and, if it is wanted, each by itself."""
        call: Call[T]
        if not self.by_client:
            call = Sum(step, **arguments)
            return self.fed.exchange(call)[0], {}
        # Gathered: the question is at whose rows the model is good.
        each: dict[str, T] = self.fed.exchange(Gather(step, **arguments))[0]
        return weighted_sum(list(each.values()), None), each


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
        return judge(protocol, fed, payload(model, fed, protocol.loss), by_client)
    protocols = dict(collect("evaluation", protocol))
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
    with opened(clients, protocols, transport=transport, seed=seed, preprocess=preprocess) as fed:
        return judge(protocol, fed, payload(model, fed, protocol.loss), by_client)


def payload(model: Model | Array, fed: Federation, loss: Loss) -> Array | SentModel:
    """A model as the clients are sent it: as weights if they fit the clients' columns, else whole.

    A model with a preprocessing of its own is sent whole, and takes the columns as they were given: its weights mean
    nothing behind another preprocessing, which these clients may have agreed on.
    """
    if isinstance(model, Model):
        check_kind(model, kind_of(loss))
        has_weights = type(model).weights_for is not Model.weights_for
        if not has_weights or model.transform is not None:
            check_classes(model, fed.classes)
            return send(model)
        intercept = getattr(loss, "intercept", None) is not None
        features = getattr(loss, "features", None)
        preprocessed = "preprocess" in fed.protocols
        w = model.weights_for(
            Task(
                *(fed.feature_names, fed.classes, preprocessed, features, intercept),
                whole="this evaluation",
                role="the model to judge",
                instead="judge it as it was fitted, or give its weights alone, model.w, if you know that they fit",
            )
        )
    else:
        w = model
    w = np.asarray(w, dtype=np.float64)
    shape = loss.shape(fed.features, fed.outputs)
    if w.shape != shape:
        raise ConfigError(f"the model has weights of shape {w.shape}, this loss needs {shape}")
    return w
