"""`fedsolve init`: a run file for one file per site, proposed from the files themselves."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, escape
from fedsolve.cli.markers import markers, value
from fedsolve.data import advice
from fedsolve.data.csv_tables import Reading
from fedsolve.data.proposals import Proposal, propose
from fedsolve.data.schema import Categorical
from fedsolve.data.site_names import short_names
from fedsolve.data.site_tables import SiteReading
from fedsolve.errors import ConfigError
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.proposed_run_file import Outcome, Wanted, outcome_of, penalty_notes, run_file_text
from fedsolve.tables.outcomes import Positive
from fedsolve.wire.storage import write_atomically


@dataclass(frozen=True)
class Lists:
    """The options that may be repeated."""

    names: Sequence[str] = ()
    na: Sequence[str] = ()
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    target: str
    output: Path
    weight: str | None = None
    offset: str | None = None
    positive: str | None = None
    loss: str | None = None
    lists: Lists = Lists()  # frozen
    yes: bool = False
    force: bool = False


def init(files: Sequence[str], asked: Asked, as_json: bool) -> int:
    """Propose a run file, check that it can be run, and write it."""
    if asked.output.exists() and not asked.force:
        raise ConfigError(f"there is already a file {asked.output}; choose another with --output, or add --force")
    wanted = Wanted(
        asked.target,
        asked.weight,
        asked.offset,
        _positive(asked.positive),
        asked.loss,
        Reading(names=_names(asked.lists.names), na=markers(asked.lists.na)),
    )
    with advice.written_in("init"):
        proposal = _proposed(files, asked, wanted)
    outcome = outcome_of(wanted, proposal.target)
    folder = asked.output.parent
    text = run_file_text(proposal, wanted, outcome, folder, shlex.join(["fedsolve", *sys.argv[1:]]))
    notes = [*proposal.notes, *penalty_notes(proposal), *_read_as_it_will_be(text, asked.output, proposal)]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(asked.output, text.encode())

    def show(console: Console) -> None:
        rows = ", ".join(f"{site} {count}" for site, count in proposal.rows.items())
        console.print(escape(f"{len(proposal.rows)} sites, {sum(proposal.rows.values())} rows: {rows}"), soft_wrap=True)
        console.print(escape(f"{outcome.name}: {outcome.why}"), soft_wrap=True)
        console.print(escape(_columns(proposal)), soft_wrap=True)
        for note in notes:
            console.print(f"[yellow]•[/yellow] {escape(note)}", soft_wrap=True)
        console.print("To agree on this run file, each site tells the others:", soft_wrap=True)
        for line in proposal.reveals:
            console.print(f"  {escape(line)}", soft_wrap=True)
        use = shlex.join(["fedsolve", "run", str(asked.output)])
        console.print(f"Written: [bold]{escape(str(asked.output))}[/bold]. Read it, then: [bold]{escape(use)}[/bold]")

    emit(_as_plain(proposal, outcome, asked.output, notes), as_json, show)
    return 0


def _proposed(files: Sequence[str], asked: Asked, wanted: Wanted) -> Proposal:
    """The proposal; a list of more than a thousand categories is agreed to first, where a person can be asked."""

    def made(many: bool) -> Proposal:
        return propose(
            files[0] if len(files) == 1 else _named(files),
            target=asked.target,
            weight=asked.weight,
            offset=asked.offset,
            drop=asked.lists.drop,
            keep=asked.lists.keep,
            reading=wanted.reading,
            sites=_own_names(asked.lists.names),
            positive=wanted.positive,
            many_categories=many,
        )

    try:
        return made(asked.yes)
    except ConfigError as error:
        if "--yes" not in str(error) or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        print(f"{error}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise
        return made(True)


def _read_as_it_will_be(text: str, path: Path, proposal: Proposal) -> list[str]:
    """Read the data as the run will, so that what is written can be run; what is said of it that is new."""
    prepared = problems.prepare(config.parse(text, str(path)), path)
    return [note for note in prepared.notes if note not in proposal.notes]


# ── options ──


def _named(files: Sequence[str]) -> Sequence[str] | dict[str, str]:
    """Files, or name=path for some or each of them."""
    named = {one: _name_and_path(one) for one in files}
    others = [one for one, pair in named.items() if pair is None]
    if len(others) == len(files) or len(named) < len(files):  # a file that is given twice is said to be
        return files
    short = dict(zip(others, short_names([Path(one).name for one in others]), strict=True))
    pairs = [pair or (short[one], one) for one, pair in named.items()]
    for name, _ in pairs:
        if sum(name == other for other, _ in pairs) > 1:
            raise ConfigError(f"two files would be the site {name!r}; give each a name of its own, NAME=FILE")
    return dict(pairs)


def _name_and_path(text: str) -> tuple[str, str] | None:
    """The two parts of name=path; None if it is a path."""
    name, equals, path = text.partition("=")
    return (name, path) if equals and path and not Path(text).exists() else None


def _names(given: Sequence[str]) -> list[str] | None:
    """`--names a,b,c`, for all files."""
    whole = [one for one in given if not _is_of_site(one)]
    if len(whole) > 1:
        raise ConfigError("--names a,b,c is for all files, so say it once; --names SITE=a,b,c is for the file of one")
    return _listed(whole[0]) if whole else None


def _own_names(given: Sequence[str]) -> dict[str, SiteReading]:
    """`--names westgate=a,b,c`, for the file of one site."""
    pairs = [one.partition("=") for one in given if _is_of_site(one)]
    return {site: SiteReading(names=_listed(names)) for site, _, names in pairs}


def _is_of_site(text: str) -> bool:
    return "=" in text.partition(",")[0]


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _positive(text: str | None) -> Positive | None:
    if text is None:
        return None
    if "," in text:
        return [value(one) for one in text.split(",")]
    return value(text)


# ── what is said ──


def _columns(proposal: Proposal) -> str:
    said = [
        f"{column.name} ({len(column.categories)} categories, compared with {column.categories[0]})"
        if isinstance(column, Categorical)
        else column.name
        for column in proposal.schema.columns
    ]
    return f"Columns: {', '.join(said)}"


def _as_plain(proposal: Proposal, outcome: Outcome, path: Path, notes: Sequence[str]) -> dict[str, object]:
    return {
        "status": "ok",
        "file": path,
        "sites": {site: {"file": proposal.files[site], "rows": rows} for site, rows in proposal.rows.items()},
        "loss": outcome.name,
        "why": outcome.why,
        "columns": proposal.schema.to_plain(),
        "drop": list(proposal.drop),
        "na": proposal.na,
        "notes": list(notes),
        "reveals": list(proposal.reveals),
    }
