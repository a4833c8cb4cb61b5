"""The ledger for people: by call and by client, with what measuring and setting up took kept apart."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fedsolve.federation.ledger import Ledger
from fedsolve.report.html_parts import Html, element, paragraph, table
from fedsolve.report.tables import size

PURPOSES = ("setup", "warm start", "algorithm", "measure", "evaluation", "summary", "gain")
SAID = (
    "The bytes of encoded messages, all sites together, by what they were for: setup to join and to agree on the "
    "columns, algorithm to fit the model, measure to see how good the fit is."
)
MORE = {
    "warm start": "warm start to find where to begin",
    "evaluation": "evaluation to judge the model on held-out rows",
    "summary": "summary to compute standard errors after the run",
    "gain": "gain to see, after the run, who gains by joining",
}
MOST_CLIENTS = 20


@dataclass
class Sent:
    """Bytes and numbers of one call, or of one client."""

    bytes_up: int = 0
    bytes_down: int = 0
    scalars_up: int = 0
    scalars_down: int = 0

    def add(self, direction: str, nbytes: int, scalars: int) -> None:
        if direction == "up":
            self.bytes_up, self.scalars_up = self.bytes_up + nbytes, self.scalars_up + scalars
        else:
            self.bytes_down, self.scalars_down = self.bytes_down + nbytes, self.scalars_down + scalars


def tables(ledger: Ledger, level: int = 3) -> list[Html]:
    """What was sent by call and by client, and what was computed. `level` is that of the headings in it."""
    calls: dict[tuple[str, str], Sent] = defaultdict(Sent)
    clients: dict[str, dict[str, Sent]] = defaultdict(lambda: defaultdict(Sent))
    for entry in ledger.entries():  # once: a long run has many
        calls[entry.purpose, entry.call].add(entry.direction, entry.bytes, entry.scalars)
        clients[entry.client][entry.purpose].add(entry.direction, entry.bytes, entry.scalars)
    more = "".join(f" Also {words}." for name, words in MORE.items() if any(name == one for one, _ in calls))
    return [
        _by_call(calls),
        paragraph(SAID + more, kind="quiet"),
        *_by_client(clients, level),
        *_computed(ledger, level),
    ]


def _by_call(calls: dict[tuple[str, str], Sent]) -> Html:
    headings = [("call", False), ("purpose", False)]
    headings += [(name, True) for name in ("up", "down", "numbers up", "numbers down")]
    order = sorted(calls, key=lambda key: (_place(key[0]), -calls[key].bytes_up - calls[key].bytes_down))
    rows = []
    for purpose, call in order:
        sent = calls[purpose, call]
        rows.append(
            (
                call,
                purpose,
                size(sent.bytes_up),
                size(sent.bytes_down),
                f"{sent.scalars_up:,}",
                f"{sent.scalars_down:,}",
            )
        )
    up, down, numbers_up, numbers_down = (
        sum(getattr(sent, name) for sent in calls.values())
        for name in ("bytes_up", "bytes_down", "scalars_up", "scalars_down")
    )
    return table(headings, rows, ["all", "", size(up), size(down), f"{numbers_up:,}", f"{numbers_down:,}"])


def _by_client(clients: dict[str, dict[str, Sent]], level: int) -> list[Html]:
    purposes = sorted(dict.fromkeys(purpose for sent in clients.values() for purpose in sent), key=_place)
    headings = [("site", False)]
    headings += [(f"{purpose} {way}", True) for purpose in [*purposes, "all"] for way in ("up", "down")]

    def cells(chosen: list[dict[str, Sent]]) -> list[str]:
        sums = [(sum(one[p].bytes_up for one in chosen), sum(one[p].bytes_down for one in chosen)) for p in purposes]
        sums.append((sum(up for up, _ in sums), sum(down for _, down in sums)))
        return [size(one) for pair in sums for one in pair]

    busiest = sorted(clients, key=lambda name: -sum(one.bytes_up + one.bytes_down for one in clients[name].values()))
    kept = set(busiest if len(busiest) <= MOST_CLIENTS else busiest[: MOST_CLIENTS - 1])
    rows = [[name, *cells([sent])] for name, sent in clients.items() if name in kept]
    others = [sent for name, sent in clients.items() if name not in kept]
    if others:
        rows.append([f"{len(others)} others, who sent less or as much", *cells(others)])
    return [element(f"h{level}", "By site"), table(headings, rows, ["all", *cells(list(clients.values()))])]


def _computed(ledger: Ledger, level: int) -> list[Html]:
    counts = {purpose: ledger.total(purpose).counts for purpose in ("algorithm", "measure")}
    what = sorted({name for found in counts.values() for name in found})
    if not what:
        return []
    rows = [(name, *(f"{counts[purpose].get(name, 0):,}" for purpose in counts)) for name in what]
    said = "Gradients and losses count samples; Hessians and factorisations count matrices."
    headings = [("computed at the sites", False), ("algorithm", True), ("measure", True)]
    return [element(f"h{level}", "Computations"), table(headings, rows), paragraph(said, kind="quiet")]


def _place(purpose: str) -> int:
    return PURPOSES.index(purpose) if purpose in PURPOSES else len(PURPOSES)
