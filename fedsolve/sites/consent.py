"""Whether a site takes part in a run, decided from the terms before any data is touched; and what would leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import PolicyRefusal
from fedsolve.federation.protocol import is_server_only, steps, what_it_sends
from fedsolve.learners import NetworkLearner, SobolevLearner
from fedsolve.losses import Network
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
    _check_names(protocols)
    for name, protocol in roots(protocols).items():
        _check_allowed(site.policy, name, protocol)
    for name, protocol in roots(protocols).items():
        for value in parts_of(protocol):
            if isinstance(value, Network | NetworkLearner | SobolevLearner) and not site.policy.networks:
                raise PolicyRefusal("networks", f"{name} fits a neural network, whose weights the server may write")
        for key, value in settings_of(protocol):
            if key == "landmarks" and not site.policy.landmarks:
                raise PolicyRefusal("landmarks", f"{name} has landmarks, with which a server can look for a known row")
            if key == "formula" and value is not None and not site.policy.formulas:
                raise PolicyRefusal("formulas", f"{name} makes columns by a formula, {str(value)!r}")
            if key in _FEWEST and isinstance(value, int) and value < site.policy.min_rows:
                said = _FEWEST[key].format(value, site.policy.min_rows)
                raise PolicyRefusal("min_rows", f"{name} asks for {said}; at least {site.policy.min_rows} are allowed")
    check_columns(site, terms, protocols)
    return protocols


def _check_names(protocols: Mapping[str, object]) -> None:
    """A run has one algorithm and one preprocessing, under these names, by which rules know them."""
    for name, protocol in roots(protocols).items():
        is_algorithm = type(protocol).__name__ in registry.names("algorithm")
        if is_algorithm != (name == "algorithm") or isinstance(protocol, Preprocess) != (name == "preprocess"):
            raise PolicyRefusal("terms", f"a {type(protocol).__name__} is called {name!r} in the terms of this run")
        if name == "session":
            raise PolicyRefusal("terms", "a protocol is called 'session', which is the library's own")


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


def check_batches(policy: Policy, protocols: Mapping[str, object], rows: int) -> None:
    """Raise PolicyRefusal if whole passes over the rows would end in a batch of too few."""
    for name, protocol in roots(protocols).items():
        for solver in parts_of(protocol):
            size = getattr(solver, "batch_size", None)
            whole = getattr(solver, "epochs", None) is not None or getattr(solver, "batches", None) == "fixed"
            if whole and isinstance(size, int) and size < rows and 0 < rows % size < policy.min_rows:
                raise PolicyRefusal(
                    "min_rows",
                    f"{name}: {rows} rows in batches of {size} leave a last one of {rows % size}, and at least "
                    f"{policy.min_rows} are allowed; choose another batch_size, or steps instead of epochs",
                )


def parts_of(value: object) -> Iterator[object]:
    """An object and all that are in its fields, those that were left to their defaults too."""
    yield value
    for _, one in settings_of(value):
        if is_dataclass(one):
            yield one


def settings_of(value: object) -> Iterator[tuple[str, object]]:
    """Every field and its value of an object and of those in it."""
    if isinstance(value, tuple | list):
        for one in value:
            yield from settings_of(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            inner = getattr(value, field.name)
            yield field.name, inner
            yield from settings_of(inner)


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
