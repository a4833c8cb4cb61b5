"""Whether a site takes part in a run, decided from the terms before any data is touched; and what would leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedsolve.errors import PolicyRefusal
from fedsolve.federation.protocol import is_server_only, steps, what_it_sends
from fedsolve.runfiles import registry
from fedsolve.sites.known_protocols import OF_EVERY_RUN, roots
from fedsolve.sites.policy import Policy
from fedsolve.sites.site_data import check_columns
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.terms import Terms

# Hyper-parameters that say how few rows may stand behind a number, wherever they are among the tables of a run.
_FEWEST = {
    "batch_size": "steps on batches of {0} rows",
    "min_rows": "leaves of {0} rows",
    "least": "bins of {0} rows: say least = {1} in its [evaluation]",
}


def check_terms(site: SiteFile, terms: Terms) -> dict[str, object]:
    """The protocols of a run in which this site takes part. Raises PolicyRefusal, with the rule, if it does not."""
    protocols = terms.build()
    for name, protocol in roots(protocols).items():
        _check_allowed(site.policy, name, protocol)
    for name, table in terms.protocols.items():
        for key, value in _settings(table):
            if key == "landmarks" and not site.policy.landmarks:
                raise PolicyRefusal("landmarks", f"{name} has landmarks, with which a server can look for a known row")
            if key == "formula" and value is not None and not site.policy.formulas:
                raise PolicyRefusal("formulas", f"{name} makes columns by a formula, {str(value)!r}")
            if key in _FEWEST and isinstance(value, int) and value < site.policy.min_rows:
                said = _FEWEST[key].format(value, site.policy.min_rows)
                raise PolicyRefusal("min_rows", f"{name} asks for {said}; at least {site.policy.min_rows} are allowed")
    check_columns(site, terms, protocols)
    return protocols


def _check_allowed(policy: Policy, name: str, protocol: object) -> None:
    kind = type(protocol).__name__
    if kind in registry.names("algorithm"):
        if policy.algorithms is not None and kind not in policy.algorithms:
            raise PolicyRefusal(
                "algorithms", f"the run uses {kind}, and this site answers only {', '.join(policy.algorithms)}"
            )
    elif not isinstance(protocol, OF_EVERY_RUN) and kind not in policy.also:
        raise PolicyRefusal("also", f"the run also asks for {kind} ({name}), which this site does not answer")
    for step in steps(protocol):
        if is_refused(policy, protocol, step):
            raise PolicyRefusal("refuse", f"the run may ask for {kind}.{step}, which this site never answers")


def is_refused(policy: Policy, protocol: object, step: str) -> bool:
    """Whether a step is among those that the site never answers."""
    return step in policy.refuse or f"{type(protocol).__name__}.{step}" in policy.refuse


def _settings(table: object) -> Iterator[tuple[str, object]]:
    """Every key and value of a table and of those in it."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield str(key), value
            yield from _settings(value)
    elif isinstance(table, list):
        for one in table:
            yield from _settings(one)


def words_of(protocols: Mapping[str, object]) -> dict[tuple[str, str], str]:
    """What the reply of each step is, in words, by the names of protocol and step."""
    found: dict[tuple[str, str], str] = {}
    for name, protocol in protocols.items():
        for step, function in steps(protocol).items():
            if not is_server_only(function):
                said = what_it_sends(function) or f"the reply of {type(protocol).__name__}.{step}"
                found[name, step] = said.format(self=protocol) if "{self." in said else said
    return found


def what_leaves(protocols: Mapping[str, object]) -> list[str]:
    """What a run may ask a site to send, in words, one line for each kind of reply."""
    joining = "its number of rows, the names of its columns and its classes"
    return list(dict.fromkeys([joining, *words_of(protocols).values()]))
