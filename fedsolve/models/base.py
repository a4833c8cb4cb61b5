"""Models: what a run is for. They predict, they are saved without pickle, and they describe themselves.

Each kind of model is a frozen dataclass that derives from `Model` and has a `kind` name, under which its files are read
again. Nothing outside this package asks which kind a model is.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from fedsolve.data.fitted_transform import Transform
from fedsolve.data.read_alike import FilesRead
from fedsolve.errors import ConfigError, DataError, DivergedModelWarning, WireError
from fedsolve.features import FeatureMap
from fedsolve.models.scores import score, score_name
from fedsolve.networks.architecture import Architecture
from fedsolve.tables.column_names import match_columns
from fedsolve.tables.labels import Classes, with_names
from fedsolve.typing import Array
from fedsolve.wire import archives
from fedsolve.wire.storage import reading, remove_leftovers, write_atomically

FORMAT = 1
TEXT = "model"  # the entry of a file that holds all but the arrays, as JSON
HEADER = (
    "format",
    "kind",
    "arrays",
    "run_status",
    "files_read",
)  # keys of that text that no field may have the name of
DIVERGED = "diverged"  # the status of a run whose model predicts nothing
TAKEN = (TEXT, "fedsolve")  # entries that no array of a model may have the name of

_KINDS: dict[str, type[Model]] = {}

M = TypeVar("M", bound="Model")
Plain = dict[str, Any]  # what JSON can hold


@dataclass(frozen=True)
class Description:
    """A model for people: sentences, and a table if it has one."""

    sentences: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Task:
    """What is known of the problem that a model's weights are wanted for: as the start of a run, or to be judged.

    columns       the names of the columns after preprocessing, in the order of the run
    classes       what the labels stand for
    preprocessed  whether the run has a preprocessing
    features      the feature map of its loss
    intercept     whether its loss has an intercept; None: it has no loss that could say so
    architecture  the architecture of its network; None: it trains none
    whole         what the problem is called in an error,
    role          and what the model is in it
    instead       what to do where the weights do not fit
    """

    columns: tuple[str, ...] | None
    classes: Classes | None
    preprocessed: bool
    features: FeatureMap | None
    intercept: bool | None
    architecture: Architecture | None = field(default=None, kw_only=True)
    whole: str = "this run"
    role: str = "the warm start"
    instead: str = "fit it in the same way, or give its weights alone, warm_start=model.w, if you know that they fit"


class Model(ABC):
    """Predicts, is saved and loaded again.

    To add a kind, write a frozen dataclass that derives from this class, with a `kind` of its own and a `predict` that
    begins with `X = self.prepared(X)`:

        @dataclass(frozen=True, eq=False)
        class Centre(fs.Model):
            centre: Array
            transform: Transform | None = None

            kind = "centre"

            def predict(self, X):
                return np.tile(self.centre, (len(self.prepared(X)), 1))

    Its fields are saved: arrays as they are, all others as JSON. The fields `transform`, `feature_names`, `classes` and
    `inputs`, where it has them, are filled in by the run. A program that reads such a file must import the module that
    defines its kind.
    """

    kind: ClassVar[str]
    # What a run fills in; a kind that has use for it declares a field of this name.
    transform: Transform | None = None  # the preprocessing the run agreed on: raw columns go in
    feature_names: tuple[str, ...] | None = None  # of the columns after preprocessing
    classes: Classes | None = None  # what the labels 0, 1, … stand for
    inputs: int | None = None  # how many columns the run had, after preprocessing
    # How the run ended that made the model, such as "converged" or "diverged"; None: not known. It is no field, so that
    # every kind of model has it, and files without it are read as before.
    run_status: str | None = None
    # How the files of the run were read, so that `fedsolve predict` reads new ones alike; None: not known. It is no
    # field either.
    files_read: FilesRead | None = None

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        known = _KINDS.get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"{cls.__qualname__}: there is a kind of model {kind!r} already, {known.__qualname__}")
        _KINDS[kind] = cls

    # ── predicting ──

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """A prediction for each row of X."""

    def prepared(self, X: Array) -> Array:
        """X as the model takes it: columns matched by name, preprocessed, and made numbers, dense or CSR.

        The columns of a data frame are matched with the model's by name, in any order; those of an array, and those of
        a model without names, are taken by place. For a model of a formula a frame may have more columns, and need not
        have those that the formula does not name. Raises DataError if they are not the columns the model takes.
        """
        X = match_columns(
            *(X, self.input_names, "the data frame", "this model takes exactly its own columns, in any order"),
            needed=None if self.transform is None else self.transform.needed,
        )
        if self.transform is not None:
            X = self.transform.apply(X)
        X = X if sp.issparse(X) else self._numbers(X)
        if X.ndim != 2:
            raise DataError(f"X is a matrix of samples and columns, got shape {X.shape}")
        return X

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the columns that go in, before preprocessing; None if they have none."""
        if self.transform is None:
            return self.feature_names
        return tuple(column.name for column in self.transform.columns)

    @property
    def columns(self) -> int | None:
        """How many columns go in; None if that is not known."""
        if self.transform is not None:
            return len(self.transform.columns)
        return self.inputs if self.feature_names is None else len(self.feature_names)

    # ── classes and scores ──

    @property
    def n_classes(self) -> int | None:
        """How many classes it tells apart; None for a regression."""
        return None

    @property
    def is_classifier(self) -> bool:
        """Whether `predict` gives classes."""
        return self.n_classes is not None

    @property
    def one_against_rest(self) -> bool:
        """Whether it tells one class, the second, from everything else: then any other label counts as the first."""
        return False

    def class_codes(self, X: Array) -> Array:
        """The predicted classes as 0, 1, …, whatever they are called."""
        raise ConfigError("only classifiers have classes; this model is a regression")

    def positive_probability(self, X: Array, offset: Array | None = None) -> Array | None:
        """The probability of the second of two classes; None for other models."""
        return None

    @property
    def score_name(self) -> str:
        """What `score` gives."""
        return score_name(self)

    def score(self, X: Array, y: Array) -> float | None:
        """The accuracy of a classifier, with labels 0, 1, … in y; R² of a regression; None where neither is defined."""
        labels = y if np.ndim(y) == 1 or not self.is_classifier else np.argmax(y, axis=1)
        predictions = np.asarray(self.predict(X))
        if not self.is_classifier and predictions.shape != np.shape(y):
            return None
        return score(self, predictions, with_names(labels, self.classes if self.is_classifier else None))

    # ── describing ──

    @property
    def in_words(self) -> str:
        """What kind of model it is, for a report: "a logistic regression"."""
        return f"a model of type {type(self).__name__}"

    def described(self, names: Sequence[str] | None = None) -> Description:
        """The model for a report or a terminal; `names` are those of the raw columns, where the model has none."""
        return Description((f"A {type(self).__name__}.",))

    # ── what a run adds ──

    def fitted_on(
        self: M,
        *,
        transform: Transform | None = None,
        feature_names: tuple[str, ...] | None = None,
        classes: Classes | None = None,
        inputs: int | None = None,
    ) -> M:
        """The model with what a run knows of its data, as far as it has fields for it. Raises ConfigError if there is
        a preprocessing and the model has no field `transform`: its predictions would be of other columns."""
        if not is_dataclass(self):
            raise ConfigError(f"{type(self).__name__} is no dataclass, which a model is")
        own = {field.name for field in fields(self)}
        if transform is not None and "transform" not in own:
            raise ConfigError(f"{type(self).__name__} has no field `transform`, so it cannot follow a preprocessing")
        given = {"transform": transform, "feature_names": feature_names, "classes": classes, "inputs": inputs}
        made = replace(self, **{name: value for name, value in given.items() if name in own and value is not None})
        return made.left_by(self.run_status).read_as(self.files_read)

    def left_by(self: M, status: str | None) -> M:
        """The model, which remembers how its run ended (`run_status`), also when it is saved."""
        made = copy.copy(self)
        object.__setattr__(made, "run_status", status)  # frozen
        return made

    def read_as(self: M, files_read: FilesRead | None) -> M:
        """The model, which remembers how the files of its run were read (`files_read`), also when it is saved: markers
        of missing cells, decimal marks, the column of the offset. `Sites.files_read` has it."""
        made = copy.copy(self)
        object.__setattr__(made, "files_read", files_read)  # frozen
        return made

    def with_transform(self: M, transform: Transform) -> M:
        """The model behind a preprocessing: raw columns go in."""
        return self.fitted_on(transform=transform)

    def with_names(self: M, names: tuple[str, ...]) -> M:
        """The model with names for its columns."""
        return self.fitted_on(feature_names=names)

    def with_classes(self: M, classes: Classes) -> M:
        """The model with names for its classes."""
        return self.fitted_on(classes=classes)

    def with_inputs(self: M, inputs: int) -> M:
        """The model with the number of columns it was fitted on."""
        return self.fitted_on(inputs=inputs)

    def weights_for(self, task: Task) -> Array:
        """The weights to start another run from, in its order of columns. Raises ConfigError if they do not fit."""
        raise ConfigError(f"a {type(self).__name__} has no weights that a run could start from")

    # ── files ──

    def arrays(self) -> dict[str, Array]:
        """What is saved as arrays, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}

    def settings(self) -> Plain:
        """What is saved as JSON, by name: all fields that are no arrays."""
        arrays = self.arrays()
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: value for name, value in found.items() if name not in arrays}
        if isinstance(self.transform, Transform):
            plain["transform"] = self.transform.to_plain()
        return plain

    @classmethod
    def restored(cls: type[M], arrays: Mapping[str, Array], settings: Plain) -> M:
        """The model that `arrays` and `settings` were of."""
        given: Plain = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        if settings.get("transform") is not None:
            given["transform"] = Transform.from_plain(settings["transform"])
        return cls(**arrays, **given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz file: the arrays, the rest as JSON text, and a checksum over all.

        Raises StorageError if the file cannot be written, or if `path` is a symbolic link.
        """
        path = Path(path)
        text, arrays = to_parts(self)
        known: Plain = {} if self.run_status is None else {"run_status": self.run_status}
        if self.files_read is not None:
            known["files_read"] = self.files_read.to_plain()
        if known:
            text = json.dumps({**json.loads(text), **known})
        data = archives.pack(**arrays, **{TEXT: np.array(text)})
        remove_leftovers(path.parent, [path.name])
        write_atomically(path, data)

    def _check_read_back(self, arrays: Mapping[str, Array], settings: Plain) -> None:
        """JSON has neither nested tuples nor keys that are numbers: what would come back otherwise is rejected."""
        again = type(self).restored(arrays, json.loads(json.dumps(settings))).settings()
        for name, value in settings.items():
            if again.get(name) != value:
                raise ConfigError(
                    f"{type(self).__name__}.{name} would be read back as {again.get(name)!r}, not as {value!r}: use an "
                    "array, a number, a text or a tuple of these, or write `settings` and `restored`"
                )

    def _numbers(self, X: Array) -> Array:
        try:
            return np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            cells = np.asarray(X, dtype=object)
            for row, column in np.ndindex(cells.shape):
                if not _is_number(cells[row, column]):
                    raise DataError(
                        f"column {self._column(column)}, row {row} (from 0): {cells[row, column]!r} is no number, and "
                        "this model takes numbers only"
                    ) from None
            raise

    def _column(self, place: int) -> str:
        return repr(self.feature_names[place]) if self.feature_names is not None else f"{place} (from 0)"


