"""Opening a federation, written once: transport, protocols, joining and preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, cast

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import collect
from fedsolve.federation.transports import InProcess, Processes, Transport
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Value

TransportKind = str | type[object]


class Preprocessing(Protocol):
    """A protocol that the clients agree on before the first round, such as `data.Preprocess`."""

    def fit(self, fed: Federation) -> Value:
        """Agree on a transform. Clients apply it to their own columns from then on."""
        ...


class Session:
    """Clients that stay reachable after a run, so that more can be asked of them.

    `fs.run` opens and closes a session of its own when it is given clients. Give it a session to ask the same clients
    again afterwards: they keep their caches and their agreed preprocessing.

        clients = fs.data.hold_out(clients, 0.2)
        with fs.Session(clients, also={"evaluation": fs.Evaluation(loss)}) as session:
            run = fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
            print(fs.evaluate(run.model, session, loss))

    Args:
        clients: `Client` objects, or a transport that already holds them.
        transport: "in_process" or "processes".
        also: Protocols, by name, that the clients shall answer beside those of the run. A client answers only protocols
            it was started with, so what is to be asked later is said here.

    A session serves one run. Leaving the `with` block closes the transport.
    """

    def __init__(
        self,
        clients: Sequence[Client] | Transport,
        transport: TransportKind = "in_process",
        *,
        also: Mapping[str, object] | None = None,
    ) -> None:
        self.transport = as_transport(clients, transport)
        self.also: dict[str, object] = {}
        for name, protocol in (also or {}).items():
            self.also.update(collect(name, protocol))
        self.columns: tuple[str, ...] | None = None  # what the clients agreed on before preprocessing
        self.preprocess: Preprocessing | None = None  # that of the run it has served
        self.closed = False
        # What the clients were asked before this session was opened and after it was closed, and for what.
        self.earlier: list[tuple[str, Ledger]] = []
        self.later: list[tuple[str, Ledger]] = []
        self._fed: Federation | None = None

    @property
    def fed(self) -> Federation:
        """The open federation. Raises ConfigError before a run has opened it."""
        if self._fed is None:
            raise ConfigError("this session is not open: give it to fs.run first, inside its with block")
        return self._fed

    def open(
        self,
        protocols: Mapping[str, object],
        *,
        seed: int = 0,
        participation: Participation | None = None,
        server: Client | None = None,
    ) -> Federation:
        """Start the clients with these protocols. Nothing is sent yet."""
        if self._fed is not None:
            raise ConfigError("this session has served its run already: open another for the next one")
        taken = sorted(set(protocols) & set(self.also))
        if taken:
            raise ConfigError(f"the protocol name {taken[0]!r} is one of the run's own: give it another name in also=")
        every = {**protocols, **self.also}
        self.transport.open(every)
        self._fed = Federation(self.transport, every, seed=seed, participation=participation, server=server)
        return self._fed

    def join(
        self, preprocess: Preprocessing | None = None, admit: Callable[[Federation], object] | None = None
    ) -> Value:
        """Let all clients join, and agree on the preprocessing if there is one. Returns its transform, or None.

        `admit` is called when it is known who is there, and before anything is asked of their rows; it may raise.
        """
        fed = self.fed
        fed.join()
        if admit is not None:
            admit(fed)
        self.columns = fed.feature_names
        fed.begin_round(0)
        if preprocess is None:
            return None
        transform = preprocess.fit(fed)
        fed.join()
        return transform

    def close(self) -> None:
        """Release what was started. Safe to call twice."""
        self.closed = True
        self.transport.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def opened(
    clients: Sequence[Client] | Transport,
    protocols: Mapping[str, object],
    *,
    transport: TransportKind = "in_process",
    seed: int = 0,
    participation: Participation | None = None,
    preprocess: Preprocessing | None = None,
    after: tuple[Session, str] | None = None,
) -> Iterator[Federation]:
    """A federation for one purpose: opened, joined and preprocessed here, closed at the end of the block.

    `after` is the session whose clients are asked once more, and for what: it remembers what is sent, whatever comes of
    it.
    """
    with Session(clients, transport) as session:
        fed = session.open(protocols, seed=checked_seed(seed), participation=participation)
        if after is not None:
            after[0].later.append((after[1], fed.ledger))
        session.join(preprocess)
        yield session.fed


def as_transport(clients: Sequence[Client] | Transport, kind: TransportKind) -> Transport:
    """The transport to these clients. Raises ConfigError for anything that is neither clients nor a transport."""
    if hasattr(clients, "deliver"):
        return cast(Transport, clients)
    if isinstance(clients, Client):
        raise ConfigError("clients are a list, also if there is only one: run(algorithm, [client])")
    if hasattr(kind, "deliver"):
        raise ConfigError(
            "a transport that already holds its clients is given in their place: run(algorithm, transport)"
        )
    if kind in ("in_process", InProcess):
        return InProcess(clients)
    if kind in ("processes", Processes):
        return Processes(clients)
    raise ConfigError(f"transport is 'in_process' or 'processes', got {kind!r}")


def checked_seed(seed: int) -> int:
    """A seed as a Python integer. Raises ConfigError for anything that seeds no generator."""
    try:
        return whole("seed", seed, 0, 2**64)
    except ConfigError:
        raise ConfigError(f"a seed is a whole number from 0 to 2^64 − 1, got {seed!r}") from None
