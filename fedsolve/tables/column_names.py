"""Columns by name, never by place.

A data frame has column names, a plain array has none. Where both sides of a comparison have names (two clients, a
client and a schema, a model and the rows to predict) columns are matched by name: put in order when the sets agree,
rejected when they do not. Columns without names are taken by place, and their number is checked. Names that only count
(`x0`, `x1`, … of a preprocessed array, the whole numbers 0, 1, … of a data frame that was made without names) are none.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from fedsolve.errors import DataError
from fedsolve.numerics.linalg import namespace
from fedsolve.typing import Array

SHOWN = 8  # names in a message, of those that differ

Names = tuple[str, ...]


# ── data frames ──


def is_frame(X: object) -> bool:
    """Whether X is a data frame (pandas, polars): a table that knows its columns."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def split_frame(X: Array, whose: str = "X") -> tuple[Array, Names | None]:
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


def named_matrix(X: Array, names: Sequence[object] | None, whose: str) -> tuple[Array, Names | None]:
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


def checked_names(names: Sequence[object], whose: str) -> Names:
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
        said.append(f"lacks {with_hints(missing, extra)}")
    if extra:
        said.append(f"has {some(extra)}, which {'is' if len(extra) == 1 else 'are'} not expected")
    return " and ".join(said)


def order_of(given: Sequence[str], wanted: Sequence[str], whose: str, what_to_do: str) -> list[int]:
    """The place among the given names of each wanted one. Raises DataError if the sets differ."""
    if said := difference(given, wanted):
        raise DataError(f"{whose} {said}; {what_to_do}")
    places = {name: place for place, name in enumerate(given)}
    return [places[name] for name in wanted]


def match_columns(
    X: Array, wanted: Sequence[str] | None, whose: str, what_to_do: str, needed: Collection[str] | None = None
) -> Array:
    """X with its columns in the wanted order: a data frame by name, anything else as it is, for its caller to check.

    needed  those of the wanted columns that a data frame must have: it may then lack the others, which are missing in
            every row, and have more, which are left out; None: it has exactly the wanted ones
    """
    values, given = split_frame(X, whose)
    if given is None or wanted is None or (are_counted(wanted) and set(given) != set(wanted)):
        return values
    if needed is not None:
        if said := difference([name for name in given if name in needed], [*needed]):
            raise DataError(f"{whose} {said}; give it at least the columns of the formula")
        places = {name: place for place, name in enumerate(given)}
        made = np.full((values.shape[0], len(wanted)), np.nan, dtype=object)
        for place, name in enumerate(wanted):
            if name in places:
                made[:, place] = values[:, places[name]]
        return made
    return take_columns(values, order_of(given, wanted, whose, what_to_do))


def chosen_columns(
    whose: str,
    found: Sequence[str],
    wanted: Sequence[str] | None,
    others: Collection[str | None] = (),
    expected: int | None = None,
) -> Sequence[str]:
    """The columns of a table that a model takes, in its order: by name where both sides have names, else by place.

    Args:
        whose: The table, for messages.
        found: The names of its columns.
        wanted: Those of the model's; None if it has no names.
        others: Columns that are no features, where columns are taken by place.
        expected: How many columns the model takes, where it says so.

    Raises DataError if columns are missing, or if their number is wrong.
    """
    if wanted is not None:
        missing = [name for name in wanted if name not in found]
        if not missing:
            return wanted
        # Names that were only counted are none, unless the table has some of them.
        if not are_counted(found) and (not are_counted(wanted) or len(missing) < len(wanted)):
            raise DataError(_lacks(whose, missing, [name for name in found if name not in wanted], found))
    names = [name for name in found if name not in others]
    if expected is not None and len(names) != expected:
        named = "" if wanted is None or are_counted(wanted) else f", by the names {first_names(wanted)}"
        raise DataError(
            f"{whose}: {len(names)} columns ({first_names(names)}), and the model takes {expected}{named}; "
            "say what is no feature with --target and --drop"
        )
    return names


def _lacks(whose: str, missing: Sequence[str], spare: Sequence[str], found: Sequence[str]) -> str:
    """What to say of a table that lacks columns of the model."""
    few = len(found) <= SHOWN
    has = f"the file has {first_names(found)}" if few else f"of others the file has {first_names(spare) or 'none'}"
    return (
        f"{whose}: no column {with_hints(missing, spare)}, and the model takes its columns by name; {has}; rename "
        "those that are meant"
    )


def first_names(names: Sequence[str]) -> str:
    """The first of some names, with an ellipsis where there are more."""
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


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


def with_hints(missing: Sequence[str], spare: Sequence[str]) -> str:
    """Names that are missing, each with the name among those to spare that it may be."""
    folded = {name.strip().casefold(): name for name in spare}
    hints = []
    for name in missing[:SHOWN]:
        close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
        hints.append(repr(name) + (f" (is it {folded[close[0]]!r}?)" if close else ""))
    return f"{', '.join(hints)}{_more(missing)}"


def some(names: Sequence[object]) -> str:
    """The first of some names, quoted, and how many more there are."""
    return ", ".join(map(repr, names[:SHOWN])) + _more(names)


def _more(names: Sequence[object]) -> str:
    return f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
