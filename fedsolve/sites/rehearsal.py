"""Whether a site's data file fits a run, before there is one: the site starts as it would, and forgets it.

Everything that a site writes when it starts goes into a store of its own that is removed again, so nothing is counted,
logged or remembered. What earlier runs did here is not looked at either.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from fedsolve.federation.joining import Joining
from fedsolve.sites.site import Site
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.terms import Terms
from fedsolve.version import __version__


@dataclass(frozen=True)
class Rehearsal:
    """What a site would begin with: rows to learn from and to judge by, its columns, and what was recognised in its
    file, a sentence each."""

    learned: int
    held: int
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def rehearsed(about: SiteFile, terms: Terms) -> Rehearsal:
    """Start a site as for these terms, and let the server join. Raises what it would raise."""
    with tempfile.TemporaryDirectory(prefix="fedsolve-consent-") as folder:
        site = Site(replace(about, store=Path(folder)), terms)
        site.guard.before(["session", "join"], Joining(), {}, site.client)
        Joining().join(site.client, __version__, {}, False)
        client = site.client
        own = None if terms.site_column is None else terms.site_column.column
        columns = tuple(name for name in client.feature_names or () if name != own)
        return Rehearsal(client.n_samples, 0 if client.held is None else client.held.n_samples, columns, site.notes)
