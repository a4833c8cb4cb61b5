"""Values as JSON: numbers that are not finite become null, whatever is beside them says why."""

from __future__ import annotations

import json
import math

import numpy as np

from fedsolve.plain import Plain, Style, write
from fedsolve.text import json_escaped


class _Reported(Style[Plain]):
    """For people and scripts, not to be read back: what JSON lacks is text or null."""

    by_annotation = False

    def leaf(self, value: bool | int | float | str | None, where: str) -> Plain:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    def array(self, value: np.ndarray, where: str) -> Plain:
        return write(value.tolist(), self)

    def items(self, written: list[Plain]) -> Plain:
        return written

    def table(self, written: list[tuple[object, Plain]], where: str) -> Plain:
        return {str(key): item for key, item in written}

    def record(self, kind: type, written: dict[str, Plain]) -> Plain:
        return written

    def other(self, value: object, where: str) -> Plain:
        return str(value)  # a path, say


def to_plain(value: object) -> Plain:
    """None, bool, int, finite float, str, and lists and dicts of these."""
    return write(value, _Reported())


def to_json(value: object, indent: int | None = None) -> str:
    """Strict JSON, in one line unless indented; nothing in it does anything to a terminal."""
    return json_escaped(json.dumps(to_plain(value), allow_nan=False, ensure_ascii=False, indent=indent))
