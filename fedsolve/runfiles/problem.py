"""From a run file to what `fedsolve.loop.run` takes: data, clients, algorithms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve import data
from fedsolve.algorithms.base import Algorithm, includes_server
from fedsolve.complexity.costs import in_words
from fedsolve.data import Dataset, advice
from fedsolve.data.file_formats import read_inputs
from fedsolve.data.load import format_of
from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.read_alike import FilesRead
from fedsolve.errors import ConfigError, UnknownName
from fedsolve.federation.client import Client
from fedsolve.federation.transports import InProcess, Transport
from fedsolve.losses import Logistic, Network
from fedsolve.models import Model
from fedsolve.plain import Reader
from fedsolve.runfiles import grids, keys, registry, site_files
from fedsolve.runfiles.own_classes import OwnClasses
from fedsolve.runfiles.site_files import SiteFiles
from fedsolve.runfiles.site_intercepts import pooled_with_sites, with_sites
from fedsolve.runfiles.warm_starts import check_warm_start
from fedsolve.tables.labels import Classes
from fedsolve.typing import Array

SERVER = "server"  # the name of the server's own rows
_CSV_KEYS = ("header", "names", "na", "delimiter", "decimal", "thousands", "encoding", "skip", "skip_footer")


@dataclass(frozen=True)
class Entry:
    """An algorithm of the run file, or one point of the grid that an entry has.

    entry   the label of the entry, which the points of a grid share
    values  what was chosen at this point, by key; empty without a grid
    """

    algorithm: Algorithm
    entry: str
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """The data, the clients it lies with, and the algorithms to run on them."""

    data: Dataset | SiteFiles
    clients: list[Client]
    entries: dict[str, Entry]  # by label
    preprocess: Preprocess | None
    server: Client | None = None  # rows of the server's own
    holds_out: bool = False  # whether the clients have set rows aside, so that not all data is learned from
    notes: tuple[str, ...] = ()  # what was recognised in the files, a sentence each
    files_read: FilesRead | None = None  # how they were read, which the model keeps

    @property
    def algorithms(self) -> dict[str, Algorithm]:
        """The algorithms by label."""
        return {label: one.algorithm for label, one in self.entries.items()}

    @property
    def classes(self) -> Classes | None:
        """What the labels 0, 1, … are called, if anything."""
        return self.data.target_names

    def named(self, model: Any) -> Any:
        """The model with the names of its classes, and how the files were read."""
        if not isinstance(model, Model):
            return model
        model = model.read_as(self.files_read)
        if self.classes is None or len(self.classes) != model.n_classes:
            return model
        return model.with_classes(self.classes)

    def scores(self, model: object) -> dict[str, float | None]:
        """Accuracy, or R², on the data of all clients and, where there are any, on the test rows. Of clients that hold
        rows out, `fs.evaluate` says more: then the first is None."""
        complete = self.preprocess is not None and self.preprocess.complete_columns
        if isinstance(self.data, SiteFiles) or self.data.offset is not None or complete:
            known = isinstance(model, Model) and not self.holds_out
            return {"train": site_files.score(model, self.clients) if known else None}  # type: ignore[arg-type]
        found = {"train": None if self.holds_out else self._score(model, self.data.X, self.data.y)}
        if self.data.X_test is not None:
            found["test"] = self._score(model, self.data.X_test, self.data.y_test)
        return found

    def _score(self, model: object, X: Array, y: Array) -> float | None:
        if not isinstance(model, Model):
            return None
        return model.score(X, y)


def prepare(what: keys.Config, file: Path) -> Problem:
    """Everything but the run itself; paths of data files start from the folder of the run file."""
    try:
        with advice.written_in("run file"):
            return _prepare(what, file.parent)
    except (ConfigError, UnknownName) as error:  # what the run file says is wrong; a DataError names the data
        error.args = (f"{file}: {error}",)
        raise


def _prepare(what: keys.Config, folder: Path) -> Problem:
    reader = registry.reader(OwnClasses(what.modules.within(folder)))
    entries = build_entries(what, reader)
    algorithms = {label: one.algorithm for label, one in entries.items()}
    binary = any(issubclass(_of_outputs(one), Logistic) for one in algorithms.values())
    preprocess = None if what.preprocess is None else registry.make(Preprocess, what.preprocess.plain(), "preprocess")
    if what.data.files is not None:
        return _of_sites(what, folder, entries, preprocess, binary, reader)
    loaded, groups = _load(what.data, folder)
    if binary:
        loaded = loaded.binary(what.data.positive, "data.positive")
    if preprocess is not None and preprocess.schema is not None:
        declared = [column.name for column in preprocess.schema.columns]
        what_to_do = "declare every column that is not dropped, under its own name"
        loaded = loaded.in_order(declared, f"{loaded.name}, compared with the schema,", what_to_do)
    labelled = any(map(includes_server, algorithms.values()))
    loaded, groups, server = _server_rows(what, loaded, groups, folder, labelled, binary)
    check_warm_start(what, algorithms, folder)
    clients, notes = _divide(what, loaded, groups, reader), list[str]()
    if preprocess is not None and preprocess.complete_columns:
        clients, notes = data.complete_cases(clients, preprocess)
    if what.preprocess is not None and what.preprocess.site_intercepts is not False:
        clients, preprocess = with_sites(what, loaded.feature_names, clients, preprocess)
        loaded = pooled_with_sites(loaded, clients)
    if what.evaluation is not None:
        clients = data.hold_out(clients, what.evaluation.hold_out, what.evaluation.seed)
    _link(what.link, clients, reader)
    if preprocess is None and any(client.raw for client in clients):
        raise ConfigError(f"{loaded.name} has text columns or missing values: add a [preprocess] table to the run file")
    said, read = (*loaded.notes, *notes), None
    if what.data.file is not None:
        read = FilesRead.of(what.data.options(), {}, loaded.offset_name)
    return Problem(loaded, clients, entries, preprocess, server, what.evaluation is not None, said, read)


def _of_sites(
    what: keys.Config,
    folder: Path,
    entries: dict[str, Entry],
    preprocess: Preprocess | None,
    binary: bool,
    reader: Reader,
) -> Problem:
    """The problem of a run file with one file per site."""
    algorithms = {label: one.algorithm for label, one in entries.items()}
    known, read = site_files.load(what.data, folder, preprocess, binary)
    server = _own_rows(what, known, folder, any(map(includes_server, algorithms.values())), binary)
    check_warm_start(what, algorithms, folder)
    clients = list(read.clients)
    if what.preprocess is not None and what.preprocess.site_intercepts is not False:
        clients, preprocess = with_sites(what, known.feature_names, clients, preprocess)
        known = replace(known, feature_names=clients[0].feature_names)
    if what.evaluation is not None:
        clients = data.hold_out(clients, what.evaluation.hold_out, what.evaluation.seed)
    _link(what.link, clients, reader)
    if preprocess is None and (raw := next((client.name for client in clients if client.raw), None)) is not None:
        raise ConfigError(f"the file of {raw} has missing values: add a [preprocess] table to the run file")
    return Problem(
        known, clients, entries, preprocess, server, what.evaluation is not None, read.notes, read.files_read
    )


def _of_outputs(algorithm: Algorithm) -> type:
    """The class of an algorithm's loss; of a network, that of the loss of its outputs."""
    loss = getattr(algorithm, "loss", None)
    return type(loss.loss if isinstance(loss, Network) else loss)


