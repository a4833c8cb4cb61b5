"""What clients say of themselves when they join: checked at the server before anything is weighted by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median_low

from fedsolve.errors import ClientInputError, DataError
from fedsolve.tables.labels import Classes, agreed_classes, check_numbering
from fedsolve.text import has_controls, printable

# The sum of a client's weights. Beyond these a product with a weight may overflow, or its inverse.
LEAST_WEIGHT, MOST_WEIGHT = 1e-200, 1e200
# How many times the usual weight of a sample one client's samples may have on average.
MOST_UNEQUAL = 1e6
MOST_COUNTED = 2**40  # samples, features and outputs: more than any one party holds
MOST_NAME = 200  # characters of a client's name

_STEP = "session.join"


@dataclass(frozen=True)
class ClientInfo:
    """What the server must know of a client before the first round."""

    weight: float
    samples: int
    features: int | None  # None: raw columns, not yet preprocessed
    outputs: tuple[int, ...]
    names: tuple[str, ...] | None  # of the features, where the client knows them


@dataclass(frozen=True)
class LabelledInfo(ClientInfo):
    """The same of a client whose labels, or columns of targets, have names.

    declared  the client declares these classes; otherwise they are what a file's text target was numbered by
    """

    classes: tuple[str | float | bool, ...]
    declared: bool


def check_client_name(name: object) -> str:
    """Return a client's name, or raise `DataError` if it could not be shown in a terminal, a table or a log."""
    if not isinstance(name, str) or not name:
        raise DataError(f"a client's name is a string, got {name!r}")
    if len(name) > MOST_NAME or has_controls(name):
        raise DataError(
            f"the client name {printable(name, 60)!r} has control characters or more than {MOST_NAME} characters; "
            "rename the client, or the values of the column that names the sites"
        )
    return name


def check_client_names(names: Iterable[object]) -> tuple[str, ...]:
    """The names of a federation's clients, each one checked."""
    return tuple([check_client_name(name) for name in names])


def check_weight(weight: float) -> None:
    """Raise `DataError` for a sum of sample weights that cannot be computed with."""
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:  # NaN too
        raise DataError(
            f"the weights of the samples sum to {weight:g}, expected a number between {LEAST_WEIGHT:g} and "
            f"{MOST_WEIGHT:g}; multiply all sample weights of all clients by the same factor, or leave out a client "
            "whose samples have no weight"
        )


def check_joined(found: Mapping[str, ClientInfo], before: Mapping[str, ClientInfo]) -> None:
    """Raise `ClientInputError`, with the name of the client, if what clients said when they joined cannot be true.

    Args:
        found: What each client says of itself.
        before: What it said when it joined this run before, if it did: its weight may not have changed.
    """
    for name, info in found.items():
        _check_one(name, info)
        said = before.get(name)
        if said is not None and (said.weight, said.samples) != (info.weight, info.samples):
            raise _refused(
                name,
                f"joined with weight {said.weight:g} and {said.samples} samples, and now has {info.weight:g} and "
                f"{info.samples}; data must not change during a run",
            )
    _check_together(found)


def check_returned(name: str, info: ClientInfo, known: Mapping[str, ClientInfo], weight: float | None) -> None:
    """Raise `ClientInputError` or `DataError` if a client that was lost does not come back as it was.

    Args:
        name: The client.
        info: What it says of itself now.
        known: What the clients of the run said when they joined, columns in the order that was agreed.
        weight: With which the client joined the run, also if that was before it was resumed; None if it never did.
    """
    if weight is not None and info.weight != weight:
        raise _refused(
            name, f"joined with weight {weight:g}, and now has {info.weight:g}; data must not change during a run"
        )
    check_joined({**known, name: info}, known)
    whose, like = next(iter(known.items()))
    for what, ours, theirs in (
        ("features", info.features, like.features),
        ("targets of shape", info.outputs, like.outputs),
        ("columns", info.names, like.names),
    ):
        if ours != theirs:
            raise _refused(
                name, f"came back with other {what} than {whose!r} has: {_short(ours)}, not {_short(theirs)}"
            )
    agreed_labels({**known, name: info})


def agreed_labels(found: Mapping[str, ClientInfo]) -> Classes | None:
    """The classes that all clients declare; None where none does. Raises `DataError` where labels differ in meaning."""
    known = {name: info if isinstance(info, LabelledInfo) else None for name, info in found.items()}
    declared = {name: None if info is None or not info.declared else info.classes for name, info in known.items()}
    agreed = agreed_classes(declared)
    check_numbering({name: None if info is None else info.classes for name, info in known.items()})
    return agreed


def _short(value: object) -> str:
    return printable(str(value), 120)


def _check_one(name: str, info: ClientInfo) -> None:
    if not 1 <= info.samples <= MOST_COUNTED:
        raise _refused(name, f"has {info.samples} samples, expected 1 to {MOST_COUNTED}; leave it out")
    try:
        check_weight(info.weight)
    except DataError as error:
        raise _refused(name, str(error)) from None
    if info.features is not None and not 1 <= info.features <= MOST_COUNTED:
        raise _refused(name, f"has {info.features} features, expected 1 to {MOST_COUNTED}")
    if len(info.outputs) > 1 or not all(1 <= k <= MOST_COUNTED for k in info.outputs):
        raise _refused(name, f"has targets of shape {info.outputs}, expected () or (k,)")
    if info.features is not None and info.names is not None and len(info.names) != info.features:
        raise _refused(name, f"has {info.features} features and {len(info.names)} names for them")


def _check_together(found: Mapping[str, ClientInfo]) -> None:
    each = {name: info.weight / info.samples for name, info in found.items()}
    usual = median_low(each.values())
    for name, info in found.items():
        if not each[name] <= MOST_UNEQUAL * usual:
            raise _refused(
                name,
                f"has weight {info.weight:g} for {info.samples} samples, {each[name]:g} for each, more than "
                f"{MOST_UNEQUAL:g} times the median of the clients, {usual:g}: the others would count for nothing. "
                "Check its sample weights and those of the others (a factor common to all changes nothing), or leave "
                "it out",
            )


def _refused(name: str, text: str) -> ClientInputError:
    return ClientInputError(name, _STEP, text)
