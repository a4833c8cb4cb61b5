"""Classes of one's own, by import path, in the run file of a simulation on this machine.

    [algorithm]
    name = "mypackage.mymodule:MyAlgorithm"
    loss = { name = "losses_of_mine:Huber", delta = 1.5 }

The module is found as Python finds modules, and then in the folder of the run file. Importing it runs its code, so this
is for the run file that a user starts here, and for nothing else: whatever reads plain values that came over a network,
or from a model or a checkpoint, has a `Reader` without `OwnClasses`, which rejects import paths
(docs/decisions/050-own-classes-in-run-files.md).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsolve.curvature.compressors import Compressor
from fedsolve.curvature.renewals import Renewals
from fedsolve.data import Scheme
from fedsolve.errors import ConfigError
from fedsolve.features import FeatureMap
from fedsolve.features.exact_kernels import ExactKernel
from fedsolve.federation.links import Link
from fedsolve.learners import WeakLearner
from fedsolve.local import LocalSolver
from fedsolve.local.schedules import Schedule
from fedsolve.losses import Loss
from fedsolve.networks import Architecture, Augmentation

_PATH = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_METHODS = ("start", "round", "model")  # of an algorithm, which has no base class

# What a class must derive from; the base may also be a protocol, which says what methods it must have.
BASES: dict[str, type] = {
    "loss": Loss,
    "feature map": FeatureMap,
    "kernel": ExactKernel,
    "architecture": Architecture,
    "augmentation": Augmentation,
    "local solver": LocalSolver,
    "weak learner": WeakLearner,
    "schedule": Schedule,
    "renewal rule": Renewals,
    "link": Link,
    "compressor": Compressor,
    "partition scheme": Scheme,
}


@dataclass(frozen=True)
class OwnClasses:
    """Finds classes by import path.

    folder  where modules are looked for that are not on the Python path: as a rule that of the run file
    """

    folder: Path

    def __call__(self, kind: str, path: str) -> type[Any]:
        """The class at an import path. Raises ConfigError if there is none, or if it is not of this kind."""
        if kind != "algorithm" and kind not in BASES:
            raise ConfigError(f"a {kind} cannot be given by an import path")
        parts = _PATH.fullmatch(path)
        if parts is None:
            raise ConfigError("an import path is written package.module:Class")
        module = self._module(parts["module"])
        found = getattr(module, parts["name"], None)
        if found is None:
            known = [name for name, value in vars(module).items() if _is_own(value, module)]
            raise ConfigError(
                f"the module {module.__name__} ({_place(module)}) has no class {parts['name']}; its classes are: "
                f"{', '.join(known) or 'none'}"
            )
        return _checked(kind, found, path)

    def _module(self, name: str) -> ModuleType:
        self._join_path()
        top = name.split(".")[0]
        here = PathFinder.find_spec(top, [str(self._place())])
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise ConfigError(
                    f"there is no module {error.name}, neither on the Python path nor in the folder {self._place()}"
                ) from None
            raise ConfigError(f"the module {name} cannot be imported: {error}") from error
        except (Exception, SystemExit) as error:  # a fault in the user's module, whatever it is
            raise ConfigError(f"the module {name} cannot be imported: {type(error).__name__}: {error}") from error
        self._check_not_hidden(top, None if here is None else here.origin)
        return module

    def _place(self) -> Path:
        return self.folder.expanduser().resolve()

    def _join_path(self) -> None:
        """The folder goes to the end of the Python path, where it hides no other module, and stays there: worker
        processes are started with this path, and a class that is pickled is looked for by the name of its module."""
        if (place := str(self._place())) not in sys.path:
            sys.path.append(place)
            importlib.invalidate_caches()

    def _check_not_hidden(self, top: str, here: str | None) -> None:
        """A module beside the run file is what is meant; one of the same name must not be taken for it in silence."""
        there = getattr(sys.modules[top], "__file__", None)
        if here is not None and there is not None and Path(here).resolve() != Path(there).resolve():
            raise ConfigError(
                f"the module {top} in {self._place()} is hidden by {there}, which comes first on the Python path; "
                "give yours another name"
            )


def _checked(kind: str, found: object, path: str) -> type[Any]:
    article = "an" if kind[0] in "aeio" else "a"
    if not isinstance(found, type):
        raise ConfigError(f"{path} is not a class, but of the type {type(found).__name__}")
    if not (is_dataclass(found) and getattr(found, "__dataclass_params__").frozen):  # noqa: B009
        raise ConfigError(
            f"{path} is not a frozen dataclass, as {article} {kind} is: write @dataclass(frozen=True) above it"
        )
    if kind == "algorithm":
        missing = [name for name in _METHODS if not callable(getattr(found, name, None))]
        if missing:
            raise ConfigError(f"{path} is not an algorithm: it has no {' and no '.join(missing)}")
        return found
    base = BASES[kind]
    if not issubclass(found, base):
        if getattr(base, "_is_protocol", False):
            raise ConfigError(f"{path} is not {article} {kind}: it lacks what fedsolve's {base.__name__} has")
        raise ConfigError(f"{path} is not {article} {kind}: it does not derive from fedsolve's {base.__name__}")
    if inspect.isabstract(found):
        missing = sorted(found.__abstractmethods__)
        raise ConfigError(f"{path} is not whole: {article} {kind} also has {', '.join(missing)}")
    return found


def import_paths(plain: object) -> list[str]:
    """Every text in plain values that is written like an import path."""
    if isinstance(plain, str):
        return [plain] if _PATH.fullmatch(plain) else []
    inner = plain.values() if isinstance(plain, Mapping) else plain if isinstance(plain, list) else ()
    return [path for one in inner for path in import_paths(one)]


def _is_own(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__


def _place(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or "a package without a file")
