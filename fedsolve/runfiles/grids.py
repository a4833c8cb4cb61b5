"""Grids of hyper-parameters: one entry of [[algorithms]] that stands for several algorithms.

    [[algorithms]]
    name = "FedAvg"
    local = { batch_size = 1 }
    grid = { local = { steps = [10, 100], step_size = { low = 0.01, high = 1, points = 3 } } }

A grid has the keys of its entry, with a list, or a range, in the place of each value that is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from fedsolve.errors import ConfigError
from fedsolve.runfiles.keys import LogRange
from fedsolve.text import shortened

MOST = 1000  # points of a grid

Path = tuple[str, ...]


Values = dict[str, object]


def points(plain: Mapping[str, object], grid: Mapping[str, object], where: str) -> list[tuple[Values, Values]]:
    """Every combination of the values: what was chosen, by key, and the table with it.

    Args:
        plain: The table of the entry, without its grid.
        grid: The lists.
        where: The path of the entry in the file, for messages.
    """
    lists = dict(_lists(grid, (), f"{where}.grid"))
    if not lists:
        raise ConfigError(f"{where}.grid is empty; give it lists, such as {{ local = {{ steps = [10, 100] }} }}")
    names = _names(list(lists))
    found: list[tuple[Values, Values]] = []
    for values in itertools.product(*lists.values()):
        if len(found) == MOST:
            raise ConfigError(f"{where}.grid has more than {MOST} combinations; take fewer values")
        table = dict(plain)
        for path, value in zip(lists, values, strict=True):
            table = _with(table, path, value)
        found.append((dict(zip(names, values, strict=True)), table))
    return found


def _lists(grid: Mapping[str, object], above: Path, where: str) -> Iterator[tuple[Path, list[object]]]:
    for key, inner in grid.items():
        path, here = (*above, key), f"{where}.{key}"
        if isinstance(inner, list):
            if not inner:
                raise ConfigError(f"{here} is an empty list; give the values to try")
            yield path, inner
        elif isinstance(inner, Mapping) and inner.keys() & {"low", "high", "points"}:
            yield path, list(_range(inner, here).values())
        elif isinstance(inner, Mapping):
            yield from _lists(inner, path, here)
        else:
            raise ConfigError(
                f"{here} must be a list of values to try, or a range {{ low = …, high = …, points = … }}, got "
                f"{shortened(inner)}"
            )


def _range(given: Mapping[str, object], where: str) -> LogRange:
    try:
        return LogRange.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (where, *first["loc"])))
        raise ConfigError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None


def _names(paths: list[Path]) -> list[str]:
    """The last part of each path, or all of it where two would have one name."""
    short = [path[-1] for path in paths]
    return [name if short.count(name) == 1 else ".".join(path) for name, path in zip(short, paths, strict=True)]


def _with(table: Mapping[str, object], path: Path, value: object) -> dict[str, object]:
    """The table with a value in this place; a part that is given by its name alone becomes a table."""
    key, *rest = path
    if not rest:
        return {**table, key: value}
    inner = table.get(key, {})
    part = {"name": inner} if isinstance(inner, str) else inner
    if not isinstance(part, Mapping):
        raise ConfigError(f"the grid has keys of {key}, which is no table but {shortened(inner)}")
    return {**table, key: _with(part, tuple(rest), value)}