def build_entries(what: keys.Fit, reader: Reader | None = None) -> dict[str, Entry]:
    """The algorithms of a run file by label, one for each point of a grid; a [loss] by itself serves those that have
    none. Import paths are followed only by a `reader` that does so."""
    reader = reader or registry.reader()
    built: dict[str, Entry] = {}
    for where, table in what.tables():
        plain = table.plain()
        if what.loss is not None and "loss" not in plain:
            shared = {"name": what.loss.name, **what.loss.plain()}
            plain["loss"] = shared if "loss" in (table.grid or {}) else reader.build("loss", shared, "loss")
        chosen = [({}, plain)] if table.grid is None else grids.points(plain, table.grid, where)
        made = [(values, reader.build("algorithm", {"name": table.name, **point}, where)) for values, point in chosen]
        taken = {*built, *(one.entry for one in built.values())}
        label = table.label or _fresh(type(made[0][1]).__name__, taken)
        if label in taken:
            raise ConfigError(f"{where}.label {label!r} is taken: give each algorithm its own")
        for values, algorithm in made:
            own = _fresh(f"{label}, {in_words(values)}", built) if values else label
            built[own] = Entry(algorithm, label, values)
    return built


def _link(what: keys.Links | None, clients: Sequence[Client], reader: Reader) -> None:
    """Give each client its link: the one for all, or its own."""
    if what is None:
        return
    names = [client.name for client in clients]
    for name in what.by_client:
        if name not in names:
            raise UnknownName("client in link.by_client", name, names)
    for client in clients:
        own = what.by_client.get(client.name, {})
        kind = own.get("name", what.name)
        table = {**(what.plain() if kind == what.name else {}), **own, "name": kind}  # what is not said is as for all
        client.link = reader.build("link", table, f"link.by_client.{client.name}" if own else "link")


def transport(what: keys.Budget, clients: Sequence[Client]) -> Transport:
    """The transport to the clients."""
    chosen = registry.find("transport", what.transport)
    if what.workers is None:
        return chosen(clients)  # type: ignore[no-any-return]
    if chosen is InProcess:
        raise ConfigError("run.workers needs transport = 'processes': one process has no workers")
    return chosen(clients, workers=what.workers)  # type: ignore[no-any-return]


