"""A site's computation in a process of its own: a crash, a kill or a lack of memory is one failed reply.

The next request starts a new process, which reads its memory from the run's store and its rows from the site's file.
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
from fedsolve.sites.child import ANSWER, READY
from fedsolve.wire import encoding as wire
from fedsolve.wire.messages import Failure

LOOK = 0.2  # seconds between two looks at whether to give up
LEAVING = 2.0  # seconds for the process to leave by itself


class SiteProcess:
    """Answers the requests of one run by a child process.

    Args:
        site_file: The path of the site file.
        terms: The terms of the run, as JSON.
    """

    def __init__(self, site_file: Path, terms: str) -> None:
        self.site_file, self.terms = site_file, terms
        self.trouble: tuple[str, str] | None = None  # class and words, where the site cannot take part
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """The process that computes, if there is one."""
        return None if self._process is None else self._process.pid

    def answer(self, request: bytes, deadline: float | None = None) -> bytes | None:
        """The encoded answer; None if there is none after `deadline` seconds. The process then computes on, and is
        replaced by the next request."""
        until = None if deadline is None else time.monotonic() + deadline
        if self.trouble is not None:
            return failure(request, *self.trouble)
        if self._channel is not None and self._is_behind():
            self.close()
        try:
            self._start()
            if not self._wait_until_ready(until):
                return None if self.trouble is None else failure(request, *self.trouble)
            assert self._channel is not None
            self._channel.send(ANSWER, request)
            message = self._next(until)
        except EOFError:
            return failure(request, "SiteCrashed", f"the site's computing process {self._ended()}")
        self._owed = message is None
        return None if message is None else bytes(message.body)

    _owed = False  # whether an answer that nobody waits for any more is still to come

    def _is_behind(self) -> bool:
        """Whether the process still computes what nobody waits for. What has arrived meanwhile is dropped."""
        if self._owed and self._channel is not None:
            try:
                self._owed = self._channel.receive() is None
            except EOFError:
                self._ended()
                return False
        return self._owed

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._ended()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", f"from fedsolve.sites.child import main; main({theirs.fileno()})"]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._channel, self._ready, self._owed = Channel(ours), False, False
        self._channel.send(str(self.site_file).encode(), self.terms.encode())

    def _wait_until_ready(self, until: float | None) -> bool:
        while not self._ready:
            message = self._next(until)
            if message is None:
                return False
            if bytes(message.head) == READY:
                self._ready = True
            else:
                self.trouble = message.head[1:].decode(), message.body.decode()
                self.close()
                return False
        return True

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
            if self._owed:
                self._process.kill()
        self._ended()


def failure(request: bytes, kind: str, text: str) -> bytes:
    """An encoded answer that says why there is none."""
    return Failure(wire.peek(request), kind, "session", text).encode()
