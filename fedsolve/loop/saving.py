"""Saving a run between rounds, and going on from what was saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.memory import Memory
from fedsolve.loop.agreement import same_server
from fedsolve.loop.checkpoint import Checkpoint, Progress
from fedsolve.loop.history import Row
from fedsolve.loop.interrupts import Interrupts
from fedsolve.loop.measure_protocols import Scale
from fedsolve.typing import Value


@dataclass
class Saving:
    """The checkpoint of one run, and who has to be asked for what goes into it.

    every  save after every so many rounds
    """

    checkpoint: Checkpoint
    identity: str
    every: int
    fed: Federation
    server: Client | None
    transform: Value = None
    scale: Scale | None = None

    def load(self) -> tuple[Progress, Ledger]:
        """What was saved last; the clients and the server's own data have their memories of then."""
        progress, ledger = self.checkpoint.load(self.identity)
        memory = Memory(progress.server, self.checkpoint.types)
        same_server(self.server, memory)
        if progress.memories is not None:
            self.fed.transport.restore(progress.memories, progress.position.attempt)
        if self.server is not None:
            self.server.memory = memory
        self.transform, self.scale = progress.transform, progress.scale
        return progress, ledger

    def between_rounds(
        self,
        state: Value,
        row: Row,
        measured: bool,
        history: list[Row],
        kept: Callable[[], tuple[Value, ...]],
        interrupts: Interrupts,
    ) -> None:
        """Save if it is time to, or if the user has interrupted the run: then raises KeyboardInterrupt."""
        if row.round % self.every == 0 or interrupts.pending:
            self.save(state, row, measured, history, kept())
            interrupts.saved()

    def save(self, state: Value, row: Row, measured: bool, history: list[Row], kept: tuple[Value, ...]) -> None:
        """Write all that the loop knows between two rounds."""
        progress = Progress(
            self.identity,
            row.round,
            state,
            self.fed.position(),
            history,
            row,
            measured,
            self.transform,
            self.fed.transport.memories(),
            {} if self.server is None else self.server.memory.data,
            self.scale,
            kept,
            {},
        )
        self.checkpoint.save(progress, self.fed.ledger)
        self.fed.checkpointed()
