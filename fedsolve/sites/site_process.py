"""A site's computation in a process of its own: a crash, a kill or a lack of memory is one failed reply.

The next request starts a new process, which reads its memory from the run's store and its rows from the site's file.
So it does after trouble at the start that may pass: a file that cannot be read or written, too little memory, another
run of the site that is busy for long. A refusal, and data or terms that changed, hold for the rest of the run.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from fedsolve.federation.transports.channel import Channel, Message
from fedsolve.sites.child import ANSWER, LASTING, READY
from fedsolve.wire import encoding as wire
from fedsolve.wire.messages import Failure

LOOK = 0.2  # seconds between two looks at whether to give up
LEAVING = 2.0  # seconds for the process to leave by itself
STARTING = 300.0  # seconds in which a process that starts waits for others of the site, if there is no deadline


class SiteProcess:
    """Answers the requests of one run by a child process.

    Args:
        site_file: The path of the site file.
        terms: The terms of the run, as JSON.
    """

    def __init__(self, site_file: Path, terms: str) -> None:
        self.site_file, self.terms = site_file, terms
        self.trouble: tuple[str, str] | None = None  # class and words, where the site takes no part in the run
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._ready = False
        self._owed = False  # whether an answer that nobody waits for any more is still to come
        self._missed, self._allowed = 0, 1  # requests that the process let pass while it started, and may let pass

    @property
    def pid(self) -> int | None:
        """The process that computes, if there is one."""
        return None if self._process is None else self._process.pid

    def answer(self, request: bytes, deadline: float | None = None) -> bytes | None:
        """The encoded answer; None if there is none after `deadline` seconds. The process then computes on, and is
        replaced by the next request. One that only starts is given more requests each time it is replaced.
        """
        until = None if deadline is None else time.monotonic() + deadline
        if self._is_behind():
            self.close()
        if self.trouble is not None:
            return failure(request, *self.trouble)
        try:
            self._start(until)
            if not self._ready:
                message = self._next(until)
                if message is None:
                    self._missed += 1
                    return None
                said = self._started(message)
                if said is not None:
                    return failure(request, *said)
            assert self._channel is not None
            self._channel.send(ANSWER, request)
            message = self._next(until)
        except EOFError:
            return failure(request, "SiteCrashed", f"the site's computing process {self._ended()}")
        self._owed = message is None
        return None if message is None else bytes(message.body)

    def _is_behind(self) -> bool:
        """Whether the process still computes what nobody waits for, or starts for too long. An answer that has arrived
        meanwhile is dropped."""
        if self._channel is None or not (self._owed or self._missed):
            return False
        try:
            message = self._channel.receive()
        except EOFError:
            self._ended()
            return False
        if self._ready:
            self._owed = message is None
            return self._owed
        if message is not None:
            self._started(message)
            return False
        if self._missed < self._allowed:
            return False
        self._allowed *= 2  # one that was only slow, and is now started again, is ready some time
        return True

    def _start(self, until: float | None) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._ended()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", f"from fedsolve.sites.child import main; main({theirs.fileno()})"]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._channel, self._ready, self._owed = Channel(ours), False, False
        now = time.monotonic()
        left = STARTING if until is None else until - now
        turn = now + left - min(1.0, 0.1 * left)  # so that what kept it can still be said in time
        self._channel.send(str(self.site_file).encode(), self.terms.encode(), [repr(turn).encode()])

    def _started(self, message: Message) -> tuple[str, str] | None:
        """What came of the start: None if the process answers from here on, else class and words of what went wrong."""
        head = bytes(message.head)
        if head == READY:
            self._ready, self._missed, self._allowed = True, 0, 1
            return None
        said = head[1:].decode(), message.body.decode()
        if head[:1] == LASTING:
            self.trouble = said
        self._ended()
        return said

    def _next(self, until: float | None) -> Message | None:
        """The next message of the process; None when time is up. Raises EOFError when it has ended."""
        assert self._channel is not None
        while True:
            self._channel.flush()
            message = self._channel.receive()
            if message is not None:
                return message
            left = LOOK if until is None else min(LOOK, until - time.monotonic())
            if left <= 0:
                return None
            writing = [self._channel.socket] if self._channel.sending else []
            select.select([self._channel.socket], writing, [], left)

    def _ended(self) -> str:
        """How the process ended; nothing of it is left."""
        process, channel = self._process, self._channel
        self._process = self._channel = None
        self._ready = self._owed = False
        self._missed = 0
        if channel is not None:
            channel.close()
        if process is None:
            return "ended"
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVING)
        if process.poll() is None:
            process.kill()
            process.wait()
        code = process.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def close(self) -> None:
        """End the process. Safe to call twice."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)  # one that is stopped could not leave
            if self._owed or self._missed:
                self._process.kill()
        self._ended()


def failure(request: bytes, kind: str, text: str) -> bytes:
    """An encoded answer that says why there is none."""
    return Failure(wire.peek(request), kind, "session", text).encode()
