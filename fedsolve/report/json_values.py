"""Values as JSON: numbers that are not finite become null, whatever is beside them says why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

import numpy as np

from fedsolve.text import json_escaped


def to_plain(value: Any) -> Any:
    """None, bool, int, finite float, str, and lists and dicts of these."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, PathLike):
        return str(value)
    return str(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, in one line unless indented; nothing in it does anything to a terminal."""
    return json_escaped(json.dumps(to_plain(value), allow_nan=False, ensure_ascii=False, indent=indent))
