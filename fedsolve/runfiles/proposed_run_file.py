"""The run file that `fedsolve init` writes: what a proposal says, as TOML with comments for people who change it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsolve.data.advice import toml_key
from fedsolve.data.column_facts import ColumnFacts
from fedsolve.data.csv_tables import Reading
from fedsolve.data.missing_markers import Na, merged
from fedsolve.data.proposals import RARE, Proposal
from fedsolve.data.schema import Categorical, Column
from fedsolve.errors import ConfigError
from fedsolve.runfiles.toml_writer import inline, toml_lines
from fedsolve.tables.cells import key
from fedsolve.tables.outcomes import Positive, condition

LOSSES = ("Logistic", "Softmax", "Squared", "Poisson")
PENALTY = 0.01


@dataclass(frozen=True)
class Wanted:
    """What the user has said, beside the files."""

    target: str
    weight: str | None = None
    offset: str | None = None
    positive: Positive | None = None
    loss: str | None = None
    reading: Reading = Reading()  # noqa: RUF009  # frozen


@dataclass(frozen=True)
class Outcome:
    """A loss for the target: its keys, those of [data] that go with it, and why."""

    name: str
    keys: dict[str, object]
    data: dict[str, object]
    why: str


def outcome_of(wanted: Wanted, facts: ColumnFacts) -> Outcome:
    """The loss that a target calls for: two values are classes, more are classes if they are texts or few whole
    numbers, and numbers are numbers. Raises ConfigError for a loss that does not fit."""
    levels = sorted(facts.levels, key=lambda level: (isinstance(level, str), level))
    shown = ", ".join(f"{level:g}" if isinstance(level, float) else level for level in levels[:6])
    shown += " …" if len(levels) > 6 else ""
    name = wanted.loss or _usual(wanted, facts)
    target = wanted.target
    if name not in LOSSES:
        raise ConfigError(f"--loss is one of {', '.join(LOSSES)}, got {name!r}")
    if name in ("Squared", "Poisson") and facts.kind == "text":
        raise ConfigError(
            f"the target {target} holds the texts {shown}, and {name} predicts numbers; use Logistic or Softmax"
        )
    if name == "Logistic":
        return _two_classes(wanted, facts, levels, shown)
    if name == "Softmax":
        if not levels:
            raise ConfigError(f"the target {target} has too many different values for classes; use --loss Squared")
        kept: list[object] = [_plain(level) for level in levels]
        why = f"{target} has {len(levels)} values: {shown}"
        if facts.kind == "number":
            why += '. For counts say --loss Poisson; for some of them against the others --positive "> 0"'
        return Outcome("Softmax", {"classes": len(levels)}, {"classes": kept}, why)
    if name == "Poisson":
        return Outcome("Poisson", {}, {}, f"{target} is taken for counts")
    counts = facts.whole and not facts.low < 0
    why = f"{target} is a number" + (". If it counts something, say --loss Poisson" if counts else "")
    return Outcome("Squared", {}, {}, why)


def _usual(wanted: Wanted, facts: ColumnFacts) -> str:
    if wanted.positive is not None or facts.distinct == 2:
        return "Logistic"
    return "Softmax" if facts.levels else "Squared"


def _two_classes(wanted: Wanted, facts: ColumnFacts, levels: list[str | float], shown: str) -> Outcome:
    target = wanted.target
    if wanted.positive is not None:
        made = condition(wanted.positive)
        said = made.said if made is not None and key(wanted.positive) not in map(key, levels) else wanted.positive
        return Outcome("Logistic", {}, {"positive": wanted.positive}, f"{target} is 1 where it is {said}, else 0")
    if facts.distinct != 2 or len(levels) != 2:
        raise ConfigError(
            f"the target {target} has {facts.distinct} different values{f' ({shown})' if shown else ''}, and Logistic "
            'takes two; say which are 1, such as --positive "> 0"'
        )
    if [_plain(level) for level in levels] == [0, 1]:
        return Outcome("Logistic", {}, {}, f"{target} is 0 or 1")
    low, high = (f"{level:g}" if isinstance(level, float) else level for level in levels)
    why = f"{target}: {high} counts as 1, {low} as 0 (change with --positive)"
    return Outcome("Logistic", {}, {"positive": _plain(levels[1])}, why)


def run_file_text(proposal: Proposal, wanted: Wanted, outcome: Outcome, folder: Path, command: str) -> str:
    """The text of the run file, to be saved in this folder."""
    parts = [
        f"# Written by: {command}\n# Every key is explained in docs/run-file.md. Change what does not suit, then:\n#\n"
        "#   fedsolve run FILE.toml\n",
        _data(proposal, wanted, outcome, folder),
        _schema(proposal),
        _algorithm(proposal, outcome),
    ]
    return "\n".join(parts)


def _data(proposal: Proposal, wanted: Wanted, outcome: Outcome, folder: Path) -> str:
    lines = ["[data]"]
    lines += _commented("target", wanted.target, "the column to predict")
    for name, value in outcome.data.items():
        said = "these values count as 1, all others as 0" if name == "positive" else "numbered 0, 1, … in this order"
        lines += _commented(name, value, said)
    for name, value, said in (
        ("weight", wanted.weight, "the weight of each row"),
        ("offset", wanted.offset, "added to the linear predictor, with coefficient 1"),
        ("missing_target", "drop" if proposal.target.missing else None, "rows without a target are left out"),
        ("drop", list(proposal.drop) or None, "columns that are no features"),
        ("na", _markers(proposal, wanted.reading), "what marks a missing cell, besides an empty one"),
    ):
        if value is not None:
            lines += _commented(name, value, said)
    for name in ("header", "names", "delimiter", "decimal", "thousands", "encoding"):
        value = getattr(wanted.reading, name)
        if value is not None:
            lines.append(f"{name} = {inline(value)}")
    for name in ("skip", "skip_footer"):
        if getattr(wanted.reading, name):
            lines.append(f"{name} = {getattr(wanted.reading, name)}")
    lines += ["", "[data.files]  # one for each site; they are never pooled"]
    lines += toml_lines(_paths(proposal.files, folder))
    for site, own in proposal.sites.items():
        lines += ["", f"[data.sites.{toml_key(site)}]  # what is different at this site"]
        if own.names is not None:
            lines += _commented("names", list(own.names), "its file has no header")
        if own.absent:
            lines += _commented("absent", list(own.absent), "it has no values of these: all its cells are missing")
    return "\n".join(lines) + "\n"


def _markers(proposal: Proposal, reading: Reading) -> object:
    own: Na | None = {name: [_whole(code) for code in codes] for name, codes in proposal.na.items()} or None
    given = reading.na
    if given is None or own is None:
        return given if own is None else own
    return merged(given, own)


def _paths(files: Mapping[str, Path], folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    start = folder.resolve()
    for name, path in files.items():
        whole = path.resolve()
        found[name] = whole.relative_to(start).as_posix() if whole.is_relative_to(start) else os.fspath(whole)
    return found


def _schema(proposal: Proposal) -> str:
    lines = [
        "# The columns of every site, matched by name. Categories are declared, so that they are the same everywhere."
    ]
    for column in proposal.schema.columns:
        lines.append("[[preprocess.schema]]")
        lines += _column(column, proposal)
    return "\n".join(lines) + "\n"


def _column(column: Column, proposal: Proposal) -> list[str]:
    if not isinstance(column, Categorical):
        low, high = proposal.ranges[column.name]
        lines = [f"name = {inline(column.name)}  # numbers, about {low:g} … {high:g}"]
        if column.name in proposal.gaps:
            lines.append('impute = "mean"  # for missing cells; or "complete": leave such rows out, as R does')
        if column.indicator:
            lines.append("indicator = true  # a column that is 1 where the value is missing; the mean stands for it")
        return lines
    numbers = all(isinstance(level, float) for level in column.categories)
    few = "  # few whole numbers: taken for codes; for a quantity remove the next three lines" if numbers else ""
    lines = [f"name = {inline(column.name)}{few}", f"categories = {inline([_plain(one) for one in column.categories])}"]
    first = inline(_plain(column.categories[0]))
    lines.append(f"drop_first = true  # {first} is the reference; to choose another, put it first")
    if column.unseen == "other":
        lines.append('unseen = "other"  # missing cells are a category of their own')
    elif column.impute is not None:
        lines.append('unseen = "error"  # nobody has another value; "zeros" would count one as the reference')
        lines.append(f'impute = {inline(column.impute)}  # missing cells become the most frequent one; or "complete"')
    else:
        lines.append(
            'unseen = "error"  # nobody has a missing or other value; "zeros" would count one as the reference'
        )
    return lines


def _algorithm(proposal: Proposal, outcome: Outcome) -> str:
    penalty = PENALTY if proposal.rare else 0.0
    why = "no penalty: the maximum likelihood fit. If the run says that there is no finite minimum, write 0.01"
    if proposal.rare:
        shown = ", ".join(proposal.rare[:4]) + (" …" if len(proposal.rare) > 4 else "")
        why = f"a small penalty, because of categories with fewer than {RARE} rows ({shown}); 0 for none"
    keys = "".join(f"{name} = {inline(value)}\n" for name, value in outcome.keys.items())
    return (
        '[algorithm]\nname = "Newton"  # reaches the fit of the pooled rows\n\n'
        f'[algorithm.loss]\nname = "{outcome.name}"  # {outcome.why}\n{keys}'
        f'l2 = {penalty}  # {why}\nintercept = "free"\n' + _summary(proposal)
    )


def penalty_notes(proposal: Proposal) -> list[str]:
    """That there is a penalty, and so no p values."""
    if not proposal.rare:
        return []
    more = f" and {len(proposal.rare) - 4} more" if len(proposal.rare) > 4 else ""
    return [
        f"a small penalty, l2 = {PENALTY}, is proposed, because fewer than {RARE} rows of all sites have "
        f"{', '.join(proposal.rare[:4])}{more}; for p values merge these with other categories, or drop the column, "
        "and write l2 = 0 and [summary]"
    ]


def _summary(proposal: Proposal) -> str:
    """Ask for standard errors, where a fit without a penalty has those of the usual kind."""
    if proposal.rare:
        return ""
    return "\n[summary]  # standard errors, intervals and p values; docs/summary.md\n"


def _commented(name: str, value: object, said: str) -> list[str]:
    """A key with its comment, which stands above a long line."""
    line = f"{name} = {inline(value)}"
    return [f"{line}  # {said}"] if len(line) + len(said) < 110 else [f"# {said}", line]


def _plain(level: str | float) -> str | float:
    return level if isinstance(level, str) else _whole(level)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
