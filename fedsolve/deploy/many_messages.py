"""What NVFlare does after each message, made cheap.

A received message is remembered for another 65 s, in case that it comes again, and a thread waits for each to forget
it. A site asks for tasks up to 50 times a second, so its process had 1,300 threads while it waited for the others, and
`fedsolve submit` 350. Here one thread forgets all of them.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from fedsolve.deploy import library
from fedsolve.deploy.library import Flare


class Call:
    """A call that is still to come. It stands for a `threading.Timer` where nobody asks more of one than to cancel."""

    def __init__(self, what: Callable[[], object]) -> None:
        self._what: Callable[[], object] | None = what

    def cancel(self) -> None:
        """Do not make it."""
        self._what = None

    def make(self) -> None:
        """Make it, unless it is cancelled. What goes wrong is logged: other calls wait for this thread."""
        what, self._what = self._what, None
        if what is not None:
            try:
                what()
            except Exception:
                logging.getLogger(__name__).exception("a call that had been put off failed")


class Later:
    """Makes calls after some time, all from one thread, which starts with the first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Call]] = []
        self._number = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def call(self, seconds: float, what: Callable[[], object]) -> Call:
        """Make this call after so many seconds."""
        call = Call(what)
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._number), call)
            heapq.heappush(self._waiting, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="later", daemon=True)
                self._thread.start()
            if self._waiting[0] is entry:
                self._changed.notify()
        return call

    def _run(self) -> None:
        while True:
            self._next().make()

    def _next(self) -> Call:
        with self._changed:
            while True:
                left = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left)


_LATER = Later()


def forget_by_one_thread() -> None:
    """From now on messages of this process need no thread each to be forgotten. Safe to call twice."""
    received: Flare = library.module("nvflare.fuel.f3.streaming.byte_receiver").RxTask
    if hasattr(received, "_schedule_remove_task"):  # as in NVFlare 2.9
        received._schedule_remove_task = _schedule


def _schedule(task: Flare, ttl: float | None = None) -> None:
    with task.stop_lock:
        if task.cleanup_timer is None:
            seconds = task.completed_task_ttl if ttl is None else ttl
            task.cleanup_timer = _LATER.call(seconds, task._remove_task)
