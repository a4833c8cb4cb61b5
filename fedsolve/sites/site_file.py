"""A site file: what one organisation says of itself. It stays there; no run, and nobody else, sees it.

    name = "arden"                     # as on its certificate

    [data]
    file = "arden.csv"                 # relative to the folder of this file
    target = "ill"
    positive = "> 0"

    [[schema]]                         # what the columns are; all sites declare the same
    name = "age"
    [[schema]]
    name = "sex"
    categories = ["f", "m"]

    [policy]
    min_rows = 20
    algorithms = ["Newton", "FedNewtonCG"]

`store` is a folder for what must outlive a restart: the memory of each run, and the audit log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from fedsolve.data.schema import Schema
from fedsolve.errors import ConfigError
from fedsolve.federation.client_checks import check_client_name
from fedsolve.plain import Reader
from fedsolve.runfiles import run_file
from fedsolve.runfiles.faults import in_words
from fedsolve.runfiles.keys import Na, Open, Table
from fedsolve.sites.policy import Policy
from fedsolve.sites.policy_names import check_names

STORE = "fedsolve-site"  # beside the site file, unless it names another folder


class SiteData(Table):
    """Where the rows are and how they are read; the keys mean what they mean in the [data] of a run file."""

    file: str
    target: str | list[str]
    weight: str | None = None
    offset: str | None = None
    positive: str | int | float | list[str | int | float] | None = None
    classes: list[str | int | float] | None = None
    drop: list[str] = Field(default_factory=list)
    absent: list[str] = Field(default_factory=list)
    rename: dict[str, str] | None = None
    missing_target: Literal["error", "drop"] | None = None
    header: bool | None = None
    names: list[str] | None = None
    na: Na | dict[str, Na] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    skip: int | None = Field(default=None, ge=0)
    skip_footer: int | None = Field(default=None, ge=0)

    def reading(self) -> dict[str, Any]:
        """How the file is read: what was said, and nothing else."""
        keys = ("header", "names", "na", "delimiter", "decimal", "thousands", "encoding", "skip", "skip_footer")
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


class _Tables(Table):
    name: str
    data: SiteData
    columns: list[Open] = Field(default_factory=list, alias="schema")
    policy: Open = Open()
    store: str = STORE
    threads: int = Field(default=1, ge=1)


@dataclass(frozen=True)
class SiteFile:
    """What a site file says.

    folder   where its relative paths start
    schema   what the columns are; None: all are numbers
    threads  how many threads linear algebra may use; bit-equal results need the same number everywhere
    """

    name: str
    data: SiteData
    schema: Schema | None
    policy: Policy
    folder: Path
    store: Path
    threads: int = 1

    @property
    def file(self) -> Path:
        """The data file."""
        return self.folder / Path(self.data.file).expanduser()

    @property
    def audit_log(self) -> Path:
        """The site's own record of everything that left."""
        return self.store / "audit.jsonl"


def read_site_file(path: Path) -> SiteFile:
    """The site file at `path`; every fault in it is a ConfigError that names file and key."""
    return parse_site_file(run_file.read_text(path, "site file"), path)


def parse_site_file(text: str, path: Path) -> SiteFile:
    """The same from text; `path` is where it stands."""
    tables = run_file.toml_tables(text, str(path))
    try:
        found = _Tables.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{path}: {'; '.join(in_words(error.errors(), _Tables))}") from None
    try:
        check_client_name(found.name)
        columns = [dict(one.model_extra or {}) for one in found.columns]
        schema = Schema.from_plain(columns) if columns else None
        policy = Reader().make(Policy, found.policy.plain(), "policy")
        check_names(policy, schema)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    folder = path.resolve().parent
    return SiteFile(
        found.name, found.data, schema, policy, folder, folder / Path(found.store).expanduser(), found.threads
    )
