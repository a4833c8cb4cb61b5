"""Columns and labels by name, never by place.

A data frame has column names, a plain array has none. Where both sides of a comparison have names (two clients, a
client and a schema, a model and the rows to predict) columns are matched by name: put in order when the sets agree,
rejected when they do not. Columns without names are taken by place, and their number is checked. Names that only count
(`x0`, `x1`, … of a preprocessed array, the whole numbers 0, 1, … of a data frame that was made without names) are none.

Labels are matched by declared classes: `classes=("no", "yes")` says what 0 and 1 mean, the same at every client.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import DataError
from fedsolve.numerics.linalg import namespace
from fedsolve.tables.cells import is_missing, key
from fedsolve.typing import Array

SHOWN = 8  # names in a message, of those that differ

Names = tuple[str, ...]
Classes = tuple[Any, ...]


# ── data frames ──


def is_frame(X: Any) -> bool:
    """Whether X is a data frame (pandas, polars): a table that knows its columns."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def split_frame(X: Any, whose: str = "X") -> tuple[Any, Names | None]:
    """A data frame as a matrix and the names of its columns; anything else as it is, with no names.

    A frame made without names counts its columns 0, 1, …. These are places: whichever order the frame has them in, they
    are put in their own.
    """
    if not is_frame(X):
        return X, None
    labels = list(X.columns)
    values = X.to_numpy()
    if isinstance(values, np.ndarray):  # frames are column-major: products would depend on who has put them in order
        values = np.ascontiguousarray(values)
    if all(isinstance(label, numbers.Integral) and not isinstance(label, bool) for label in labels):
        order = sorted(range(len(labels)), key=labels.__getitem__)
        if [labels[place] for place in order] == list(range(len(labels))):
            return take_columns(values, order), None
    return values, checked_names(labels, whose)


def named_matrix(X: Any, names: Sequence[Any] | None, whose: str) -> tuple[Any, Names | None]:
    """X as a matrix and the names of its columns: those given, or those of a data frame.

    Given names that are the frame's own in another order say how to order it; others rename its columns, by place.
    """
    values, own = split_frame(X, whose)
    if names is None:
        return values, own
    given = checked_names(names, whose)
    if own is not None and own != given and set(own) == set(given):
        values = take_columns(values, order_of(own, given, whose, ""))
    return values, given


def take_columns(X: Array, order: Sequence[int]) -> Array:
    """The columns of a dense, sparse or Array API matrix in another order; X itself if it is the one they have."""
    if list(order) == list(range(X.shape[1])):
        return X
    if sp.issparse(X):
        taken = sp.csr_array(X)[:, list(order)]
        taken.sort_indices()
        return taken
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X[:, list(order)])
    xp = namespace(X)
    return xp.take(X, xp.asarray(list(order), device=X.device), axis=1)


# ── names of columns ──


