"""The names in a policy, checked when the site file is read: a rule with a name that stands for nothing would hold
nothing back, and nobody would notice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

from fedsolve.data.schema import Schema
from fedsolve.errors import UnknownName
from fedsolve.features import Transformer
from fedsolve.features.transformer import transformer_names
from fedsolve.federation.protocol import is_client_step
from fedsolve.runfiles import registry
from fedsolve.sites.known_protocols import OF_EVERY_RUN, ON_REQUEST
from fedsolve.sites.policy import Policy


def check_names(policy: Policy, schema: Schema | None) -> None:
    """Raise UnknownName, with what may have been meant, for a name in a policy that stands for nothing."""
    _check("algorithm in policy.algorithms", policy.algorithms or (), registry.names("algorithm"))
    _check("protocol in policy.also", policy.also, [one.__name__ for one in ON_REQUEST])
    _check("feature map in policy.features", policy.features, feature_names())
    _check("step in policy.refuse", policy.refuse, step_names())
    if schema is not None:
        _check("column in policy.columns", policy.columns or (), [column.name for column in schema.columns])


def _check(kind: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise UnknownName(kind, name, known)


@cache
def feature_names() -> frozenset[str]:
    """The feature maps of the library, and scikit-learn's transformers, which `Transformer` takes."""
    own = {name for name, kind in registry.names("feature map").items() if kind is not Transformer}
    return frozenset(own | set(transformer_names()))


@cache
def step_names() -> frozenset[str]:
    """Every step that a site can be asked for, by itself and with the protocol that has it."""
    return frozenset(
        name
        for kind in _kinds()
        for step in dir(kind)
        if is_client_step(getattr(kind, step, None))
        for name in (step, f"{kind.__name__}.{step}")
    )


def _kinds() -> Iterator[type]:
    yield from (*OF_EVERY_RUN, *ON_REQUEST)
    for kind in ("algorithm", "line search", "weak learner"):
        yield from registry.names(kind).values()
