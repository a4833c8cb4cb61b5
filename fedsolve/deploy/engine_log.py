"""NVFlare's own audit file, which it writes for every command and every task.

Where it cannot be written, on a full disk, NVFlare drops the message that it was about to note, so a run would wait for
answers that never come instead of saying what is wrong. What left a site is in the site's own log, and there no line
means no reply; NVFlare's file is a second account of who sent which task. So it is written as well as it can be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps

from nvflare.fuel.sec.audit import Auditor

_METHODS = ("add_event", "add_job_event")


def let_messages_pass() -> None:
    """From now on a full disk keeps no message of NVFlare's from this process. Safe to call twice."""
    for name in _METHODS:
        method = getattr(Auditor, name)
        if not hasattr(method, "__wrapped__"):
            setattr(Auditor, name, _forgiving(method))


def _forgiving(write: Callable[..., str]) -> Callable[..., str]:
    @wraps(write)
    def noted(*arguments: object, **named: object) -> str:
        try:
            return write(*arguments, **named)
        except OSError as error:
            with suppress(OSError):  # as a rule the same disk
                print(f"NVFlare's audit file cannot be written: {error}", file=sys.stderr)
            return ""

    return noted
