"""Plain tables as TOML text, so that a program can write a run file; `tomllib` reads it back as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeGuard


def dumps(tables: Mapping[str, object]) -> str:
    """A table for each key of a mapping of tables; what is nested deeper stands in braces."""
    loose = [_line(key, value) for key, value in tables.items() if not _is_table(value) and not _is_list(value)]
    parts = ["".join(loose)] if loose else []
    for key, value in tables.items():
        if _is_table(value):
            parts.append(f"[{_key(key)}]\n" + "".join(_line(*item) for item in value.items()))
        elif _is_list(value):
            parts += [f"[[{_key(key)}]]\n" + "".join(_line(*item) for item in one.items()) for one in value]
    return "\n".join(parts)


def inline(value: object) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {inline(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    return str(value)  # a date or a time, which a run file has no use for


def toml_lines(table: Mapping[str, object]) -> list[str]:
    """A line for each key of a table."""
    return [_line(key, value).rstrip("\n") for key, value in table.items()]


def _is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _line(key: str, value: object) -> str:
    return f"{_key(key)} = {inline(value)}\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)
