"""Which file is which site's: a table of names and paths, a list of paths, or a pattern whose wildcards are names."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsolve.data import advice
from fedsolve.errors import ConfigError, DataError

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]

_WILD = re.compile(r"\*\*|\*|\?|\[[^\]]+\]")
_ENDINGS = re.compile(r"(\.(csv|tsv|txt|data|dat|parquet|pq|gz|bz2))+$", re.IGNORECASE)


def site_files(files: Files, folder: Path | None = None) -> dict[str, Path]:
    """The path of each site's file, by the site's name.

    Args:
        files: `{"arden": "arden.csv", …}`; a list of paths, whose sites are named by what sets the file names apart; or
            a pattern such as "sites/*.csv", where the wildcards stand for the name.
        folder: Where relative paths start; the current folder by default.

    Raises ConfigError if there is no file, if two sites have one name, or one file.
    """
    start = Path() if folder is None else folder
    if isinstance(files, Mapping):
        found = {str(name): start / Path(path).expanduser() for name, path in files.items()}
    elif isinstance(files, str | os.PathLike):
        found = _matched(os.fspath(files), start)
    else:
        paths = [start / Path(path).expanduser() for path in files]
        found = _by_name(list(zip(short_names([path.name for path in paths]), paths, strict=True)))
    if not found:
        raise ConfigError("files names no file; give one for each site")
    for name, path in found.items():
        if not path.is_file():
            what = "is a folder" if path.is_dir() else f"does not exist{near_files(path)}"
            raise DataError(f"{path}, the file of site {name!r}, {what}")
    _check_different(found)
    return found


def _matched(pattern: str, start: Path) -> dict[str, Path]:
    if not _WILD.search(pattern):
        only = start / Path(pattern).expanduser()
        return {_without_ending(only.name): only}
    whole = str(start / Path(pattern).expanduser())
    paths: list[str] = sorted(path for path in glob.glob(whole, recursive=True) if os.path.isfile(path))
    if not paths:
        raise DataError(f"no file matches {whole}")
    expression = re.compile(_with_groups(whole))
    named = []
    for path in paths:
        parts = expression.fullmatch(path)
        stood_for = "-".join(part.strip("/") for part in (parts.groups() if parts else ()) if part and part.strip("/"))
        named.append((_without_ending(stood_for) or _without_ending(Path(path).name), Path(path)))
    return _by_name(named)


def _with_groups(pattern: str) -> str:
    """A glob pattern as an expression with a group for each wildcard."""
    made, end = "", 0
    for wild in _WILD.finditer(pattern):
        made += re.escape(pattern[end : wild.start()])
        text = wild[0]
        made += {"**": "(.*)", "*": "([^/]*)", "?": "([^/])"}.get(text, f"({text.replace('[!', '[^')})")
        end = wild.end()
    return made.replace("(.*)/", "(.*/)?") + re.escape(pattern[end:])


def _by_name(named: Sequence[tuple[str, Path]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, path in named:
        if name in found and found[name].resolve() == path.resolve():
            raise ConfigError(f"{path} is given twice; give each file once")
        if name in found:
            raise ConfigError(
                f"{found[name]} and {path} would both be the site {name!r}; name them, "
                f"{advice.named_files({one.parent.name or 'other': str(one) for one in (found[name], path)})}"
            )
        found[name] = path
    return found


def _check_different(found: Mapping[str, Path]) -> None:
    seen: dict[Path, str] = {}
    for name, path in found.items():
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise ConfigError(f"the sites {other!r} and {name!r} have one file, {path}; give each its own")


def near_files(path: Path) -> str:
    """A hint for a file that is not there; empty if no name beside it is like its own."""
    try:
        beside = {_without_ending(one.name).casefold(): one for one in path.parent.iterdir() if one.is_file()}
    except OSError:
        return ""
    close = difflib.get_close_matches(_without_ending(path.name).casefold(), beside, n=1, cutoff=0.75)
    return f"; is it {beside[close[0]]}?" if close else ""


def short_names(files: Sequence[str]) -> list[str]:
    """What sets file names apart, without their endings: processed.arden.data and processed.bryn.data are arden and
    bryn."""
    stems = [_without_ending(name) for name in files]
    parts = [re.split(r"([._\- ]+)", stem) for stem in stems]
    if len(stems) < 2 or len(set(stems)) < len(stems):
        return stems
    ahead = behind = 0
    shortest = min(map(len, parts))
    while ahead < shortest - 1 and len({part[ahead] for part in parts}) == 1:
        ahead += 1
    while behind < shortest - 1 - ahead and len({part[-1 - behind] for part in parts}) == 1:
        behind += 1
    short = ["".join(part[ahead : len(part) - behind]).strip("._- ") for part in parts]
    return short if all(short) and len(set(short)) == len(short) else stems


def _without_ending(name: str) -> str:
    return _ENDINGS.sub("", name) or name
