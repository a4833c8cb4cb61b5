"""A run file that still means the same when it lies elsewhere: its relative paths made absolute."""

from __future__ import annotations

import json
import re
import tomllib
from functools import partial
from pathlib import Path


def from_anywhere(text: str, folder: Path) -> str:
    """The text of a run file with its relative `file` and `labels` made absolute, so that a copy of it elsewhere still
    finds them; where that cannot be done by changing those lines alone, a comment says where it came from."""
    wanted = tomllib.loads(text)
    relative = {
        key: path for key in ("file", "labels") if not _is_absolute(path := wanted.get("data", {}).get(key, "/"))
    }
    if not relative:
        return text
    changed = text
    for key, path in relative.items():
        there = str((folder / path).resolve())
        wanted["data"][key] = there
        pattern = rf"(?m)(^|[\s{{,.])({key}\s*=\s*)(\"[^\"\n]*\"|'[^'\n]*')"
        changed = re.sub(pattern, partial(_with_value, json.dumps(there, ensure_ascii=False)), changed)
    try:
        if tomllib.loads(changed) == wanted:
            return changed
    except tomllib.TOMLDecodeError:
        pass
    return f"# Paths of data files start from the folder {folder.resolve()}\n{text}"


def _with_value(value: str, found: re.Match[str]) -> str:
    return found[1] + found[2] + value


def _is_absolute(path: object) -> bool:
    return not isinstance(path, str) or Path(path).expanduser().is_absolute()
