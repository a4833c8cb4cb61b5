"""The server's end of a job: carries encoded requests to the sites by NVFlare's tasks, and their answers back.

A task holds one request for all sites that get the same one. Sites ask for tasks many times a second, so the carrier
knows who is there without asking: who has not come for a while, or is still computing, is not reachable. While they
compute they give signs of life, so the carrier need not wait to the deadline for one whose processes have gone.

Times are of a clock that nobody sets. Time in which this process itself was stopped, with its machine say, counts for
nobody: sites are not taken for silent because nobody listened.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from nvflare.apis.controller_spec import Task, TaskCompletionStatus
from nvflare.apis.shareable import Shareable

from fedsolve.deploy import messages
from fedsolve.deploy.executor import mark_of
from fedsolve.deploy.library import Flare
from fedsolve.errors import TransportError
from fedsolve.text import printable
from fedsolve.wire.messages import MOST_TEXT

LOOK = 0.2  # seconds between two looks at whether to give up
AWAY = 3.0  # seconds after which a site that does not ask for tasks is not reachable
SILENT = 30.0  # seconds without a sign of life, of which a site gives one in 10, after which nobody waits for it
STOPPED = 2.0  # seconds without a look, by which this process knows that it was stopped, or busy with what had come
SPARE = 3600  # seconds after the deadline for NVFlare to drop a task, which `ask` does in time, and not by a set clock
MARGIN = 1.0  # seconds before the deadline at which a site stops waiting for its own computation
_BAD = (TaskCompletionStatus.ERROR, TaskCompletionStatus.ABORTED, TaskCompletionStatus.CLIENT_DEAD)

Schedule = Callable[[Task, list[str]], None]
Arrived: TypeAlias = "queue.SimpleQueue[tuple[str, Shareable]]"


class NVFlareCarrier:
    """Carries messages to the sites of a job.

    Args:
        names: The sites, in the order in which sums are taken.
        schedule: Gives a task to some sites.
        cancel: Takes a task back.
        is_aborted: Whether the job shall end.
        present: The sites that this job was given to.
        default: Seconds for an exchange that has no deadline.
    """

    def __init__(
        self,
        names: Sequence[str],
        schedule: Schedule,
        cancel: Callable[[Task], None],
        is_aborted: Callable[[], bool],
        present: Callable[[], set[str]],
        default: float = messages.DEADLINE,
    ) -> None:
        self._names, self._default = tuple(names), default
        self._schedule, self._cancel, self._is_aborted = schedule, cancel, is_aborted
        self._present = present
        self._terms, self._mark = "", ""
        self._knows: set[str] = set()  # sites that have the terms
        self._seen: dict[str, float] = {}  # when a site last asked for a task
        self._alive: dict[str, float] = {}  # when it last gave a sign of life
        self._began = time.monotonic()
        self.absences: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def begin(self, terms: str) -> None:
        self._terms, self._mark = terms, mark_of(terms)
        self._knows = set()
        self._began = time.monotonic()

    def see(self, name: str) -> None:
        """Note that a site asked for a task."""
        self._seen[name] = time.monotonic()

    def note_alive(self, name: str) -> None:
        """Note a sign of life."""
        self._alive[name] = time.monotonic()

    def silent(self, names: Iterable[str]) -> list[str]:
        """Those of these sites whose processes seem to have gone, or never came."""
        now, present = time.monotonic(), self._present()
        return [name for name in names if name not in present or now - self._alive.get(name, self._began) > SILENT]

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        now = time.monotonic()
        return tuple(name for name in names if now - self._seen.get(name, -math.inf) < AWAY)

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        present = self._present()
        self.absences = {name: "the site was not connected when the job began" for name in set(requests) - present}
        requests = {name: data for name, data in requests.items() if name in present}
        seconds = self._default if deadline is None else deadline
        looked = time.monotonic()
        until = looked + seconds
        arrived: Arrived = queue.SimpleQueue()
        waiting, told = set(requests), set[str]()
        tasks = self._send(requests, seconds, arrived)
        try:
            while waiting:
                if self._is_aborted():
                    raise TransportError("the job was stopped")
                left = until - time.monotonic()
                found = _next(arrived, max(0.0, min(LOOK, left)))
                looked, late = time.monotonic(), time.monotonic() - looked - LOOK
                if late > STOPPED:
                    self._excuse(late)
                    until += late
                elif found is None and left <= 0:
                    break
                if found is None:
                    self._drop_failed(tasks, waiting)
                    self._drop_silent(waiting)
                    continue
                name, reply = found
                if name not in waiting:
                    continue
                if reply.get(messages.UNKNOWN) and name not in told:  # a process that was started again
                    told.add(name)
                    self._knows.discard(name)
                    tasks += self._send({name: requests[name]}, max(1.0, until - time.monotonic()), arrived)
                    continue
                waiting.discard(name)
                answer = self._answer(name, reply, seconds)
                if answer is not None:
                    yield name, answer
        finally:
            for task, _ in tasks:
                if task.completion_status is None:
                    self._cancel(task)
        self.absences.update({name: f"no answer within {seconds:g} s" for name in waiting})

    def _excuse(self, seconds: float) -> None:
        """Count so many seconds for nobody, because this process could not hear of anybody."""
        now = time.monotonic()
        self._began = min(now, self._began + seconds)
        for times in (self._seen, self._alive):
            for name in list(times):
                times[name] = min(now, times[name] + seconds)

    def _send(self, requests: Mapping[str, bytes], seconds: float, arrived: Arrived) -> list[tuple[Task, set[str]]]:
        """A task for each distinct request, with the terms for those who have not got them yet."""
        groups: dict[tuple[int, bool], list[str]] = {}
        for name, data in requests.items():
            groups.setdefault((id(data), name in self._knows), []).append(name)

        def receive(client_task: Flare, fl_ctx: Flare) -> None:  # NVFlare passes these by name
            arrived.put((client_task.client.name, client_task.result))

        tasks = []
        for (_, known), names in groups.items():
            data = Shareable()
            data[messages.REQUEST] = requests[names[0]]
            data[messages.MARK] = self._mark
            data[messages.LIMIT] = max(seconds - MARGIN, 0.9 * seconds)
            if not known:
                data[messages.TERMS] = self._terms
            task = Task(messages.TASK, data, timeout=math.ceil(seconds) + SPARE, result_received_cb=receive)
            self._schedule(task, names)
            tasks.append((task, set(names)))
        self._knows.update(requests)
        return tasks

    def _answer(self, name: str, reply: Shareable, seconds: float) -> bytes | None:
        """What a site says, or None and the reason among the absences."""
        answer = reply.get(messages.ANSWER)
        if isinstance(answer, bytes | bytearray):
            return bytes(answer)
        if reply.get(messages.LATE):
            self.absences[name] = f"no answer within {seconds:g} s"
        elif reply.get(messages.TROUBLE):
            self.absences[name] = f"the site's job process failed: {_safe(reply[messages.TROUBLE])}"
        elif reply.get(messages.UNKNOWN):
            self.absences[name] = "the site does not know the terms of the run, although it was given them"
        else:
            self.absences[name] = f"NVFlare returned {_safe(reply.get_return_code())} instead of an answer"
        return None

    def _drop_silent(self, waiting: set[str]) -> None:
        for name in self.silent(waiting):
            self.absences[name] = f"no sign of life for {SILENT:g} s"
            waiting.discard(name)

    def _drop_failed(self, tasks: list[tuple[Task, set[str]]], waiting: set[str]) -> None:
        for task, names in tasks:
            if task.completion_status in _BAD:
                for name in names & waiting:
                    self.absences[name] = f"NVFlare ended the task with status {task.completion_status.value}"
                    waiting.discard(name)

    def close(self) -> None:
        """Nothing: the sites end their part when the job ends."""


def _next(arrived: Arrived, seconds: float) -> tuple[str, Shareable] | None:
    """What arrives within so many seconds."""
    try:
        return arrived.get(timeout=seconds)
    except queue.Empty:
        return None


def _safe(said: object) -> str:
    """What a site says, which may be anything of any length, as history and messages can hold it."""
    return printable(str(said), MOST_TEXT)
