"""The server's end of a run between organisations: a transport over any carrier.

Sites keep their own memories, on their own disks; the checkpoint of such a run holds the server's state alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fedsolve.errors import WireError
from fedsolve.federation.joining import Joining
from fedsolve.federation.protocol import types_of
from fedsolve.federation.transports.base import Versions
from fedsolve.sites.carrier import Carrier
from fedsolve.sites.terms import Terms
from fedsolve.wire.encoding import FAILURE
from fedsolve.wire.messages import Failure, Reply, Request, decode_answer


class SiteTransport:
    """Carries the requests of a run to sites: `fs.run(algorithm, SiteTransport(carrier, Terms(run_id)), …)`.

    Args:
        carrier: What reaches the sites.
        terms: What the run is called, and which rows it sets aside. Its protocols are those that the run has.
    """

    def __init__(self, carrier: Carrier, terms: Terms) -> None:
        self.carrier, self.terms = carrier, terms
        self._types: frozenset[type] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return self.carrier.names

    @property
    def absences(self) -> Mapping[str, str]:
        """Why sites are missing from the last exchange."""
        return self.carrier.absences

    def open(self, protocols: Mapping[str, object]) -> None:
        asked = self.terms.asking(protocols)
        self._types = types_of({**protocols, "session": Joining()})
        self.carrier.begin(asked.to_json())

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of these sites that could be asked now."""
        return self.carrier.reachable(names)

    def deliver(self, requests: Mapping[str, Request], deadline: float | None) -> Iterator[tuple[str, Reply | Failure]]:
        encoded: dict[int, bytes] = {}
        asked: dict[str, bytes] = {}
        for name, request in requests.items():  # clients that are asked alike have one request
            asked[name] = encoded.setdefault(id(request), request.encode())
        for name, data in self.carrier.ask(asked, deadline):
            if name in requests:
                answer = self._decoded(requests[name], data)
                if _answers(answer, requests[name]):
                    yield name, answer

    def _decoded(self, request: Request, data: bytes) -> Reply | Failure:
        try:
            return decode_answer(data, self._types)
        except WireError as error:
            head = request.preamble._replace(kind=FAILURE)
            return Failure(head, type(error).__name__, "decode", str(error), error)

    def memories(self) -> dict[str, Versions] | None:
        return None

    def restore(self, memories: Mapping[str, Versions], attempt: int) -> None:
        """Nothing: every site has its own."""

    def close(self) -> None:
        self.carrier.close()


def _answers(answer: Reply | Failure, request: Request) -> bool:
    """Whether an answer belongs to a request; another one is late, and leaves no trace."""
    head = request.preamble
    return answer.preamble.number == head.number and answer.preamble.attempt == head.attempt
