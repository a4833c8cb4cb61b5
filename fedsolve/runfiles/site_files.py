"""The data of a run file that has one file per site: clients, and what is known of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsolve.data.preprocessing import Preprocess
from fedsolve.data.sites import Sites, load_sites
from fedsolve.federation.client import Client
from fedsolve.models import Model
from fedsolve.models.scores import score as score_of
from fedsolve.runfiles import keys
from fedsolve.tables.labels import Classes, with_names
from fedsolve.typing import Array

LONGEST_NAME = 60  # characters of a title that names the sites


@dataclass(frozen=True)
class SiteFiles:
    """What is known of files that are never pooled; beside the rows, what a `Dataset` has."""

    name: str
    feature_names: tuple[str, ...] | None
    target_names: Classes | None
    X_test: None = None
    y_test: None = None


def load(what: keys.Data, folder: Path, preprocess: Preprocess | None, binary: bool) -> tuple[SiteFiles, Sites]:
    """Read the files of [data]; paths start from the folder of the run file."""
    assert what.files is not None
    assert isinstance(what.target, str | list)
    schema = None if preprocess is None else preprocess.schema
    options: dict[str, Any] = {
        key: value for key, value in what.options().items() if key not in ("files", "sites", "target")
    }
    read = load_sites(
        what.files,
        target=what.target,
        schema=schema,
        numbers=schema is None,
        positive=what.positive if binary else None,
        binary=binary,
        complete=() if preprocess is None else preprocess.complete_columns,
        sites={name: one.build() for name, one in (what.sites or {}).items()},
        folder=folder,
        **options,
    )
    return SiteFiles(_named(what, read), read.feature_names, read.classes), read


def _named(what: keys.Data, read: Sites) -> str:
    """The data's name in titles: the names of the sites, if they are few and short."""
    if isinstance(what.files, str):
        return what.files
    names = ", ".join(client.name for client in read.clients)
    return names if len(names) <= LONGEST_NAME else f"the files of {len(read.clients):,} sites"


def score(model: Model, clients: Sequence[Client]) -> float | None:
    """Accuracy, or R², over the rows of all clients, from sums of what each computes on its own."""
    if model.is_classifier:
        rows = [client.n_samples for client in clients]
        shares = [score_of(model, _predicted(model, client), _labels(model, client)) for client in clients]
        return float(np.dot([share or 0.0 for share in shares], rows) / sum(rows))
    residual, total = 0.0, sum(client.n_samples for client in clients)
    mean = sum(client.y.sum(axis=0) for client in clients) / total
    spread = 0.0
    for client in clients:
        guess = _predicted(model, client)
        if guess.shape != client.y.shape:
            return None
        residual += float(np.sum((client.y - guess) ** 2))
        spread += float(np.sum((client.y - mean) ** 2))
    return 1 - residual / spread if spread > 0 else None


def _labels(model: Model, client: Client) -> Array:
    labels = client.y if client.y.ndim == 1 else np.argmax(client.y, axis=1)
    return with_names(labels, model.classes)


def _predicted(model: Any, client: Client) -> Array:
    return np.asarray(model.predict(client.X) if client.offset is None else model.predict(client.X, client.offset))
