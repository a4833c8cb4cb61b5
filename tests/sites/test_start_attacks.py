"""A server that has a site begin again and again: what a start says of the rows is counted, written down and final."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.schema import Schema
from fedsolve.errors import DataError, FedsolveError, PolicyRefusal, StorageError
from fedsolve.sites import Site, Terms, read_site_file
from fedsolve.sites.known_protocols import described
from tests.sites.altered import NEWTON, edited
from tests.sites.curious import Direct
from tests.sites.hospitals import COLUMNS, PREPROCESS, Hospitals, hospitals, terms


@pytest.fixture
def found(tmp_path: Path) -> Hospitals:
    return hospitals(tmp_path)


def asked(run: str, *columns: dict[str, Any]) -> Terms:
    made = fs.data.Preprocess(Schema.from_plain(list(columns or COLUMNS)))
    return Terms(run, described({"algorithm": NEWTON, "preprocess": made}))


def begins(found: Hospitals, what: Terms) -> Site:
    return Site(read_site_file(found.files["arden"]), what)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "store-arden" / "audit.jsonl").read_text().splitlines()]


def alone_in_sex(folder: Path) -> None:
    """Whether a run that has the column is refused says that somebody is alone in a category."""
    edited(folder, lambda row, cells: [*cells[:2], "m" if row == 4 else "f", cells[3]])


def test_121_other_terms_in_each_start_of_a_run(found: Hospitals, tmp_path: Path) -> None:
    """A start that is refused keeps its terms, and other ones are refused before any row is looked at."""
    alone_in_sex(tmp_path)
    run = terms().run
    with pytest.raises(PolicyRefusal, match="'min_cell'"):
        begins(found, asked(run))
    (tmp_path / "arden.csv").unlink()
    for impute in range(5):
        with pytest.raises(StorageError, match="terms of this site changed"):
            begins(found, asked(run, {"name": "age", "impute": float(impute)}))


def test_122_the_same_start_again_and_again(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy="refusals = 3")
    alone_in_sex(tmp_path)
    what, said = asked(terms().run), Counter[str]()
    for _ in range(6):
        with pytest.raises(PolicyRefusal) as error:
            begins(found, what)
        said[error.value.rule] += 1
    assert said == {"min_cell": 3, "refusals": 3}


def test_123_runs_whose_start_fails(tmp_path: Path) -> None:
    """That a column has a cell that is no number is told by a failure; these count as runs too."""
    found = hospitals(tmp_path, policy="runs = 3")
    edited(tmp_path, lambda row, cells: ["sixty" if row == 4 else cells[0], *cells[1:]])
    for _ in range(3):
        with pytest.raises(DataError):
            begins(found, asked(terms().run))
    with pytest.raises(PolicyRefusal, match="'runs'"):
        begins(found, asked(terms().run))


def test_124_a_start_that_nobody_would_see(found: Hospitals, tmp_path: Path) -> None:
    """Every start that fails is in the log, with its run."""
    run = terms().run
    begins(found, asked(run))
    with pytest.raises(StorageError):
        begins(found, asked(run, COLUMNS[0]))
    edited(tmp_path, lambda row, cells: ["sixty" if row == 4 else cells[0], *cells[1:]])
    failed = terms().run
    with pytest.raises(DataError):
        begins(found, asked(failed))
    begun, changed, broken = log(tmp_path)
    assert (begun["event"], begun["run"]) == ("run", run)
    assert (changed["event"], changed["run"], changed["step"]) == ("failed", run, "start")
    assert "SiteChanged: the terms of this site changed" in changed["said"]
    assert (broken["event"], broken["run"], broken["rows"]) == ("failed", failed, True)
    assert "column age: 'sixty' is not a number" in broken["said"]


def test_125_an_older_process_that_has_not_been_asked_yet(found: Hospitals, tmp_path: Path) -> None:
    """Started again, it knows the run's memory, and would answer other points under the newest number."""

    class Keeping(Direct):
        def begin(self, terms: str) -> None:
            self.terms = terms
            super().begin(terms)

        def ask(self, requests: Any, deadline: float | None) -> Any:
            self.last = dict(requests)
            return super().ask(requests, deadline)

    carrier = Keeping({"arden": found.files["arden"]})
    with fs.Session(fs.sites.SiteTransport(carrier, terms())) as session:
        session.open({"algorithm": NEWTON, "preprocess": PREPROCESS})
        session.join(PREPROCESS)
        session.fed.begin_round(1)
        session.fed.gather(NEWTON.evaluate, w=np.zeros(4))
    again = Terms.from_json(carrier.terms)
    older, newer = begins(found, again), begins(found, again)
    sent, zeros = bytes(carrier.last["arden"]), np.zeros(4).tobytes()
    place = sent.rfind(zeros)
    other = sent[:place] + np.full(4, 0.1).tobytes() + sent[place + len(zeros) :]
    lines = len(log(tmp_path))
    for request in (sent, other):
        answer = older.answer(request)
        assert b"another process of this site has taken over" in answer
    assert len(log(tmp_path)) == lines
    assert b"another process" not in newer.answer(sent)
    assert newer.guard.spent.requests == lines - 2  # the lines that say that the run began, three times less one
    with pytest.raises(FedsolveError):
        older.store.write(1, {})