def _fresh(name: str, taken: Collection[str]) -> str:
    numbered = (name, *(f"{name} {index}" for index in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


# ── data ──


def _server_rows(
    what: keys.Config, loaded: Dataset, groups: Array | None, folder: Path, labelled: bool, binary: bool
) -> tuple[Dataset, Array | None, Client | None]:
    """What is left for the clients, whose each row is, and the rows of the server.

    labelled  whether these have their targets, because an algorithm learns from them
    binary    whether targets are made 0 and 1, as the clients' are
    """
    table = what.server
    if table is None:
        return loaded, groups, None
    if not table.is_set_aside:
        return loaded, groups, _own_rows(what, loaded, folder, labelled, binary)
    assert table.rows is not None
    if table.rows >= loaded.n_samples:
        raise ConfigError(
            f"server.rows = {table.rows} of {loaded.n_samples} rows in all leaves none to the clients; take fewer"
        )
    aside = np.zeros(loaded.n_samples, dtype=bool)
    aside[np.random.default_rng(table.seed).choice(loaded.n_samples, table.rows, replace=False)] = True
    kept = loaded.rows(~aside)
    targets = loaded.y[aside] if labelled else None
    server = Client(SERVER, loaded.X[aside], targets, feature_names=loaded.feature_names)
    return kept, None if groups is None else groups[~aside], server


def _own_rows(
    what: keys.Config, loaded: Dataset | SiteFiles, folder: Path, labelled: bool, binary: bool
) -> Client | None:
    """The rows that the server reads from a file or data set of its own; None if there are none."""
    table = what.server
    if table is None:
        return None
    if not labelled:
        features = loaded.X.shape[1] if isinstance(loaded, Dataset) else len(loaded.feature_names or ())
        X, names = _public_rows(table, folder, features)
        return Client(SERVER, X, None, feature_names=names)
    own, _ = _load(table, folder)
    targets = _same_targets(own.binary(what.data.positive) if binary else own, loaded)
    return Client(SERVER, own.X, targets, feature_names=own.feature_names)


def _public_rows(what: keys.Server, folder: Path, features: int) -> tuple[Array, tuple[str, ...] | None]:
    """The inputs that [server] names, and their names. A csv file without `target` that has as many columns as the
    clients have features has no labels: its last column is an input, too."""
    path, options = folder / Path(what.file or "").expanduser(), what.options()
    if what.file is not None and what.target is None and path.is_file() and (what.format or format_of(path)) == "csv":
        how: dict[str, Any] = {name: options[name] for name in (*_CSV_KEYS, "drop") if name in options}
        X, names = read_inputs(path, **how)
        if len(names) == features:
            return X[_drawn(what, len(X))], names
    own, _ = _load(what, folder)
    return own.X, own.feature_names


def _same_targets(own: Dataset, loaded: Dataset | SiteFiles) -> Array:
    """The server's targets, whose numbers stand for the same classes as the clients'."""
    if own.target_names != loaded.target_names:
        raise ConfigError(
            f"the server's data {own.name} has the classes {own.target_names}, and {loaded.name} has "
            f"{loaded.target_names}: the server's samples are learned from, so give both the same classes"
        )
    return own.y


def _load(what: keys.Data, folder: Path) -> tuple[Dataset, Array | None]:
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
            options["labels"] = folder / Path(str(options["labels"])).expanduser()
        if what.split_by is not None:
            options["groups"] = what.split_by
        loaded = _load_file(folder / Path(what.file).expanduser(), options)
    groups = _groups(what, loaded)
    if what.rows is None or what.rows >= loaded.n_samples:
        return loaded, groups
    chosen = _drawn(what, loaded.n_samples)
    return loaded.rows(chosen), None if groups is None else groups[chosen]


def _drawn(what: keys.Data, samples: int) -> Array:
    """The rows that are taken of so many."""
    if what.rows is None or what.rows >= samples:
        return np.arange(samples)
    return np.sort(np.random.default_rng(what.seed).choice(samples, what.rows, replace=False))


def _load_file(path: Path, options: dict[str, object]) -> Dataset:
    try:
        return data.load(path, **options)
    except UnknownName as error:
        if "groups" in options and "'groups'" in str(error):
            raise ConfigError(
                f"data.split_by names a column, and {path.name} has none: use a csv or npz file"
            ) from None
        raise


def _groups(what: keys.Data, loaded: Dataset) -> Array | None:
    if what.split_by is None or what.file is not None or what.split_by == "groups":
        return loaded.groups
    known = loaded.columns or {}
    if what.split_by not in known:
        raise UnknownName(f"column of {loaded.name} for data.split_by", str(what.split_by), known)
    return known[str(what.split_by)]


def _divide(what: keys.Config, loaded: Dataset, groups: Array | None, reader: Reader) -> list[Client]:
    how = what.partition
    if how is None:
        return data.partition(
            loaded.X,
            loaded.y,
            data.ByGroup(),
            groups=groups,
            sample_weight=loaded.sample_weight,
            offset=loaded.offset,
            feature_names=loaded.feature_names,
        )
    scheme = reader.build("partition scheme", {"name": how.scheme, **how.plain()}, "partition")
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
        sample_weight=loaded.sample_weight,
        offset=loaded.offset,
        names=how.client_names,
        feature_names=loaded.feature_names,
    )
