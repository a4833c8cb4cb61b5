"""All clients in this process: nothing is encoded, nothing copied; sizes are still those of the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

from fedsolve.errors import DataError
from fedsolve.federation.asked_alike import AskedAlike
from fedsolve.federation.client import Client
from fedsolve.federation.client_runtime import Ahead, Runtime
from fedsolve.federation.served_steps import Served
from fedsolve.federation.together import Together
from fedsolve.federation.transports.base import Versions
from fedsolve.wire.messages import Failure, Reply, Request

LARGE = 2**16  # bytes of replies that it pays to sum while they are in the cache
TOGETHER = 64  # clients whose answers are worked on side by side


class InProcess:
    """The default. `threads` sets how many BLAS may use; None leaves that as it is.

    Every run computes anew what clients keep between rounds, so that its accounts are its own; `keep_caches=True` lets
    several runs on the same clients share it (Gram matrices, factors).

    `together=True` runs steps that are marked for it (`@client_step(together=True)`: the local updates of `FedAvg`,
    `FedProx`, `FedDyn`, `Scaffold` and the distilling algorithms, and the measuring of a run) for many small clients in
    one call, which is several times faster: `fs.run(algorithm, InProcess(clients, together=True))`. It takes torch
    clients, and any client of a `Network` loss. The ledger stays the same, and replies, and what clients remember,
    equal those of one call each up to rounding, 1e-9 of the largest entry. It is off by default, because without it a
    run gives the same bits by every transport. After a run, `one_by_one` says what could not be run together, and why.
    """

    in_turn = True  # answers come in the order of the requests, and none comes late

    def __init__(
        self,
        clients: Sequence[Client],
        threads: int | None = None,
        *,
        keep_caches: bool = False,
        together: bool = False,
    ) -> None:
        self.keep_caches, self.together = keep_caches, together
        self.clients = {client.name: client for client in checked_names(clients)}
        self.threads = threads
        self._runtimes: dict[str, Runtime] = {}
        self._limits: Any = nullcontext()
        self._served: Served | None = None
        self._together: Together | None = None
        self._backwards = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.clients)

    def open(self, protocols: Mapping[str, object]) -> None:
        self.close()
        if self.threads is not None:
            self._limits = threadpool_limits(self.threads)
        self._served = Served(protocols, remember=False)
        if not self.keep_caches:
            for client in self.clients.values():
                client.forget()
        self._runtimes = {name: Runtime(client, self._served) for name, client in self.clients.items()}
        self._together = Together(self._runtimes) if self.together else None

    @property
    def one_by_one(self) -> dict[str, str]:
        """With `together=True`: the marked steps and the clients that ran by themselves in this run, and why."""
        return {} if self._together is None else self._together.one_by_one

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        self._backwards = not self._backwards
        ahead = None if self._together is None else self._together.ahead(requests)
        asked = list(requests.items())
        return self._both_ways(asked, ahead) if self._backwards else self._answers(asked, ahead)

    def _both_ways(
        self, asked: list[tuple[str, Request]], ahead: Mapping[str, Ahead] | None
    ) -> Iterator[tuple[str, Reply | Failure]]:
        """Every other exchange starts with the last client: the data visited last is still in the processor's cache.
        But large replies are not held for all: the first one that comes ends this."""
        early: list[tuple[str, Reply | Failure]] = []
        for name, answer in self._answers(asked[::-1], ahead):
            early.append((name, answer))
            large = _size(answer) > LARGE
            del answer  # or it would be alive while the next one is computed
            if large:
                break
        early.reverse()
        yield from self._answers(asked[: len(asked) - len(early)], ahead)
        yield from early

    def _answers(
        self, asked: list[tuple[str, Request]], ahead: Mapping[str, Ahead] | None
    ) -> Iterator[tuple[str, Reply | Failure]]:
        """The answers of some clients in turn; of some, the first results are there already.

        Several clients are worked on side by side: between the parts of an answer lie passes over the clients' data,
        which drive everything else out of the processor's cache. But large replies are given out at once, so that they
        are summed while they are in the cache, and the next one uses the same memory.
        """
        place, several, same = 0, TOGETHER, None
        while place < len(asked):
            name, request = asked[place]
            alike: list[Reply | Failure] = []
            if ahead is None:
                together = self._asked_alike(asked[place : place + several], request)
                if same is None or same.request is not request:
                    same = AskedAlike(request)
                alike = same.answers(together, LARGE)
                if len(alike) < len(together):
                    several = max(1, len(alike))  # so many fill the cache; no more are prepared in vain
            if not alike:
                alike.append(self._runtimes[name].answer(request, None if ahead is None else ahead.get(name)))
            alike.reverse()
            while alike:
                yield asked[place][0], alike.pop()
                place += 1

    def _asked_alike(self, asked: list[tuple[str, Request]], request: Request) -> list[Runtime]:
        """The first of these clients, as long as this is their request."""
        runtimes: list[Runtime] = []
        for name, given in asked:
            if given is not request:
                break
            runtimes.append(self._runtimes[name])
        return runtimes

    @property
    def remember_replies(self) -> bool:
        """Whether clients keep their last reply for the case that it is asked for again."""
        return self._served is not None and self._served.remember

    @remember_replies.setter
    def remember_replies(self, wanted: bool) -> None:
        if self._served is not None:
            self._served.remember = wanted

    def memories(self) -> dict[str, Versions] | None:
        return {name: runtime.snapshot() for name, runtime in self._runtimes.items()}

    def restore(self, memories: Mapping[str, Versions], attempt: int) -> None:
        for name, runtime in self._runtimes.items():
            runtime.restore(attempt, memories[name])

    def close(self) -> None:
        if hasattr(self._limits, "restore_original_limits"):
            self._limits.restore_original_limits()
        self._limits = nullcontext()


def _size(answer: Reply | Failure) -> int:
    if type(answer) is Reply:
        results = answer.results
        return results[0].size if len(results) == 1 else sum([part.size for part in results])
    return 0


def checked_names(clients: Sequence[Client]) -> Sequence[Client]:
    """Raise DataError for an empty federation or two clients of one name."""
    if not clients:
        raise DataError("a federation needs at least one client, got none")
    seen: set[str] = set()
    for client in clients:
        if not isinstance(client, Client):
            raise DataError(f"expected Client objects, got {type(client).__name__}; fedsolve.data.partition makes them")
        if client.name in seen:
            raise DataError(f"two clients are named {client.name!r}; names must differ")
        seen.add(client.name)
    return clients
