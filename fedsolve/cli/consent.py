"""`fedsolve consent`: whether a site would take part in a run, what would leave it and what would not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedsolve.cli.console import emit, escape
from fedsolve.deploy.preview import asked_of_sites
from fedsolve.errors import FedsolveError, PolicyRefusal
from fedsolve.runfiles import run_file, server_file
from fedsolve.sites import SiteFile, Terms, read_site_file
from fedsolve.sites.consent import consented, what_leaves, what_stays
from fedsolve.sites.loosened import loosened
from fedsolve.sites.rehearsal import Rehearsal, rehearsed
from fedsolve.sites.starting import rule_of

LATER = (
    "What depends on your rows is judged when the run asks: whether they are enough, and whether a value, a class or a "
    "missing cell is that of a few. Nothing was read of your data file."
)

NOT_NAMED = "its sites are {sites}. As the file stands, nothing is asked of this site."


NOT_LOOKED_AT = (
    "Nothing of this was logged, counted or remembered, and nothing has left. What earlier runs did here (their sets "
    "of rows, what they put into missing cells, their bins) was not looked at, and may still be a reason to refuse "
    "this one. So may what depends on the other sites: the columns, once they are agreed on, and the points that are "
    "asked at."
)


@dataclass(frozen=True)
class DataFile:
    """What came of reading the data file: what is there, or what is wrong."""

    file: Path
    found: Rehearsal | None = None
    error: FedsolveError | None = None

    @classmethod
    def of(cls, about: SiteFile, terms: Terms) -> DataFile:
        """Start the site as for a run with these terms."""
        try:
            return cls(about.file, found=rehearsed(about, terms))
        except FedsolveError as error:
            return cls(about.file, error=error)

    def plain(self) -> dict[str, object]:
        """The same for machines."""
        refused = isinstance(self.error, PolicyRefusal)
        return {
            "status": "fits" if self.found else "refused" if refused else "wrong",
            "file": self.file,
            "rule": rule_of(self.error) if self.error and refused else None,
            "message": None if self.error is None else str(self.error),
            "rows": None if self.found is None else self.found.learned + self.found.held,
            "held_out": None if self.found is None else self.found.held,
            "columns": None if self.found is None else list(self.found.columns),
            "notes": [] if self.found is None else list(self.found.notes),
        }

    def show(self, console: Console) -> None:
        """The same for people."""
        console.print(f"\nThe data file, {escape(str(self.file))}:", soft_wrap=True)
        for line in self._lines():
            console.print(f"  {line}", soft_wrap=True)
        console.print(f"\n{NOT_LOOKED_AT}", soft_wrap=True)

    def _lines(self) -> list[str]:
        if self.error is not None:
            what = "refused for what its rows are" if isinstance(self.error, PolicyRefusal) else "wrong"
            return [f"[bold red]{what}[/bold red]: {escape(str(self.error))}"]
        assert self.found is not None
        rows, held = self.found.learned + self.found.held, self.found.held
        aside = f" ({self.found.learned:,} to learn from, {held:,} held out to judge by)" if held else ""
        size = f"{rows:,} rows{aside}, {len(self.found.columns)} columns ({', '.join(self.found.columns)})"
        return [f"[bold]fits[/bold]: {escape(size)}", *map(escape, self.found.notes)]


def consent(site: Path, file: Path, with_data: bool, as_json: bool) -> int:
    """Ask the policy of a site file about the server's half of a run file; `with_data` reads the data file too."""
    about, what = read_site_file(site), server_file.parse(run_file.read_text(file), str(file))
    terms, refusal = asked_of_sites(what), None
    try:
        protocols = consented(about, terms)
    except FedsolveError as error:
        refusal, protocols = error, terms.build()
    leaves = what_leaves(protocols)
    stays = what_stays(about, terms, protocols)
    data = DataFile.of(about, terms) if with_data and refusal is None else None
    named, loose = about.name in what.sites.names, loosened(about.policy)

    def show(console: Console) -> None:
        if refusal is None and named:
            console.print(f"[bold]{escape(about.name)} takes part in this run.[/bold]")
        elif refusal is None:
            said = f"[bold]{escape(about.name)} would accept this run, and the run does not name it[/bold]: "
            console.print(f"{said}{escape(NOT_NAMED.format(sites=', '.join(what.sites.names)))}", soft_wrap=True)
        else:
            said = f"[bold red]{escape(about.name)} takes no part in this run[/bold red]: {escape(str(refusal))}."
            console.print(said, soft_wrap=True)
        if refusal is not None and not named:
            console.print("The run file does not name this site among its own.")
        console.print("\nWhat the run may ask for:" if refusal else "\nWhat may leave:")
        for line in leaves:
            console.print(f"  {escape(line)}", soft_wrap=True)
        console.print("\nWhat does not leave:")
        for line in stays:
            console.print(f"  {escape(line)}", soft_wrap=True)
        if loose:
            console.print("\nRules of this site file that hold back less than by default:")
        for line in loose:
            console.print(f"  {escape(line)}", soft_wrap=True)
        if data is not None:
            data.show(console)
        elif refusal is None:
            console.print(f"\n{LATER}", soft_wrap=True)
        elif with_data:
            console.print("\nThe data file was not read: a run that is refused does not get so far.", soft_wrap=True)

    emit(
        {
            "status": "accepted" if refusal is None else "refused",
            "site": about.name,
            "named": named,
            "rule": None if refusal is None else rule_of(refusal),
            "message": None if refusal is None else str(refusal),
            "may_send": leaves,
            "stays": stays,
            "loosened": loose,
            **({"data": None if data is None else data.plain()} if with_data else {}),
        },
        as_json,
        show,
    )
    return 0 if refusal is None and (data is None or data.error is None) else 1
