"""Federated oracle complexity: what a run costs in one number, from its ledger.

Federated Optimization of Smooth Loss Functions
    Ali Jadbabaie, Anuran Makur, and Devavrat Shah. 2023. https://arxiv.org/abs/2201.01954

Γ = Σ_t b_t + [clients communicate in epoch t] φτm (Definition 1). An epoch is an exchange: b_t is what the busiest of
its clients computed, τm how many were asked. What the server computes on data of its own is an epoch without
communication. Docs: decisions/043-oracle-complexity.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedsolve.complexity.epoch_times import computation_time
from fedsolve.complexity.worth import PER_SAMPLE, Sizes, Worth, is_ambiguous, largest, needed_rows
from fedsolve.errors import ConfigError
from fedsolve.federation.ledger import ExchangeRecord, Ledger
from fedsolve.federation.server_data import counted_at_server
from fedsolve.local.gradient_steps import Steps
from fedsolve.loop.history import Run
from fedsolve.loop.states import weights_of
from fedsolve.numerics.scalars import at_least_zero, whole
from fedsolve.typing import Array

Sending = Literal["epochs", "vectors"]


@dataclass(frozen=True, eq=False)
class OracleComplexity:
    """What a run cost: Γ, its parts, and both after each round.

    `total` is Γ, the sum of `gradients` and `communication`; `curve[k]` is Γ after round k; `at(phi)` is the run at
    another φ.

    Attributes:
        phi: φ, what sending a vector costs, in gradients.
        rounds: 0 for the start, then 1, 2, … as in the run's history. The arrays below have an entry for each. A run
            that stops by a gradient of its next round has that round too, as far as it came: `after(run.rounds)` is Γ
            without it.
        computed: What was computed until then, in gradients of one sample: in each exchange by the busiest client, and
            by the server.
        sent: How often a client has been asked to send something until then, Σ τm (or vectors it sent). Γ counts each
            φ times.
        exchanges: The epochs in which clients communicated, until then.
        busy: The expected time of computing until then (equation 21): Σ 2b + log(τm) at clients, Σ 2b at the server.
        uncounted: Names of computations in the ledger that `Worth` does not know. They count as nothing.
        estimated: True if the ledger, which adds up what all clients computed, does not show what the busiest did: the
            rows of the clients are not known (then all count as equal; one that is lost since the run was resumed, as
            the mean of the others), clients took different numbers of steps or not all of them computed a Hessian, or a
            ledger without its run has an amount that may be passes over all rows as well as steps.
    """

    phi: float
    rounds: Array
    computed: Array
    sent: Array
    exchanges: Array
    busy: Array
    uncounted: tuple[str, ...] = ()
    estimated: bool = False

    @property
    def curve(self) -> Array:
        """Γ after each round."""
        return self.computed + self.phi * self.sent

    @property
    def times(self) -> Array:
        """The expected time after each round (equation 25), with what Definition 1 leaves out."""
        return self.busy + self.phi * self.sent

    @property
    def gradients(self) -> float:
        """What was computed, Σ b_t."""
        return float(self.computed[-1])

    @property
    def communication(self) -> float:
        """What was communicated, φ Σ τm."""
        return float(self.phi * self.sent[-1])

    @property
    def total(self) -> float:
        """Γ of the whole run."""
        return self.gradients + self.communication

    @property
    def epochs(self) -> int:
        """In how many epochs clients communicated."""
        return int(self.exchanges[-1])

    @property
    def time(self) -> float:
        """The expected time of the whole run (equation 25)."""
        return float(self.times[-1])

    def after(self, round: int) -> float:
        """Γ after a round; 0 is the start. Raises ConfigError for a round that was not run."""
        return float(self.curve[whole("round", round, 0, len(self.rounds))])

    def at(self, phi: float) -> OracleComplexity:
        """The same run where sending a vector costs as much as `phi` gradients."""
        return replace(self, phi=at_least_zero("phi", phi))


def oracle_complexity(
    run: Run | Ledger,
    phi: float = 10.0,
    *,
    worth: Worth | None = None,
    sending: Sending = "epochs",
    samples: Mapping[str, int] | None = None,
    server_samples: int | None = None,
    parameters: int | None = None,
) -> OracleComplexity:
    """The federated oracle complexity Γ of a run, by round (Jadbabaie et al., Definition 1).

    What a run asked only to measure or to set itself up does not count. With unequal clients an exchange costs as much
    as its busiest client. A client that was asked counts once, whether or not it answered, and however often the
    request was repeated.

        run = fs.run(fs.FedLRGD.literal(loss, 37, rank=7), clients, server=own)
        fs.oracle_complexity(run, phi=10).total

    Args:
        run: A run, or its ledger.
        phi: φ, the time to send a vector of p numbers over the time to compute the gradient of a sample.
        worth: What Hessians, losses and others are worth in gradients; default `fs.complexity.Worth()`.
        sending: "epochs" (Definition 1): a message costs φ, whatever is in it. "vectors": φ for every p numbers in it,
            and at least φ. Compare methods that send matrices by "vectors".
        samples: How many rows each client has. Default: as the run knows. A ledger, or a run that was pickled, does not
            know; clients then count as equal.
        server_samples: How many rows the server has. Default: as the run knows. Needed where it computed Hessians.
        parameters: p. Default: as the run knows. Needed for "vectors", and where Hessians were computed.

    Returns:
        Γ after each round, and its parts.

    Raises:
        ConfigError: An argument makes no sense, or sizes are needed and not known.
    """
    if not isinstance(run, Run | Ledger):
        raise ConfigError(f"oracle_complexity needs a run or its ledger, got a {type(run).__name__}")
    if sending not in ("epochs", "vectors"):
        raise ConfigError(f"sending is 'epochs' or 'vectors', got {sending!r}")
    phi = at_least_zero("phi", phi)
    ledger, last = (run.ledger, run.rounds) if isinstance(run, Run) else (run, 0)
    sizes = _sizes_of(run).given(samples, server_samples, parameters)
    counting = _Counting(worth or Worth(), sizes, sending, isinstance(run, Ledger))
    epochs = [*counting.exchanges(ledger), *counting.at_server(ledger)]
    last = max([last, *(one.round for one in epochs)])
    table = np.zeros((4, last + 1))
    for one in epochs:
        table[:, one.round] += (one.gradients, one.sent, one.is_exchange, one.busy)
    computed, sent, exchanges, busy = np.cumsum(table, axis=1)
    return OracleComplexity(
        phi,
        np.arange(last + 1),
        computed,
        sent,
        exchanges.astype(int),
        busy,
        tuple(sorted(counting.unknown)),
        counting.estimated,
    )


@dataclass(frozen=True)
class _Epoch:
    round: int
    gradients: float
    sent: float = 0.0
    active: int | None = None  # None: the server's

    @property
    def is_exchange(self) -> bool:
        return self.active is not None

    @property
    def busy(self) -> float:
        """Equation (21): of an epoch of type A, or of the server's, type B. In one of type C nothing is computed."""
        return computation_time(self.gradients, self.active) if self.gradients else 0.0


