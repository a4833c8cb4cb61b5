"""Readers of files: LIBSVM text, tables, NumPy archives and idx images, each into one `Dataset`.

Nothing is unpickled. What cannot be read is a `DataError` that says what to do.
"""

from __future__ import annotations

import csv
import inspect
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fedsolve.data.csv_tables import Reading, Table, is_number, read_table
from fedsolve.data.dataset import Array, Dataset, is_missing
from fedsolve.data.missing_markers import Na
from fedsolve.data.parquet_tables import read_parquet_table
from fedsolve.data.suspected_codes import suspected_codes
from fedsolve.data.text_files import FilePath, open_file
from fedsolve.errors import DataError, InputError, UnknownName
from fedsolve.tables.labels import Labels, checked_classes, encode_labels

__all__ = [
    "FilePath",
    "as_dataset",
    "check_options",
    "explained",
    "is_number",
    "open_file",
    "read_columns",
    "read_csv",
    "read_idx",
    "read_inputs",
    "read_libsvm",
    "read_npz",
    "read_parquet",
]


# ── LIBSVM text ──


def read_libsvm(path: FilePath, *, n_features: int | None = None, zero_based: bool = False) -> Dataset:
    """LIBSVM text, plain, .gz or .bz2; labels as they are. `n_features` widens what lacks the last ones."""
    from sklearn.datasets import load_svmlight_file  # slow to import

    hint = "expected 'label index:value ...', indices from 1 (from 0: zero_based=True), none above n_features="
    with explained(path, "LIBSVM text", hint):
        X, y = load_svmlight_file(os.fspath(path), n_features=n_features, dtype=np.float64, zero_based=zero_based)
    if X.nnz == 0:
        raise DataError(f"{path}: {len(y)} rows without any 'index:value'; pass format= if it is not LIBSVM text.")
    return Dataset(Path(path).name, csr_array(X), np.asarray(y, dtype=np.float64))


# ── tables ──


def read_csv(
    path: FilePath,
    *,
    target: str | int | Sequence[str | int] = -1,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    na: Na | None = None,
    drop: Sequence[str | int] = (),
    groups: str | int | None = None,
    weight: str | int | None = None,
    offset: str | int | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    skip: int = 0,
    skip_footer: int = 0,
    classes: Sequence[str | float] | None = None,
) -> Dataset:
    """A table with one row per sample, plain, .gz or .bz2.

    `target` (or a list of targets), `groups`, `weight`, `offset` and `drop` name columns, or count them from 0 (from
    the end: -1). Without `header=`, the first row is a header if no cell of it is a number; `names` are the column
    names of a table without one. Empty cells and those of `na` are NaN. A column with any cell that is not a number is
    text; then X is an object array of floats, NaN and strings. A text target is numbered 0..k-1 with its values in
    `target_names`: in the order of `classes`, else sorted. Declare `classes` where each site reads its own file, which
    may lack some of them: numbered file by file, a label would not mean the same everywhere. Every column, dropped ones
    too, is in `columns`. The separator, the decimal mark, what groups thousands and the encoding are recognised unless
    they are given; see `fedsolve.data.csv_tables.Reading`.
    """
    how = Reading(header, names, na, delimiter, decimal, thousands, encoding, skip, skip_footer)
    return as_dataset(read_table(path, how), target, drop, groups, weight, offset, classes, na)


def read_parquet(
    path: FilePath,
    *,
    target: str | int | Sequence[str | int] = -1,
    names: Sequence[str] | None = None,
    na: Na | None = None,
    drop: Sequence[str | int] = (),
    groups: str | int | None = None,
    weight: str | int | None = None,
    offset: str | int | None = None,
    classes: Sequence[str | float] | None = None,
) -> Dataset:
    """A table in a parquet file, which needs pyarrow (`pip install "fedsolve[parquet]"`); as `read_csv`."""
    read = read_parquet_table(path, Reading(names=names, na=na))
    return as_dataset(read, target, drop, groups, weight, offset, classes, na)


def read_inputs(path: FilePath, *, drop: Sequence[str | int] = (), **table: Any) -> tuple[Array, tuple[str, ...]]:
    """A csv file without a target as a matrix, and the names of its columns; the options are those of `read_csv`."""
    columns = read_columns(path, **table)
    names = list(columns)
    left_out = {_column_name(path, column, names) for column in drop}
    kept = tuple(name for name in names if name not in left_out)
    if not kept:
        raise DataError(f"{path}: no column left for features besides {sorted(left_out)}; check drop=.")
    return matrix([columns[name] for name in kept]), kept


def read_columns(path: FilePath, **how: Any) -> dict[str, Array]:
    """The columns of a csv file by name: features and targets alike, or features alone. The options are the fields of
    `Reading`."""
    return read_table(path, Reading(**how)).columns


