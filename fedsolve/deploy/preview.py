"""What a run would ask of its sites, without a run: for sites that want to see it before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from fedsolve.deploy.server_run import also_of, terms_of
from fedsolve.federation.session import Session
from fedsolve.loop.run import run
from fedsolve.runfiles.server_file import ServerFile
from fedsolve.sites import SiteTransport, Terms

NO_RUN = "0" * 16  # what a run is called that has not begun


class _Heard(Exception):
    """The terms, which is all there was to hear."""

    def __init__(self, terms: str) -> None:
        self.terms = terms


class _Listener:
    """A carrier to nobody, which keeps what sites would be told first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.absences: Mapping[str, str] = {}

    def begin(self, terms: str) -> NoReturn:
        raise _Heard(terms)

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterable[tuple[str, bytes]]:
        return ()

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing was opened."""


def asked_of_sites(what: ServerFile) -> Terms:
    """The terms that the sites of this run file get: of a run that begins like any other, and is heard out no further
    than to its first words."""
    _, entry = what.entry()
    rules, evaluation = what.judging(getattr(entry.algorithm, "loss", None))
    transport = SiteTransport(_Listener(tuple(what.sites.names)), terms_of(what, NO_RUN))
    with Session(transport, also=also_of(what, entry.algorithm)) as session:
        try:
            run(
                entry.algorithm,
                session,
                stopping=rules,
                participation=what.participants(),
                preprocess=what.preprocessing(),
                measure=what.run.measure,
                evaluation=evaluation,
            )
        except _Heard as heard:
            return Terms.from_json(heard.terms)
    raise AssertionError("a run begins by telling its sites the terms")
