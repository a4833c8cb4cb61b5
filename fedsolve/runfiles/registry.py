"""Names for what can be chosen in a file or on a command line, and objects made from plain values.

    find("algorithm", "FedAvg")                                  the class
    build("algorithm", {"name": "FedAvg", "loss": {"name": "Logistic", "l2": 0.01}, "local": {"steps": 5}})

The names come from the rooms themselves: an algorithm exported by `fedsolve.algorithms` is known here, and so
are losses, feature maps, kernels, local solvers, weak learners, line searches, compressors, partition schemes and
transports. Case, hyphens and underscores do not matter: `by_group` is `ByGroup`. Hyper-parameters are checked against
the annotations of the class (`fedsolve.plain`), and `fedsolve.plain.to_plain` writes the table that `build` reads.
Nothing is imported for a name; `reader` with `OwnClasses` follows import paths too, for the run file of a simulation.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

from fedsolve import algorithms, data, distillation, features, learners, losses, networks
from fedsolve import descent as searches
from fedsolve import local as solvers
from fedsolve.curvature import compressors, renewals
from fedsolve.data import preprocessing
from fedsolve.errors import UnknownName
from fedsolve.features import exact_kernels
from fedsolve.federation import links, participation, transports
from fedsolve.federation.protocol import is_client_step
from fedsolve.local import schedules, uploads
from fedsolve.plain import Reader, describe_fields
from fedsolve.runfiles.own_classes import OwnClasses

__all__ = ["ROOMS", "build", "describe_fields", "find", "kind_of", "make", "names", "reader"]

T = TypeVar("T")

ROOMS: dict[str, ModuleType] = {
    "algorithm": algorithms,
    "loss": losses,
    "feature map": features,
    "kernel": exact_kernels,
    "architecture": networks,
    "augmentation": networks,
    "local solver": solvers,
    "weak learner": learners,
    "schedule": schedules,
    "upload": uploads,
    "distillation": distillation,
    "line search": searches,
    "renewal rule": renewals,
    "link": links,
    "compressor": compressors,
    "partition scheme": data,
    "preprocessing": preprocessing,
    "participation": participation,
    "transport": transports,
}
# What a class of a kind must be, where its room has others beside it.
_BASES: dict[str, type] = {
    "local solver": solvers.LocalSolver,
    "weak learner": learners.WeakLearner,
    "feature map": features.FeatureMap,
    "architecture": networks.Architecture,
    "augmentation": networks.Augmentation,
    "partition scheme": data.Scheme,
    "preprocessing": preprocessing.Preprocess,
}


@cache
def names(kind: str) -> dict[str, type[Any]]:
    """Every class of a kind by its name, in alphabetical order."""
    if kind not in ROOMS:
        raise UnknownName("kind", kind, ROOMS)
    room = ROOMS[kind]
    exported = getattr(room, "__all__", None) or [
        name for name, value in vars(room).items() if getattr(value, "__module__", None) == room.__name__
    ]
    found = {name: getattr(room, name) for name in sorted(exported, key=str.lower)}
    return {name: value for name, value in found.items() if _belongs(kind, value)}


def find(kind: str, name: str) -> type[Any]:
    """The class of that name."""
    return _READER.find(kind, name)


@cache
def kind_of(value: type) -> str | None:
    """The kind a class (or an abstract base such as `LinearLoss`) is of; None for one of no room."""
    for kind in ROOMS:
        if any(issubclass(one, value) for one in names(kind).values()):
            return kind
    return None


def build(kind: str, plain: str | Mapping[str, object], where: str | None = None) -> Any:
    """The object that a table of plain values describes: `name`, hyper-parameters, tables for its parts.

    `where` is the path of the table in the user's file, for messages. A part may also be given as an object.
    """
    return _READER.build(kind, plain, where)


def make(value: type[T], plain: Mapping[str, object], where: str) -> T:
    """An instance of a given frozen dataclass from a table of its fields, checked in the same way."""
    return _READER.make(value, plain, where)


def _belongs(kind: str, value: object) -> bool:
    if not isinstance(value, type) or inspect.isabstract(value):
        return False
    if kind == "transport":
        return hasattr(value, "deliver") and not getattr(value, "_is_protocol", False)
    if kind == "line search" and not any(is_client_step(getattr(value, name, None)) for name in dir(value)):
        return False  # what a search finds, not a search
    return is_dataclass(value) and issubclass(value, _BASES.get(kind, object))


class _Rooms:
    """The registry as `fedsolve.plain` asks it."""

    def kind_of(self, value: type) -> str | None:
        return kind_of(value)

    def names(self, kind: str) -> Mapping[str, type]:
        return names(kind)


_READER = Reader(_Rooms())


def reader(own: OwnClasses | None = None) -> Reader:
    """What builds objects by these names and, with `own`, by import path."""
    return _READER if own is None else Reader(_Rooms(), own)
