"""The data sets that have a name: scikit-learn's own, and files in the folder FEDSOLVE_DATA.

    datasets()                    what there is, and which of it can be read here and now
    load("heart")                 one of them
    load("mnist", scale=False)    images as pixel values 0..255 instead of 0..1

The folder is the environment variable FEDSOLVE_DATA, else `fedsolve` in the user's cache folder. Class labels
are 0..k-1 whatever the file calls them; `target_names` keeps the file's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedsolve.data.dataset import Array, Dataset
from fedsolve.data.file_formats import (
    check_options,
    read_csv,
    read_idx,
    read_libsvm,
    read_npz,
)
from fedsolve.errors import DataError, UnknownName

BUNDLED, FOLDER = "scikit-learn", "FEDSOLVE_DATA"
BINARY, MULTICLASS, REGRESSION = "binary", "multiclass", "regression"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set without reading it; `rows` are those to learn from, not the test rows."""

    name: str
    rows: int
    features: int
    task: str  # "binary", "multiclass" or "regression"
    source: str  # "scikit-learn" or "FEDSOLVE_DATA"
    available: bool
    description: str


@dataclass(frozen=True)
class Entry:
    """A data set of the registry: `read` takes the paths of its `files` and gives the Dataset."""

    rows: int
    features: int
    task: str
    description: str
    read: Callable[..., Dataset] = field(repr=False)
    files: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return FOLDER if self.files else BUNDLED

    def missing_files(self) -> list[Path]:
        return [path for path in self.paths() if not path.is_file()]

    def paths(self) -> list[Path]:
        return [data_folder() / file for file in self.files]


def names() -> list[DatasetInfo]:
    """Every data set with a name, in alphabetical order."""
    return [
        DatasetInfo(
            name=name,
            rows=entry.rows,
            features=entry.features,
            task=entry.task,
            source=entry.source,
            available=not entry.missing_files(),
            description=entry.description,
        )
        for name, entry in sorted(REGISTRY.items())
    ]


def load_named(name: str, **options: object) -> Dataset:
    """The data set of that name. Image sets take `scale=False` to keep pixel values 0..255."""
    if name not in REGISTRY:
        raise UnknownName("data set", name, REGISTRY)
    entry = REGISTRY[name]
    check_options(f"data set {name!r}", entry.read, options)
    if missing := entry.missing_files():
        raise DataError(
            f"data set {name!r}: no file {missing[0]}. "
            f"Set FEDSOLVE_DATA to the folder that holds {', '.join(entry.files)}."
        )
    return replace(entry.read(*entry.paths(), **options), name=name, description=entry.description)


def data_folder() -> Path:
    """FEDSOLVE_DATA, else `fedsolve` in the user's cache folder."""
    if folder := os.environ.get("FEDSOLVE_DATA"):
        return Path(folder).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "fedsolve"


# ── how each kind is read ──


def _bundled(rows: int, features: int, task: str, description: str, loader: str) -> Entry:
    def read() -> Dataset:
        import sklearn.datasets  # slow to import, and not needed for any other kind

        bunch = getattr(sklearn.datasets, loader)()
        classes = task != REGRESSION
        return Dataset(
            name=loader,
            X=np.asarray(bunch.data, dtype=np.float64),
            y=np.asarray(bunch.target, dtype=np.int64 if classes else np.float64),
            feature_names=tuple(str(name) for name in bunch.feature_names),
            target_names=tuple(str(name) for name in bunch.target_names) if "target_names" in bunch else None,
        )

    return Entry(rows, features, task, description, read)


def _libsvm(rows: int, features: int, task: str, description: str, *files: str) -> Entry:
    def read(train: Path, test: Path | None = None) -> Dataset:
        # a file knows only the features that occur in it: both are read as wide as the set
        data = read_libsvm(train, n_features=features)
        if test is None:
            y, target_names = _class_numbers(data.y)
            return replace(data, y=y, target_names=target_names)
        held_out = read_libsvm(test, n_features=features)
        y, target_names = _class_numbers(np.concatenate([data.y, held_out.y]))
        n = data.n_samples
        return replace(data, y=y[:n], target_names=target_names, X_test=held_out.X, y_test=y[n:])

    return Entry(rows, features, task, description, read, tuple(f"libsvm/{file}.bz2" for file in files))


def _class_numbers(labels: Array) -> tuple[Array, tuple[str, ...]]:
    classes, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(f"{label:g}" for label in classes)


DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def _idx(rows: int, description: str, target_names: tuple[str, ...], *prefixes: str, upright: bool = True) -> Entry:
    def read(images: Path, labels: Path, *test: Path, scale: bool = True) -> Dataset:
        data = read_idx(images, labels=labels, scale=scale, transpose=not upright)
        data = replace(data, target_names=target_names)
        if not test:
            return data
        held_out = read_idx(test[0], labels=test[1], scale=scale, transpose=not upright)
        return replace(data, X_test=held_out.X, y_test=held_out.y)

    files = tuple(f"{prefix}-{kind}-ubyte.gz" for prefix in prefixes for kind in ("images-idx3", "labels-idx1"))
    return Entry(rows, 28 * 28, MULTICLASS, description, read, files)


def _npz(
    rows: int,
    features: int,
    description: str,
    file: str,
    target_names: tuple[str, ...] | None = None,
    **fixed: str,
) -> Entry:
    def read(path: Path, *, scale: bool = True) -> Dataset:
        data = read_npz(path, scale=scale, **fixed)
        return data if target_names is None else replace(data, target_names=target_names)

    return Entry(rows, features, MULTICLASS, description, read, (file,))


