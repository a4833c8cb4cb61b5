"""A run file that still means the same when it lies elsewhere: its relative paths made absolute."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
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
            named = rf"(?:{re.escape(key)}|\"{re.escape(key)}\")\s*=\s*" if isinstance(key, str) else ""
            pattern = rf"(?m)(^|[\s{{\[,.])({named})(\"{re.escape(given)}\"|'{re.escape(given)}')"
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


def paths_in(tables: Mapping[str, Any]) -> list[tuple[Any, str | int]]:
    """Every table (or list) of a run file that names a file to read, with the key (or place) that does."""
    places = [(name, key) for name in ("data", "server") for key in ("file", "labels")]
    places += [("data", "files"), ("run", "warm_start"), ("modules", "folder")]
    found: list[tuple[Any, str | int]] = [
        (tables[name], key) for name, key in places if isinstance(tables.get(name, {}).get(key), str)
    ]
    files = tables.get("data", {}).get("files")  # one for each site
    if isinstance(files, dict | list):
        each: Iterable[tuple[str | int, object]] = files.items() if isinstance(files, dict) else enumerate(files)
        found += [(files, name) for name, path in each if isinstance(path, str)]
    return found


def _with_value(value: str, found: re.Match[str]) -> str:
    return found[1] + found[2] + value
