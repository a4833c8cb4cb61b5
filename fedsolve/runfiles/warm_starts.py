"""Where the run of a run file begins: `warm_start` of [run], a model's file or an algorithm that runs first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsolve.algorithms.base import Algorithm
from fedsolve.errors import ConfigError
from fedsolve.runfiles import keys, registry
from fedsolve.runfiles.own_classes import OwnClasses

WHERE = "run.warm_start"


def model_file(what: keys.Config, folder: Path) -> Path | None:
    """The file of the model to begin with, if there is one; paths start from the folder of the run file."""
    given = what.run.warm_start
    return folder / Path(given).expanduser() if isinstance(given, str) else None


def first_algorithm(what: keys.Config, algorithm: Algorithm, folder: Path) -> Algorithm | None:
    """The algorithm that runs before this one, if there is one; its loss is this one's unless it names its own."""
    given = what.run.warm_start
    if not isinstance(given, keys.WarmStart):
        return None
    plain = given.plain()
    loss = getattr(algorithm, "loss", None)
    if "loss" not in plain and loss is not None:
        plain["loss"] = loss
    reader = registry.reader(OwnClasses(what.modules.within(folder)))
    built: Algorithm = reader.build("algorithm", {"name": given.name, **plain}, WHERE)
    return built


def check_warm_start(what: keys.Config, algorithms: Mapping[str, Algorithm], folder: Path) -> None:
    """Raise ConfigError for a start that cannot be made, before anything is computed."""
    path = model_file(what, folder)
    if path is not None and not path.is_file() and not what.run.resume:
        raise ConfigError(f"{WHERE}: there is no model file {path}")
    for algorithm in algorithms.values():
        first_algorithm(what, algorithm, folder)
