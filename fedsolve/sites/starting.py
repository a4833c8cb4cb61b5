"""How a site begins with a run: what is looked at before its rows are, and every attempt that fails is written down.

Whether a site can take part says something of its rows, whatever the words are. So a server has a limited number of
attempts, and the terms of a run are those that it came with first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fedsolve.errors import PolicyRefusal, ProtocolMismatch, StorageError
from fedsolve.sites.alone import alone
from fedsolve.sites.audit import AuditLog, Tally
from fedsolve.sites.policy import Policy


@dataclass
class Attempt:
    """An attempt to begin.

    lock   held by one process of the site at a time, while it counts attempts and adds its own
    rows   whether what comes of it depends on the site's rows
    tally  what the log says of this run and of others of late
    """

    log: AuditLog
    run: str
    policy: Policy
    lock: Path
    rows: bool = False
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.log.path, self.run)

    def check(self) -> None:
        """Raise PolicyRefusal if too many runs began here of late, or if this one was refused, or failed, too often."""
        self.tally.read()
        recent, spent = self.tally.recent, self.tally.spent
        if self.run not in recent and len(recent) >= self.policy.runs:
            raise PolicyRefusal(
                "runs", f"{len(recent)} runs began here within a day, and no more than {self.policy.runs} may"
            )
        if spent.refusals >= self.policy.refusals:
            raise PolicyRefusal("refusals", f"the run was refused something {spent.refusals} times")
        if spent.failures >= self.policy.failures:
            raise PolicyRefusal("failures", f"{spent.failures} requests of the run failed")

    def failed(self, error: Exception) -> None:
        """Write down why it failed. One that rows had a part in counts among the runs of a day. Raises another error
        instead if that is no longer allowed: of several that begin together only so many are told what their rows say.
        """
        if not self.rows:
            self._write(error)
            return
        try:
            with alone(self.lock):
                self.check()
                self._write(error, rows=True)
        except (PolicyRefusal, StorageError) as other:
            if isinstance(error, StorageError) and isinstance(other, StorageError):  # the first says what is wrong
                self._write(error)
                return
            self._write(other)
            raise other from error

    def _write(self, error: Exception, **facts: object) -> None:
        if isinstance(error, PolicyRefusal | ProtocolMismatch):
            self.log.write("refused", self.run, rule=rule_of(error), said=str(error), **facts)
        else:
            self.log.write("failed", self.run, step="start", said=f"{type(error).__name__}: {error}", **facts)


@contextmanager
def written_down(attempt: Attempt) -> Iterator[None]:
    """Write down why an attempt failed, before anybody is told."""
    try:
        yield
    except Exception as error:
        attempt.failed(error)
        raise


def rule_of(error: Exception) -> str:
    """The rule of a refusal."""
    return error.rule if isinstance(error, PolicyRefusal) else "library"
