"""The server's half of a run file: what is fitted and by whom, without any data. `fedsolve submit` reads it.

    [sites]                                [algorithm]
    names = ["arden", "bryn", "corrie"]    name = "Newton"
    target = "ill"                         loss = { name = "Logistic", intercept = "free" }

    [preprocess]                           [evaluation]
    schema = [{ name = "age" }]            hold_out = 0.2

`[preprocess]`, `[loss]`, `[run]`, `[participation]`, `[evaluation]`, `[stopping]`, `[summary]` and `[output]` mean what
they mean in a run file with data. Each site has the other half, its site file.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.schema import Categorical, Schema
from fedsolve.data.site_column import with_term
from fedsolve.errors import ConfigError
from fedsolve.federation.participation import Participation
from fedsolve.runfiles import keys, registry, run_file
from fedsolve.runfiles.faults import in_words
from fedsolve.runfiles.problem import Entry, build_entries
from fedsolve.runfiles.site_intercepts import FULL

EVERYONE = Participation(quorum=1.0, retries=1)
SITE = "site"  # the column of the sites' names


class SitesTable(keys.Table):
    """Who takes part, in the order in which sums are taken, and the column that is predicted at each of them."""

    names: list[str] = Field(min_length=1)
    target: str


class ServerFile(keys.Fit):
    """A whole file."""

    sites: SitesTable
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
        if self.participants().simulates_losses:
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


def read(path: Path) -> ServerFile:
    """The file at `path`; every fault in it is a ConfigError that names file and key."""
    return parse(run_file.read_text(path), str(path))


def parse(text: str, name: str = "run file") -> ServerFile:
    """The same from text."""
    tables = run_file.toml_tables(text, name)
    if "data" in tables:
        raise ConfigError(
            f"{name} has [data]: a run between sites has none, each site has its own. Name the sites in [sites], or "
            "use `fedsolve run` for a simulation"
        )
    try:
        found = ServerFile.model_validate(tables)
        found.entry()
        found.preprocessing()
    except ValidationError as error:
        raise ConfigError(f"{name}: {'; '.join(in_words(error.errors()))}") from None
    except ConfigError as error:
        error.args = (f"{name}: {error}",)
        raise
    return found
