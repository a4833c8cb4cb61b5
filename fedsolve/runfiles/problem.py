"""From a run file to what `fedsolve.loop.run` takes: data, clients, algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve import data
from fedsolve.data import Dataset
from fedsolve.data.preprocessing import Preprocess, Schema
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.federation.client import Client
from fedsolve.federation.participation import Participation
from fedsolve.federation.transports import InProcess, Transport
from fedsolve.loop.stopping import Stopping
from fedsolve.losses import Logistic
from fedsolve.models import Model
from fedsolve.runfiles import registry
from fedsolve.runfiles import run_file as config
from fedsolve.tables.names import are_counted, order_of, take_columns
from fedsolve.typing import Array


@dataclass(frozen=True)
class Problem:
    """The data and the clients it lies with; `classes` is what the labels 0, 1, … are called, if anything."""

    data: Dataset
    clients: list[Client]
    classes: tuple[Any, ...] | None
    algorithms: dict[str, Any]  # by label
    preprocess: Any

    def named(self, model: Any) -> Any:
        """The model with the names of its classes."""
        if not isinstance(model, Model) or self.classes is None or len(self.classes) != model.n_classes:
            return model
        return model.with_classes(self.classes)

    def scores(self, model: Any) -> dict[str, float | None]:
        """Accuracy, or R², on the data of all clients and, where there are any, on the test rows."""
        found = {"train": score(model, self.data.X, self.data.y)}
        if self.data.X_test is not None:
            found["test"] = score(model, self.data.X_test, self.data.y_test)
        return found


def prepare(what: config.Config, file: Path) -> Problem:
    """Everything but the run itself; paths of data files start from the folder of the run file."""
    try:
        return _prepare(what, file.parent)
    except (ConfigError, UnknownName) as error:  # what the run file says is wrong; a DataError names the data
        error.args = (f"{file}: {error}",)
        raise


def _prepare(what: config.Config, folder: Path) -> Problem:
    algorithms = build_algorithms(what)
    loaded, groups = _load(what.data, folder)
    classes: tuple[Any, ...] | None = loaded.target_names
    if any(isinstance(getattr(one, "loss", None), Logistic) for one in algorithms.values()):
        loaded, classes = _binary(loaded, what.data.positive)
    preprocess = _preprocess(what)
    loaded = _as_declared(loaded, preprocess)
    clients = _divide(what, loaded, groups)
    _link(what.link, clients)
    if preprocess is None and any(client.raw for client in clients):
        raise ConfigError(f"{loaded.name} has text columns or missing values: add a [preprocess] table to the run file")
    return Problem(loaded, clients, classes, algorithms, preprocess)


def build_algorithms(what: config.Config) -> dict[str, Any]:
    """The algorithms of a run file by label; a [loss] by itself serves those that have none."""
    built: dict[str, Any] = {}
    for where, table in what.tables():
        plain = table.plain()
        if what.loss is not None and "loss" not in plain:
            plain["loss"] = registry.build("loss", {"name": what.loss.name, **what.loss.plain()}, "loss")
        algorithm = registry.build("algorithm", {"name": table.name, **plain}, where)
        label = table.label or _fresh(type(algorithm).__name__, built)
        if label in built:
            raise ConfigError(f"{where}.label {label!r} is taken: give each algorithm its own")
        built[label] = algorithm
    return built


def _link(what: config.Links | None, clients: Sequence[Client]) -> None:
    """Give each client its link: the one for all, or its own."""
    if what is None:
        return
    names = [client.name for client in clients]
    for name in what.by_client:
        if name not in names:
            raise UnknownName("client in link.by_client", name, names)
    for client in clients:
        own = what.by_client.get(client.name, {})
        name = own.get("name", what.name)
        table = {**(what.plain() if name == what.name else {}), **own, "name": name}  # what is not said is as for all
        client.link = registry.build("link", table, f"link.by_client.{client.name}" if own else "link")


def transport(what: config.Budget, clients: Sequence[Client]) -> Transport:
    """The road to the clients."""
    chosen = registry.find("transport", what.transport)
    if what.workers is None:
        return chosen(clients)  # type: ignore[no-any-return]
    if chosen is InProcess:
        raise ConfigError("run.workers needs transport = 'processes': one process has no workers")
    return chosen(clients, workers=what.workers)  # type: ignore[no-any-return]


def stopping(what: config.Budget) -> Stopping:
    limits = ("rounds", "tolerance", "gap", "change", "bytes", "seconds", "gradient_norm")
    return Stopping(**{name: getattr(what, name) for name in limits})


def participation(what: config.Participation | None) -> Participation | None:
    return None if what is None else Participation(**dict(what))


def score(model: Any, X: Array, y: Array) -> float | None:
    """Accuracy of a classifier (0, 1, …, whatever the classes are called), R² of a regression."""
    return model.score(X, y) if isinstance(model, Model) else None


def score_name(model: Any) -> str:
    """What `score` gives."""
    return model.score_name if isinstance(model, Model) else "score"


def _fresh(name: str, taken: dict[str, Any]) -> str:
    numbered = (name, *(f"{name} {index}" for index in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


# ── data ──


def _load(what: config.Data, folder: Path) -> tuple[Dataset, Array | None]:
    options = what.options()
    if what.dataset is not None:
        if what.dataset not in {info.name for info in data.datasets()}:
            if "." in what.dataset or "/" in what.dataset or "\\" in what.dataset:
                raise ConfigError(
                    f"data.dataset is a name of `fedsolve datasets`; for a file use file = {what.dataset!r}"
                )
            raise UnknownName("data set", what.dataset, (info.name for info in data.datasets()))
        loaded = data.load(what.dataset, **options)
    else:
        assert what.file is not None
        if "labels" in options:
            options["labels"] = folder / Path(options["labels"]).expanduser()
        if what.split_by is not None:
            options["groups"] = what.split_by
        loaded = _load_file(folder / Path(what.file).expanduser(), options)
    groups = _groups(what, loaded)
    if what.rows is None or what.rows >= loaded.n_samples:
        return loaded, groups
    chosen = np.sort(np.random.default_rng(what.seed).choice(loaded.n_samples, what.rows, replace=False))
    smaller = replace(loaded, X=loaded.X[chosen], y=loaded.y[chosen], groups=None, columns=None)
    return smaller, None if groups is None else groups[chosen]


def _load_file(path: Path, options: dict[str, Any]) -> Dataset:
    try:
        return data.load(path, **options)
    except UnknownName as error:
        if "groups" in options and "'groups'" in str(error):
            raise ConfigError(
                f"data.split_by names a column, and {path.name} has none: use a csv or npz file"
            ) from None
        raise


def _groups(what: config.Data, loaded: Dataset) -> Array | None:
    if what.split_by is None or what.file is not None or what.split_by == "groups":
        return loaded.groups
    known = loaded.columns or {}
    if what.split_by not in known:
        raise UnknownName(f"column of {loaded.name} for data.split_by", str(what.split_by), known)
    return known[str(what.split_by)]


def _binary(loaded: Dataset, positive: str | float | None) -> tuple[Dataset, tuple[Any, Any] | None]:
    """Labels 0 and 1 for the logistic loss, and what they are called."""
    y, names = loaded.y, loaded.target_names
    if y.ndim != 1:
        return loaded, None  # the loss says what is wrong with it
    if positive is not None:
        code = names.index(positive) if names is not None and positive in names else positive
        if isinstance(code, str) or not np.any(y == code):
            known = names or sorted({f"{value:g}" for value in np.unique(y)[:20]})
            raise UnknownName("class for data.positive", str(positive), known)
        others = [name for name in names or () if name != positive]
        label = str(names[int(code)]) if names is not None else f"{positive}"
        return _relabelled(loaded, y == code), (others[0] if len(others) == 1 else f"not {label}", label)
    values = np.unique(y)
    if values[0] >= 0 and values[-1] <= 1:
        return loaded, (names[0], names[1]) if names is not None and len(names) == 2 else None
    if len(values) > 2:
        classes = f"{len(values)} classes" if len(values) <= 100 else "many different values"
        raise DataError(
            f"{loaded.name}: the target has {classes}, the logistic loss takes two; set data.positive "
            "to the one that is 1, the others are then 0, or use the squared loss for a regression"
        )
    low, high = (int(value) if value == round(value) else float(value) for value in (values[0], values[-1]))
    return _relabelled(loaded, y == values[-1]), (low, high)


def _relabelled(loaded: Dataset, positive: Array) -> Dataset:
    if loaded.y_test is None:
        return replace(loaded, y=positive.astype(np.int64))
    one = loaded.y[positive][0]
    return replace(loaded, y=positive.astype(np.int64), y_test=(loaded.y_test == one).astype(np.int64))


def _divide(what: config.Config, loaded: Dataset, groups: Array | None) -> list[Client]:
    how = what.partition
    if how is None:
        return data.partition(loaded.X, loaded.y, data.ByGroup(), groups=groups, feature_names=loaded.feature_names)
    scheme = registry.build("partition scheme", {"name": how.scheme, **how.plain()}, "partition")
    if what.data.split_by is not None and not isinstance(scheme, data.ByGroup):
        raise ConfigError(
            "data.split_by already says whose each row is, "
            f"and partition.scheme = {how.scheme!r} says otherwise; keep one"
        )
    return data.partition(
        loaded.X,
        loaded.y,
        scheme,
        clients=how.clients,
        seed=how.seed,
        groups=groups,
        names=how.client_names,
        feature_names=loaded.feature_names,
    )


def _as_declared(loaded: Dataset, preprocess: Any) -> Dataset:
    """The data with its columns in the order in which the schema declares them, where both have names."""
    names = loaded.feature_names
    if preprocess is None or preprocess.schema is None or names is None:
        return loaded
    declared = tuple(column.name for column in preprocess.schema.columns)
    if are_counted(names) and set(names) != set(declared):  # a table without a header: by place
        return replace(loaded, feature_names=None)
    what_to_do = "declare every column that is not dropped, under its own name"
    order = order_of(names, declared, f"{loaded.name}, compared with the schema,", what_to_do)
    test = None if loaded.X_test is None else take_columns(loaded.X_test, order)
    return replace(loaded, X=take_columns(loaded.X, order), X_test=test, feature_names=declared)


def _preprocess(what: config.Config) -> Any:
    if what.preprocess is None:
        return None
    plain = what.preprocess.plain()
    if "schema" in plain:
        plain["schema"] = Schema.from_plain(plain["schema"])
    return registry.make(Preprocess, plain, "preprocess")
