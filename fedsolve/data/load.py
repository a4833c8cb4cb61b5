"""Read a data set, by its name or from a file, into one `Dataset`.

    load("w8a")                                   a name of `datasets()`
    load("cases.csv", target="outcome", na="?")   a table
    load("train.svm.bz2", n_features=300)         LIBSVM text
    load("letters.npz")                           arrays x, y (or x_train, y_train, x_test, y_test)
    load("train-images-idx3-ubyte.gz")            idx images, their labels beside them

Nothing is unpickled. What cannot be read is a `DataError` that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from fedsolve.data import advice
from fedsolve.data.dataset import Dataset
from fedsolve.data.file_formats import (
    FilePath,
    check_options,
    explained,
    open_file,
    read_csv,
    read_idx,
    read_libsvm,
    read_npz,
    read_parquet,
)
from fedsolve.data.known_datasets import REGISTRY, load_named
from fedsolve.data.site_names import near_files
from fedsolve.errors import DataError, UnknownName

READERS: dict[str, Callable[..., Dataset]] = {
    "csv": read_csv,
    "idx": read_idx,
    "libsvm": read_libsvm,
    "npz": read_npz,
    "parquet": read_parquet,
}
_FORMATS = {
    r"\.(csv|data|tsv)$": "csv",
    r"\.(parquet|pq)$": "parquet",
    r"\.npz$": "npz",
    r"\.(svm|libsvm|svmlight)$": "libsvm",
    r"idx\d?(-ubyte)?$": "idx",
}
_LIBSVM_LINE = re.compile(rb"[+-]?[\d.]\S*(\s+(qid|\d+):\S|\s*(#|$))")


def load(what: FilePath, **options: object) -> Dataset:
    """The data set of that name, or the one in that file.

    A file's kind follows from its suffix, or from its first line; `format=` ("csv", "libsvm", "npz", "idx", "parquet")
    says it outright. The other options are those of `read_csv`, `read_libsvm`, `read_npz`, `read_idx` and
    `read_parquet`.
    A name wins over a file of the same name: write `./iris` for the file.
    """
    if isinstance(what, str) and what in REGISTRY:
        return load_named(what, **options)
    path = Path(what).expanduser()
    if not path.is_file():
        if isinstance(what, str) and re.fullmatch(r"[\w-]+", what):
            raise UnknownName("data set (nor is there such a file)", what, REGISTRY)
        if path.is_dir():
            raise DataError(f"{path} is a folder: give a file in it, or a name of {advice.data_sets()}.")
        near = near_files(path)
        raise DataError(f"{path}: no such file{near or f'. Give an existing file, or a name of {advice.data_sets()}.'}")
    kind = options.pop("format", None) or format_of(path)
    if kind not in READERS:
        raise UnknownName("data format", str(kind), READERS)
    check_options(f"{kind} files", READERS[kind], options)
    return READERS[kind](path, **options)


def format_of(path: Path) -> str:
    """By the name, else by the first line: LIBSVM's own files have names such as `a9a.t` and `dna.scale`."""
    name = re.sub(r"\.(gz|bz2)$", "", path.name.lower())
    for pattern, kind in _FORMATS.items():
        if re.search(pattern, name):
            return kind
    with explained(path, "data", "expected text or idx"), open_file(path) as file:
        lines = (line.strip() for line in iter(lambda: file.readline(1 << 16), b""))
        first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _LIBSVM_LINE.match(first):
        return "libsvm"
    if first.startswith(b"\0\0"):
        return "idx"
    raise DataError(
        f"{path}: neither its name nor its first line says what it is; pass format= one of {list(READERS)}."
    )
