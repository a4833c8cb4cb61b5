"""Labels by name, never by number.

Labels are matched by declared classes: `classes=("no", "yes")` says what 0 and 1 mean, the same at every client. What
recodes labels for a run file, a command or Python alike is here.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence

import numpy as np

from fedsolve.errors import DataError, UnknownName
from fedsolve.tables.cells import is_missing, key
from fedsolve.tables.column_names import some
from fedsolve.typing import Array

Classes = tuple[str | float, ...]


class Labels(np.ndarray):
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

    def __array_finalize__(self, made_from: object) -> None:
        self.classes = getattr(made_from, "classes", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: Array) -> Array:
        plain = [np.asarray(one) if isinstance(one, Labels) else one for one in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(one) if isinstance(one, Labels) else one for one in options["out"])
        return getattr(ufunc, method)(*plain, **options)


def checked_classes(classes: Sequence[object], whose: str) -> Classes:
    """Declared classes as plain values; rejects fewer than two, and two that are the same."""
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray):
        raise DataError(f"{whose}: classes is a list of labels such as ('no', 'yes'), got {classes!r}")
    found: list[str | float] = []
    for given in classes:
        one = given.item() if isinstance(given, np.generic) else given
        if not isinstance(one, str | numbers.Real) or is_missing(one):
            raise DataError(f"{whose}: classes are texts or numbers, got {one!r}")
        found.append(one)  # type: ignore[arg-type]  # a Real is what arithmetic takes for a float
    if len(found) < 2 or len({key(one) for one in found}) < len(found):
        raise DataError(f"{whose}: classes are two or more different labels, got {found}")
    return tuple(found)


def encode_labels(y: Array, classes: Classes, whose: str) -> Array:
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
    known: dict[object, float] = {}
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


def check_classes(classes: Classes | None, outputs: int | None, loss: object, whose: str) -> None:
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


# ── two classes ──


def same_label(a: object, b: object) -> bool:
    """Whether two labels mean the same class: "1", 1 and 1.0 do."""
    return key(a) == key(b)


def with_names(codes: Array, names: Sequence[object] | None) -> Array:
    """Labels 0, 1, … as the names of their classes; as they are where there are no names, or no labels."""
    if names is None or codes.ndim != 1:
        return codes
    return np.asarray(names, dtype=object)[codes.astype(int)]


def positive_rows(
    y: Array, names: Classes | None, positive: object, whose: str, key_name: str
) -> tuple[Array | None, Classes | None]:
    """Which rows are of the class that is 1 where all others are 0, and what the two classes are called.

    Args:
        y: Labels as numbers.
        names: What the labels 0, 1, … are called, if anything.
        positive: The class that is 1, by its name or its number; None where the larger of two labels is.
        whose: The name of the data, for messages.
        key_name: What `positive` is called where the user gives it, for messages.

    Returns None for the rows where the labels are 0 and 1 already, and None for the names where there are none.
    """
    if positive is not None:
        return _rows_of(y, names, positive, key_name)
    values = np.unique(y)
    if values[0] >= 0 and values[-1] <= 1:
        return None, names if names is not None and len(names) == 2 else None
    if len(values) > 2:
        classes = f"{len(values)} classes" if len(values) <= 100 else "many different values"
        raise DataError(
            f"{whose}: the target has {classes}, the logistic loss takes two; set {key_name} "
            "to the one that is 1, the others are then 0, or use the squared loss for a regression"
        )
    low, high = (int(value) if value == round(value) else float(value) for value in (values[0], values[-1]))
    return y == values[-1], (low, high)


def _rows_of(y: Array, names: Classes | None, positive: object, key_name: str) -> tuple[Array, Classes]:
    code = names.index(positive) if names is not None and positive in names else positive
    if isinstance(code, str) or not np.any(y == code):
        known = names or sorted({f"{value:g}" for value in np.unique(y)[:20]})
        raise UnknownName(f"class for {key_name}", str(positive), map(str, known))
    label = str(positive) if names is None else str(names[int(code)])  # type: ignore[call-overload]
    others = [name for name in names or () if name != positive]
    return y == code, (others[0] if len(others) == 1 else f"not {label}", label)
