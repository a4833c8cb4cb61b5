"""The process in which a site computes: started by `SiteProcess`, ended with it.

It gets one end of a socket pair by its number. First comes the path of the site file, the terms of the run and the time
until which to wait for other processes of the site, then requests; it answers each before it takes the next. What it
prints goes to standard error, and if the machine runs out of memory it is the first to go.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import cast

from threadpoolctl import threadpool_limits

from fedsolve.errors import FedsolveError, PolicyRefusal, ProtocolMismatch, StorageError
from fedsolve.federation.transports.channel import send_message, wait_for_message
from fedsolve.federation.transports.worker import leave_with_server
from fedsolve.sites.alone import waiting_until
from fedsolve.sites.audit import AuditLog
from fedsolve.sites.run_store import SiteChanged
from fedsolve.sites.site import Site
from fedsolve.sites.site_file import SiteFile, read_site_file
from fedsolve.sites.terms import Terms
from fedsolve.sites.told import say_here, told_of
from fedsolve.text import printable
from fedsolve.wire.messages import MOST_TEXT

READY, ANSWER = b"y", b"a"
LASTING, PASSING = b"l", b"p"  # why there will be no answers in this run, or none now


def main(number: int) -> None:
    """Answer until the other end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)  # what a site keeps is for its own account alone
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(OSError):  # Linux only, and not in every container
        Path("/proc/self/oom_score_adj").write_text("800")
    end = socket.socket(fileno=number)
    threading.Thread(target=leave_with_server, args=[end], daemon=True).start()
    with suppress(EOFError, OSError):  # whoever started us has gone
        message = wait_for_message(end)
        about: SiteFile | None = None
        terms: Terms | None = None
        path: Path | None = None
        try:
            path = Path(message.head.decode())
            _check_readable(path)
            about = read_site_file(path)
            terms = Terms.from_json(message.body.decode())
            with waiting_until(float(message.attachment)):
                site = Site(about, terms)
        except Exception as error:  # reported, not hidden: it becomes this site's answer
            _note(about if terms is None else None, error)  # else the site itself has written it down
            lasts = isinstance(error, PolicyRefusal | ProtocolMismatch | SiteChanged)
            head = (LASTING if lasts else PASSING) + type(error).__name__.encode()
            send_message(end, head, told_of(error, about, path).encode())
            return
        with threadpool_limits(about.threads):
            send_message(end, READY)
            while True:
                request = wait_for_message(end)
                send_message(end, ANSWER, site.answer(cast(bytes, request.body)))


def _check_readable(path: Path) -> None:
    """Raise StorageError for a site file that cannot be read now, which says nothing against what is in it."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise StorageError(f"the site file {path} cannot be read: {error.strerror or error}") from error


def _note(about: SiteFile | None, error: Exception) -> None:
    """Keep the words of an error at the site: on standard error, and in the log of a site that does not know yet which
    run it is of."""
    say_here(error)
    said = printable(f"{type(error).__name__}: {error}", MOST_TEXT)  # names that a server chose may be in it
    if about is not None:
        with suppress(FedsolveError):  # then standard error alone has it
            AuditLog(about.audit_log).write("failed", "", step="start", said=said)
