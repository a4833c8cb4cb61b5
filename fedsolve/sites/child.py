"""The process in which a site computes: started by `SiteProcess`, ended with it.

It gets one end of a socket pair by its number. First comes the path of the site file and the terms of the run, then
requests; it answers each before it takes the next. What it prints goes to standard error, and if the machine runs out
of memory it is the first to go.
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

from fedsolve.errors import FedsolveError
from fedsolve.federation.transports.channel import send_message, wait_for_message
from fedsolve.federation.transports.worker import leave_with_server
from fedsolve.sites.audit import AuditLog
from fedsolve.sites.site import SPEAKING, Site, told_of
from fedsolve.sites.site_file import SiteFile, read_site_file
from fedsolve.sites.terms import Terms

READY, TROUBLE, ANSWER = b"y", b"t", b"a"


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
        try:
            about = read_site_file(Path(message.head.decode()))
            site = Site(about, Terms.from_json(message.body.decode()))
        except Exception as error:  # reported, not hidden: it becomes this site's answer to every request
            _note(about, error)
            send_message(end, TROUBLE + type(error).__name__.encode(), told_of(error).encode())
            return
        with threadpool_limits(about.threads):
            send_message(end, READY)
            while True:
                request = wait_for_message(end)
                send_message(end, ANSWER, site.answer(cast(bytes, request.body)))


def _note(about: SiteFile | None, error: Exception) -> None:
    """Keep the words of an error at the site: on standard error, and in its log."""
    said = f"{type(error).__name__}: {error}"
    print(said, file=sys.stderr)
    if about is not None and not isinstance(error, SPEAKING):
        with suppress(FedsolveError):  # then standard error alone has it
            AuditLog(about.audit_log).write("failed", "", step="start", said=said)
