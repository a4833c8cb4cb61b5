"""A federation to ask in: one that is open already, or one opened for this question alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.protocol import collect
from fedsolve.federation.transports import Transport
from fedsolve.loop.preflight import as_transport, check_needs, check_resources, checked_seed

Clients = Sequence[Client] | Transport | Federation


@contextmanager
def opened(name: str, protocol: Any, clients: Clients, transport: str | type[Any], seed: int) -> Iterator[Federation]:
    """Everyone answers everything, or the diagnosis fails: half of it would be one of other clients.

    In a federation that is already open the protocol must be one of its own, and what is asked counts as setting up.
    """
    check_needs(protocol, protocol.loss)
    if isinstance(clients, Federation):
        check_resources(protocol, protocol.loss, clients, f"diagnosis ({name})")
        with clients.setting_up():
            yield clients
        return
    protocols = dict(collect(name, protocol))
    road = as_transport(clients, transport)
    road.open(protocols)
    try:
        fed = Federation(road, protocols, seed=checked_seed(seed))
        fed.join()
        check_resources(protocol, protocol.loss, fed, f"diagnosis ({name})")
        fed.begin_round(0)
        yield fed
    finally:
        road.close()


def since(fed: Federation, before: int) -> Ledger:
    """What was sent since the ledger had so many records."""
    return Ledger(fed.ledger.records[before:])
