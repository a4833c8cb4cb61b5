"""The life of a worker process: it holds clients, and answers for them until the server is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from threadpoolctl import threadpool_limits

from fedsolve.federation.client import Client
from fedsolve.federation.client_runtime import Runtime
from fedsolve.federation.served_steps import Served
from fedsolve.federation.transports import handover
from fedsolve.federation.transports.channel import send_message, wait_for_message
from fedsolve.federation.transports.kept_memories import changes, restore
from fedsolve.wire import encoding as wire

# What the server says, and what a worker says; a client's name follows where it is about one.
ASK, RESTORE = b"a", b"r"
READY, ANSWER, TROUBLE = b"y", b"a", b"t"


def main(where: str) -> None:
    """A fresh interpreter's beginning: its clients and protocols come first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our socket
    if sys.platform == "win32":
        end = socket.fromshare(sys.stdin.buffer.read())
    else:
        end = socket.socket(fileno=int(where))
    with suppress(EOFError, OSError):  # the server has gone
        message = wait_for_message(end)
        try:
            protocols, clients, threads = handover.unpack(message.body, message.attachment)
            runtimes = _runtimes(clients, protocols)
        except Exception as error:  # reported, not hidden: the server raises it
            send_message(end, TROUBLE, f"{type(error).__name__}: {error}".encode(errors="backslashreplace"))
            return
        _serve(end, runtimes, threads)


def forked(end: socket.socket, clients: Sequence[Client], protocols: Mapping[str, object], threads: int) -> None:
    """A forked process's beginning: it has its clients already."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)  # as a spawned one: see `launch.Spawned`
    for client in clients:
        client.forget()  # what the server's process computed with them is not this run's
    with suppress(EOFError, OSError):  # the server has gone
        _serve(end, _runtimes(clients, protocols), threads)


def _runtimes(clients: Sequence[Client], protocols: Mapping[str, object]) -> dict[str, Runtime]:
    served = Served(protocols)
    return {client.name: Runtime(client, served) for client in clients}


def _serve(end: socket.socket, runtimes: Mapping[str, Runtime], threads: int) -> None:
    """Answer until the server is gone."""
    threading.Thread(target=leave_with_server, args=[end], daemon=True).start()
    with threadpool_limits(threads):
        send_message(end, READY)
        while True:
            _answer(end, runtimes)


def leave_with_server(end: socket.socket) -> None:
    """A server that was killed cannot end us, and a step may compute for hours before it tries to reply."""
    if hasattr(select, "poll"):
        hang_up = select.poll()
        hang_up.register(end, 0)  # reported without being asked for
        hang_up.poll()
        time.sleep(0.5)  # for what is idle to leave in its own way
        os._exit(1)


def _answer(end: socket.socket, runtimes: Mapping[str, Runtime]) -> None:
    message = wait_for_message(end)
    verb, name = bytes(message.head[:1]), message.head[1:].decode()
    runtime = runtimes[name]
    if verb == RESTORE:
        restore(runtime, message.body)
        return
    data = cast(bytes, message.body)  # a bytearray reads like bytes
    answer = runtime.answer_bytes(data)
    send_message(end, ANSWER + name.encode(), answer, changes(runtime, wire.peek(data)))
