"""The site's end of a job: hands terms and requests to the process that computes.

It knows nothing of what it carries. The site file is named by the environment of the site's own daemon, so no job can
choose another. Tasks may come twice, after a restart: the site answers a repeated request with the same reply.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.shareable import Shareable

from fedsolve.deploy import engine_log, large_messages, many_messages, messages, orphans
from fedsolve.deploy.daemon import SITE_FILE
from fedsolve.deploy.library import Flare
from fedsolve.sites import SiteProcess
from fedsolve.text import printable, shortened
from fedsolve.wire.messages import MOST_TEXT


class SiteExecutor(Executor):  # type: ignore[misc]  # NVFlare's types are not looked at
    """Answers the one task of a job."""

    def __init__(self) -> None:
        super().__init__()
        engine_log.let_messages_pass()
        large_messages.show_sizes_only()
        many_messages.forget_by_one_thread()
        orphans.end_with_daemon()
        self._site: SiteProcess | None = None
        self._mark = ""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Flare, abort_signal: Flare) -> Shareable:
        """The answer to one request."""
        try:
            return self._answer(shareable)
        except Exception as error:  # reported: NVFlare would send no more than a return code
            print(printable(f"{type(error).__name__}: {error}", MOST_TEXT), file=sys.stderr)
            return _reply(messages.TROUBLE, f"{type(error).__name__} ({_place(error)})")

    def _answer(self, asked: Shareable) -> Shareable:
        terms, mark = asked.get(messages.TERMS), str(asked.get(messages.MARK))
        if mark != self._mark:
            if not isinstance(terms, str):
                return _reply(messages.UNKNOWN, True)
            self._begin(terms)
        assert self._site is not None
        request, until = _request(asked), time.monotonic() + _limit(asked)
        answer = self._site.answer(request, until - time.monotonic())
        if self._site.pid is None and self._site.trouble is None and time.monotonic() < until:
            answer = self._site.answer(request, until - time.monotonic())  # its process died: once more, by a new one
        return _reply(messages.LATE, True) if answer is None else _reply(messages.ANSWER, answer)

    def _begin(self, terms: str) -> None:
        self._end()
        path = os.environ.get(SITE_FILE)
        if path is None:
            raise LookupError("the daemon of this site was not started by `fedsolve site`, which names the site file")
        self._site, self._mark = SiteProcess(Path(path), terms), mark_of(terms)

    def _end(self) -> None:
        if self._site is not None:
            self._site.close()
        self._site, self._mark = None, ""

    def handle_event(self, event_type: str, fl_ctx: Flare) -> None:
        """End the computing process with the job."""
        if event_type == EventType.END_RUN:
            self._end()


def mark_of(terms: str) -> str:
    """A hash of terms, by which both ends know that they have the same."""
    return hashlib.blake2b(terms.encode(), digest_size=16).hexdigest()


def _request(asked: Shareable) -> bytes:
    request = asked.get(messages.REQUEST)
    if not isinstance(request, bytes | bytearray):  # a number would be taken for the size of one
        raise TypeError(f"the request is of type {type(request).__name__}, and not bytes")
    return bytes(request)


def _limit(asked: Shareable) -> float:
    limit = asked.get(messages.LIMIT)
    if not isinstance(limit, int | float) or not limit > 0:  # NaN would never pass
        raise ValueError(f"the limit of the request is {shortened(limit)}, and no positive number of seconds")
    return float(min(limit, messages.LONGEST))


def _reply(key: str, value: object) -> Shareable:
    reply = Shareable()
    reply[key] = value
    return reply


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "no place" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
