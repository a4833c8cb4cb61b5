"""The protocols that a site can be asked to answer, by name: those of the installed library, and nothing else.

A run describes its protocols in plain values. A site builds them from its own copy of the library; a name that is not
listed here builds nothing, and nothing is ever imported for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fedsolve.data.centring import Centred
from fedsolve.data.preprocessing import Preprocess
from fedsolve.diagnose.contraction import Contraction
from fedsolve.diagnose.heterogeneity import Heterogeneity
from fedsolve.diagnose.input_distances import InputDistance
from fedsolve.errors import ConfigError
from fedsolve.federation.protocol import collect
from fedsolve.inference.evaluation import Evaluation
from fedsolve.inference.federation_gain import FederationGain
from fedsolve.inference.standard_errors import StandardErrors
from fedsolve.loop.early_stopping import EarlyStopping
from fedsolve.loop.measure_protocols import Inspect, Measure
from fedsolve.plain import Plain, Reader, to_plain
from fedsolve.runfiles import registry
from fedsolve.selection.fits import FoldFits
from fedsolve.selection.sums import FoldSums

# What every run may ask beside its algorithm: the columns' means, how good the model is, whether there is a minimum.
OF_EVERY_RUN: tuple[type, ...] = (Preprocess, Centred, Measure, Inspect)
# What a run asks only if its author wants it.
ON_REQUEST: tuple[type, ...] = (
    Evaluation,
    StandardErrors,
    FederationGain,
    EarlyStopping,
    FoldFits,
    FoldSums,
    Contraction,
    Heterogeneity,
    InputDistance,
)

_PROTOCOL = "protocol"
_MOST = 100  # protocols in one run
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OF_STOPPING = re.compile(r"stopping\.\d{1,3}(\.[a-z_]{1,64}){0,8}")  # as the loop calls its rules


@cache
def _known() -> dict[str, type[Any]]:
    named = {one.__name__: one for one in (*OF_EVERY_RUN, *ON_REQUEST)}
    return {**registry.names("algorithm"), **named}


class _Catalogue:
    """The registry of run files, and protocols beside it."""

    def kind_of(self, value: type) -> str | None:
        return registry.kind_of(value)

    def names(self, kind: str) -> Mapping[str, type]:
        return _known() if kind == _PROTOCOL else registry.names(kind)


_READER = Reader(_Catalogue())


def roots(protocols: Mapping[str, object]) -> dict[str, object]:
    """Those of a run's protocols that are no field of another one of them: the others follow from these."""
    inner = {name for root, protocol in protocols.items() for name, _ in collect(root, protocol) if name != root}
    return {name: protocol for name, protocol in protocols.items() if name not in inner}


def described(protocols: Mapping[str, object]) -> dict[str, Plain]:
    """The protocols of a run in plain values. Raises ConfigError for one that no site could build."""
    for name, protocol in roots(protocols).items():
        if type(protocol) not in _known().values():
            raise ConfigError(
                f"{name}: {type(protocol).__name__} is no protocol of fedsolve's own, and sites answer no others; "
                "it can be run in a simulation"
            )
    return {name: to_plain(protocol) for name, protocol in roots(protocols).items()}


def built(plain: Mapping[str, Plain]) -> dict[str, object]:
    """The protocols again, with those among their fields. Raises ConfigError for a name that is, or could be, that of
    another one's field: a field is what its owner says, and nothing in the terms may stand in its place."""
    if len(plain) > _MOST:
        raise ConfigError(f"the terms name {len(plain)} protocols; a run has at most {_MOST}")
    found: dict[str, object] = {}
    for name, table in plain.items():
        _check_name(name, plain)
        found.update(collect(name, _READER.build(_PROTOCOL, table, name)))
    return found


def _check_name(name: str, names: Mapping[str, Plain]) -> None:
    if not _NAME.fullmatch(name) and not _OF_STOPPING.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a protocol: letters, digits, - and _, beginning with a letter")
    parts = name.split(".")
    for owner in (".".join(parts[:count]) for count in range(1, len(parts))):
        if owner in names:
            raise ConfigError(
                f"the terms name {name!r}, which is a field of {owner!r}: {owner!r} itself says what it is"
            )
