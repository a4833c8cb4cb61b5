"""The server's end of a job, with NVFlare's messages and none of its processes: sites that say anything, and a server
that was stopped itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.extras import optional

optional("nvflare")

from nvflare.apis.controller_spec import Task  # noqa: E402
from nvflare.apis.shareable import ReservedHeaderKey, Shareable  # noqa: E402

from fedsolve.deploy import executor, messages  # noqa: E402
from fedsolve.deploy.carrier import NVFlareCarrier  # noqa: E402
from fedsolve.deploy.daemon import SITE_FILE  # noqa: E402
from fedsolve.wire.messages import MOST_TEXT  # noqa: E402

NASTY = "\x1b[2J\x1b[31m gone\nall is well" + "x" * 3_000_000


class Sites:
    """Sites that answer every task in a way of their own, each after some seconds."""

    def __init__(self, answer: Callable[[Shareable], dict[str, Any]], seconds: float = 0.0) -> None:
        self.answer, self.seconds = answer, seconds
        self.tasks: list[Task] = []

    def schedule(self, task: Task, names: list[str]) -> None:
        self.tasks.append(task)
        for name in names:
            reply = Shareable()
            reply.update(self.answer(task.data))
            client_task = SimpleNamespace(client=SimpleNamespace(name=name), result=reply)
            threading.Timer(
                self.seconds, task.result_received_cb, kwargs={"client_task": client_task, "fl_ctx": None}
            ).start()

    def carrier(self) -> NVFlareCarrier:
        found = NVFlareCarrier(["arden"], self.schedule, lambda task: None, lambda: False, lambda: {"arden"})
        found.begin("{}")
        return found


@pytest.mark.parametrize(
    "reply",
    [{messages.TROUBLE: NASTY}, {ReservedHeaderKey.HEADERS: {ReservedHeaderKey.RC: NASTY}}],
    ids=["what went wrong", "the return code"],
)
def test_the_words_of_a_site_are_bounded_and_shown_as_they_are(reply: dict[str, Any]) -> None:
    carrier = Sites(lambda task: reply).carrier()
    assert list(carrier.ask({"arden": b"x"}, 60.0)) == []
    said = carrier.absences["arden"]
    assert len(said) <= MOST_TEXT + 100
    assert said.isprintable()
    assert r"\x1b[2J" in said


def test_a_site_is_given_the_terms_once_more_and_not_again() -> None:
    sites = Sites(lambda task: {messages.UNKNOWN: True})
    carrier = sites.carrier()
    assert list(carrier.ask({"arden": b"x"}, 60.0)) == []
    assert carrier.absences == {"arden": "the site does not know the terms of the run, although it was given them"}
    assert len(sites.tasks) == 2
    assert list(carrier.ask({"arden": b"x"}, 60.0)) == []  # so it is in the next exchange
    assert len(sites.tasks) == 4


def test_a_site_that_has_lost_the_terms_gets_them_and_answers() -> None:
    sites = Sites(lambda task: {messages.ANSWER: b"y"} if messages.TERMS in task else {messages.UNKNOWN: True})
    carrier = sites.carrier()
    for _ in range(3):
        assert list(carrier.ask({"arden": b"x"}, 60.0)) == [("arden", b"y")]
        assert not carrier.absences
    assert len(sites.tasks) == 1 + 2 + 2


def test_what_came_in_time_counts_however_late_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the first answer is busy with it until after the deadline."""
    carrier = NVFlareCarrier(["arden", "bryn"], Sites(lambda task: {messages.ANSWER: b"y"}).schedule, *ALWAYS)
    carrier.begin("{}")
    came = carrier.ask({"arden": b"x", "bryn": b"x"}, 0.5)
    names = {next(iter(came))[0]}
    time.sleep(1.0)
    names |= {name for name, _ in came}
    assert names == {"arden", "bryn"}


ALWAYS: Any = (lambda task: None, lambda: False, lambda: {"arden", "bryn"})

ASKING = """
import sys
from fedsolve.deploy import messages
from tests.deploy.test_carrier import Sites
carrier = Sites(lambda task: {messages.ANSWER: b"y"}, seconds=1.0).carrier()
print("asking", flush=True)
print(list(carrier.ask({"arden": b"x"}, 2.0)), carrier.absences, carrier.reachable(["arden"]), flush=True)
"""


def test_a_server_that_was_stopped_does_not_blame_the_sites() -> None:
    """Its deadline passes while it is stopped; the answer comes in the moment in which it goes on."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ASKING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(6.0)
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "[('arden', b'y')] {} ()\n"


def test_who_was_alive_before_the_server_was_stopped_is_not_silent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedsolve.deploy import carrier as module

    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    carrier = NVFlareCarrier(["arden", "bryn"], lambda task, names: None, *ALWAYS)
    carrier.note_alive("arden")
    now[0] += 20
    carrier.note_alive("bryn")
    now[0] += 100  # stopped
    carrier._excuse(100)
    assert carrier.silent(["arden", "bryn"]) == []
    now[0] += 11
    assert carrier.silent(["arden", "bryn"]) == ["arden"]
    carrier._excuse(10**6)  # nobody is alive in the future
    now[0] += 31
    assert carrier.silent(["arden", "bryn"]) == ["arden", "bryn"]


# ── the site's end ──


@pytest.mark.parametrize(
    ("request_", "limit", "said"),
    [
        (10**12, 5.0, "TypeError"),
        ("text", 5.0, "TypeError"),
        (None, 5.0, "TypeError"),
        (b"x", float("nan"), "ValueError"),
        (b"x", -1.0, "ValueError"),
        (b"x", "5", "ValueError"),
        (b"x", None, "ValueError"),
    ],
)
def test_a_message_of_the_server_that_is_none(
    request_: object, limit: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number would be taken for a size and allocated; a limit of NaN never passes."""
    monkeypatch.setenv(SITE_FILE, str(tmp_path / "arden.toml"))
    asked = Shareable()
    asked.update({messages.REQUEST: request_, messages.LIMIT: limit, messages.TERMS: "{}"})
    asked[messages.MARK] = executor.mark_of("{}")
    answer = executor.SiteExecutor().execute(messages.TASK, asked, None, None)
    assert str(answer[messages.TROUBLE]).startswith(f"{said} (executor.py:")


def test_a_limit_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SITE_FILE, str(tmp_path / "arden.toml"))
    seen: list[float] = []

    class Recorded:
        trouble = pid = None

        def __init__(self, *_: object) -> None:
            pass

        def answer(self, request: bytes, seconds: float) -> bytes:
            seen.append(seconds)
            return request

    monkeypatch.setattr(executor, "SiteProcess", Recorded)
    asked = Shareable()
    asked.update({messages.REQUEST: b"x", messages.LIMIT: float("inf"), messages.TERMS: "{}"})
    asked[messages.MARK] = executor.mark_of("{}")
    assert executor.SiteExecutor().execute(messages.TASK, asked, None, None)[messages.ANSWER] == b"x"
    assert seen[0] <= messages.LONGEST
