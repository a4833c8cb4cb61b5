"""What a selection chose between, and the run file with what it has chosen."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from fedsolve.losses import LinearLoss
from fedsolve.runfiles import toml_writer as toml
from fedsolve.runfiles.keys import Select
from fedsolve.runfiles.portable import paths_in, with_modules

Setting: TypeAlias = float | str | None
Settings: TypeAlias = dict[str, Setting | dict[str, Setting]]  # keys of a loss; those of its feature map are a table


def values(what: Select, loss: LinearLoss) -> Settings:
    """The keys of [select] as they are in this loss; `features` is a table, as in a run file."""
    lists = what.lists()
    found: Settings = {name: getattr(loss, name) for name in lists if name != "features"}
    if "features" in lists:
        found["features"] = {name: getattr(loss.features, name) for name in lists["features"]}
    return found


def flat_values(what: Select, loss: LinearLoss) -> dict[str, Setting]:
    """The same without tables, for columns."""
    flat: dict[str, Setting] = {}
    for name, value in values(what, loss).items():
        flat.update(value if isinstance(value, dict) else {name: value})
    return flat


def ends(what: Select, best: LinearLoss, grid: Sequence[LinearLoss]) -> list[str]:
    """A choice at the end of a list says that the list may end too early."""
    said = []
    for name, value in flat_values(what, best).items():
        tried = {flat_values(what, loss)[name] for loss in grid}
        numbers = [one for one in tried if isinstance(one, int | float)]
        if len(tried) < 2 or len(numbers) < len(tried) or not isinstance(value, int | float):
            continue
        if value == min(numbers) > 0:
            said.append(f"{name} = {value:g} is the smallest of its list: smaller ones may be better still.")
        if value == max(numbers):
            said.append(f"{name} = {value:g} is the largest of its list: larger ones may be better still.")
    return said


def chosen_run_file(text: str, folder: Path, chosen: Settings, said: str) -> str:
    """`text` with the chosen values in its loss, and without [select].

    Written anew from what it means: comments of the original are not kept, `said` is the only one.
    """
    tables = tomllib.loads(with_modules(text, folder))
    for table, key in paths_in(tables):
        table[key] = str((folder / Path(table[key]).expanduser()).resolve())
    tables.pop("select", None)
    if "loss" in tables:
        tables["loss"] = _with(tables["loss"], chosen)
    for table in tables.get("algorithms", [tables.get("algorithm", {})]):
        if "loss" in table:
            table["loss"] = _with(table["loss"], chosen)
    return f"# {said}\n\n{toml.dumps(tables)}"


def _with(loss: str | Mapping[str, object], chosen: Settings) -> dict[str, object]:
    """A loss as it stands in a run file, by its name alone or as a table, with other values."""
    table: dict[str, object] = {"name": loss} if isinstance(loss, str) else dict(loss)
    before, now = table.get("features"), chosen.get("features")
    features = {**(before if isinstance(before, dict) else {}), **(now if isinstance(now, dict) else {})}
    return {**table, **chosen} | ({"features": features} if features else {})