def to_parts(model: Model) -> tuple[str, dict[str, Array]]:
    """A model as a JSON text and arrays, from which `from_parts` builds it again.

    Raises ConfigError if it has fields that would not be read back.
    """
    kind = getattr(type(model), "kind", None)
    if kind is None:
        raise ConfigError(f"{type(model).__name__} has no `kind`, by which its file could be read again")
    arrays, settings = model.arrays(), model.settings()
    for name in (*(set(arrays) & set(TAKEN)), *(set(settings) & set(HEADER))):
        raise ConfigError(f"{type(model).__name__}: a field of a model that is saved cannot be named {name!r}")
    try:
        text = json.dumps({"format": FORMAT, "kind": kind, **settings, "arrays": list(arrays)})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{type(model).__name__} has fields that are neither arrays nor plain: {error}") from None
    if type(model).settings is Model.settings:
        model._check_read_back(arrays, settings)
    return text, arrays


def from_parts(text: str, arrays: Mapping[str, Array]) -> Model:
    """The model that `to_parts` took apart. Raises DataError if it is none, or of a kind that is not known here."""
    try:
        return _restored(np.array(text), arrays)
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"this is no model ({type(error).__name__}: {error})") from error


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote, also with another version of fedsolve as long as the format is the same.

    Returns the kind of model that was saved. Raises DataError for a file that is damaged or is not a model, or whose
    kind no imported module defines. Warns (DivergedModelWarning) if the run that made it diverged.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no model file {path}")
    try:
        with reading(path) as (file, size):
            text = archives.unpack(file, size, (TEXT,))[TEXT]
            file.seek(0)
            arrays = archives.unpack(file, size, _array_names(text))
    except (WireError, OSError) as error:
        said = (isinstance(error, OSError) and error.strerror) or str(error)
        raise DataError(
            f"{path} is damaged or not a fedsolve model file: {said}. Give a file that Model.save or a run wrote "
            "(model.npz), or restore this one from a copy"
        ) from error
    try:
        model = _restored(text, arrays)
    except DataError as error:
        raise DataError(f"{path} is not a fedsolve model file that can be read: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a fedsolve model file ({type(error).__name__}: {error})") from error
    if model.run_status == DIVERGED:
        said = f"the run that made {path} diverged: the predictions of this model mean nothing"
        warnings.warn(said, DivergedModelWarning, stacklevel=2)
    return model


def _array_names(text: Array) -> tuple[str, ...]:
    """The entries that a model's text says it has; files of linear models once did not say."""
    try:
        names = json.loads(str(text)).get("arrays", ["w"])
    except (AttributeError, RecursionError, ValueError):
        return ("w",)
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ("w",)


def _restored(text: Array, arrays: Mapping[str, Array]) -> Model:
    rest = json.loads(str(text))
    if not isinstance(rest, dict) or rest.get("format") != FORMAT:
        found = rest.get("format") if isinstance(rest, dict) else None
        raise DataError(f"it is a model of format {found!r}, this version reads {FORMAT}")
    kind = rest.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(
            f"it is a model of kind {kind!r}, and known are {', '.join(sorted(_KINDS))}; import the module that "
            "defines that kind first"
        )
    settings = {name: value for name, value in rest.items() if name not in HEADER}
    model = _KINDS[kind].restored(arrays, settings)
    status, files_read = rest.get("run_status"), rest.get("files_read")
    if isinstance(status, str):
        model = model.left_by(status)
    return model if files_read is None else model.read_as(FilesRead.from_plain(files_read))


def _is_number(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
