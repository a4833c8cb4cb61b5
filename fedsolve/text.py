"""Text from elsewhere, made safe to show: what a client, a file or a message says may hold anything.

A terminal obeys escape sequences, a page turns text round at bidirectional controls, a spreadsheet computes cells that
begin with a sign. Nothing here changes what a name is: only how it is written where people read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# Controls of ASCII and Latin-1, bidirectional controls, separators of lines and paragraphs, half of a surrogate pair.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNPRINTABLE_IN_LINES = re.compile(_UNPRINTABLE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))

# What a spreadsheet takes for the beginning of a formula.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def printable(text: str, limit: int | None = None, *, lines: bool = False) -> str:
    r"""Text whose control characters are written out, as in ``\x1b[31m``, and that has at most `limit` characters.

    Args:
        text: Anything.
        limit: The most characters to return; a longer text is cut and ends in ``…``. None for no limit.
        lines: Whether line breaks and tabs stay as they are.

    Example:
        >>> printable("\x1b[2Jgone")
        '\\x1b[2Jgone'
    """
    if limit is not None and len(text) > limit:
        text = text[:limit]  # before it is searched, however long it is
        cut = True
    else:
        cut = False
    if not text.isprintable():
        text = (_UNPRINTABLE_IN_LINES if lines else _UNPRINTABLE).sub(_written_out, text)
    if limit is not None and (cut or len(text) > limit):
        return text[: limit - 1] + "…"
    return text


def has_controls(text: str) -> bool:
    """Whether a text holds characters that `printable` writes out."""
    return _UNPRINTABLE.search(text) is not None


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def spreadsheet_cell(value: object) -> object:
    """A value for a csv file: text that a spreadsheet would compute gets an apostrophe before it, controls are written
    out, and numbers stay as they are, also where they are written as text."""
    if not isinstance(value, str):
        return value
    shown = printable(value)
    return "'" + shown if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value) else shown


def json_escaped(text: str) -> str:
    """JSON in which the control characters that JSON itself allows in strings are escaped; it reads back the same."""
    if text.isprintable():
        return text
    return _UNPRINTABLE_IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


SHOWN = 60  # characters of what came that an error repeats


def shortened(value: Any) -> str:
    """A value that came, as an error may show it."""
    # Of a long text only the part that is shown is spelled out.
    said = repr(value[:SHOWN] if isinstance(value, str | bytes) else value)
    return said if len(said) <= SHOWN else said[:SHOWN] + "…"


MOST_LISTED = 40  # things of a kind that a message names


def listed(names: Iterable[str]) -> str:
    """Each of these once, in a sentence; of very many, how many more there are."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return ", ".join(found[:MOST_LISTED]) + more
