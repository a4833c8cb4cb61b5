"""Which reply of each client the server has used: what a request tells a client about its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Acknowledged:
    """The number of the reply of each client that was used last. The dicts are replaced, never changed in place."""

    __slots__ = ("_alike", "_before", "_durable", "_keep", "used")

    def __init__(self, used: Mapping[str, int]) -> None:
        self.used: Mapping[str, int] = used
        self._before = self._keep = used
        self._durable = False
        self._alike: tuple[Mapping[str, int], int] | None = None  # a dict that has one number for all clients

    @property
    def keep(self) -> Mapping[str, int]:
        """The replies that the server would go back to: those of its last checkpoint, if it makes any."""
        return self._keep if self._durable else self.used

    def states(self, asked: tuple[str, ...]) -> Sequence[tuple[int, int]]:
        """Of each client the reply that was used last, and the one that the server would go back to. One for all of
        them, if all are in the same state."""
        used, keep = self.used, self.keep
        if keep is used and self._alike is not None and self._alike[0] is used:  # as a rule
            number = self._alike[1]
            return ((number, number),)
        states = [*zip(map(used.__getitem__, asked), map(keep.__getitem__, asked), strict=True)]
        return states[:1] if len(set(states)) == 1 else states

    def advance(self, answered: tuple[str, ...], number: int, everyone: bool) -> None:
        """The replies of these clients to the exchange of this number have been used."""
        latest = dict.fromkeys(answered, number)
        if everyone:
            self._before, self.used, self._alike = self.used, latest, (latest, number)
        else:
            self._before, self.used = self.used, {**self.used, **latest}

    def take_back(self) -> None:
        """As if the replies to the last exchange had been lost."""
        self.used = self._before

    def checkpointed(self) -> None:
        """What has been used so far is on the server's disk: clients need not go back behind it."""
        self._keep, self._durable = self.used, True
