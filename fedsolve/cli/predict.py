"""`fedsolve predict`: a model that a run has left, on new rows."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from fedsolve.cli.carried import id_columns
from fedsolve.cli.console import emit, escape, say, tell
from fedsolve.cli.new_rows import Asked, NewRows, missing_truth, new_rows
from fedsolve.errors import ConfigError, DataError
from fedsolve.loop.stopping import QUORUM
from fedsolve.models import Model, load_model
from fedsolve.models.base import DIVERGED
from fedsolve.models.scores import score, score_name
from fedsolve.report.output_folder import CHECKPOINT, CONFIG, HISTORY, MODEL, SUMMARY
from fedsolve.tables.column_names import are_counted
from fedsolve.text import spreadsheet_cell
from fedsolve.typing import Array
from fedsolve.wire.storage import remove_leftovers, write_atomically


@dataclass(frozen=True)
class Wanted:
    """The options of the command, beside those that say what the rows are."""

    output: Path | None = None
    ids: Sequence[str] = ()
    anyway: bool = False
    force: bool = False


def predict(where: Path, source: str, asked: Asked, wanted: Wanted, as_json: bool) -> int:
    """Predictions as csv in a file or on standard output, or as JSON. The columns `ids` are carried through."""
    path, output = _model_in(where) if where.is_dir() else where, wanted.output
    model = load_model(path)
    _check_ended(path, model, wanted.anyway)
    carried = id_columns(source, wanted.ids, model.files_read)
    asked = replace(asked, drop=[*asked.drop, *wanted.ids])
    found = new_rows(source, model, _feature_names(path, model), asked)
    if output is not None and output.exists() and not wanted.force:
        raise ConfigError(f"there is already a file {output}; choose another, or replace it with --force")
    made = _predicted(model, found)
    if any(len(cells) != made.rows for cells in carried.values()):
        raise DataError(f"{source}: not as many cells in the --id columns as rows; is the first line its header?")
    if output is not None:
        remove_leftovers(output.parent, [output.name])
        write_atomically(output, _as_csv(carried, made).encode())
    tell(made.notes)

    def show(console: Console) -> None:
        said = f"{made.count} predictions" + ("" if made.score is None else f", {score_name(model)} {made.score:.4g}")
        if output is None:
            sys.stdout.write(_as_csv(carried, made))
            say(said)
        else:
            console.print(f"{said}, in [bold]{escape(str(output))}[/bold]", soft_wrap=True)

    result = {
        "status": "ok",
        "rows": made.rows,
        "output": output,
        "score": made.score,
        **({"ids": carried} if carried else {}),
        "predictions": made.predictions,
        "probabilities": made.probabilities,
        **({"notes": list(made.notes)} if made.notes else {}),
    }
    emit(result, as_json, show)
    return 0


@dataclass(frozen=True)
class _Made:
    """What is predicted, a value (or a list of several) for each row; None where there is no prediction."""

    predictions: list[object]
    probabilities: list[object] | None
    outputs: int
    score: float | None
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        return len(self.predictions)

    @property
    def count(self) -> int:
        return sum(one is not None for one in self.predictions)


def _predicted(model: Model, found: NewRows) -> _Made:
    """Predict the rows that can be, and judge those whose target is known."""
    kept = np.ones(found.X.shape[0], dtype=bool) if found.complete is None else found.complete
    X, notes = found.X[kept], list(found.notes)
    if not kept.any():
        raise DataError(f"{notes[-1]}: nothing is left to predict")
    given = () if found.offset is None else (found.offset[kept],)
    predictions = np.asarray(model.predict(X, *given))
    probabilities = model.positive_probability(X, *given)
    judged = None
    if found.truth is not None:
        truth = found.truth[kept]
        unknown = missing_truth(truth)
        if unknown.any():
            notes.append(f"the target is missing in {int(unknown.sum())} of {len(truth)} rows, which are not judged")
        judged = score(model, predictions[~unknown], truth[~unknown]) if not unknown.all() else None
    outputs = predictions.shape[1] if predictions.ndim == 2 else 1
    listed = None if probabilities is None else _spread(probabilities, kept)
    return _Made(_spread(predictions, kept), listed, outputs, judged, tuple(notes))


def _spread(values: Array, kept: Array) -> list[object]:
    """A value for each row: None for those that are not kept."""
    listed = iter(values.tolist())
    return [next(listed) if one else None for one in kept]


def _as_csv(carried: Mapping[str, Sequence[str]], made: _Made) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = made.outputs > 1
    heads = [f"prediction_{index}" for index in range(made.outputs)] if several else ["prediction"]
    rows = [[""] * made.outputs if one is None else one if isinstance(one, list) else [one] for one in made.predictions]
    columns: list[Sequence[object]] = [*carried.values(), *map(list, zip(*rows, strict=True))]
    if made.probabilities is not None:
        heads, columns = [*heads, "probability"], [*columns, ["" if p is None else p for p in made.probabilities]]
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