def as_dataset(
    read: Table,
    target: str | int | Sequence[str | int],
    drop: Sequence[str | int],
    groups: str | int | None,
    weight: str | int | None,
    offset: str | int | None,
    classes: Sequence[str | float] | None,
    na: Na | None = None,
) -> Dataset:
    """A table as features, targets and the rest. The arguments are those of `read_csv`."""
    path, table = read.path, read.columns
    names = list(table)

    def name_of(column: str | int | None) -> str | None:
        return None if column is None else _column_name(path, column, names)

    targets = [_column_name(path, one, names) for one in ([target] if isinstance(target, str | int) else target)]
    groups_name, weight_name, offset_name = name_of(groups), name_of(weight), name_of(offset)
    left_out = {*targets, groups_name, weight_name, offset_name, *(name_of(column) for column in drop)}
    features = tuple(name for name in names if name not in left_out)
    if not features:
        raise DataError(f"{path}: no column left for features besides {sorted(filter(None, left_out))}; check drop=.")
    y, target_names = targets_of(read, targets, classes)
    return Dataset(
        Path(path).name,
        matrix([table[name] for name in features]),
        y,
        features,
        target_names,
        groups=None if groups_name is None else table[groups_name],
        columns=table,
        sample_weight=None if weight_name is None else numbers_of(read, weight_name, "weight"),
        offset=None if offset_name is None else numbers_of(read, offset_name, "offset"),
        notes=(*([said] if (said := read.said()) else []), *(text for _, text in suspected_codes(read, features, na))),
        offset_name=offset_name,
    )


def targets_of(
    read: Table, targets: Sequence[str], classes: Sequence[str | float] | None
) -> tuple[Array, tuple[str, ...] | None]:
    """The targets as numbers, and what the numbers 0, 1, … stand for; several targets are the columns of a matrix."""
    for name in targets:
        if unknown := int(is_missing(read.columns[name]).sum()):
            rows, line = len(read.lines), int(read.lines[np.argmax(is_missing(read.columns[name]))])
            raise DataError(
                f"{read.path}: target {name!r} is missing in {unknown} of {rows} rows, first in line {line}; remove "
                "those rows."
            )
    if len(targets) == 1:
        return _numbered(read.columns[targets[0]], classes, f"{read.path}, target {targets[0]!r}")
    if classes is not None or not targets:
        raise DataError(f"{read.path}: classes are of one target, and there are {len(targets)}; leave classes out.")
    return np.column_stack([numbers_of(read, name, "each of several targets") for name in targets]), tuple(targets)


def numbers_of(read: Table, name: str, what: str) -> Array:
    """A column of numbers none of which is missing or infinite."""
    values = read.columns[name]
    if values.dtype != object:
        wrong = ~np.isfinite(values)
    else:
        wrong = np.array([not (isinstance(one, str) and is_number(one)) for one in values])
    if wrong.any():
        row = int(np.argmax(wrong))
        said = f"{values[row]!r} is not a number" if isinstance(values[row], str) else "missing or infinite"
        raise DataError(f"{read.where(row, name)}: {said}, and {what} is a finite number in every row.")
    return values


def _column_name(path: FilePath, column: str | int, names: Sequence[str]) -> str:
    if isinstance(column, str) and column in names:
        return column
    if isinstance(column, int) and -len(names) <= column < len(names):
        return names[column]
    raise DataError(f"{path}: no column {column!r}; expected one of {', '.join(names)}, or its number from 0.")


def matrix(columns: Sequence[Array]) -> Array:
    numeric = all(column.dtype == np.float64 for column in columns)
    X = np.empty((len(columns[0]), len(columns)), dtype=np.float64 if numeric else object)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


def _numbered(
    y: Array, classes: Sequence[str | float] | None = None, whose: str = "y"
) -> tuple[Array, tuple[str, ...] | None]:
    """Labels as their places among declared classes. Without: numbers as they are; text as 0..k-1 in sorted order,
    with the texts."""
    if classes is not None:
        declared = checked_classes(classes, whose)
        names = tuple(str(one) for one in declared)
        return Labels.of(encode_labels(y, declared, whose).astype(np.int64), names), names
    if y.dtype.kind in "iub":
        return y.astype(np.int64), None
    if y.dtype.kind == "f":
        return y.astype(np.float64), None
    found, codes = np.unique(y.astype(str), return_inverse=True)
    names = tuple(str(label) for label in found)
    return Labels.of(codes.astype(np.int64), names), names


# ── arrays and images ──


