"""One site in one run: encoded requests in, encoded answers out, everything that leaves written down first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from fedsolve.errors import PolicyRefusal, StorageError, WireError
from fedsolve.federation.client_owner import Guard
from fedsolve.federation.client_runtime import Runtime, failure_of
from fedsolve.federation.joining import Joining
from fedsolve.sites.agreed_transform import AgreedTransform
from fedsolve.sites.alone import alone
from fedsolve.sites.audit import AuditLog, shape_of
from fedsolve.sites.call_guard import CallGuard
from fedsolve.sites.column_guard import ColumnGuard
from fedsolve.sites.consent import asked_for, consented, what_leaves, what_stays, words_of
from fedsolve.sites.cut_log import CutLog
from fedsolve.sites.fill_log import FillLog
from fedsolve.sites.function_guard import FunctionGuard
from fedsolve.sites.guards import Guards
from fedsolve.sites.heard_functions import HeardFunctions
from fedsolve.sites.numbers_sent import numbers_in
from fedsolve.sites.own_draws import OwnDraws, own_key
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.row_sets import keep_sets, known_sets, with_used
from fedsolve.sites.run_store import RunStore, check_agreed
from fedsolve.sites.site_data import SiteRows, load_rows
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.sizes import check_sizes
from fedsolve.sites.starting import Attempt, written_down
from fedsolve.sites.terms import Terms
from fedsolve.sites.told import say_here, told_failure
from fedsolve.sites.tried_sets import note_tried
from fedsolve.wire import encoding as wire
from fedsolve.wire.encoding import Preamble
from fedsolve.wire.messages import Failure, Reply, Request


class Site:
    """Answers the requests of one run from a site's own data, as far as its policy allows.

    Raises PolicyRefusal, before any data is read, if the site takes no part in the run; DataError for data that is not
    as its description says; SiteChanged if the data, or the terms of the run, changed since the run began here; and
    StorageError for a file that cannot be read or written now.
    """

    def __init__(self, about: SiteFile, terms: Terms) -> None:
        self.about, self.terms = about, terms
        self.log = AuditLog(about.audit_log)
        attempt = Attempt(self.log, terms.run, about.policy, about.store / "lock")
        with written_down(attempt):
            self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        about, terms, policy = self.about, self.terms, self.about.policy
        protocols = consented(about, terms)
        folder, agreed = about.store / "runs" / terms.run, {"terms": terms.mark()}
        attempt.check()
        check_agreed(folder, agreed)  # a run's terms are those that it came with first, whatever became of them
        attempt.rows = True
        found: SiteRows = load_rows(about, terms, protocols)
        agreed |= {"data file": found.file_mark, "rows": found.rows_mark}
        self.client, self.notes = found.client, found.notes
        facts = {"rows": self.client.n_samples, "terms": terms.mark()} | asked_for(about, terms, protocols, self.client)
        facts |= {"may_send": what_leaves(protocols), "stays": what_stays(about, terms, protocols)}
        columns = self._column_guard(found, protocols)
        while True:  # judging takes long, and runs that begin meanwhile may use other rows: then again, beside these
            known = known_sets(about.store, found.file_mark)
            sets = self._judged(columns, found, known)
            with alone(attempt.lock):  # what runs share is counted and written by one of them at a time
                attempt.check()  # of several that begin together only so many go on
                if keep_sets(about.store, found.file_mark, known, sets):
                    self.store = RunStore(folder, agreed)
                    if policy.own_draws:
                        self.client.key = own_key(about.store, terms.run, self.client.key)
                    self.log.write("run", terms.run, **facts)
                    break
        attempt.tally.read()  # an older process of this run does not answer any more
        learned, held = (self._points(found.file_mark, mask) for mask in (found.learned, found.held))
        self.guard = CallGuard(policy, protocols, attempt.tally.spent, self.client, learned, held)
        functions = self._function_guard(found, protocols)
        guards: list[Guard] = [columns, functions, self.guard, *([OwnDraws()] if policy.own_draws else [])]
        self.runtime = Runtime(self.client, protocols, self.store, Guards(*guards))
        self._words = words_of({**protocols, "session": Joining()})

    def _column_guard(self, found: SiteRows, protocols: Mapping[str, object]) -> ColumnGuard:
        """The rules on rows and columns, with those that are known before anything of these is judged."""
        about, store = self.about, self.about.store
        fills = FillLog(store / f"fills-{found.file_mark}.json")
        agreed = AgreedTransform(store / "runs" / self.terms.run / "transform.json")
        guard = ColumnGuard(about.policy, protocols, self.client, fills, agreed)
        check_sizes(about.policy, protocols, self.client)
        note_tried(store / f"tried-{found.file_mark}.json", (found.learned, found.held), about.policy.row_sets)
        return guard

    def _judged(self, columns: ColumnGuard, found: SiteRows, known: list[np.ndarray]) -> list[np.ndarray]:
        """The sets of rows that earlier runs and this one use, with nothing against them."""
        policy, mine = self.about.policy, (found.learned, found.held)
        columns.begin(found.whole, known, [one for one in mine if one.sum() >= policy.min_rows])
        return with_used(known, mine, policy)

    def _function_guard(self, found: SiteRows, protocols: Mapping[str, object]) -> FunctionGuard:
        """The rules on functions that the server tells."""
        heard = HeardFunctions(self.about.store / "runs" / self.terms.run / "functions.json")
        cuts = CutLog(self.about.store / f"cuts-{found.file_mark}.json")
        return FunctionGuard(self.about.policy, protocols, found.whole, found.learned, heard, cuts)

    def _points(self, file_mark: str, mask: np.ndarray) -> PointLog:
        name = hashlib.blake2b(np.packbits(mask).tobytes(), digest_size=8, key=file_mark.encode()).hexdigest()
        return PointLog(int(mask.sum()), self.about.store / "points" / f"{name}.f64")

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
            with self.store.owned():  # an older process of this site does not answer any more
                self._write_down(request, answer, encoded)
        except StorageError as error:
            return self._unwritten(request.preamble, error)
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
                "numbers": numbers_in(part.value),
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
            hash=hashlib.sha256(encoded).hexdigest(),
        )
        self.guard.spent.note(line)

    def _named(self, route: list[str]) -> str:
        step = self.runtime.steps[route[0], route[1]]
        return f"{type(step.protocol).__name__}.{route[1]}"

    def _failed(self, failure: Failure, cause: BaseException | None) -> bytes:
        """What went wrong, in words that say nothing of the rows. The words themselves stay in the log."""
        event = "refused" if isinstance(cause, PolicyRefusal) else "failed"
        facts = {"rule": cause.rule} if isinstance(cause, PolicyRefusal) else {}
        try:
            with self.store.owned():
                line = self.log.write(event, self.terms.run, step=failure.step, said=failure.text, **facts)
            self.guard.spent.note(line)
        except StorageError as error:
            return self._unwritten(failure.preamble, error)
        return told_failure(failure, cause, self.about).encode()

    def _unwritten(self, head: Preamble, error: StorageError) -> bytes:
        """That the log could not be written, which can therefore only be said here."""
        say_here(error)
        return told_failure(failure_of(head, "session.audit", error), error, self.about).encode()
