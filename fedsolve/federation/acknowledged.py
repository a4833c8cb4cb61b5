"""Which reply of each client the server has used: what a request tells a client about its memory."""

from __future__ import annotations

from collections.abc import Mapping


class Acknowledged:
    """The number of the reply of each client that was used last. The dicts are replaced, never changed in place."""

    __slots__ = ("_before", "_durable", "_keep", "used")

    def __init__(self, used: Mapping[str, int]) -> None:
        self.used: Mapping[str, int] = used
        self._before = self._keep = used
        self._durable = False

    @property
    def keep(self) -> Mapping[str, int]:
        """The replies that the server would go back to: those of its last checkpoint, if it makes any."""
        return self._keep if self._durable else self.used

    def advance(self, answered: tuple[str, ...], number: int, everyone: bool) -> None:
        """The replies of these clients to the exchange of this number have been used."""
        latest = dict.fromkeys(answered, number)
        self._before, self.used = self.used, latest if everyone else {**self.used, **latest}

    def take_back(self) -> None:
        """As if the replies to the last exchange had been lost."""
        self.used = self._before

    def checkpointed(self) -> None:
        """What has been used so far is on the server's disk: clients need not go back behind it."""
        self._keep, self._durable = self.used, True
