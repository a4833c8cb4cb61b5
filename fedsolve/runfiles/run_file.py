"""A run file: what to learn from, how it is divided, by what algorithm, until when, where the result goes.

    [data]                       [algorithm]                  [run]
    dataset = "breast_cancer"    name = "Newton"              rounds = 20
    [partition]                  [algorithm.loss]             tolerance = 1e-9
    scheme = "dirichlet"         name = "Logistic"            [output]
    alpha = 0.5                  l2 = 0.01                    folder = "runs/first"
    clients = 5                  intercept = "free"

`[loss]` may stand by itself, for all algorithms that have none of their own; `[[algorithms]]` lists several
to compare. `[preprocess]`, `[participation]`, `[link]`, `[evaluation]`, `[stopping]`, `[select]` and `[gain]` are
optional. Keys that are not known are refused.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from pydantic import ValidationError

from fedsolve.data.site_names import near_files
from fedsolve.errors import ConfigError
from fedsolve.runfiles.faults import in_words
from fedsolve.runfiles.keys import Config

MINIMAL = """
[data]
dataset = "breast_cancer"        # or: file = "own.csv", with target = "…" and split_by = "…"

[partition]                      # not with split_by
scheme = "iid"
clients = 4

[preprocess]

[algorithm]
name = "Newton"
loss = { name = "Logistic", l2 = 0.01, intercept = "free" }
"""

_DATA = re.compile(r"\.(csv|tsv|data|parquet|pq|npz|xlsx?)(\.(gz|bz2))?$", re.IGNORECASE)
MOST_TEXT = 2**20  # characters of a run file
MOST_DEPTH = 32  # of tables and lists in each other
# A dotted key with more parts than that, a.b.c.…: tomllib takes minutes for some thousands of them.
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_DEPTH + 1}}}""", re.ASCII)


def read(path: Path) -> Config:
    """The run file at `path`; every fault in it is a ConfigError that names file and key."""
    return parse(read_text(path), str(path))


def read_text(path: Path, what: str = "run file") -> str:
    """What stands in the run file: UTF-8, with or without a byte order mark, and at most `MOST_TEXT` characters.

    what  what the file is called, where it is another one than a run file
    """
    if path.is_file() and _DATA.search(path.name):
        if what != "run file":
            raise ConfigError(f"{path} is a data file, and this command takes a {what}")
        command = shlex.join(["fedsolve", "init", str(path), "--target", "COLUMN"])
        raise ConfigError(f"{path} is a data file, and this command takes a run file; write one with: {command}")
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST_TEXT + 1)
    except FileNotFoundError:
        raise ConfigError(f"there is no {what} {path}{near_files(path)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the {what} {path} is not UTF-8 text ({error}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"the {what} {path} cannot be read: {error}") from None
    if len(text) > MOST_TEXT:
        raise ConfigError(
            f"the {what} {path} has more than {MOST_TEXT:,} characters, more than any {what} needs; is it the data?"
        )
    return text


def parse(text: str, name: str = "run file") -> Config:
    """The same from text."""
    tables = toml_tables(text, name)
    if not tables:
        empty = ConfigError(f"{name} is empty; every key is in docs/run-file.md, and this is a small run file:")
        empty.add_note(MINIMAL)
        raise empty
    if "sites" in tables and "data" not in tables:
        raise ConfigError(
            f"{name} has [sites] and no [data]: it is the server's half of a run between sites, for `fedsolve submit` "
            "and `fedsolve consent`. This command is for simulations"
        )
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{name}: {'; '.join(in_words(error.errors()))}") from None


def toml_tables(text: str, name: str) -> dict[str, object]:
    """The text as TOML, nested no deeper than a run file can be: what is deeper would cost time, and then the stack."""
    too_deep = f"{name} nests tables or lists more than {MOST_DEPTH} deep, which no run file does"
    if _LONG_KEY.search(text):
        raise ConfigError(too_deep)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(too_deep) from None
    except ValueError as error:  # also a whole number of thousands of digits
        raise ConfigError(f"{name} is not TOML: {error}") from None
    level: list[dict[str, object] | list[object]] = [tables]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise ConfigError(too_deep)
    return tables
