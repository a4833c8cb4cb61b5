"""Asking the clients of a run once more, after the session that served it was closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, cast

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import DataError
from fedsolve.federation.client_checks import ClientInfo
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.federation.session import Preprocessing, Session, opened
from fedsolve.federation.transports import Transport
from fedsolve.typing import Value


class FinishedRun(Protocol):
    """What is asked of a run: `fs.Run` has it."""

    @property
    def algorithm(self) -> object: ...

    @property
    def model(self) -> object: ...

    @property
    def status(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def session(self) -> Session | None: ...


@dataclass(frozen=True)
class AsAgreed(Preprocessing):
    """The preprocessing that a run has agreed on, for clients that are opened again: nothing is learned anew."""

    preprocess: Preprocess
    transform: Transform

    def fit(self, fed: Federation) -> Value:
        with fed.setting_up():
            fed.sum(self.preprocess.adopt, transform=replace(self.transform, missing=None, unseen=None))
        return self.transform


class _Without:
    """A transport to some of its clients only."""

    def __init__(self, transport: Transport, names: tuple[str, ...]) -> None:
        self.names = names
        self._transport = transport

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


@contextmanager
def reopened(run: FinishedRun, session: Session, name: str, protocol: object) -> Iterator[Federation]:
    """The clients whose objective the run has minimised, opened for this protocol, with the model's preprocessing.

    Clients that the run had lost at its end are left out: the model is not fitted to them. Raises DataError if a client
    has other rows than in the run.
    """
    protocols = dict(collect(name, protocol))
    preprocess = session.preprocess
    if preprocess is not None:
        protocols.update(collect("preprocess", preprocess))
        transform = getattr(run.model, "transform", None)
        if isinstance(preprocess, Preprocess) and isinstance(transform, Transform):
            preprocess = AsAgreed(preprocess, transform)
    transport, lost = session.transport, session.fed.position().lost
    if lost:
        names = tuple(one for one in session.fed.clients if one not in lost)
        transport = cast(Transport, _Without(transport, names))
    with opened(transport, protocols, seed=run.seed, preprocess=preprocess, after=(session, name)) as fed:
        check_same_rows(session.fed.info, fed.info)
        yield fed


def check_same_rows(before: Mapping[str, ClientInfo], now: Mapping[str, ClientInfo]) -> None:
    """Raise DataError if a client that is opened again has other rows than the run learned from."""
    for name, info in now.items():
        known = before.get(name)
        if known is not None and (known.samples, known.weight) != (info.samples, info.weight):
            raise DataError(
                f"client {name!r} has {info.samples} rows of weight {info.weight:g}, and had {known.samples} of weight "
                f"{known.weight:g} in the run: give it its data back, or run again"
            )
