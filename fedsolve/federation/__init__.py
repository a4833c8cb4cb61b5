"""Clients, protocols, the server's door to the clients, and the exchange of messages between them."""

from fedsolve.federation import transports
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation

__all__ = ["Client", "Federation", "client_step", "transports"]
