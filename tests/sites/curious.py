"""A curious server: it joins as any run does, and then asks what it likes. The sites are objects of this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import fedsolve as fs
from fedsolve.federation.federation import Federation
from fedsolve.federation.protocol import collect
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.sites import Site, SiteTransport, Terms, read_site_file
from fedsolve.sites.site_process import failure
from fedsolve.sites.told import told_of
from tests.sites.hospitals import PREPROCESS, Hospitals, terms


class Direct:
    """A carrier to sites of this process; one that refuses to take part answers everything with that."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files
        self.sites: dict[str, Site | Exception] = {}
        self.absences: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.files)

    def begin(self, terms: str) -> None:
        for name, path in self.files.items():
            try:
                self.sites[name] = Site(read_site_file(path), Terms.from_json(terms))
            except fs.errors.FedsolveError as error:
                self.sites[name] = error

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        for name, data in requests.items():
            site = self.sites[name]
            yield (
                name,
                site.answer(data) if isinstance(site, Site) else failure(data, type(site).__name__, told_of(site)),
            )

    def reachable(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(names)

    def close(self) -> None:
        self.sites = {}


@contextmanager
def joined(
    found: Hospitals,
    algorithm: object,
    asked: Terms | None = None,
    preprocess: fs.data.Preprocess = PREPROCESS,
    **also: object,
) -> Iterator[Federation]:
    """A federation of sites in which a run has joined and preprocessed, as every run does."""
    loss = getattr(algorithm, "loss", None)
    protocols: dict[str, object] = dict(collect("algorithm", algorithm)) | dict(collect("preprocess", preprocess))
    if isinstance(loss, fs.Loss):
        protocols |= {"measure": Measure(loss), "inspect": Inspect(loss)}
    with fs.Session(SiteTransport(Direct(found.files), asked or terms()), also=also) as session:
        session.open(protocols)
        session.join(preprocess)
        session.fed.begin_round(1)
        yield session.fed
