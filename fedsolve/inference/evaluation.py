"""How good a model is on the clients' held-out rows, from sums over these rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Preprocessing, Session, TransportKind, opened
from fedsolve.federation.transports import Transport
from fedsolve.losses import LinearLoss, Loss
from fedsolve.models.base import Model, Task
from fedsolve.typing import Array

Sums = tuple[int, float, float, float, float]


@dataclass(frozen=True)
class ClientEvaluation:
    """One client's held-out rows.

    Attributes:
        samples: How many there are.
        weight: The sum of their sample weights.
        value: The mean loss, without penalties; None where there are no rows.
        error: The mean error, `Evaluated.error_name`; None where the loss has none.
        accuracy: The share of rows whose class is predicted; None unless the loss is of classes.
    """

    samples: int
    weight: float
    value: float | None
    error: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Evaluated(ClientEvaluation):
    """All clients' held-out rows together, and each client's.

    Attributes:
        error_name: What `error` is: "mean squared error", "log-loss", "mean deviance" or "loss".
        clients: The same by client; empty where only sums were asked for.
    """

    error_name: str
    clients: dict[str, ClientEvaluation]


@dataclass(frozen=True)
class Evaluation:
    """The protocol that judges weights by held-out rows. Give it to a `Session` to evaluate after a run.

    Args:
        loss: The loss to judge by, as a rule that of the algorithm.
    """

    loss: Loss

    # ── clients ──

    @client_step
    def held_sums(self, client: Client, w: Array) -> tuple[int, float, float, float, float]:
        """Rows, weight, and the weighted sums of loss, error and hits; zeros at a client without held-out rows."""
        held, loss = client.held, self.loss
        loss.check_weights(client, w=w)
        if held is None:
            return 0, 0.0, 0.0, 0.0, 0.0
        loss.check(held)
        value = (loss.value(held, w) - loss.penalty(w)) * held.weight
        error, hits = 0.0, 0.0
        if isinstance(loss, LinearLoss):
            eta, y, xp = loss.predictor(held, w), loss.targets(held), held.xp
            error = self._sum(held, loss.error(xp, eta, y))
            found = loss.hits(xp, eta, y)
            hits = 0.0 if found is None else self._sum(held, found)
        for what, amount in held.counts.items():  # its work is the client's
            client.count(what, amount)
        held.counts = {}
        return held.n_samples, held.weight, value, error, hits

    @staticmethod
    def _sum(held: Client, each: Array) -> float:
        return float(held.xp.sum(each if held.sample_weight is None else held.sample_weight * each))

    # ── server ──

    def judge(self, fed: Federation, w: Array, by_client: bool = True) -> Evaluated:
        """Ask all clients of an open federation. Raises DataError if no client has held-out rows."""
        with fed.setting_up():
            if by_client:
                # Gathered: the question is at whose rows the model is good. Five numbers of each client.
                each: dict[str, Sums] = fed.gather(self.held_sums, w=w)
                total = self.total(list(each.values()))
            else:
                each, total = {}, fed.sum(self.held_sums, w=w)
        if not total[1] > 0:
            raise DataError(
                "no client has held-out rows: set some aside before the run, clients = fs.data.hold_out(clients, 0.2)"
            )
        clients = {name: ClientEvaluation(*self._means(sums)) for name, sums in each.items()}
        return Evaluated(*self._means(total), self._error_name, clients)

    @staticmethod
    def total(each: Sequence[Sums]) -> Sums:
        """The sum of what several clients said."""
        samples, *sums = (sum(column) for column in zip(*each, strict=True))
        return int(samples), *map(float, sums)  # type: ignore[return-value]

    @property
    def _error_name(self) -> str:
        return self.loss.error_name if isinstance(self.loss, LinearLoss) else "loss"

    def _means(self, sums: Sums) -> tuple[int, float, float | None, float | None, float | None]:
        samples, weight, value, error, hits = sums
        if not weight > 0:
            return samples, weight, None, None, None
        linear = self.loss if isinstance(self.loss, LinearLoss) else None
        mean_error = None if linear is None else error / weight
        accuracy = hits / weight if linear is not None and linear.classifies else None
        return samples, weight, value / weight, mean_error, accuracy


def evaluate(
    model: Model | Array,
    clients: Sequence[Client] | Transport | Session | Federation,
    loss: Loss,
    *,
    by_client: bool = True,
    preprocess: Preprocessing | None = None,
    transport: TransportKind = "in_process",
    seed: int = 0,
) -> Evaluated:
    """How good a model is on the clients' held-out rows (`fs.data.hold_out`).

    Args:
        model: A model whose weights are matched by the names of its columns, or an array of weights.
        clients: Clients or a transport, for which a federation is opened; or a session or federation that is open and
            has `Evaluation(loss)` among its protocols, so that what was agreed for a run holds here too.
        loss: What to judge by.
        by_client: Ask for each client's figures. False asks for sums over all clients only.
        preprocess: The preprocessing to agree on first, where the clients are not open yet.
        transport, seed: As in `fs.run`, where the clients are not open yet.

    Returns:
        Mean loss and error over all held-out rows, and by client.
    """
    protocol = Evaluation(loss)
    if isinstance(clients, Session | Federation):
        fed = clients.fed if isinstance(clients, Session) else clients
        return protocol.judge(fed, _weights(model, fed, loss), by_client)
    protocols = dict(collect("evaluation", protocol))
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
    with opened(clients, protocols, transport=transport, seed=seed, preprocess=preprocess) as fed:
        return protocol.judge(fed, _weights(model, fed, loss), by_client)


def _weights(model: Model | Array, fed: Federation, loss: Loss) -> Array:
    w = model
    if isinstance(model, Model):
        preprocessed = "preprocess" in fed.protocols
        intercept = getattr(loss, "intercept", None) is not None
        features = getattr(loss, "features", None)
        w = model.weights_for(Task(fed.feature_names, fed.classes, preprocessed, features, intercept))
    w = np.asarray(w, dtype=np.float64)
    shape = loss.shape(fed.features, fed.outputs)
    if w.shape != shape:
        raise ConfigError(f"the model has weights of shape {w.shape}, this loss needs {shape}")
    return w
