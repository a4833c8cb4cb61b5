"""What to write, in messages: as a key of a run file or of a site file, as an argument in Python, or as an option of a
command.

`fedsolve init` is a place of its own: it has options, and it writes a run file that can be changed.

    with written_in("run file"):
        na("chol", [0])                       na = { chol = [0] }
    with written_in("site file"):
        na("chol", [0])                       na = { chol = [0] } under [data] of the site file
    na("chol", [0])                           na={"chol": [0]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Place = Literal["python", "run file", "site file", "command", "init"]
Said = str | float | Sequence[str | float] | Mapping[str, str]

MOST_NAMED = 6  # columns in a message
_OF_SITE = " under [data] of the site file"
_BY_ALL = "in the site files of all sites, and as [[preprocess.schema]] in the run file"

_PLACE: ContextVar[Place] = ContextVar("place", default="python")


@contextmanager
def written_in(place: Place) -> Iterator[None]:
    """Messages inside the block say what to write in this place."""
    before = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(before)


def where() -> str:
    """Where a key stands that says how a file is read; nothing, where that goes without saying."""
    return _OF_SITE if _PLACE.get() == "site file" else ""


def na(column: str, markers: Sequence[str | float]) -> str:
    """What marks a missing cell of a column; an empty list: nothing does."""
    if _PLACE.get() == "python":
        return f"na={{{_quoted(column)}: {_list(markers)}}}"
    if _PLACE.get() == "command":
        return " ".join(f"--na {_shell(f'{column}={_bare(one)}')}" for one in markers or [""])
    return f"na = {{ {toml_key(column)} = {_list(markers)} }}{where()}"


def key(name: str, value: Said) -> str:
    """A key for all files, such as `drop`."""
    if (
        _PLACE.get() in ("command", "init")
        and name == "drop"
        and isinstance(value, Sequence)
        and not isinstance(value, str)
    ):
        return " ".join(f"--drop {_shell(str(one))}" for one in value)
    equals = "=" if _PLACE.get() == "python" else " = "
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    beside = ", beside what is in the list," if is_list and where() else ""
    return f"{name}{equals}{_value(value)}{where()}{beside}"


def for_site(site: str, name: str, value: Said) -> str:
    """A key for the file of one site."""
    if _PLACE.get() == "python":
        return f"sites={{{_quoted(site)}: fs.data.SiteReading({name}={_value(value)})}}"
    return f"{name} = {_value(value)}{where() or f' under [data.sites.{toml_key(site)}]'}"


def leave_out(column: str) -> str:
    """To learn without a column that some site lacks."""
    if _PLACE.get() == "site file":  # which has it in its schema, as the run file has
        return f"take {column} out of the [[preprocess.schema]] of the run file"
    return key("drop", [column])


def keep(column: str) -> str:
    """To keep a column that some site lacks; an argument of `propose`."""
    return f'keep=["{column}"]' if _PLACE.get() == "python" else f"--keep {_shell(column)}"


def named_files(files: Mapping[str, str]) -> str:
    """Files with a name for the site of each."""
    if _PLACE.get() == "init":
        return "fedsolve init " + " ".join(_shell(f"{name}={path}") for name, path in files.items())
    return key("files", files) if len(files) > 1 else key("files", {"one": "…", "other": "…"})


def data_sets() -> str:
    """Where the names of data sets are listed."""
    return "fedsolve.data.datasets()" if _PLACE.get() == "python" else "`fedsolve datasets`"


def names_of(site: str) -> str:
    """The names of the columns of one site's file."""
    if _PLACE.get() == "python":
        return f"sites={{{_quoted(site)}: fs.data.SiteReading(names=[…])}}"
    if _PLACE.get() == "init":
        return f"--names {_shell(site)}=…,…"
    return f"names = […]{where() or f' under [data.sites.{toml_key(site)}]'}"


def names_elsewhere() -> str:
    """To give names only to the files that need them."""
    if _PLACE.get() == "init":
        return "give names only to files without a header, --names SITE=…,…"
    if _PLACE.get() == "site file":
        return f"take out names{where()}, which is for a file without a header"
    place = "sites={…: fs.data.SiteReading(names=[…])}" if _PLACE.get() == "python" else "under [data.sites.SITE]"
    return f"give names only to files without a header, {place}"


def schema_entry(column: str) -> str:
    """The declaration of a column."""
    if _PLACE.get() == "python":
        return f"fs.data.Numeric({_quoted(column)}), or fs.data.Categorical, in the schema"
    if _PLACE.get() == "site file":
        return f"[[schema]] with name = {_quoted(column)}, and categories if it has any, {_BY_ALL}"
    return f"[[preprocess.schema]] with name = {_quoted(column)}, and categories if it has any"


def in_schema() -> str:
    """Where all columns are declared that there were none of."""
    if _PLACE.get() == "site file":
        return f"declare all columns as [[schema]], {_BY_ALL}"
    return "declare it in a schema, or write one with fedsolve init"


def not_a_number(column: str, cell: str) -> str:
    """What a cell of a column of numbers may be instead."""
    if _PLACE.get() == "site file":
        declared = f"as [[schema]] with name = {_quoted(column)} and its categories, {_BY_ALL}"
        return f"write {na(column, [cell])} if it means that the value is missing, or declare the column {declared}"
    return f"list it in na if it means that the value is missing, or declare {column} with its categories"


def undeclared(column: str) -> str:
    """What to do with a value of a category that nobody has declared."""
    if _PLACE.get() not in ("run file", "site file"):
        return "declare it, or write unseen = 'other' or 'zeros' for the column and fit again"
    entry = f"the [[preprocess.schema]] of {column}"
    unseen = f'write unseen = "other" or unseen = "zeros" under {entry}'
    if _PLACE.get() == "run file":
        return f"declare it in {entry}, or {unseen}"
    declared = f"declare it in the [[schema]] of {column}, {_BY_ALL}"
    return f"{declared}; or let whoever submits the run {unseen} of the run file"


def for_columns(columns: Sequence[str], name: str, value: str | float) -> str:
    """A key for some columns of the schema."""
    shown = list(columns[:MOST_NAMED])
    if len(columns) > MOST_NAMED:
        shown[-1] = f"{len(columns) - MOST_NAMED + 1} more"
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    if _PLACE.get() == "python":
        return f"{name}={_value(value)} in the schema for {listed}"
    return f"{name} = {_value(value)} under the [[preprocess.schema]] of {listed}"


def toml_key(name: str) -> str:
    """A name as a key of a run file."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _value(value: Said) -> str:
    if isinstance(value, Mapping):
        if _PLACE.get() == "python":
            return "{" + ", ".join(f"{_quoted(old)}: {_quoted(new)}" for old, new in value.items()) + "}"
        return "{ " + ", ".join(f"{_quoted(old)} = {_quoted(new)}" for old, new in value.items()) + " }"
    if isinstance(value, bool):
        return str(value) if _PLACE.get() == "python" else str(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    return _list(value) if isinstance(value, Sequence) else _bare(value)


def _list(values: Sequence[str | float]) -> str:
    return f"[{', '.join(_quoted(one) if isinstance(one, str) else _bare(one) for one in values)}]"


def _bare(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shell(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else "'" + text.replace("'", "'\"'\"'") + "'"
