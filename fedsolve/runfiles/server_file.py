"""The server's half of a run file: what is fitted and by whom, without any data of sites. `fedsolve submit` reads it.

    [sites]                                [algorithm]
    names = ["arden", "bryn", "corrie"]    name = "Newton"
    target = "ill"                         loss = { name = "Logistic", intercept = "free" }

    [preprocess]                           [evaluation]
    schema = [{ name = "age" }]            hold_out = 0.2

`[preprocess]`, `[loss]`, `[run]`, `[participation]`, `[evaluation]`, `[stopping]`, `[summary]` and `[output]` mean what
they mean in a run file with data. `[server]` names a file with rows of the server's own, for algorithms that compute
with some. Each site has the other half, its site file.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from fedsolve.algorithms.base import includes_server
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Schema
from fedsolve.data.site_column import with_term
from fedsolve.data.site_tables import SiteReading
from fedsolve.errors import ConfigError
from fedsolve.federation.participation import Participation
from fedsolve.federation.protocol import is_server_only, steps
from fedsolve.runfiles import keys, registry, run_file
from fedsolve.runfiles.faults import in_words
from fedsolve.runfiles.problem import Entry, build_entries
from fedsolve.runfiles.site_intercepts import FULL

EVERYONE = Participation(quorum=1.0, retries=1)
SITE = "site"  # the column of the sites' names
# The tables of a simulation that a run between sites has not, and why.
NOT_HERE = {
    "data": "each site has its own data. Name the sites in [sites], or use `fedsolve run` for a simulation",
    "partition": "each site has its own rows, so there is nothing to divide",
    "link": "it simulates slow connections, and here they are real",
    "algorithms": "`fedsolve compare` is for simulations; write one [algorithm], and submit a file for each",
    "compare": "`fedsolve compare` is for simulations; submit a file for each algorithm",
    "select": "`fedsolve select` (cross-validation) is for simulations so far",
    "gain": "`fedsolve gain` (who gains by joining) is for simulations so far",
    "loggers": "the server writes the history of the run, and nothing else is logged so far",
    "modules": "sites run what is part of fedsolve, and import nothing",
}


class SitesTable(keys.Table):
    """Who takes part, in the order in which sums are taken, and the column that is predicted at each of them."""

    names: list[str] = Field(min_length=1)
    target: str


class ServerTable(keys.SiteTable):
    """Rows of the server's own, in a csv or parquet file that is read as a site reads its own, where the run is
    submitted; the other keys say how.

    file     the path, from the folder of the run file
    target   the column that is predicted, if it is called otherwise than in [sites]
    classes, positive  as in the [data] of the sites
    rows     so many of them, drawn by `seed`
    """

    file: str
    target: str | None = None
    classes: list[str | int | float] | None = None
    positive: str | int | float | list[str | int | float] | None = None
    rows: int | None = keys.Positive
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _has_a_file(cls, table: object) -> object:
        if isinstance(table, dict) and "file" not in table and ("dataset" in table or "rows" in table):
            raise ValueError(
                "give file = a path: `dataset`, and `rows` without a file, are for simulations, which have all rows"
            )
        return table

    def build(self) -> SiteReading:
        """How the file is read."""
        own = {name: getattr(self, name) for name in keys.SiteTable.model_fields}
        return SiteReading(**own)


class ServerFile(keys.Fit):
    """A whole file."""

    sites: SitesTable
    server: ServerTable | None = None
    algorithm: keys.AlgorithmTable
    algorithms: None = None

    @model_validator(mode="after")
    def _between_sites(self) -> ServerFile:
        if self.run.transport != "in_process" or self.run.workers is not None:
            raise ValueError("run.transport and run.workers are for simulations: sites compute where they are")
        if self.run.warm_start is not None:
            raise ValueError("run.warm_start is for simulations so far: leave it out")
        if self.run.checkpoint is not True:
            raise ValueError("the server keeps the checkpoint of a run between sites: leave run.checkpoint out")
        if self.algorithm.grid is not None:
            raise ValueError("algorithm.grid compares in a simulation, and this file has one run: leave it out")
        if len(set(self.sites.names)) < len(self.sites.names):
            raise ValueError("sites.names has a name twice")
        if self.server is not None and self.preprocess is not None and self.preprocess.site_intercepts is not False:
            raise ValueError(
                "preprocess.site_intercepts: the rows of [server] belong to no site; leave one of both out"
            )
        given = set() if self.participation is None else self.participation.model_fields_set
        if given & {"dropout", "latency"} or self.participants().simulates_losses:
            raise ValueError(
                "participation.dropout and latency simulate losses, and here they are real: leave them out"
            )
        return self

    def participants(self) -> Participation:
        """Who takes part: by default everyone, in every exchange, and who has not answered is asked once more."""
        return EVERYONE if self.participation is None else self.participation.build()

    def entry(self) -> tuple[str, Entry]:
        """The algorithm, and what it is called."""
        ((label, entry),) = build_entries(self).items()
        return label, entry

    def check_server(self) -> None:
        """Raise ConfigError where the algorithm computes with rows of the server's own and there are none, or has no
        use for those that there are."""
        _, entry = self.entry()
        name = type(entry.algorithm).__name__
        uses = uses_server_rows(entry.algorithm)
        if uses and self.server is None:
            which = "with their targets" if includes_server(entry.algorithm) else "without their targets"
            raise ConfigError(
                f"{name} computes with rows of the server's own, {which}: name a file of them, [server] file = a path"
            )
        if self.server is not None and not uses:
            raise ConfigError(f"{name} has no use for the rows of [server]: leave the table out")

    def preprocessing(self) -> Preprocess | None:
        """What is done with the columns, with one of the sites' names where each has an intercept of its own."""
        if self.preprocess is None:
            return None
        found: Preprocess = registry.make(Preprocess, self.preprocess.plain(), "preprocess")
        chosen = self.preprocess.site_intercepts
        if chosen is False:
            return found
        if found.schema is None:
            raise ConfigError("preprocess.site_intercepts needs a schema, so that sites know what their columns are")
        names = self.sites.names
        first = chosen if isinstance(chosen, str) and chosen != FULL else names[0]
        if first not in names:
            raise ConfigError(f"preprocess.site_intercepts is true, {FULL!r} or the name of a site, got {chosen!r}")
        ordered = tuple(names) if chosen == FULL else (first, *(name for name in names if name != first))
        site = Categorical(SITE, ordered, unseen="error", drop_first=chosen != FULL)
        formula = None if found.formula is None else with_term(found.formula, SITE, full=chosen == FULL)
        return Preprocess(Schema((*found.schema.columns, site)), formula=formula)


def uses_server_rows(algorithm: object) -> bool:
    """Whether an algorithm computes with rows of the server's own."""
    return includes_server(algorithm) or any(map(is_server_only, steps(algorithm).values()))


def read(path: Path) -> ServerFile:
    """The file at `path`; every fault in it is a ConfigError that names file and key."""
    return parse(run_file.read_text(path), str(path))


def parse(text: str, name: str = "run file") -> ServerFile:
    """The same from text."""
    tables = run_file.toml_tables(text, name)
    for table, why in NOT_HERE.items():
        if table in tables:
            shown = "[[algorithms]]" if table == "algorithms" else f"[{table}]"
            raise ConfigError(f"{name} has {shown}, which a run between sites has not: {why}")
    try:
        found = ServerFile.model_validate(tables)
        found.check_server()
        found.preprocessing()
    except ValidationError as error:
        raise ConfigError(f"{name}: {'; '.join(in_words(error.errors(), ServerFile))}") from None
    except ConfigError as error:
        error.args = (f"{name}: {error}",)
        raise
    return found
