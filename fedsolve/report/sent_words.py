"""What left each site, in words: "a gradient of 14 numbers, 8 times". From the ledger, and from what each client step
says of itself (`@client_step(sends="a gradient")`); a step that says nothing is called by its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fedsolve.data.preprocessing import Preprocess
from fedsolve.federation.joining import Joining
from fedsolve.federation.ledger import JUDGES, Ledger
from fedsolve.federation.protocol import collect, steps, what_it_sends
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain
from fedsolve.inference.standard_errors import StandardErrors
from fedsolve.loop.few_rows import ROWS_PER_PARAMETER
from fedsolve.loop.history import Run
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.models import LinearModel
from fedsolve.report.html_parts import Html, element, paragraph
from fedsolve.report.tables import listed, size
from fedsolve.text import printable

MOST_GROUPS = 6  # of sites that sent different things; more are described together

# Why it was asked: by the protocol, or else by the purpose of the call.
WHY = {
    "session": "to join",
    "preprocess": "to agree on the columns",
    "evaluation": "to judge the model on held-out rows",
    "gain": "to see who gains by joining",
    "summary": "to compute standard errors",
    "stopping": "to decide when to stop",
    "inspect": "to check the fit",
    "setup": "to prepare the fit",
    "algorithm": "to fit the model",
    "measure": "to measure how good the fit is",
}
MEANINGS = {
    "gradient": (
        "A gradient says how the fit would have to change to suit a site's rows better: one number for each "
        "coefficient, an average over all rows of the site."
    ),
    "Hessian": (
        "A Hessian says how certain that is in each direction: a number for each pair of coefficients, again an "
        "average over all rows of the site."
    ),
    "eigenvectors": "Eigenvectors are the directions in which a site's rows say most, and eigenvalues how much.",
    "loss": "The loss is how badly the model fits: an average over all rows of the site.",
    "curvature": "A bound on the curvature is one number that says how large a step may be.",
}
# What has no numbers by its nature; a reply to anything else that has none says that there is nothing to tell.
NO_NUMBERS = ("a confirmation", "the reply of")
# Protocols that a run has under fixed names, for a run that no longer has its session.
KNOWN: dict[str, type[object]] = {
    "session": Joining,
    "measure": Measure,
    "inspect": Inspect,
    "preprocess": Preprocess,
    "evaluation": Evaluation,
    "gain": FederationGain,
    "summary": StandardErrors,
}
WARM_START = "warm start"  # the purpose of what ran first
# Of a run of which the library has seen no more than the rounds.
OWN_FILES = (
    "Each site describes its columns and their categories in a site file of its own. What the sites told each other "
    "before the run, to agree on these, did not pass through the run: it is not in its ledger, and not in this report. "
)
# Of a simulation, in which one run file describes the tables of all sites.
AGREED = (
    "Before such a run, sites have to agree on the run file, which declares the columns and their categories. Where "
    "fedsolve init makes it, they tell each other the names of their columns, how many rows they have, which "
    "categories and labels occur and which are rare, rounded ranges of numbers, and where cells are missing: fedsolve "
    "init lists it for each site. "
)
LIMITS = (
    "In the run itself nothing else left a site, except the reason it gave where it could not answer. Replies are not "
    "encrypted against the server and no noise is added: whoever runs the server can read each of them. Averages over "
    "many rows say little of a single one; over few rows, or with many coefficients, they can say much."
)
SIMULATED = (
    "This run was a simulation: the rows of all sites were on one computer. This is what would have left each site."
)


@dataclass
class Replies:
    """How often a site answered one call, and with how many numbers at the least and at the most."""

    times: int = 0
    least: int = 0
    most: int = 0

    def note(self, numbers: int) -> None:
        """One more reply."""
        self.least = numbers if not self.times else min(self.least, numbers)
        self.most = max(self.most, numbers)
        self.times += 1

    @property
    def key(self) -> tuple[int, int, int]:
        return self.times, self.least, self.most


Calls = dict[tuple[str, str], Replies]  # by what was sent and why


def section_parts(run: Run, level: int = 3) -> list[Html]:
    """The content of the section: a list for each group of sites that sent the same, and what its words mean. `level`
    is that of the headings."""
    ledger = run.all_sent()
    parts: list[Html] = []
    used: list[str] = []
    for sites, calls in _groups(ledger, phrases(run)):
        lines = [f"{sentence(phrase, replies)}, {why}" for (phrase, why), replies in calls.items()]
        used += lines
        parts += [element(f"h{level}", sites), element("ul", *(element("li", line) for line in lines))]
    total = ledger.total(None)
    said = f"In all, the sites sent {size(total.bytes_up)}, and received {size(total.bytes_down)}; "
    said += "; ".join(
        f"{WHY[purpose]}, {size(part.bytes_up)} and {size(part.bytes_down)} of it"
        for purpose in ("algorithm", *JUDGES)
        if (part := ledger.total(purpose)).exchanges or purpose == "algorithm"
    )
    said += "."
    meanings = [meaning for word, meaning in MEANINGS.items() if any(word in line for line in used)]
    here = [paragraph(SIMULATED)] if _is_simulated(run) else []
    return [
        *here,
        *parts,
        paragraph(said),
        *map(paragraph, meanings),
        paragraph(_beforehand(run) + LIMITS + _whether_few(run)),
    ]


def sentence(phrase: str, replies: Replies) -> str:
    """A phrase with its numbers: "a gradient of 14 numbers, 8 times"."""
    counted = _counted(replies.least, replies.most)
    simple = phrase.startswith("a ") and not any(word in phrase for word in (" and ", " of ", " by ", ",", " that "))
    if counted and simple and replies.most > 1:
        phrase = f"{phrase} of {counted}"
    elif counted:
        phrase = f"{phrase} ({counted})"
    elif not phrase.startswith(NO_NUMBERS):
        phrase = f"in place of {phrase}: a reply without them"
    return f"{phrase[:1].upper()}{phrase[1:]}, {_times(replies.times)}"


def phrases(run: Run) -> dict[str, str]:
    """What the replies to each call are, by the name of the call in the ledger, as far as the steps say so."""
    found: dict[str, str] = {}
    for name, kind in KNOWN.items():
        for step, function in _steps_of(kind):
            if (said := what_it_sends(function)) is not None and "{" not in said:
                found[f"{name}.{step}"] = said
    protocols = dict(collect("algorithm", run.algorithm))
    if run.session is not None:
        protocols.update(run.session.fed.protocols)
    for name, protocol in protocols.items():
        for step, function in steps(protocol).items():
            said = what_it_sends(function)
            if said is None:
                found.pop(f"{name}.{step}", None)
            else:
                found[f"{name}.{step}"] = said.format(self=protocol) if "{self." in said else said
    return found


def _steps_of(kind: type[object]) -> Iterator[tuple[str, Callable[..., object]]]:
    for name in dir(kind):
        step = getattr(kind, name, None)
        if callable(step) and what_it_sends(step) is not None:
            yield name, step


def _groups(ledger: Ledger, named: Mapping[str, str]) -> Iterator[tuple[str, Calls]]:
    """What all sites sent alike, and then, by sites that sent the same, what was not alike."""
    by_client = _by_client(ledger, named)
    if not by_client:
        return
    first = next(iter(by_client.values()))
    common = {key for key in first if all(key in one and one[key].key == first[key].key for one in by_client.values())}
    if common:
        yield "Each site sent", {key: replies for key, replies in first.items() if key in common}
    rest = {name: {key: one for key, one in calls.items() if key not in common} for name, calls in by_client.items()}
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for client, calls in rest.items():
        if calls:
            groups[tuple((name, replies.key) for name, replies in calls.items())].append(client)
    also = "also sent" if common else "sent"
    if len(groups) <= MOST_GROUPS:
        for clients in sorted(groups.values(), key=len, reverse=True):
            yield f"{listed(clients)} {also}", rest[clients[0]]
    else:
        yield f"Each site {also} at most", _most(rest)


def _by_client(ledger: Ledger, named: Mapping[str, str]) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for record in ledger.records:
        numbers = record.scalars_up[1:].tolist()  # the first row is the envelope
        keys = [
            (_by_name(call) if purpose == WARM_START else named.get(call) or _by_name(call), _why(purpose, call))
            for purpose, call in zip(record.purposes, record.calls, strict=True)
        ]
        for place, client in enumerate(record.answered):
            calls = found.setdefault(client, {})
            for row, key in enumerate(keys):
                calls.setdefault(key, Replies()).note(int(numbers[row][place]))
    return found


def _most(by_client: Mapping[str, Calls]) -> Calls:
    """What no site exceeded."""
    found: Calls = {}
    for calls in by_client.values():
        for key, one in calls.items():
            so_far = found.setdefault(key, Replies(one.times, one.least, one.most))
            so_far.times, so_far.most = max(so_far.times, one.times), max(so_far.most, one.most)
            so_far.least = min(so_far.least, one.least)
    return found


def _counted(least: int, most: int) -> str:
    if not most:
        return ""
    if least == most:
        return "one number" if most == 1 else f"{most:,} numbers"
    return f"{least:,} to {most:,} numbers"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _why(purpose: str, call: str) -> str:
    if purpose == WARM_START:
        return "to find where to start"
    return WHY.get(call.partition(".")[0]) or WHY.get(purpose, purpose)


def _by_name(call: str) -> str:
    return f"the reply of the step “{call.rpartition('.')[2]}”"


def _whether_few(run: Run) -> str:
    """Whether what is said of few rows applies to this run; empty where that is not known."""
    if run.session is None or not isinstance(run.model, LinearModel) or not run.session.fed.info:
        return ""
    rows = {name: info.samples for name, info in run.session.fed.info.items()}
    least, coefficients = min(rows, key=rows.__getitem__), run.model.w.size
    said = f" Here the site with the fewest rows, {printable(least)}, has {rows[least]:,} for {coefficients:,} "
    said += "coefficient" if coefficients == 1 else "coefficients"
    if rows[least] >= ROWS_PER_PARAMETER * coefficients:
        return f"{said}: three or more for each, which is not few."
    return f"{said}: fewer than three for each, which is few."


def _beforehand(run: Run) -> str:
    """What is known of what sites told each other before the run; empty if there was nothing to agree on."""
    if not _is_simulated(run):
        return OWN_FILES
    return AGREED if _is_declared(run) else ""


def _is_declared(run: Run) -> bool:
    """Whether a schema says what the columns are, so that somebody has looked at the files before."""
    preprocess = None if run.session is None else run.session.preprocess
    return isinstance(preprocess, Preprocess) and preprocess.schema is not None


def _is_simulated(run: Run) -> bool:
    """Whether the clients' rows were with the server; assumed where that is not known."""
    return run.session is None or hasattr(run.session.transport, "clients")
