"""What a client is made of, checked: which client, what came, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import DataError
from fedsolve.federation.client_checks import check_weight
from fedsolve.numerics.linalg import like, namespace, to_numpy
from fedsolve.tables.column_names import order_of, split_frame, take_columns
from fedsolve.tables.labels import Classes, checked_classes, encode_labels
from fedsolve.typing import Array


def from_series(values: Array) -> Array:
    """The values of a pandas series; anything else as it is."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def labels(whose: str, y: Array, classes: Sequence[object] | None) -> tuple[Array, Classes | None]:
    """The targets as numbers, and what these stand for: declared classes, or the named columns of a data frame."""
    y, outputs = split_frame(y, f"{whose}: y")
    y = from_series(y)
    if classes is None:
        return y, outputs if outputs is not None and len(outputs) > 1 else None
    declared = checked_classes(classes, whose)
    values = y if hasattr(y, "shape") else np.asarray(y)
    if len(values.shape) == 1:
        return encode_labels(to_numpy(values), declared, whose), declared
    if len(values.shape) == 2 and values.shape[1] == len(declared):  # a column for each
        if outputs is not None:
            order = order_of(outputs, [str(one) for one in declared], f"{whose}: y", "give it a column for each class")
            values = take_columns(values, order)
        return values, declared
    raise DataError(f"{whose}: y has shape {tuple(values.shape)} for {len(declared)} declared classes")


def declared_classes(whose: str, classes: Sequence[object] | None) -> Classes | None:
    """Classes that were declared, checked."""
    return None if classes is None else checked_classes(classes, whose)


def checked_inputs(name: str, X: Array) -> tuple[Array, bool]:
    """The inputs as this library computes with them, and whether they still need preprocessing."""
    if not (sp.issparse(X) or hasattr(X, "shape")):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise DataError(
            f"client {name!r}: X has shape {tuple(X.shape)}, expected (samples, features); "
            "for one feature use X.reshape(-1, 1)"
        )
    if X.shape[0] == 0:
        raise DataError(f"client {name!r} is empty: it has no samples; leave it out, or partition otherwise")
    if X.shape[1] == 0:
        raise DataError(f"client {name!r} has no features: X has shape {tuple(X.shape)}")
    if sp.issparse(X):
        X = sp.csr_array(X, dtype=np.float64)
        X.sum_duplicates()
        if not np.isfinite(X.data).all():
            raise DataError(f"client {name!r}: X has NaN or infinite entries, and a sparse matrix cannot be imputed")
        return X, False
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "OUS":
            return X, True
        if X.dtype.kind not in "fiub":
            raise DataError(f"client {name!r}: X has dtype {X.dtype}, expected numbers or an object array of columns")
        X = np.ascontiguousarray(X, dtype=np.float64)
        if np.isinf(X).any():
            raise DataError(f"client {name!r}: X has infinite entries; make them NaN and impute, or drop the rows")
        return X, bool(np.isnan(X).any())
    xp = namespace(X)
    X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise DataError(f"client {name!r}: X has NaN or infinite entries; impute or drop them first")
    return X, False


def finite_inputs(name: str, X: Array, keeps_missing: bool = False) -> Array:
    """Preprocessed inputs, which are finite as long as the numbers that were agreed on are sound; NaN only where the
    preprocessing keeps what is missing."""
    entries = X.data if sp.issparse(X) else X
    xp = namespace(entries)
    if bool(xp.any(xp.isinf(entries) if keeps_missing else ~xp.isfinite(entries))):
        raise DataError(
            f"client {name!r}: preprocessing makes infinite entries of its columns; the centres and scales that were "
            "agreed on do not fit its data"
        )
    return X


def checked_targets(name: str, y: Array, X: Array) -> Array:
    """The targets as float64 of the inputs' kind."""
    y = y if hasattr(y, "shape") else np.asarray(y)
    if len(y.shape) not in (1, 2) or y.shape[0] != X.shape[0]:
        raise DataError(f"client {name!r}: y has shape {tuple(y.shape)} for {X.shape[0]} samples")
    y = to_numpy(y)
    if y.dtype.kind not in "fiub":
        raise DataError(
            f"client {name!r}: y has dtype {y.dtype}, expected numbers; to encode text labels, declare "
            'what they may be, the same at every client: Client(…, classes=("no", "yes"))'
        )
    y = np.ascontiguousarray(y, dtype=np.float64)
    if not np.isfinite(y).all():
        bad = int((~np.isfinite(y)).sum())
        raise DataError(f"client {name!r}: y has {bad} missing or infinite values; drop those rows")
    return y if isinstance(X, np.ndarray) or sp.issparse(X) else like(y, X)


def checked_weights(name: str, weights: Array | None, y: Array) -> Array | None:
    """Sample weights as float64 of the targets' kind."""
    if weights is None:
        return None
    given = np.ascontiguousarray(to_numpy(weights), dtype=np.float64)
    if given.shape != (y.shape[0],):
        raise DataError(f"client {name!r}: sample_weight has shape {given.shape}, expected ({y.shape[0]},)")
    if not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise DataError(f"client {name!r}: sample weights must be finite, not negative, and not all zero")
    try:
        with np.errstate(over="ignore"):
            check_weight(float(given.sum()))
    except DataError as error:
        raise DataError(f"client {name!r}: {error}") from None
    return like(given, y)


def checked_offset(name: str, offset: Array | None, y: Array) -> Array | None:
    """An offset as float64 of the targets' kind."""
    if offset is None:
        return None
    given = np.ascontiguousarray(to_numpy(offset), dtype=np.float64)
    if given.shape != (y.shape[0],) or not np.isfinite(given).all():
        raise DataError(f"client {name!r}: offset has shape {given.shape}, expected {y.shape[0]} finite numbers")
    return like(given, y)
