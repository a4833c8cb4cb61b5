"""What a run asks of its sites, as every site gets it before anything else: plain values, to be looked at and refused.

The terms name the protocols with all their hyper-parameters. A site builds them itself (`known_protocols`), shows what
will leave (`disclosure`), and compares fingerprints when the server joins, so that nothing else can be asked later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsolve.errors import ConfigError, ProtocolMismatch
from fedsolve.plain import Reader, to_plain
from fedsolve.sites.known_protocols import built, described
from fedsolve.version import __version__

FORMAT = 1
MOST_TEXT = 2**22  # characters
_RUN = re.compile(r"[0-9a-f]{8,64}")


def check_run(run: object) -> str:
    """What a run is called, which also names its folders: nothing but digits. Raises ConfigError for anything else."""
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise ConfigError(f"a run's name is 8 to 64 hexadecimal digits, got {run!r}")
    return run


@dataclass(frozen=True)
class HeldOut:
    """The share of its rows that each site sets aside to judge the model by, and the seed that draws them."""

    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or not 0 <= self.seed < 2**64:
            raise ConfigError(f"held_out is a share between 0 and 1 and a seed, got {self.share!r}, {self.seed!r}")


@dataclass(frozen=True)
class SiteColumn:
    """A column in which each site writes its own name, so that it has an intercept of its own."""

    column: str = "site"


@dataclass(frozen=True)
class Terms:
    """What a run asks of its sites.

    run          what the run is called, 8 to 64 hexadecimal digits
    protocols    the protocols that sites shall answer, in plain values, by their names in the run
    held_out     rows to set aside
    site_column  a column of the sites' names
    target       the column that is predicted, so that a site can see whether it is its own
    version      of the library
    """

    run: str
    protocols: dict[str, Any] = field(default_factory=dict)
    held_out: HeldOut | None = None
    site_column: SiteColumn | None = None
    target: str | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        check_run(self.run)

    def asking(self, protocols: Mapping[str, object]) -> Terms:
        """These terms with the protocols of a run."""
        return Terms(self.run, described(protocols), self.held_out, self.site_column, self.target, self.version)

    def build(self) -> dict[str, object]:
        """The protocols as objects. Raises ProtocolMismatch for another version of the library, and ConfigError or
        UnknownName for a protocol that this one does not have."""
        if self.version != __version__:
            raise ProtocolMismatch(
                f"the run is of fedsolve {self.version}, this site has {__version__}: install the same"
            )
        return built(self.protocols)

    def to_json(self) -> str:
        """The terms as text."""
        given = {
            "format": FORMAT,
            "run": self.run,
            "version": self.version,
            "protocols": self.protocols,
            "held_out": to_plain(self.held_out),
            "site_column": to_plain(self.site_column),
            "target": self.target,
        }
        return json.dumps(given, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Terms:
        """The terms again. Raises ConfigError for text that is none."""
        if len(text) > MOST_TEXT:
            raise ConfigError(f"the terms of a run have {len(text):,} characters, more than {MOST_TEXT:,}")
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"the terms of a run are not JSON: {error}") from None
        if not isinstance(given, dict) or given.pop("format", None) != FORMAT:
            raise ConfigError(f"the terms of a run are a JSON object of format {FORMAT}; is it another fedsolve's?")
        protocols = given.pop("protocols", None)
        if not isinstance(protocols, dict) or not all(isinstance(one, dict) for one in protocols.values()):
            raise ConfigError("the terms of a run have no table of protocols")
        made = Reader().make(_Rest, given, "terms")
        return cls(made.run, protocols, made.held_out, made.site_column, made.target, made.version)

    def mark(self) -> str:
        """A hash by which a site knows the terms again."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class _Rest:
    """The fields of terms but the protocols, which only `build` interprets."""

    run: str
    version: str
    held_out: HeldOut | None = None
    site_column: SiteColumn | None = None
    target: str | None = None
