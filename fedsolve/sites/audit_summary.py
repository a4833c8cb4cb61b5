"""What an audit log says, run by run, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fedsolve.report.sent_words import Replies, sentence
from fedsolve.report.tables import size
from fedsolve.sites.audit import Line


@dataclass
class AuditedRun:
    """What left a site in one run, and what did not."""

    run: str
    first: str = ""
    last: str = ""
    starts: int = 0
    rows: int | None = None
    may_send: list[str] = field(default_factory=list)
    sent: dict[str, Replies] = field(default_factory=dict)
    replies: int = 0
    bytes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def note(self, line: Mapping[str, object]) -> None:
        """Add a line of the log."""
        self.first, self.last = self.first or str(line.get("time", "")), str(line.get("time", ""))
        match line:
            case {"event": "run"}:
                self.starts += 1
                rows, may = line.get("rows"), line.get("may_send")
                self.rows = rows if isinstance(rows, int) else None
                self.may_send = [str(one) for one in may] if isinstance(may, list) else []
            case {"event": "sent", "calls": list(calls)}:
                self.replies += 1
                self.bytes += amount if isinstance(amount := line.get("bytes"), int) else 0
                for call in calls:
                    what = str(call.get("what") or call.get("step"))
                    self.sent.setdefault(what, Replies()).note(int(call.get("numbers", 0)))
            case {"event": "refused"}:
                self.refused[str(line.get("said"))] += 1
            case {"event": "failed"}:
                self.failed[str(line.get("said"))] += 1

    def sentences(self) -> list[str]:
        """What left, a line each."""
        return [sentence(what, replies) for what, replies in self.sent.items()]

    def plain(self) -> dict[str, object]:
        """The same for machines."""
        return {
            "run": self.run,
            "first": self.first,
            "last": self.last,
            "starts": self.starts,
            "rows": self.rows,
            "replies": self.replies,
            "bytes": self.bytes,
            "sent": [
                {"what": what, "times": one.times, "numbers_least": one.least, "numbers_most": one.most}
                for what, one in self.sent.items()
            ],
            "refused": dict(self.refused),
            "failed": dict(self.failed),
        }

    def title(self) -> str:
        """When, how much, and from how many rows."""
        rows = "" if self.rows is None else f", from {self.rows:,} rows"
        return f"{self.first[:16].replace('T', ' ')}: {self.replies} replies, {size(self.bytes)}{rows}"


def audited(lines: Iterable[Line]) -> list[AuditedRun]:
    """The runs of a log, in the order in which they began; lines of no run (a site that could not start) under ""."""
    found: dict[str, AuditedRun] = {}
    for line in lines:
        run = str(line.get("run", ""))
        found.setdefault(run, AuditedRun(run)).note(line)
    return list(found.values())
