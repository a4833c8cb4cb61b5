"""The protocol every client answers: joining a run, and agreeing on the order of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsolve.errors import DataError, ProtocolMismatch
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.client_checks import ClientInfo, LabelledInfo
from fedsolve.federation.memory import SESSION
from fedsolve.tables.labels import check_classes
from fedsolve.version import __version__
from fedsolve.wire.messages import Purpose

_JOINED = "joined with"
JOINED = SESSION + _JOINED  # in the memory: protocols and fingerprints that were agreed


@dataclass(frozen=True)
class Joining:
    """What a server asks before anything else: the same version, protocols and hyper-parameters, and the same data."""

    purpose: ClassVar[Purpose] = "setup"

    @client_step(sends="its number of rows, the names of its columns and its classes")
    def join(
        self, client: Client, version: str, protocols: dict[str, str], checkpointed: bool
    ) -> ClientInfo | LabelledInfo:
        if version != __version__:
            raise ProtocolMismatch(f"the server runs fedsolve {version}, this client {__version__}: install the same")
        if client.y is None:
            raise DataError(
                f"client {client.name!r} has no targets: give it y, or, if it is unlabelled data of the server's own, "
                "hand it to the run as server="
            )
        here = client.protocols
        for name, print_ in protocols.items():
            if name not in here:
                raise ProtocolMismatch(f"the server asks for {name!r}; this client was started with {sorted(here)}")
            if client.fingerprints[name] != print_:
                raise ProtocolMismatch(f"protocol {name!r} has other hyper-parameters here: {here[name]!r}")
        for protocol in here.values():
            if hasattr(protocol, "loss"):
                outputs = client.y.shape[1] if client.y.ndim == 2 else None
                check_classes(client.classes, outputs, protocol.loss, f"client {client.name!r}")
                protocol.loss.check(client)
                if client.offset is not None and len(protocol.loss.shape(1, tuple(client.y.shape[1:]))) > 1:
                    raise DataError(
                        f"client {client.name!r} has an offset, and the loss several outputs: drop the offset"
                    )
        if checkpointed:
            self._check_same_data(client)
        client.session[_JOINED] = tuple(sorted(protocols.items()))
        transform = client.session.get("transform")
        known = not client.raw or transform is not None
        found = ClientInfo(
            client.weight,
            client.n_samples,
            client.design.shape[1] if known else None,
            tuple(client.y.shape[1:]),
            client.column_names if transform is None else transform.feature_names(),
        )
        classes = client.classes or client.numbering
        if classes is None:
            return found
        return LabelledInfo(**vars(found), classes=classes, declared=client.classes is not None)

    @client_step(sends="a confirmation that its columns are in the agreed order")
    def align(self, client: Client, columns: tuple[str, ...]) -> bool:
        """Put the columns into this order from now on. It is kept in memory, so that a client that restarts, or a run
        that is resumed, has it again; columns that are not this client's own are rejected."""
        if client.feature_names is None:
            raise DataError("the columns of this client have no names, so they cannot be put in another order")
        client.ordered(columns)
        client.session["columns"] = columns
        return True

    def _check_same_data(self, client: Client) -> None:
        """A run that is resumed goes on with the data it began with. The mark stays in the client's own memory."""
        mark = client.data_mark()
        before = client.session.get("data mark")
        if before is None:
            client.session["data mark"] = mark
        elif before != mark:
            raise DataError(
                "this client's data is not what the run began with, so it cannot be resumed; "
                "give it its data back, or begin a new run"
            )
