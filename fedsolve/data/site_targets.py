"""What sites predict: their targets as numbers that mean the same everywhere.

Labels are declared (`classes`), made by a condition (`positive`), or agreed: each site says which labels it has, and
all number the sorted union of them. No site numbers its own labels for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsolve.data import advice
from fedsolve.data.csv_tables import Table
from fedsolve.data.dataset import Array, is_missing
from fedsolve.data.file_formats import numbers_of
from fedsolve.data.site_tables import first_text
from fedsolve.errors import ConfigError, DataError, UnknownName
from fedsolve.tables.cells import key
from fedsolve.tables.column_names import some
from fedsolve.tables.labels import Classes, checked_classes
from fedsolve.tables.outcomes import Condition, Positive, condition, looks_like_condition

Targets = tuple[dict[str, Array], Classes | None]

MOST_SHOWN = 100


def site_targets(
    tables: Mapping[str, Table],
    target: str | Sequence[str],
    classes: Sequence[object] | None = None,
    positive: Positive | None = None,
    binary: bool = False,
    alone: bool = False,
) -> Targets:
    """Each site's targets, and what the numbers 0, 1, … stand for, if anything.

    Args:
        tables: Each site's table.
        target: The column, or several for a regression on all of them.
        classes: All labels, in the order in which they are numbered.
        positive: Which values are 1, where all others are 0.
        binary: Whether the loss takes two classes, so that labels other than 0 and 1 become these.
        alone: Whether there are sites elsewhere, so that a label may occur at none of these.

    Raises DataError, with file and line, for missing targets and for labels that were not declared.
    """
    names = [target] if isinstance(target, str) else list(target)
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"target is a column, or a list of different ones, got {target!r}")
    for table in tables.values():
        for name in names:
            _check_present(table, name)
    if len(names) > 1:
        if classes is not None or positive is not None:
            raise ConfigError(f"classes and positive are of one target, and there are {len(names)}; leave them out")
        found = {
            site: np.column_stack([numbers_of(table, name, "each of several targets") for name in names])
            for site, table in tables.items()
        }
        return found, tuple(names)
    (name,) = names
    if positive is not None:
        return _positive(tables, name, positive, alone)
    if classes is not None:
        return _declared(tables, name, checked_classes(classes, f"target {name!r}"))
    return _agreed(tables, name, binary)


def _check_present(table: Table, name: str) -> None:
    missing = is_missing(table.columns[name])
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{table.where(row, name)}: the target is missing, in {int(missing.sum())} of {len(missing)} rows; write "
            f'missing_target = "drop"{advice.where()} to leave them out'
        )


def _positive(tables: Mapping[str, Table], name: str, positive: Positive, alone: bool) -> Targets:
    labels = {key(one) for table in tables.values() for one in set(table.columns[name].tolist())}
    if not isinstance(positive, str | int | float) or key(positive) not in labels:
        wanted = condition(positive)
    else:
        shown = positive if isinstance(positive, str) else f"{positive:g}"
        others = [one for one in labels if one != key(positive)]
        wanted = Condition(str(shown), values=(key(positive),))
        if len(others) == 1:
            found = {site: wanted.holds(table.columns[name]).astype(np.float64) for site, table in tables.items()}
            return found, (_shown(others[0]), str(shown))
    if wanted is None:
        if looks_like_condition(positive):
            raise ConfigError(
                f'positive = {positive!r} is no comparison with a number; write one such as "> 0"{advice.where()}'
            )
        raise UnknownName(f"label of {name} for positive", str(positive), sorted(map(_shown, labels))[:MOST_SHOWN])
    _check_kind(tables, name, wanted)
    found = {site: wanted.holds(table.columns[name]).astype(np.float64) for site, table in tables.items()}
    if not alone and not any(y.any() for y in found.values()):
        known = sorted(labels, key=str)[:20]
        raise DataError(
            f"positive = {positive!r} holds of no row of any site; {name} is {some(list(map(_shown, known)))}"
        )
    return found, wanted.classes


def _check_kind(tables: Mapping[str, Table], name: str, wanted: Condition) -> None:
    """A comparison is of numbers; a text in the column is a mistake there."""
    if wanted.values is None:
        for table in tables.values():
            if table.columns[name].dtype == object:
                row = first_text(table.columns[name])
                raise DataError(
                    f"{table.where(row, name)}: {table.columns[name][row]!r} is not a number, and positive is the "
                    f"condition {wanted.said!r}"
                )


def _declared(tables: Mapping[str, Table], name: str, classes: Classes) -> Targets:
    places = {key(one): float(place) for place, one in enumerate(classes)}
    found = {}
    for site, table in tables.items():
        labels = table.columns[name].tolist()
        known = {label: places.get(key(label)) for label in set(labels)}
        for row, label in enumerate(labels):
            if known[label] is None:
                raise DataError(
                    f"{table.where(row, name)}: the label {_shown(label)!r} is none of the declared classes "
                    f"{list(classes)}; declare it{advice.where()}, or correct the line"
                )
        found[site] = np.array([known[label] for label in labels], dtype=np.float64)
    return found, tuple(one if isinstance(one, str) else _shown(one) for one in classes)


def _agreed(tables: Mapping[str, Table], name: str, binary: bool) -> Targets:
    """Numbers as they are; texts, and the two labels of a binary loss, numbered in sorted order over all sites."""
    texts = {site for site, table in tables.items() if table.columns[name].dtype == object}
    if texts and len(texts) < len(tables):
        site = next(iter(sorted(texts)))
        row = first_text(tables[site].columns[name])
        other = next(one for one in tables if one not in texts)
        raise DataError(
            f"{tables[site].where(row, name)}: {tables[site].columns[name][row]!r} is not a number, and the target is "
            f"one in {tables[other].name}; correct it, or declare all labels with classes"
        )
    labels = sorted({key(one) for table in tables.values() for one in set(table.columns[name].tolist())}, key=_order)
    if not texts and (not binary or set(labels) <= {0.0, 1.0}):
        return {site: table.columns[name] for site, table in tables.items()}, None
    if binary and len(labels) > 2:
        shown = some([_shown(one) for one in labels])
        raise DataError(
            f"the target {name} has {len(labels)} different values ({shown}), and the logistic loss takes two; write "
            f'which are 1, such as positive = "> 0"{advice.where()}, or use another loss'
        )
    classes = tuple(map(_shown, labels))
    if len(classes) < 2:
        raise DataError(f"the target {name} is {classes[0]!r} in every row of every site; there is nothing to learn")
    return _declared(tables, name, classes)


def _order(label: str | float) -> tuple[bool, float, str]:
    return (True, 0.0, label) if isinstance(label, str) else (False, label, "")


def _shown(label: object) -> str:
    return label if isinstance(label, str) else f"{label:.15g}"
