"""One site in one run: encoded requests in, encoded answers out, everything that leaves written down first."""

from __future__ import annotations

import hashlib

import numpy as np

from fedsolve.errors import (
    FedsolveError,
    LinkExceeded,
    MemoryLost,
    NotRemembered,
    PolicyRefusal,
    ProtocolMismatch,
    StorageError,
    WireError,
)
from fedsolve.federation.client_runtime import Runtime, failure_of
from fedsolve.federation.joining import Joining
from fedsolve.sites.audit import AuditLog, shape_of
from fedsolve.sites.call_guard import CallGuard
from fedsolve.sites.consent import check_batches, check_terms, what_leaves, words_of
from fedsolve.sites.own_draws import own_key
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.row_sets import check_row_sets
from fedsolve.sites.run_store import RunStore
from fedsolve.sites.site_data import SiteRows, load_rows
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.terms import Terms
from fedsolve.wire import encoding as wire
from fedsolve.wire.messages import Failure, Reply, Request

# Errors whose words are about messages, rules and files of the library, and never about cells of the data. Of all
# others only the class and the place leave; their words are in the site's own log.
SPEAKING = (PolicyRefusal, ProtocolMismatch, WireError, LinkExceeded, MemoryLost, NotRemembered, StorageError)


class Site:
    """Answers the requests of one run from a site's own data, as far as its policy allows.

    Raises PolicyRefusal, before any data is read, if the site takes no part in the run; DataError for data that is not
    as its description says; StorageError if the data, or the terms of the run, changed since the run began here.
    """

    def __init__(self, about: SiteFile, terms: Terms) -> None:
        self.about, self.terms = about, terms
        self.log = AuditLog(about.audit_log)
        protocols = self._accepted()
        found: SiteRows = load_rows(about, terms, protocols)
        agreed = {"terms": terms.mark(), "data file": found.file_mark, "rows": found.rows_mark}
        self.client, self.notes = found.client, found.notes
        self._check_fresh(found)
        check_batches(about.policy, protocols, self.client.n_samples)
        self.store = RunStore(about.store / "runs" / terms.run, agreed)
        learned, held = (self._points(found.file_mark, mask) for mask in (found.learned, found.held))
        if about.policy.own_draws:
            self.client.key = own_key(about.store, self.client.key)
        self.guard = CallGuard(about.policy, protocols, self.log.spent(terms.run), self.client, learned, held)
        self.runtime = Runtime(self.client, protocols, self.store, self.guard)
        self._words = words_of({**protocols, "session": Joining()})
        facts = {"rows": self.client.n_samples, "may_send": what_leaves(protocols), "terms": terms.mark()}
        self.log.write("run", terms.run, **facts)

    def _accepted(self) -> dict[str, object]:
        """The protocols of the run. No data has been read yet, so whatever is wrong with the terms may be told."""
        try:
            return check_terms(self.about, self.terms)
        except FedsolveError as error:
            refusal = (
                error if isinstance(error, PolicyRefusal | ProtocolMismatch) else PolicyRefusal("terms", str(error))
            )
            rule = getattr(refusal, "rule", "library")
            self.log.write("refused", self.terms.run, rule=rule, said=str(refusal))
            raise refusal from error

    def _check_fresh(self, found: SiteRows) -> None:
        """What no run alone can show: how many there are, and from which rows they are answered."""
        recent, most = self.log.recent_runs(), self.about.policy.runs
        try:
            if self.terms.run not in recent and len(recent) >= most:
                raise PolicyRefusal("runs", f"{len(recent)} runs began here within a day, and no more than {most} may")
            check_row_sets(self.about.store, found.file_mark, (found.learned, found.held), self.about.policy)
        except PolicyRefusal as error:
            self.log.write("refused", self.terms.run, rule=error.rule, said=str(error))
            raise

    def _points(self, file_mark: str, mask: np.ndarray) -> PointLog:
        name = hashlib.blake2b(np.packbits(mask).tobytes(), digest_size=8, key=file_mark.encode()).hexdigest()
        return PointLog(int(mask.sum()), self.about.store / "points" / f"{name}.f32")

    def answer(self, data: bytes) -> bytes:
        """The encoded answer to an encoded request."""
        try:
            request = Request.decode(data, self.runtime.types)
        except WireError as error:
            return self._failed(failure_of(wire.peek(data), "decode", error), error)
        answer = self._answered(request)
        if isinstance(answer, Failure):
            return self._failed(answer, answer.cause)
        encoded = answer.encode()
        try:
            self._write_down(request, answer, encoded)
        except StorageError as error:
            return failure_of(request.preamble, "session.audit", error).encode()
        return encoded

    def _answered(self, request: Request) -> Reply | Failure:
        try:
            self.guard.request()
        except PolicyRefusal as error:
            return failure_of(request.preamble, "session.request", error)
        return self.runtime.answer(request)

    def _write_down(self, request: Request, reply: Reply, encoded: bytes) -> None:
        head = request.preamble
        calls = [
            {
                "step": self._named(route),
                "what": self._words.get((route[0], route[1])),
                "shape": shape_of(part.value),
                "numbers": part.scalars,
                "bytes": part.size,
            }
            for route, part in zip(request.routes.value, reply.results, strict=True)
        ]
        line = self.log.write(
            "sent",
            self.terms.run,
            attempt=head.attempt,
            round=head.round,
            exchange=head.exchange,
            number=head.number,
            calls=calls,
            bytes=len(encoded),
            hash=hashlib.blake2b(encoded, digest_size=16).hexdigest(),
        )
        self.guard.spent.note(line)

    def _named(self, route: list[str]) -> str:
        step = self.runtime.steps[route[0], route[1]]
        return f"{type(step.protocol).__name__}.{route[1]}"

    def _failed(self, failure: Failure, cause: BaseException | None) -> bytes:
        """What went wrong, in words that say nothing of the rows. The words themselves stay in the log."""
        event = "refused" if isinstance(cause, PolicyRefusal) else "failed"
        facts = {"rule": cause.rule} if isinstance(cause, PolicyRefusal) else {}
        told = failure if cause is None or isinstance(cause, SPEAKING) else without_words(failure, cause)
        try:
            self.guard.spent.note(self.log.write(event, self.terms.run, step=failure.step, said=failure.text, **facts))
        except StorageError as error:
            return failure_of(failure.preamble, "session.audit", error).encode()
        return told.encode()


def told_of(error: Exception) -> str:
    """What a server is told of a site that cannot start: nothing that may be about its rows."""
    if isinstance(error, SPEAKING):
        return str(error)
    return f"{type(error).__name__} when this site started; its words are in the site's own audit log"


def without_words(failure: Failure, cause: BaseException) -> Failure:
    """A failure that says where and what class, and no more."""
    place = failure.text.rpartition("(")[2] if not isinstance(cause, FedsolveError) else ""
    at = f" ({place}" if place.endswith(")") else ""
    text = f"{type(cause).__name__} in {failure.step}{at}; its words are in this site's own audit log"
    return Failure(failure.preamble, failure.kind, failure.step, text)
