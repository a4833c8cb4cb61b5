"""A run file that still means the same when it lies elsewhere: its relative paths made absolute."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any


def from_anywhere(text: str, folder: Path) -> str:
    """The text of a run file with its relative paths made absolute, so that a copy of it elsewhere still finds them;
    where that cannot be done by changing those lines alone, a comment says where it came from."""
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


def paths_in(tables: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every table of a run file that names a file to read, with the key that does."""
    places = [(name, key) for name in ("data", "server") for key in ("file", "labels")] + [("run", "warm_start")]
    return [(tables[name], key) for name, key in places if isinstance(tables.get(name, {}).get(key), str)]


def _with_value(value: str, found: re.Match[str]) -> str:
    return found[1] + found[2] + value
