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
    algorithm: str | None = None
    target: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    may_send: list[str] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
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
                rows, algorithm, target = line.get("rows"), line.get("algorithm"), line.get("target")
                self.rows = rows if isinstance(rows, int) else None
                self.algorithm = str(algorithm) if algorithm else None
                self.target = [target] if isinstance(target, str) else _texts(target)
                self.columns, self.may_send, self.stays = (
                    _texts(line.get(name)) for name in ("columns", "may_send", "stays")
                )
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
            "algorithm": self.algorithm,
            "target": self.target,
            "columns": self.columns,
            "replies": self.replies,
            "bytes": self.bytes,
            "may_send": self.may_send,
            "stays": self.stays,
            "sent": [
                {"what": what, "times": one.times, "numbers_least": one.least, "numbers_most": one.most}
                for what, one in self.sent.items()
            ],
            "refused": dict(self.refused),
            "failed": dict(self.failed),
        }

    def about(self) -> str:
        """The algorithm, what it predicts and from which columns; empty for a log of an earlier version."""
        if self.algorithm is None or not self.target:
            return ""
        return f"{self.algorithm}, to predict {', '.join(self.target)} from {', '.join(self.columns) or 'its columns'}"

    def title(self) -> str:
        """When, how much, and from how many rows."""
        rows = "" if self.rows is None else f", from {self.rows:,} rows"
        return f"{self.first[:16].replace('T', ' ')}: {self.replies} replies, {size(self.bytes)}{rows}"


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def audited(lines: Iterable[Line]) -> list[AuditedRun]:
    """The runs of a log, in the order in which they began; lines of no run (a site that could not start) under ""."""
    found: dict[str, AuditedRun] = {}
    for line in lines:
        run = str(line.get("run", ""))
        found.setdefault(run, AuditedRun(run)).note(line)
    return list(found.values())
