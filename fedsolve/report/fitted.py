"""What was fitted and who took part, in sentences and one table: the first sections of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fedsolve.loop.history import Run
from fedsolve.models import Model
from fedsolve.report.html_parts import Html, element, long_table, paragraph, section
from fedsolve.report.tables import listed
from fedsolve.text import printable

MOST_ROUNDS = 8  # that a cell lists one by one
MOST_REASONS = 3
NO_PART = "took no part"  # what the history says of a site that never joined, before the reason


def what_was_fitted(
    run: Run, outcome: str | Sequence[str] | None = None, rows: int | None = None, kept: int | None = None
) -> Html:
    """The section on model, penalty, data and method. `rows` is how many all sites have, `kept` how many those have
    that were not lost."""
    kind = run.model.in_words if isinstance(run.model, Model) else f"a {type(run.model).__name__}"
    named = [f"“{printable(one)}”" for one in ([outcome] if isinstance(outcome, str) else outcome or ())]
    of = f" of the outcome{'' if len(named) == 1 else 's'} {listed(named)}" if named else ""
    parts = [f"{kind[:1].upper()}{kind[1:]}{of}{_size(run)}{_penalty(run)}."]
    classes = getattr(run.model, "classes", None)
    if classes and len(classes) == 2:
        other, wanted = (f"“{printable(str(one))}”" for one in classes)
        said = f"{wanted}, as against {other}" if outcome is None else f"whether it is {wanted} or {other}"
        parts.append(f"It predicts {said}.")
    method = f"Method: {type(run.algorithm).__name__}. {_first_sentence(run.algorithm)}".rstrip()
    if rows and (lost := lost_at_the_end(run)):
        part = f"{rows:,} rows" if kept is None else f"{kept:,} of {rows:,} rows"
        parts.append(f"It was fitted to {part}, without those of {printable(listed(lost))}.")
    elif rows:
        parts.append(f"It was fitted to {rows:,} rows.")
    return section("What was fitted", paragraph(" ".join(parts)), paragraph(method))


def _size(run: Run) -> str:
    w = getattr(run.model, "w", None)
    names = getattr(run.model, "input_names", None)
    columns = f" on {len(names)} column{'' if len(names) == 1 else 's'}" if names else ""
    return columns if w is None else f"{columns} with {w.size:,} coefficient{'' if w.size == 1 else 's'}"


def _penalty(run: Run) -> str:
    loss = getattr(run.algorithm, "loss", None)
    given = [f"{name} = {value:g}" for name in ("l2", "l1") if (value := getattr(loss, name, 0.0))]
    return f", and a penalty ({', '.join(given)})" if given else ""


def _first_sentence(algorithm: object) -> str:
    text = " ".join((type(algorithm).__doc__ or "").split("\n\n")[0].split())
    # A dataclass without a docstring of its own has its signature in its place.
    return "" if text.startswith(f"{type(algorithm).__name__}(") else text


# ── who took part ──


def who_took_part(run: Run, clients: Sequence[Mapping[str, Any]]) -> Html:
    """The section on the sites: their rows, how many rounds each answered, when it was missing and why."""
    answered, asked = _rounds(run)
    missing: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in run.history:
        for name, why in row.missing:
            missing[name][why].append(row.round)
    never = {name: list(missing.pop(name, ())) for name in never_joined(run)}
    known = {str(one["name"]): one for one in clients}
    names = sorted(dict.fromkeys([*known, *asked, *missing]), key=lambda name: name not in missing)
    names = [name for name in names if name not in never]
    lines = [
        [
            name,
            f"{known[name]['samples']:,}" if name in known else "–",
            f"{len(answered.get(name, ()))} of {len(asked.get(name, ()))}",
            _when(missing[name]) if name in missing else "never",
        ]
        for name in names
    ]
    lines += [[name, "–", "–", printable(why[0]) if why else NO_PART] for name, why in never.items()]
    silent = _silent(run)
    parts: list[Html] = [_sentence(names, missing, silent, never)]
    headings = [("site", False), ("rows", True), ("rounds answered", True), ("missing", False)]
    parts.append(long_table(headings, lines, label="The sites of the run"))
    said = (
        "The start is round 0. A site that is not asked in a round, or is missing from it, is not in the round's sums. "
        "It may have answered what the fit needed and be missing from what only measured it."
    )
    return section("Who took part", *parts, paragraph(said, kind="quiet"))


def _rounds(run: Run) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """The rounds in which each site answered everything that the algorithm asked, and those in which it was asked."""
    answered: dict[str, set[int]] = defaultdict(set)
    asked: dict[str, set[int]] = defaultdict(set)
    failed: dict[str, set[int]] = defaultdict(set)
    for record in run.ledger.records:
        if "algorithm" not in record.purposes:
            continue
        for name in record.asked:
            asked[name].add(record.round)
        for name in record.answered:
            answered[name].add(record.round)
        for name in set(record.asked) - set(record.answered):
            failed[name].add(record.round)
    return {name: rounds - failed[name] for name, rounds in answered.items()}, dict(asked)


def _silent(run: Run) -> list[str]:
    """The sites that were asked to fit the model and answered not once."""
    records = [record for record in run.ledger.records if "algorithm" in record.purposes]
    heard = {name for record in records for name in record.answered}
    return [name for name in dict.fromkeys(name for record in records for name in record.asked) if name not in heard]


def lost_at_the_end(run: Run) -> list[str]:
    """The sites that were lost while the model was fitted, and are not part of what it minimises: they did not answer
    when they were last asked. A site that is only not drawn in a round answered then."""
    if run.model_row.objective_share >= 1 - 1e-12:
        return []
    last: dict[str, bool] = {}
    for record in run.ledger.records:
        if "algorithm" in record.purposes:
            last |= {name: name in record.answered for name in record.asked}
    return [name for name, answered in last.items() if not answered]


def never_joined(run: Run) -> list[str]:
    """The sites that were asked to join, as those whose policy refuses the run, and have never answered anything."""
    records = run.ledger.records
    heard = {name for record in records for name in record.answered}
    return [name for name in dict.fromkeys(name for record in records for name in record.asked) if name not in heard]


def _absent(never: Mapping[str, Sequence[str]]) -> str:
    """Who took no part, with the reason where that is not too long; empty if everybody did."""
    if len(never) > MOST_REASONS:
        return f" {printable(listed(list(never)))} {NO_PART}."
    return "".join(f" {printable(name)} {printable(why[0]) if why else NO_PART}." for name, why in never.items())


def _sentence(
    names: Sequence[str], missing: Mapping[str, object], silent: Sequence[str], absent: Mapping[str, Sequence[str]]
) -> Html:
    count = f"{len(names):,} site{'' if len(names) == 1 else 's'}"
    if not missing and not absent:
        return paragraph(f"{count} took part, and nobody was missing from a round.")
    if not missing:
        said = f"{count} took part, and none of them was missing from a round.{_absent(absent)}"
        return paragraph(element("strong", said))
    which = "each of them was" if len(missing) == len(names) > 1 else f"{len(missing):,} of them were"
    others = f"{'1 of them was' if len(missing) == 1 else which} missing from some round"
    never = f" {listed(silent)} never answered, and nothing of {_them(silent)} is in the model." if silent else ""
    return paragraph(element("strong", f"{count} took part; {others}.{never}{_absent(absent)}"))


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _when(reasons: Mapping[str, Sequence[int]]) -> str:
    said = [f"{_ranges(rounds)}: {printable(why) or 'no reason given'}" for why, rounds in reasons.items()]
    more = [f"{len(said) - MOST_REASONS} other reasons"] if len(said) > MOST_REASONS else []
    return "; ".join([*said[:MOST_REASONS], *more])


def _ranges(rounds: Sequence[int]) -> str:
    """Rounds with neighbours joined: "rounds 2 to 5, 8"."""
    runs: list[list[int]] = []
    for one in sorted(set(rounds)):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    said = [str(one[0]) if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in runs]
    if len(said) > MOST_ROUNDS:
        return f"{len(set(rounds)):,} rounds, the first {runs[0][0]} and the last {runs[-1][-1]}"
    return f"round{'' if len(set(rounds)) == 1 else 's'} {', '.join(said)}"
