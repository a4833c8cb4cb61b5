"""A run file that still means the same when it lies elsewhere: its relative paths made absolute."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedsolve.runfiles.own_classes import import_paths

# The tables whose names may be import paths.
_NAMING = ("algorithm", "algorithms", "loss", "partition", "link", "run")


def from_anywhere(text: str, folder: Path) -> str:
    """The text of a run file with its relative paths made absolute, so that a copy of it elsewhere still finds them;
    where that cannot be done by changing those lines alone, a comment says where it came from. Modules of one's own
    are found by `modules.folder`, which is added where there is none."""
    text = with_modules(text, folder)
    wanted = tomllib.loads(text)
    changed = text
    for table, key in paths_in(wanted):
        if not Path(table[key]).expanduser().is_absolute():
            given, there = table[key], str((folder / table[key]).resolve())
            table[key] = there
            pattern = rf"(?m)(^|[\s{{,.])({key}\s*=\s*)(\"{re.escape(given)}\"|'{re.escape(given)}')"
            changed = re.sub(pattern, partial(_with_value, json.dumps(there, ensure_ascii=False)), changed)
    if wanted == tomllib.loads(text):
        return text
    try:
        if tomllib.loads(changed) == wanted:
            return changed
    except tomllib.TOMLDecodeError:
        pass
    return f"# Paths of files start from the folder {folder.resolve()}\n{text}"


def with_modules(text: str, folder: Path) -> str:
    """The text of a run file that says where modules of one's own are, if it names any."""
    tables = tomllib.loads(text)
    if "modules" in tables or not any(import_paths(tables.get(name)) for name in _NAMING):
        return text
    return text + f"\n[modules]\nfolder = {json.dumps(str(folder.resolve()), ensure_ascii=False)}\n"


def paths_in(tables: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every table of a run file that names a file to read, with the key that does."""
    places = [(name, key) for name in ("data", "server") for key in ("file", "labels")]
    places += [("run", "warm_start"), ("modules", "folder")]
    return [(tables[name], key) for name, key in places if isinstance(tables.get(name, {}).get(key), str)]


def _with_value(value: str, found: re.Match[str]) -> str:
    return found[1] + found[2] + value
