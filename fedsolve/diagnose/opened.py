"""A federation to ask in: one that is open already, or one opened for this question alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from fedsolve.errors import DataError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Session, TransportKind
from fedsolve.federation.session import opened as open_federation
from fedsolve.federation.transports import Transport
from fedsolve.loop.preflight import check_needs, check_resources
from fedsolve.losses import LinearLoss

Clients = Sequence[Client] | Transport | Federation | Session


class Diagnosis(Protocol):
    """A protocol that asks about a loss."""

    @property
    def loss(self) -> LinearLoss:
        """The loss it asks about."""
        ...


@contextmanager
def opened(
    name: str, protocol: Diagnosis, clients: Clients, transport: TransportKind, seed: int
) -> Iterator[Federation]:
    """A federation in which every client answers: raises QuorumNotReached if one does not.

    In a federation or session that is already open the protocol must be one of its own, and what is asked counts as
    setting up.
    """
    check_needs(protocol, protocol.loss)
    with asked_in(name, protocol, clients, transport, seed) as fed:
        check_resources(protocol, protocol.loss, fed, f"diagnosis ({name})")
        yield fed


@contextmanager
def asked_in(
    name: str, protocol: object, clients: Clients, transport: TransportKind, seed: int
) -> Iterator[Federation]:
    """`opened` for a protocol that asks about the inputs alone and has no loss."""
    if isinstance(clients, Federation | Session):
        fed = clients.fed if isinstance(clients, Session) else clients
        with fed.setting_up():
            yield fed
        return
    with open_federation(clients, dict(collect(name, protocol)), transport=transport, seed=seed) as fed:
        _check_columns(fed)
        yield fed


def _check_columns(fed: Federation) -> None:
    """Raise if a client's columns need preprocessing, which a diagnosis does not do."""
    for name, info in fed.info.items():
        if info.features is None:
            raise DataError(
                f"client {name!r} has text columns or missing values, and a diagnosis in Python does not preprocess: "
                "encode and impute them first, use `fedsolve diagnose` with a run file, or ask in a Session after a run"
            )


def since(fed: Federation, before: int) -> Ledger:
    """What was sent since the ledger had so many records."""
    return Ledger(fed.ledger.records[before:])