def read_npz(
    path: FilePath,
    *,
    groups: str | None = None,
    scale: bool = True,
    test: str = "test",
    classes: Sequence[str | float] | None = None,
) -> Dataset:
    """Arrays x, y or x_train, y_train of an .npz file, or in capitals; x_test, y_test, class_names if any.

    Rows are flattened. Images, which are 8-bit arrays of three or more dimensions, are divided by 255 unless
    `scale=False`. `groups` is the key of an array that says whose each row is; any other array with one value
    per row is in `columns`. `test` is the ending of the test arrays' keys. `classes` is as for `read_csv`.
    """
    hint = "expected arrays of numbers or text saved by numpy.savez"
    with explained(path, "npz", hint), np.load(path, allow_pickle=False) as file:
        arrays = {key.lower(): np.asarray(file[key]) for key in file.files}
    x_key, y_key = ("x", "y") if "x" in arrays else ("x_train", "y_train")
    for key in (x_key, y_key, *([groups.lower()] if groups else [])):
        if key not in arrays or arrays[key].ndim == 0:
            raise DataError(f"{path}: no array {key!r} among {sorted(arrays)}; expected x, y or x_train, y_train.")
    X, y = arrays.pop(x_key), arrays.pop(y_key)
    X_test, y_test = arrays.pop(f"x_{test}", X[:0]), arrays.pop(f"y_{test}", y[:0])
    labels, target_names = _numbered(np.concatenate([y, y_test]), classes, str(path))
    if target_names is None and "class_names" in arrays:
        target_names = tuple(str(name) for name in arrays.pop("class_names"))
    return Dataset(
        Path(path).name,
        _flattened(path, X, scale),
        labels[: len(y)],
        target_names=target_names,
        X_test=_flattened(path, X_test, scale) if len(X_test) else None,
        y_test=labels[len(y) :] if len(y_test) else None,
        groups=arrays[groups.lower()] if groups else None,
        columns={key: values for key, values in arrays.items() if values.shape == (len(X),)} or None,
    )


def read_idx(path: FilePath, *, labels: FilePath | None = None, scale: bool = True, transpose: bool = False) -> Dataset:
    """Images and labels in a pair of idx files, plain, .gz or .bz2.

    The labels are looked for beside the images (`labels-idx1` for `images-idx3`) unless `labels` says where.
    `transpose` turns the images of EMNIST upright; 8-bit pixels are divided by 255 unless `scale=False`.
    """
    if labels is None:
        labels = Path(path).with_name(Path(path).name.replace("images", "labels").replace("idx3", "idx1"))
    if not Path(labels).is_file() or Path(labels) == Path(path):
        raise DataError(f"{path}: no label file {labels}; pass labels= with the path of the idx file of the labels.")
    images, y = _idx_array(path), _idx_array(labels)
    if y.ndim != 1:
        raise DataError(f"{labels}: an idx array of shape {y.shape}; expected one label per image. Check labels=.")
    if transpose and images.ndim >= 3:
        images = images.swapaxes(1, 2)
    return Dataset(Path(path).name, _flattened(path, images, scale), _numbered(y)[0])


_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def _idx_array(path: FilePath) -> Array:
    with (
        explained(path, "idx", "expected two zero bytes, type, dimensions and as many values"),
        open_file(path) as file,
    ):
        zeros, code, dimensions = struct.unpack(">HBB", file.read(4))
        if zeros != 0 or code not in _IDX_TYPES:
            raise ValueError(f"starts with {zeros:#06x} and type {code:#04x}")
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        body, dtype = file.read(), np.dtype(_IDX_TYPES[code])
        if len(body) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"declares {shape}, {math.prod(shape) * dtype.itemsize} bytes, but has {len(body)}")
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def _flattened(path: FilePath, values: Array, scale: bool) -> Array:
    """One float64 row per sample; only 8-bit images have a known range to scale by."""
    if values.ndim < 2 or values.dtype.kind not in "iufb":
        raise DataError(f"{path}: features of shape {values.shape} and type {values.dtype}; expected rows of numbers.")
    X = values.reshape(len(values), math.prod(values.shape[1:])).astype(np.float64)
    if scale and values.dtype == np.uint8 and values.ndim >= 3:
        X /= 255.0
    return X


# ── files ──


@contextmanager
def explained(path: FilePath, kind: str, hint: str) -> Iterator[None]:
    """Whatever goes wrong in reading becomes a DataError: the file, the fault and what was expected."""
    try:
        yield
    except InputError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, struct.error, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}; {hint}.") from error


def check_options(owner: str, reader: Callable[..., Dataset], options: Mapping[str, object]) -> None:
    """Raise UnknownName for an option that `reader` does not have; the message lists those it has."""
    parameters = inspect.signature(reader).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise UnknownName(f"option of {owner}", option, known)
