"""Several guards as one: each is asked, and any of them may refuse."""

from __future__ import annotations

from collections.abc import Mapping

from fedsolve.federation.client import Client
from fedsolve.federation.client_owner import Guard
from fedsolve.typing import Value
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Route


class Guards:
    """Asks one guard after the other."""

    def __init__(self, *guards: Guard) -> None:
        self.guards = guards

    def before(self, route: Route, protocol: object, arguments: Mapping[str, Value], client: Client) -> None:
        """Raises what the first guard raises that does not allow a call."""
        for one in self.guards:
            one.before(route, protocol, arguments, client)

    def after(self, route: Route, protocol: object, reply: Part, client: Client) -> None:
        """Raises what the first guard raises that does not let a reply leave."""
        for one in self.guards:
            one.after(route, protocol, reply, client)
