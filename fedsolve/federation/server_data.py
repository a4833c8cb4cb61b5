"""Data of the server's own: steps run on it as on a client's, without a message.

Nothing of it is known to the clients. What is computed is counted, and checked against the step's annotations.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedsolve.errors import DataError, WrongType
from fedsolve.federation.calls import Call, for_client
from fedsolve.federation.client import Client
from fedsolve.federation.memory import Memory, scope_of
from fedsolve.federation.served_steps import check_arguments
from fedsolve.typing import Value
from fedsolve.wire.messages import Counts, Purpose

ALGORITHM: Purpose = "algorithm"
_OWN = 2**32  # calls at the server are numbered from here, apart from those of an exchange, so chance is its own


def with_counts(so_far: Counts, more: Counts, purpose: Purpose) -> dict[str, int]:
    """Counts with those of one more step. What is computed only to measure or to set up a run is kept apart, under
    names such as "gradients (measure)"."""
    total = dict(so_far)
    for what, amount in more.items():
        name = what if purpose == ALGORITHM else f"{what} ({purpose})"
        total[name] = total.get(name, 0) + amount
    return total


def counted_at_server(rounds: Iterable[tuple[int, Counts]], purpose: Purpose = ALGORITHM) -> dict[str, int]:
    """What the server has computed on data of its own for one purpose, from `ledger.server_counts`."""
    total: dict[str, int] = {}
    for _, counts in rounds:
        for name, amount in counts.items():
            what, _, rest = name.partition(" (")
            if (rest.removesuffix(")") or ALGORITHM) == purpose:
                total[what] = total.get(what, 0) + amount
    return total


class OwnData:
    """Runs steps at the server."""

    def __init__(self, client: Client | None, clients: tuple[str, ...]) -> None:
        if client is not None and client.name in clients:
            raise DataError(f"the server's data and a client are both named {client.name!r}; names must differ")
        self._client = client
        self._moment = (0, 0, 0)
        self._calls = 0
        self._before: dict[str, Value] = {}

    @property
    def client(self) -> Client:
        """The data. Raises DataError if there is none."""
        if self._client is None:
            raise DataError(
                "this algorithm computes with data of the server's own: give it, run(…, server=Client(…)), or a "
                "[server] table in a run file"
            )
        return self._client

    def enter(self, seed: int, round: int, exchange: int) -> None:
        """A new moment: chance is seeded like a client's, counts add up."""
        if self._client is None:
            return
        moment = (seed, round, exchange)
        if moment != self._moment:  # an exchange that only measures or sets up is no new moment: chance goes on
            self._moment, self._calls = moment, 0
        self._begin(self._client, "")

    def remember(self) -> None:
        """What is remembered now is what `take_back` goes back to."""
        if self._client is not None:
            self._before = dict(self._client.memory.data)

    def take_back(self) -> None:
        """Forget what was remembered since `remember`."""
        if self._client is not None:
            self._client.memory = Memory(self._before, self._client.memory.types)
            self._begin(self._client, "")

    def _begin(self, client: Client, scope: str) -> None:
        counts = client.counts
        client.enter(client.memory, (*self._moment, _OWN + self._calls), scope)
        client.counts = counts

    def run(self, call: Call[object], protocol: str) -> Value:
        """What a step says of the server's data. `protocol` is the name of the call's protocol."""
        client, where = self.client, f"{protocol}.{call.name}"
        given = for_client(call.arguments, client.name)
        check_arguments(where, call.signature.arguments, given)
        self._begin(client, scope_of(protocol))
        self._calls += 1
        if not client.is_numpy:
            given = {name: client.localise(value) for name, value in given.items()}
        so_far, client.counts = client.counts, {}
        value = client.globalise(call.function(call.protocol, client, **given))
        client.counts = with_counts(so_far, client.counts, getattr(call.protocol, "purpose", "algorithm"))
        if not call.signature.returns(value):
            raise WrongType(
                f"at the server, {where} answered with a {type(value).__name__}, which is not the "
                f"{call.signature.returns_hint} it declares"
            )
        self._begin(client, "")
        return value