class _Counting:
    """Makes epochs of a ledger."""

    def __init__(self, worth: Worth, sizes: Sizes, sending: Sending, is_alone: bool) -> None:
        self._worth, self._sizes = worth, sizes
        self._is_alone = is_alone  # a ledger, of an algorithm that is not known
        self._vector = sizes.needed_weights() if sending == "vectors" else None
        self.unknown: set[str] = set()
        self.estimated = sizes.guessed

    def exchanges(self, ledger: Ledger) -> Iterator[_Epoch]:
        """Those that carried something for the algorithm."""
        for record in ledger.records:
            places = [place for place, purpose in enumerate(record.purposes) if purpose == "algorithm"]
            if not places:
                continue
            rows = self._sizes.of(record.answered)
            work = sum(self._work(record.counts[place], len(record.answered), rows) for place in places)
            yield _Epoch(record.round, work, self._sent(record, places), len(record.asked))

    def at_server(self, ledger: Ledger) -> Iterator[_Epoch]:
        """What the server computed in each round."""
        for round, counts in ledger.server_counts:
            own = counted_at_server([(round, counts)])
            rows = None if self._sizes.server is None else [self._sizes.server]
            yield _Epoch(round, self._work(own, 1, rows))

    def _work(self, counts: Mapping[str, int], answered: int, rows: list[int] | None) -> float:
        """What the busiest of those who answered computed for a call, in gradients."""
        total = 0.0
        alone = max(0, counts.get("losses", 0) - counts.get("gradients", 0))  # others came with a gradient
        for what, amount in {**counts, "losses": alone}.items():
            worth = self._worth.of(what)
            if worth is None:
                self.unknown.add(what)
            elif what == "hessians" and worth and amount:  # the ledger counts matrices, each of all rows of a client
                rows_each, per_row = needed_rows(rows), self._sizes.needed_columns() if math.isnan(worth) else worth
                total += per_row * rows_each * self._largest(amount, answered, [1] * answered)
            elif what != "hessians" and worth and amount:
                same = what not in PER_SAMPLE
                total += worth * self._largest(amount, answered, [1] * answered if same else rows)
        return total

    def _largest(self, amount: int, answered: int, rows: list[int] | None) -> float:
        found = largest(amount, answered, rows, self._sizes.batches)
        self.estimated |= (rows is None and answered > 1) or not found.is_integer()
        self.estimated |= self._is_alone and is_ambiguous(amount, rows)
        return found

    def _sent(self, record: ExchangeRecord, places: list[int]) -> float:
        """How many were asked; or how many vectors came back, at least one from each."""
        asked = len(record.asked)
        if self._vector is None:
            return float(asked)
        numbers = record.scalars_up[[place + 1 for place in places]].sum(axis=0)
        return float(np.maximum(numbers / self._vector, 1.0).sum()) + asked - len(record.answered)


def _sizes_of(run: Run | Ledger) -> Sizes:
    """What a run knows of its clients' rows and of its weights; nothing, of a ledger."""
    if not isinstance(run, Run):
        return Sizes()
    w = weights_of(run.state)
    if w is None:
        w = getattr(run.model, "w", None)
    shape: tuple[int, ...] = () if w is None else np.shape(w)
    weights = None if w is None else math.prod(shape)
    shared = len(shape) == 2 and getattr(getattr(run.algorithm, "loss", None), "separable", False)
    columns = shape[0] if shared else weights  # outputs of a separable loss share one Hessian
    local = getattr(run.algorithm, "local", None)
    batches = None
    if isinstance(local, Steps) and local.batch_size is not None and local.epochs is None:
        batches = (local.steps, local.batch_size)
    if run.session is None:
        return Sizes(None, None, weights, columns, batches=batches)
    fed = run.session.fed
    clients = {name: info.samples for name, info in fed.info.items()}
    lost = {name for record in run.ledger.records for name in record.answered} - set(clients)
    if lost:  # before the run was resumed: they count as the mean of the others
        clients |= dict.fromkeys(lost, round(np.mean(list(clients.values()))))
    server = fed.server.n_samples if run.ledger.server_counts else None
    return Sizes(clients, server, weights, columns, bool(lost), batches)