def checked_names(names: Sequence[Any], whose: str) -> Names:
    """Names as text; rejects a text in place of a list, and names that occur twice."""
    if isinstance(names, str):
        raise DataError(f"{whose}: feature_names is a list with one name per column, got the text {names!r}")
    found = tuple(str(name) for name in names)
    if len(set(found)) < len(found):
        seen: set[str] = set()
        twice = list(dict.fromkeys(name for name in found if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
        raise DataError(
            f"{whose}: {'columns' if len(twice) > 1 else 'column'} {some(twice)} given more than once; columns are "
            "matched by name, expected one different name for each"
        )
    return found


def are_counted(names: Sequence[str]) -> bool:
    """Whether these are what columns are called that have no names."""
    return all(name == f"x{place}" for place, name in enumerate(names)) or all(
        name.startswith("column_") and name[7:].isdecimal() for name in names
    )


def difference(given: Sequence[str], wanted: Sequence[str]) -> str:
    """What sets two lists of names apart: which are missing, which are too many. Empty if the sets agree."""
    have, need = set(given), set(wanted)
    missing = [name for name in wanted if name not in have]
    extra = [name for name in given if name not in need]
    said = []
    if missing:
        folded = {name.strip().casefold(): name for name in extra}
        hints = []
        for name in missing[:SHOWN]:
            close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
            hints.append(repr(name) + (f" (is it {folded[close[0]]!r}?)" if close else ""))
        said.append(f"lacks {', '.join(hints)}{_more(missing)}")
    if extra:
        said.append(f"has {some(extra)}, which {'is' if len(extra) == 1 else 'are'} not expected")
    return " and ".join(said)


def order_of(given: Sequence[str], wanted: Sequence[str], whose: str, what_to_do: str) -> list[int]:
    """The place among the given names of each wanted one. Raises DataError if the sets differ."""
    if said := difference(given, wanted):
        raise DataError(f"{whose} {said}; {what_to_do}")
    places = {name: place for place, name in enumerate(given)}
    return [places[name] for name in wanted]


def match_columns(X: Any, wanted: Sequence[str] | None, whose: str, what_to_do: str) -> Any:
    """X with its columns in the wanted order: a data frame by name, anything else as it is, for its caller to check."""
    values, given = split_frame(X, whose)
    if given is None or wanted is None or (are_counted(wanted) and set(given) != set(wanted)):
        return values
    return take_columns(values, order_of(given, wanted, whose, what_to_do))


def agreed_columns(found: Mapping[str, Names | None]) -> Names | None:
    """The columns a federation agrees on, in the order of its first client; None where no client has names.

    Raises DataError where sets differ, and where only some clients have names: the others could not be checked.
    """
    first, agreed = next(iter(found.items()))
    for client, names in found.items():
        if names == agreed:
            continue
        if names is None or agreed is None:
            nameless, named = (client, first) if names is None else (first, client)
            raise DataError(
                f"client {nameless!r} has no column names where {named!r} has, so that its columns cannot be matched; "
                "give both data frames, or feature_names= to both, or to neither"
            )
        if said := difference(names, agreed):
            raise DataError(
                f"client {client!r} has other columns than {first!r}: it {said}; give every client the same columns, "
                "in any order"
            )
    return agreed


def some(names: Sequence[str]) -> str:
    """The first of some names, quoted, and how many more there are."""
    return ", ".join(map(repr, names[:SHOWN])) + _more(names)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""


# ── labels ──


class Labels(np.ndarray[Any, Any]):
    """The numbers that a text target was given, and the texts they stand for: rows taken from it still know them.

    What is computed from it (y == 1, 1 - y) are other numbers, and plain arrays. Clients compare what they know of
    their labels when they join a run, so that files numbered one by one, which may lack a class, do not go unnoticed.
    """

    classes: Classes | None

    @classmethod
    def of(cls, codes: Array, classes: Classes) -> Labels:
        """These numbers as labels of these classes."""
        labels = np.asarray(codes).view(cls)
        labels.classes = classes
        return labels

    def __array_finalize__(self, made_from: Any) -> None:
        self.classes = getattr(made_from, "classes", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, Labels) else one for one in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(one) if isinstance(one, Labels) else one for one in options["out"])
        return getattr(ufunc, method)(*plain, **options)


def checked_classes(classes: Sequence[Any], whose: str) -> Classes:
    """Declared classes as plain values; rejects fewer than two, and two that are the same."""
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise DataError(f"{whose}: classes is a list of labels such as ('no', 'yes'), got {classes!r}")
    found = tuple(one.item() if isinstance(one, np.generic) else one for one in classes)
    for one in found:
        if not isinstance(one, str | numbers.Real) or is_missing(one):
            raise DataError(f"{whose}: classes are texts or numbers, got {one!r}")
    if len(found) < 2 or len({key(one) for one in found}) < len(found):
        raise DataError(f"{whose}: classes are two or more different labels, got {list(found)}")
    return found


def encode_labels(y: Any, classes: Classes, whose: str) -> Array:
    """Labels as their places among the declared classes; "1" and 1 are the same label.

    Where the classes are texts and the labels whole numbers, as `data.load` numbers a text target, these are the
    places themselves.
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"{whose}: labels are one per sample, got shape {labels.shape}; leave classes= out")
    if labels.dtype.kind in "iuf" and all(isinstance(key(one), str) for one in classes):
        if not ((labels == np.floor(labels)) & (labels >= 0) & (labels < len(classes))).all():
            raise DataError(
                f"{whose}: y has other numbers than 0 … {len(classes) - 1}, the places of the classes {list(classes)}"
            )
        return labels.astype(np.float64)
    places = {key(one): float(place) for place, one in enumerate(classes)}
    known: dict[Any, float] = {}
    codes = np.empty(len(labels))
    for row, label in enumerate(labels.tolist()):
        if label not in known:
            place = None if is_missing(label) else places.get(key(label))
            if place is None:
                what = "a missing label" if is_missing(label) else f"the label {label!r}"
                raise DataError(
                    f"{whose}: row {row} has {what}, which is none of the declared classes {list(classes)}; declare "
                    "it at every client, or drop the row"
                )
            known[label] = place
        codes[row] = known[label]
    return codes


def text_classes(y: Array) -> Classes | None:
    """The different labels of a text target in sorted order; None if it is not text throughout."""
    if y.ndim != 1 or y.dtype.kind not in "OUS":
        return None
    labels = y.astype(str) if y.dtype.kind != "O" else y
    if not all(isinstance(label, str) for label in labels.tolist()):
        return None
    return tuple(sorted(set(labels.tolist())))


def check_classes(classes: Classes | None, outputs: int | None, loss: Any, whose: str) -> None:
    """Reject declared classes that are not as many as the loss has. `outputs`: the columns of a matrix of targets."""
    if classes is None or outputs is not None:
        return
    name = type(loss).__name__
    if not getattr(loss, "classifies", False):
        raise DataError(
            f"{whose}: the targets are the classes {list(classes)}, and {name} is a regression; use Logistic, "
            "Softmax(classes=…), or numbers"
        )
    expected = getattr(loss, "classes", 2)
    if len(classes) != expected:
        raise DataError(f"{whose}: {len(classes)} classes are declared ({some(classes)}), and {name} has {expected}")


def check_numbering(found: Mapping[str, Classes | None]) -> None:
    """Reject labels that files were given one by one, and otherwise; clients of which nothing is known are left out."""
    known = {client: classes for client, classes in found.items() if classes is not None}
    for (first, ours), (client, theirs) in zip(known.items(), list(known.items())[1:], strict=False):
        if tuple(map(str, ours)) != tuple(map(str, theirs)):
            raise DataError(
                f"the labels of client {client!r} were numbered as {list(theirs)}, those of {first!r} as {list(ours)}, "
                "so one number means different labels; declare all classes when loading, load(…, classes=[…])"
            )


def agreed_classes(found: Mapping[str, Classes | None]) -> Classes | None:
    """The classes all clients declare, in one order; None where none does. Raises DataError where they differ."""
    first, agreed = next(iter(found.items()))
    for client, classes in found.items():
        if classes == agreed:
            continue
        if classes is None or agreed is None:
            without, having = (client, first) if classes is None else (first, client)
            raise DataError(
                f"client {without!r} declares no classes where {having!r} does, so what its labels mean cannot be "
                "checked; give every client the same classes="
            )
        raise DataError(
            f"client {client!r} declares the classes {list(classes)}, {first!r} {list(agreed)}; labels must mean the "
            "same everywhere: give every client the same classes= in the same order"
        )
    return agreed
