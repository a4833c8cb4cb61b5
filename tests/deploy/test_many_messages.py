"""One thread forgets received messages, where NVFlare has one for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from fedsolve.deploy.many_messages import Later, forget_by_one_thread
from tests.extras import optional

COUNT = 50


def until(what: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something holds before so many seconds have passed."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


def test_messages_are_forgotten_by_one_thread() -> None:
    optional("nvflare")
    from nvflare.fuel.f3.streaming.byte_receiver import RxTask

    forget_by_one_thread()
    forget_by_one_thread()
    tasks = [RxTask(sid, "somebody", None, reliable=True) for sid in range(COUNT)]
    RxTask.rx_task_map.update({("somebody", task.sid): task for task in tasks})
    before = threading.active_count()
    for task in tasks[1:]:
        task._schedule_remove_task(0.05)
        task._schedule_remove_task(0.01)  # as in NVFlare's own the first one counts
    tasks[0]._schedule_remove_task()  # after the usual time, which is long
    assert threading.active_count() <= before + 1
    assert until(lambda: list(RxTask.rx_task_map) == [("somebody", 0)])
    tasks[0]._remove_task()  # NVFlare removes those that failed at once
    assert not RxTask.rx_task_map
    assert all(task.cleanup_timer is None for task in tasks)


def test_calls_come_when_they_are_due() -> None:
    later, made = Later(), list[str]()
    later.call(0.4, lambda: made.append("last"))
    later.call(0.2, lambda: made.append("middle"))
    later.call(0.1, lambda: made.append("cancelled")).cancel()
    later.call(0.0, lambda: made.append("first"))
    assert until(lambda: len(made) == 3)
    assert made == ["first", "middle", "last"]


def test_a_call_that_fails_does_not_keep_others_from_being_made(caplog: pytest.LogCaptureFixture) -> None:
    later, made = Later(), list[str]()
    later.call(0.0, lambda: 1 // 0)
    later.call(0.1, lambda: made.append("made"))
    assert until(lambda: made == ["made"])
    assert "ZeroDivisionError" in caplog.text
