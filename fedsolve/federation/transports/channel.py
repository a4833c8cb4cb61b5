"""Messages between the server and a worker process, over a socket.

A message is three byte strings: a head that says what it is, its body, and an attachment. The server's end never waits:
a worker that is stopped neither reads nor writes, and whoever waited for it would be stopped too.
"""

from __future__ import annotations

import os
import socket
import struct
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LENGTHS = struct.Struct("<QQQ")
_SMALL = 2**16  # bytes of a message that it pays to send in one piece


class Message(NamedTuple):
    """What has arrived."""

    head: bytearray
    body: bytearray
    attachment: bytearray


def pieces(head: bytes, body: bytes, attachment: Sequence[bytes | memoryview] = ()) -> Iterable[bytes | memoryview]:
    """A message as the pieces that are to be sent one after the other; what is large is not copied."""
    attached = sum(len(piece) for piece in attachment)
    parts = [_LENGTHS.pack(len(head), len(body), attached), head, body, *attachment]
    return [b"".join(parts)] if len(head) + len(body) + attached <= _SMALL else parts


class Channel:
    """The server's end. Sending queues what the worker does not take at once; receiving gives what is complete."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self.sent = 0  # bytes the worker's end has taken
        self._outgoing: deque[memoryview] = deque()
        self._incoming: list[bytearray] = [bytearray(_LENGTHS.size)]
        self._filled = 0  # bytes of the last of them
        _OPEN.add(self)

    @property
    def sending(self) -> bool:
        """Whether something waits for the worker to take it."""
        return bool(self._outgoing)

    def send(self, head: bytes, body: bytes = b"", attachment: Sequence[bytes | memoryview] = ()) -> None:
        """Queue a message, and send what can be sent now."""
        self._outgoing.extend(memoryview(piece) for piece in pieces(head, body, attachment) if len(piece))
        self.flush()

    def flush(self) -> None:
        """Send what can be sent now."""
        while self._outgoing:
            first = self._outgoing[0]
            try:
                count = self.socket.send(first)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # the worker has ended; `receive` says so once its last words have been read
                self._outgoing.clear()
                return
            self.sent += count
            if count < len(first):
                self._outgoing[0] = first[count:]
            else:
                self._outgoing.popleft()

    def receive(self) -> Message | None:
        """The next message; None if it has not arrived in full. Raises EOFError when the worker has ended."""
        while True:
            last = self._incoming[-1]
            while self._filled < len(last):
                try:
                    count = self.socket.recv_into(memoryview(last)[self._filled :])
                except (BlockingIOError, InterruptedError):
                    return None
                except OSError as error:
                    raise EOFError from error
                if not count:
                    raise EOFError
                self._filled += count
            self._filled = 0
            if len(self._incoming) == 4:
                _, head, body, attachment = self._incoming
                self._incoming = [bytearray(_LENGTHS.size)]
                return Message(head, body, attachment)
            size = _LENGTHS.unpack(self._incoming[0])[len(self._incoming) - 1]
            self._incoming.append(bytearray(size))

    def close(self) -> None:
        """The worker reads the end of its socket, and leaves."""
        self._outgoing.clear()
        self.socket.close()


# A forked process, whoever forks it, inherits our ends of the sockets; while it has them open, a worker does not see
# that we are gone.
_OPEN: weakref.WeakSet[Channel] = weakref.WeakSet()


def _close_inherited() -> None:
    for channel in list(_OPEN):
        channel.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


# ── the worker's end, which waits ──


def wait_for_message(end: socket.socket) -> Message:
    """The next message. Raises EOFError or OSError when the server has gone."""
    lengths = _LENGTHS.unpack(_exactly(end, _LENGTHS.size))
    return Message(*(_exactly(end, size) for size in lengths))


def _exactly(end: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = end.recv_into(view[filled:])
        if not count:
            raise EOFError
        filled += count
    return data


def send_message(end: socket.socket, head: bytes, body: bytes = b"", attachment: bytes = b"") -> None:
    """Send, and wait until it is taken."""
    for piece in pieces(head, body, [attachment]):
        end.sendall(piece)
