"""Ctrl-C in a run that can be resumed: the round in progress is finished and saved first.

Between two rounds all is known that a checkpoint needs; inside a round it is not, and what the last checkpoint lacks
would be lost. So a first Ctrl-C waits for the end of the round, and a second one ends the run at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed, and whether stopping now would lose a finished round."""

    pending: bool = False
    unsaved: bool = False

    def received(self, signum: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.pending or not self.unsaved:
            raise KeyboardInterrupt
        self.pending = True

    def call(self, function: Callable[[T], None], argument: T) -> None:
        """Call what the user gave; an interruption raised in there waits as well."""
        try:
            function(argument)
        except KeyboardInterrupt:
            if not self.unsaved:
                raise
            self.pending = True

    def saved(self) -> None:
        """All finished rounds are on disk: what was pending happens now."""
        self.unsaved = False
        if self.pending:
            raise KeyboardInterrupt


@contextmanager
def deferred(wanted: bool) -> Iterator[Interrupts]:
    """Within this block Ctrl-C waits while there is something unsaved. Only where it would raise KeyboardInterrupt
    otherwise: another handler, and other threads than the main one, are left alone.

    wanted  False: nothing is ever unsaved, and Ctrl-C is what it always is
    """
    interrupts = Interrupts()
    main = threading.current_thread() is threading.main_thread()
    if not wanted or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.received)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