def _table(rows: int, features: int, description: str, file: str, target: str, drop: tuple[str, ...] = ()) -> Entry:
    def read(path: Path) -> Dataset:
        return read_csv(path, target=target, drop=drop, header=True)

    return Entry(rows, features, REGRESSION, description, read, (f"regression/{file}.csv.gz",))


HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "diagnosis"),
)


def _read_heart(*paths: Path) -> Dataset:
    parts = [read_csv(path, names=HEART_COLUMNS, target="diagnosis") for path in paths]
    diagnosis = np.concatenate([part.y for part in parts]).astype(np.int64)
    hospital = np.repeat(HOSPITALS, [part.n_samples for part in parts])
    return Dataset(
        name="heart",
        X=np.concatenate([part.X for part in parts]),
        y=(diagnosis > 0).astype(np.int64),
        feature_names=HEART_COLUMNS[:-1],
        target_names=("healthy", "heart disease"),
        groups=hospital,
        columns={"hospital": hospital, "diagnosis": diagnosis},
    )


# ── the registry ──

REGISTRY: dict[str, Entry] = {
    # scikit-learn's
    "breast_cancer": _bundled(569, 30, BINARY, "tumours, malignant or benign", "load_breast_cancer"),
    "diabetes": _bundled(442, 10, REGRESSION, "progress of diabetes after a year", "load_diabetes"),
    "digits": _bundled(1797, 64, MULTICLASS, "written digits, 8x8 pixels 0..16", "load_digits"),
    "iris": _bundled(150, 4, MULTICLASS, "three species of iris", "load_iris"),
    "linnerud": _bundled(20, 3, REGRESSION, "exercise against three bodily measures", "load_linnerud"),
    "wine": _bundled(178, 13, MULTICLASS, "three cultivars of wine", "load_wine"),
    # LIBSVM's
    "a1a": _libsvm(1605, 123, BINARY, "income above 50,000 (Adult), small", "a1a"),
    "a9a": _libsvm(32561, 123, BINARY, "income above 50,000 (Adult)", "a9a", "a9a.t"),
    "dna": _libsvm(2000, 180, MULTICLASS, "splice junctions of DNA", "dna.scale", "dna.scale.t"),
    "letter": _libsvm(15000, 16, MULTICLASS, "printed letters", "letter.scale", "letter.scale.t"),
    "mushrooms": _libsvm(8124, 112, BINARY, "mushrooms, edible or poisonous", "mushrooms"),
    "pendigits": _libsvm(7494, 16, MULTICLASS, "pen-written digits, 0..100", "pendigits", "pendigits.t"),
    "phishing": _libsvm(11055, 68, BINARY, "web sites that phish", "phishing"),
    "satimage": _libsvm(4435, 36, MULTICLASS, "soil by satellite", "satimage.scale", "satimage.scale.t"),
    "sensorless": _libsvm(2200, 48, MULTICLASS, "states of a drive; a subset", "Sensorless_subset2200"),
    "shuttle": _libsvm(43500, 9, MULTICLASS, "states of a space shuttle", "shuttle.scale", "shuttle.scale.t"),
    "usps": _libsvm(7291, 256, MULTICLASS, "digits of postal codes, 16x16", "usps", "usps.t"),
    "w8a": _libsvm(49749, 300, BINARY, "web pages of a category", "w8a", "w8a.t"),
    # images
    "mnist": _idx(60000, "written digits, 28x28", DIGITS, "mnist/train", "mnist/t10k"),
    "fashion_mnist": _idx(60000, "articles of clothing, 28x28", FASHION, "fashion-mnist/train", "fashion-mnist/t10k"),
    "emnist_digits": _idx(
        10000,
        "written digits of EMNIST, 28x28, turned upright; a subset",
        DIGITS,
        "emnist/emnist-mnist-test",
        upright=False,
    ),
    "nist_letters": _npz(
        2990,
        784,
        "written capitals, 28x28, 115 of each; tested on letters in their natural frequencies; a subset",
        "emnist/nist_az_letters_subset.npz",
        LETTERS,
        test="extra",
    ),
    "femnist_digits": _npz(
        5997,
        784,
        "written digits of 12 clients (`groups`), 28x28, black on white; a subset",
        "emnist/femnist_digits_12clients.npz",
        DIGITS,
        groups="client",
    ),
    "cifar10": _npz(10000, 3072, "photographs of 10 things, 32x32x3; a subset", "cifar/cifar10_subset.npz"),
    "cifar100": _npz(10000, 3072, "photographs of 100 things, 32x32x3; a subset", "cifar/cifar100_subset.npz"),
    # tables
    "california_housing": _table(
        20640,
        9,
        "house prices by district; one column is text, one has gaps",
        "california_housing",
        "median_house_value",
    ),
    "msd_songs": _table(4680, 90, "year of a song from its timbre; a subset", "msd_songs_subset4680", "year"),
    "news": _table(
        9874,
        58,
        "how often an article is shared; a subset",
        "OnlineNewsPopularity_part",
        "shares",
        drop=("url", "timedelta"),
    ),
    "heart": Entry(
        920,
        13,
        BINARY,
        "heart disease in four hospitals (`groups`), with gaps",
        _read_heart,
        tuple(f"heart/processed.{hospital}.data" for hospital in HOSPITALS),
    ),
}
