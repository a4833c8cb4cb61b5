"""`fedsolve predict`: a model that a run has left, on new rows."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from fedsolve import data as rooms
from fedsolve.cli.carried import id_columns
from fedsolve.cli.console import emit, escape, say
from fedsolve.data.file_formats import is_number, read_columns
from fedsolve.data.load import format_of
from fedsolve.data.schema import Categorical
from fedsolve.errors import ConfigError, DataError
from fedsolve.loop.stopping import QUORUM
from fedsolve.models import Model, load_model
from fedsolve.models.base import DIVERGED
from fedsolve.models.scores import score, score_name
from fedsolve.report.output_folder import CHECKPOINT, CONFIG, HISTORY, MODEL, SUMMARY
from fedsolve.tables.column_names import are_counted, chosen_columns
from fedsolve.tables.outcomes import recoded
from fedsolve.text import spreadsheet_cell
from fedsolve.typing import Array
from fedsolve.wire.storage import remove_leftovers, write_atomically


def predict(
    where: Path,
    source: str,
    output: Path | None,
    target: str | None,
    drop: Sequence[str],
    ids: Sequence[str],
    anyway: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Predictions as csv in `output` or on standard output, or as JSON. The columns `ids` are carried through."""
    path = _model_in(where) if where.is_dir() else where
    model = load_model(path)
    _check_ended(path, model, anyway)
    carried = id_columns(source, ids)
    X, truth = _inputs(source, model, _feature_names(path, model), target, [*drop, *ids])
    if output is not None and output.exists() and not force:
        raise ConfigError(f"there is already a file {output}; choose another, or replace it with --force")
    predictions = model.predict(X)
    if any(len(cells) != len(predictions) for cells in carried.values()):
        raise DataError(f"{source}: not as many cells in the --id columns as rows; is the first line its header?")
    probabilities = model.positive_probability(X)
    found = None if truth is None else score(model, predictions, truth)
    if output is not None:
        remove_leftovers(output.parent, [output.name])
        write_atomically(output, _as_csv(carried, predictions, probabilities).encode())

    def show(console: Console) -> None:
        said = f"{len(predictions)} predictions" + ("" if found is None else f", {score_name(model)} {found:.4g}")
        if output is None:
            sys.stdout.write(_as_csv(carried, predictions, probabilities))
            say(said)
        else:
            console.print(f"{said}, in [bold]{escape(str(output))}[/bold]", soft_wrap=True)

    result = {
        "status": "ok",
        "rows": len(predictions),
        "output": output,
        "score": found,
        **({"ids": carried} if carried else {}),
        "predictions": predictions,
        "probabilities": probabilities,
    }
    emit(result, as_json, show)
    return 0


def _as_csv(carried: Mapping[str, Sequence[str]], predictions: Array, probabilities: Array | None) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    outputs = predictions.shape[1] if predictions.ndim == 2 else 1
    heads = ["prediction"] if outputs == 1 else [f"prediction_{index}" for index in range(outputs)]
    columns: list[Sequence[object]] = [*carried.values(), *predictions.reshape(len(predictions), outputs).T.tolist()]
    if probabilities is not None:
        heads, columns = [*heads, "probability"], [*columns, probabilities.tolist()]
    writer.writerow(map(spreadsheet_cell, [*carried, *heads]))
    # The name of a class, or an id, may be anything.
    writer.writerows(map(spreadsheet_cell, row) for row in zip(*columns, strict=True))
    return text.getvalue()


# ── which model ──


def _check_ended(path: Path, model: Model, anyway: bool) -> None:
    """Raise DataError for the model of a run that diverged, unless it is wanted anyway; then say so."""
    status = model.run_status
    if status is None:  # a model of an earlier version does not know it; what lies beside it may
        found = _summary_beside(path).get("status")
        status = found if isinstance(found, str) else None
    if status == DIVERGED:
        said = f"the run that made {path} diverged, so the predictions of this model mean nothing"
        if not anyway:
            raise DataError(f"{said}; to get them all the same, add --anyway")
        say(f"Warning: {said}.")
    elif status == QUORUM:
        say(f"Warning: the run that made {path} ended early, because too few clients answered.")


def _summary_beside(path: Path) -> Mapping[str, object]:
    """What the run has left beside its model; empty if there is nothing that can be read."""
    try:
        found = json.loads(path.with_name(SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _model_in(folder: Path) -> Path:
    """The model of a run folder; where there is none, what to give instead."""
    if (folder / MODEL).is_file():
        return folder / MODEL
    inner = sorted(path.parent for path in folder.glob(f"*/{MODEL}"))
    if inner:
        raise DataError(f"{folder} has a model for each algorithm; give one of {', '.join(map(str, inner))}")
    if (folder / CHECKPOINT).is_file() and (folder / CONFIG).is_file():
        command = shlex.join(["fedsolve", "run", str(folder / CONFIG), "--output", str(folder), "--resume"])
        raise DataError(f"the run in {folder} is unfinished; resume it with: {command}")
    if (folder / HISTORY).is_file():
        raise DataError(f"the run in {folder} is unfinished and has no checkpoint: run it again")
    raise DataError(f"there is no {MODEL} in {folder}, so it is not the folder of a run")


# ── which columns ──


def _feature_names(path: Path, model: Model) -> tuple[str, ...] | None:
    """The raw columns by name, in the model's order: from the model, or, where it only counts them, from what the run
    has left beside it."""
    known = model.input_names
    if known is not None and not are_counted(known):
        return known
    names = _summary_beside(path).get("feature_names")
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    return known


def _inputs(
    source: str, model: Model, names: Sequence[str] | None, target: str | None, drop: Sequence[str]
) -> tuple[Array, Array | None]:
    """The inputs in the model's order, and the targets where there are any: classes by name, or numbers."""
    path = Path(source).expanduser()
    known = source in {info.name for info in rooms.datasets()}
    if known or not path.is_file() or format_of(path) != "csv":  # features and targets are apart already
        loaded = rooms.load(source)
        return loaded.inputs_for(names), loaded.labels if model.is_classifier else loaded.y
    columns = read_columns(path)
    for column in (*drop, *([] if target is None else [target])):
        if column not in columns:
            raise DataError(f"{source}: no column {column!r}; expected one of {', '.join(columns)}")
    truth = None if target is None else recoded(columns[target], getattr(model, "classes", None))
    if model.transform is not None and model.transform.needed is not None:  # others may be lacking, or anything
        others = set(model.input_names or ()).difference(model.transform.needed)
        columns |= {name: np.full(len(next(iter(columns.values()))), np.nan) for name in others}
    names = chosen_columns(source, list(columns), names, {*drop, target}, model.columns)
    for place, name in enumerate(names):
        kind = None if model.transform is None else model.transform.columns[place]
        if not isinstance(kind, Categorical):
            _check_numbers(source, name, columns[name])
    return _matrix([columns[name] for name in names]), truth


def _check_numbers(source: str, name: str, cells: Array) -> None:
    if cells.dtype != object:
        return
    for row, cell in enumerate(cells, start=1):
        if isinstance(cell, str) and not is_number(cell):
            raise DataError(f"{source}: column {name!r}, row {row} below the header: {cell!r} is not a number")


def _matrix(columns: Sequence[Array]) -> Array:
    if all(column.dtype.kind == "f" for column in columns):
        return np.column_stack(columns)
    X = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        X[:, place] = column
    return X
