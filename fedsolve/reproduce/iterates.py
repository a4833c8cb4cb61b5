"""Yields the iterates of an algorithm, for experiments that compare each one with a known solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from fedsolve.algorithms.base import Algorithm, Finished
from fedsolve.federation.client import Client
from fedsolve.federation.ledger import Ledger, Total
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import opened
from fedsolve.federation.transports import InProcess
from fedsolve.typing import Array, Value


@dataclass(frozen=True)
class Iterate:
    """The state after `round` rounds, and the totals sent so far."""

    round: int
    state: Value
    sent: Total

    @property
    def bytes(self) -> int:
        return self.sent.bytes_up + self.sent.bytes_down


def iterates(
    algorithm: Algorithm,
    clients: Sequence[Client],
    seed: int = 0,
    *,
    warm_start: Array | None = None,
    keep_caches: bool = False,
) -> Iterator[Iterate]:
    """Yield the start and then every round, until the algorithm finishes or the caller stops.

    All clients take part, and nothing is measured. `keep_caches` lets methods on the same clients share Gram matrices
    and factors.
    """
    protocols = dict(collect("algorithm", algorithm))
    with opened(InProcess(clients, keep_caches=keep_caches), protocols, seed=seed) as fed:
        fed.warm_start = warm_start
        outcome: Value = None
        sent, counted = Total(), 0
        for round in count():
            fed.begin_round(round)
            outcome = algorithm.start(fed) if round == 0 else algorithm.round(fed, outcome)
            done = isinstance(outcome, Finished)
            sent, counted = sent + Ledger(fed.ledger.records[counted:]).total(), len(fed.ledger.records)
            yield Iterate(round, outcome.state if done else outcome, sent)
            if done:
                return
