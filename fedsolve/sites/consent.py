"""Whether a site takes part in a run, decided from the terms before any data is touched; and what would leave."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fedsolve.data.preprocessing import Preprocess
from fedsolve.errors import FedsolveError, PolicyRefusal, ProtocolMismatch
from fedsolve.features import FeatureMap, Transformer
from fedsolve.federation.client import Client
from fedsolve.federation.protocol import is_server_only, steps, what_it_sends
from fedsolve.learners import Minimax, NetworkLearner, SobolevLearner
from fedsolve.local.batches import Batched
from fedsolve.loop.preflight import check_missing
from fedsolve.losses import Network, Pointwise
from fedsolve.runfiles import registry
from fedsolve.sites.known_protocols import OF_EVERY_RUN, ON_REQUEST, roots
from fedsolve.sites.learner_codes import check_codes
from fedsolve.sites.parts import parts_of
from fedsolve.sites.policy import Policy
from fedsolve.sites.site_data import asked_columns, check_columns, unused_columns
from fedsolve.sites.site_file import SiteFile
from fedsolve.sites.terms import Terms

OF_FORMULAS = ("term_sums", "made_totals", "made_spread")
# Hyper-parameters that say how few rows may stand behind a number, wherever they are among the tables of a run.
_FEWEST = {
    "batch_size": "steps on batches of {0} rows",
    "min_rows": "leaves of {0} rows",
    "least": "bins of {0} rows: say least = {1} in its [evaluation]",
}


def consented(site: SiteFile, terms: Terms) -> dict[str, object]:
    """The protocols of a run in which this site takes part. Nothing of the data has been read when this is decided, so
    whatever is wrong with the terms may be told: it raises PolicyRefusal, or ProtocolMismatch for another version."""
    try:
        return check_terms(site, terms)
    except (PolicyRefusal, ProtocolMismatch):
        raise
    except FedsolveError as error:
        raise PolicyRefusal("terms", str(error)) from error


def check_terms(site: SiteFile, terms: Terms) -> dict[str, object]:
    """The protocols of a run in which this site takes part. Raises PolicyRefusal, with the rule, if it does not."""
    protocols = terms.build()
    _check_names(protocols)
    _check_losses(protocols)
    for name, protocol in protocols.items():  # those in fields of others too
        _check_allowed(site.policy, name, protocol)
    for name, protocol in protocols.items():
        for part in parts_of(protocol):
            _check_part(site.policy, name, part)
    check_missing(protocols.get("algorithm"), protocols.get("preprocess"))
    check_columns(site, terms, protocols)
    check_codes(protocols)
    return protocols


def _check_names(protocols: Mapping[str, object]) -> None:
    """A run has one algorithm and one preprocessing, under these names, by which rules know them."""
    for name, protocol in roots(protocols).items():
        is_algorithm = type(protocol).__name__ in registry.names("algorithm")
        if is_algorithm != (name == "algorithm") or isinstance(protocol, Preprocess) != (name == "preprocess"):
            raise PolicyRefusal("terms", f"a {type(protocol).__name__} is called {name!r} in the terms of this run")
        if name == "session":
            raise PolicyRefusal("terms", "a protocol is called 'session', which is the library's own")


def _check_losses(protocols: Mapping[str, object]) -> None:
    """A run has one loss. What one loss refuses to say at a point (far out, for classes) another would."""
    kinds = {type(part).__name__ for part in parts_of(protocols) if isinstance(part, Pointwise)}
    if len(kinds) > 1:
        raise PolicyRefusal("terms", f"the run asks by several losses, {', '.join(sorted(kinds))}, and a run has one")


def _check_allowed(policy: Policy, name: str, protocol: object) -> None:
    """Whether a protocol is answered, also one in a field of another, such as the solver of a diagnosis."""
    kind = type(protocol).__name__
    if kind in registry.names("algorithm"):
        if policy.algorithms is not None and kind not in policy.algorithms:
            raise PolicyRefusal(
                "algorithms", f"the run uses {kind}, and this site answers only {', '.join(policy.algorithms)}"
            )
    elif isinstance(protocol, ON_REQUEST) and not isinstance(protocol, OF_EVERY_RUN) and kind not in policy.also:
        raise PolicyRefusal(
            "also",
            f"the run also asks for {kind} ({name!r}), which this site does not answer; whoever runs the site may "
            f"allow it by also = {json.dumps([*policy.also, kind])} under [policy] of the site file",
        )
    for step in steps(protocol):
        if is_refused(policy, protocol, step):
            raise PolicyRefusal("refuse", f"the run may ask for {kind}.{step}, which this site never answers")


def _check_part(policy: Policy, name: str, part: object) -> None:
    """Whether one of the objects that a protocol is made of is allowed."""
    if isinstance(part, Network | NetworkLearner | SobolevLearner) and not policy.networks:
        raise PolicyRefusal("networks", f"{name!r} fits a neural network, whose weights the server may write")
    if isinstance(part, FeatureMap) and (kind := name_of_map(part)) not in policy.features:
        raise PolicyRefusal(
            "features",
            f"{name!r} makes columns by the feature map {kind}, which can pick out single rows; this site allows "
            f"{', '.join(policy.features) or 'none'}",
        )
    if isinstance(part, Preprocess) and part.formula is not None and not is_allowed_formula(policy, part.formula):
        raise PolicyRefusal(
            "formulas", f"{name!r} makes columns by a formula, {part.formula!r}, which is none that this site allows"
        )
    if isinstance(part, Batched) and part.batch_size is not None and part.batches == "fixed" and policy.own_draws:
        raise PolicyRefusal(
            "own_draws",
            f"{name!r} asks for the same batches again and again (batches = 'fixed'), and enough answers of one "
            "give its rows; choose 'shuffled'",
        )
    if isinstance(part, Minimax) and policy.min_rows > 1:
        raise PolicyRefusal("min_rows", f"{name!r} fits to the rows with the largest errors (Minimax), which are few")
    for key, said in _FEWEST.items():
        value = getattr(part, key, None)
        if isinstance(value, int) and value < policy.min_rows:
            said = said.format(value, policy.min_rows)
            raise PolicyRefusal("min_rows", f"{name!r} asks for {said}; at least {policy.min_rows} are allowed")


def name_of_map(part: FeatureMap) -> str:
    """What a feature map is called in a policy."""
    return str(part.transformer) if isinstance(part, Transformer) else type(part).__name__


def is_allowed_formula(policy: Policy, formula: str) -> bool:
    """Whether this is one of the formulas that the site has read; one space is as good as several, or a line break."""
    return " ".join(formula.split()) in {" ".join(one.split()) for one in policy.formulas}


def is_refused(policy: Policy, protocol: object, step: str) -> bool:
    """Whether a step is among those that the site never answers."""
    return step in policy.refuse or f"{type(protocol).__name__}.{step}" in policy.refuse


def words_of(protocols: Mapping[str, object]) -> dict[tuple[str, str], str]:
    """What the reply of each step is, in words, by the names of protocol and step."""
    found: dict[tuple[str, str], str] = {}
    for name, protocol in protocols.items():
        for step, function in steps(protocol).items():
            if not is_server_only(function):
                said = what_it_sends(function) or f"the reply of {type(protocol).__name__}.{step}"
                found[name, step] = said.format(self=protocol) if "{self." in said else said
    return found


def asked_for(
    site: SiteFile, terms: Terms, protocols: Mapping[str, object], client: Client
) -> dict[str, str | list[str]]:
    """What a run is about: its algorithm, what it predicts, and the columns that it uses."""
    own = None if terms.site_column is None else terms.site_column.column
    return {
        "algorithm": type(protocols["algorithm"]).__name__ if "algorithm" in protocols else "",
        "target": site.data.target,
        "columns": [name for name in client.feature_names or () if name != own],
    }


def what_leaves(protocols: Mapping[str, object]) -> list[str]:
    """What a run may ask a site to send, in words, one line for each kind of reply."""
    joining = "its number of rows, the names of its columns and its classes"
    every = "with every reply, how long it took and how many rows were looked at how often"
    said = (words for (name, step), words in words_of(protocols).items() if not _is_idle(protocols[name], step))
    return list(dict.fromkeys([joining, *said, every]))


def _is_idle(protocol: object, step: str) -> bool:
    """Whether a step has nothing to say in this run: sums for a formula where there is none."""
    return isinstance(protocol, Preprocess) and protocol.formula is None and step in OF_FORMULAS


def what_stays(site: SiteFile, terms: Terms, protocols: Mapping[str, object]) -> list[str]:
    """What a run cannot ask for, in words, one line for each kind."""
    asked = asked_columns(terms, protocols)
    left = [] if asked is None or site.schema is None else unused_columns(site, asked)
    found = ["rows, and single cells of them: replies are computed from many rows"]
    if left:
        found.append(f"the columns that the run does not name: {', '.join(left)}")
    if site.data.drop:
        found.append(f"the columns that no run sees: {', '.join(site.data.drop)}")
    found.append("the words of unexpected errors, which may quote a cell: only their class and place leave")
    found.append("the data file, its name, and whatever else is on this machine")
    return found
