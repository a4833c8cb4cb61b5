"""The audit log as the memory of the budgets: each line is read once, and not all of them at once."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from fedsolve.errors import DataError
from fedsolve.sites import Site, audit, read_site_file
from fedsolve.sites.audit import AuditLog, Tally
from tests.sites.hospitals import hospitals, terms
from tests.sites.test_trouble_at_start import PROTOCOLS


def line(event: str = "sent", run: str = "aa", size: int = 5, said: str = "") -> str:
    about = {"time": "2025-01-01T00:00:00.000+00:00", "event": event, "run": run, "calls": [], "bytes": size}
    return json.dumps({**about, "said": said}, ensure_ascii=False) + "\n"


def test_a_start_reads_each_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = hospitals(tmp_path)
    about = read_site_file(found.files["arden"])
    about.store.mkdir()
    about.audit_log.write_text(200 * line(run="bb"))
    seen: list[str] = []
    parse = audit._line_in

    def counted(text: str) -> audit.Line | None:
        seen.append(text)
        return parse(text)

    monkeypatch.setattr(audit, "_line_in", counted)
    Site(about, terms().asking(PROTOCOLS))
    assert len(seen) == 201  # the last one says that the run began


def test_a_long_log_is_not_in_memory_at_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(20_000 * line(said="x" * 500))
    tracemalloc.start()
    tally = Tally(path, "aa")
    tally.read()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tally.spent.requests == 20_000
    assert most < path.stat().st_size / 20


def test_what_was_added_since_is_read_and_nothing_twice(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    tally = Tally(log.path, "aa")
    tally.read()
    assert tally.spent.requests == 0
    log.write("run", "aa")
    log.write("sent", "aa", calls=[], bytes=5)
    for _ in range(2):
        tally.read()
        assert (tally.spent.requests, tally.recent) == (1, {"aa"})
    new, rest = line(size=7)[:40], line(size=7)[40:]
    with log.path.open("a") as file:
        file.write(new)
        file.flush()
        tally.read()
        assert tally.spent.requests == 1
        file.write(rest)
    tally.read()
    assert (tally.spent.requests, tally.spent.bytes) == (2, 12)
    with log.path.open("a") as file:
        file.write(line(size=8).rstrip())  # whole, but for its end
    tally.read()
    assert tally.spent.bytes == 20
    log.write("refused", "aa", said="no")
    tally.read()
    assert (tally.spent.bytes, tally.spent.refusals) == (20, 1)


def test_a_log_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(3 * line())
    tally = Tally(path, "aa")
    tally.read()
    (tmp_path / "new").write_text(line())
    (tmp_path / "new").rename(path)
    tally.read()
    assert tally.spent.requests == 1
    path.unlink()
    tally.read()
    assert tally.spent.requests == 0


def test_what_is_no_line_is_said_with_its_number_also_when_it_came_later(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(line())
    tally = Tally(path, "aa")
    tally.read()
    with path.open("a") as file:
        file.write("event,time\n")
    with pytest.raises(DataError, match="line 2: this is no line of an audit log"):
        tally.read()
