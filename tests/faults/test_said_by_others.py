"""An error that ends a run says what the other clients have to say too, so that all of it can be mended at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.errors import ClientError, ClientInputError, ClientRefused, DataError, MemoryLost, TransportError
from fedsolve.federation.answers import Answer
from fedsolve.federation.said_by_others import MOST_TOLD, with_others
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.sites import SiteTransport
from fedsolve.wire.encoding import Preamble
from fedsolve.wire.messages import FAILURE, Failure
from tests.problems import PROBLEMS
from tests.sites.altered import NEWTON, edited
from tests.sites.curious import Direct
from tests.sites.hospitals import PREPROCESS, hospitals, terms

HEAD = Preamble(FAILURE, 0, 0, 0, 0, 0)
FIRST = ClientRefused("a", "join", "no column x")


def failing(**said: str) -> list[tuple[str, Answer]]:
    return [(name, Failure(HEAD, "PolicyRefusal", "join", text)) for name, text in said.items()]


def test_others_are_named_with_what_they_say() -> None:
    said = with_others(FIRST, failing(b="no column x", c="no column y", d="no column y", e="no column x"))
    assert type(said) is ClientRefused
    assert said.client == "a"
    assert str(said) == (
        "client 'a', step join: no column x; so say clients 'b', 'e'; clients 'c', 'd', step join: no column y"
    )


def test_one_alone_says_what_it_said() -> None:
    assert str(with_others(FIRST, [])) == str(FIRST)
    assert str(with_others(FIRST, failing(b="no column x"))).endswith("no column x; so says client 'b'")


def test_what_nobody_can_mend_is_not_waited_for() -> None:
    def never() -> Iterator[tuple[str, Answer]]:
        raise AssertionError("was asked")
        yield

    for error in (MemoryLost("a", "step", "gone"), ClientError("a", "step", "RuntimeError in x.py")):
        assert with_others(error, never()) is error
    crashed: list[tuple[str, Answer]] = [("b", Failure(HEAD, "RuntimeError", "join", "crashed"))]
    assert str(with_others(FIRST, crashed)) == str(FIRST)


def test_a_connection_that_breaks_hides_nothing() -> None:
    def breaks() -> Iterator[tuple[str, Answer]]:
        yield from failing(b="no column z")
        raise TransportError("the server is gone")

    assert str(with_others(FIRST, breaks())).endswith("; client 'b', step join: no column z")


def test_many_are_counted() -> None:
    said = str(with_others(FIRST, failing(**{f"site{k}": f"no column {k}" for k in range(MOST_TOLD + 7)})))
    assert said.endswith(f"no column {MOST_TOLD - 1}; and 7 more clients cannot answer")
    said = str(with_others(FIRST, failing(**{f"site{k}": FIRST.text for k in range(MOST_TOLD + 7)})))
    assert said.endswith(f"'site{MOST_TOLD - 1}' and more")


@dataclass(frozen=True)
class Picky:
    """Some clients refuse their data at the first step."""

    @fs.client_step
    def look(self, client: fs.Client) -> float:
        if client.name in ("client-1", "client-3"):
            raise DataError(f"{client.name} has a text where a number should be")
        return 1.0


@pytest.mark.parametrize("workers", [False, True])
def test_in_one_process_and_in_several(workers: bool) -> None:
    clients = PROBLEMS["logistic | unbalanced"].clients()
    transport = Processes(clients, workers=2) if workers else InProcess(clients)
    said = r"'client-1', step \S*look: client-1 has.*; client 'client-3', step \S*look: client-3 has"
    with fs.Session(transport) as session:
        session.open({"algorithm": Picky()})
        session.join()
        session.fed.begin_round(1)
        with pytest.raises(ClientInputError, match=said):
            session.fed.gather(Picky().look)


def test_each_site_names_its_own_rare_columns(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    edited(tmp_path, lambda row, cells: [*cells[:2], "m" if row == 19 else "f", cells[3]], "arden")
    edited(tmp_path, lambda row, cells: ["61.0" if row else "70.0", *cells[1:]], "corrie")
    with pytest.raises(ClientRefused, match=r"client 'arden'.*'sex'.*; client 'corrie', step .*column 'age'") as said:
        fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)
    assert all(name not in str(said.value) for name in ("bryn", "dale"))
