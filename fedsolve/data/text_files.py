"""A file as text: unpacked, decoded, and its separator recognised. What is recognised can be said in one line.

Bytes that are UTF-8 are taken for UTF-8, a byte order mark says which Unicode it is, and any other bytes are taken for
cp1252, which is Latin-1 with quotation marks and the euro sign. Nothing is guessed from frequencies of letters.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from fedsolve.data import advice
from fedsolve.errors import DataError

FilePath = str | os.PathLike[str]

SEPARATORS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
BLANKS = " "  # as a delimiter: any run of spaces and tabs
SAMPLE = 200  # records that say which separator it is

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_OTHERS = {
    b"PK\x03\x04": "an Excel workbook or another zip archive, not text; save it as csv (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an Excel workbook, not text; save it as csv (UTF-8)",
    b"%PDF": "a PDF document, not text; save the table as csv (UTF-8)",
    b"\x1f\x8b": "packed with gzip; let its name end in .gz",
    b"BZh": "packed with bzip2; let its name end in .bz2",
}
_PAGE = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_JSON = re.compile(r"\s*(\[\s*)?\{\s*\"")
_EXCEL_SEPARATOR = re.compile(r"sep=(.)(?:\r\n|\r|\n)", re.IGNORECASE)  # a first line by which Excel knows it


@dataclass(frozen=True)
class Text:
    """A file's text, and what its encoding is called if it is not UTF-8."""

    text: str
    encoding: str | None = None


def open_file(path: FilePath) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz or .bz2."""
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    return cast(BinaryIO, openers.get(Path(path).suffix.lower(), open)(path, "rb"))


def decoded(path: FilePath, raw: bytes, encoding: str | None = None) -> Text:
    """The text of these bytes, with letters composed (ü is one letter, not u and ¨), so that names of one file are
    found in another. Raises DataError, with the line, for bytes that are not of the encoding, and for other formats."""
    found = _decoded(path, raw, encoding)
    for pattern, what in ((_PAGE, "a web page or XML"), (_JSON, "JSON")):
        if pattern.match(found.text):
            raise DataError(f"{path}, line 1: this is {what}, not a table; save it as csv (UTF-8)")
    return Text(unicodedata.normalize("NFC", found.text), found.encoding)


def _decoded(path: FilePath, raw: bytes, encoding: str | None) -> Text:
    if encoding is not None:
        return Text(_by_name(path, raw, encoding))
    for start, what in _OTHERS.items():
        if raw.startswith(start):
            raise DataError(f"{path}: this is {what}")
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return Text(_by_name(path, raw, name), None if name == "utf-8-sig" else "UTF-16")
    if b"\0" in raw[: 1 << 20]:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise DataError(
            f"{path}, line {line}: a zero byte, so this is not plain text; write "
            f'encoding = "utf-16-le"{advice.where()} if it is Unicode text of Windows, or save it as csv (UTF-8)'
        )
    try:
        return Text(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        if not raw.decode("utf-8", errors="ignore").isascii():  # other letters are UTF-8: no Latin-1 by chance
            line = raw.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{path}, line {line}: the byte 0x{raw[error.start]:02x} is not UTF-8, and other letters of the file "
                f'are; save it in one encoding, or write encoding = "latin-1"{advice.where()} if it is that throughout'
            ) from None
        return Text(_western(path, raw), "Latin-1")


def _western(path: FilePath, raw: bytes) -> str:
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: cannot be read as csv: line {line} has the byte 0x{raw[error.start]:02x}, which is neither UTF-8 "
            f'nor Latin-1; write its encoding, such as encoding = "cp850"{advice.where()}, or save it as UTF-8'
        ) from None


def _by_name(path: FilePath, raw: bytes, encoding: str) -> str:
    try:
        text = raw.decode(encoding)
    except LookupError:
        raise DataError(
            f"{path}: there is no text encoding {encoding!r}; write one such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: the byte 0x{raw[error.start]:02x} is not {encoding}; leave encoding out to have it "
            "recognised, or write another"
        ) from None
    return text.removeprefix("\ufeff")


# ── records ──


def records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a csv text, each with the number of the line it begins in. Empty lines are left out."""
    lines: Iterable[str] = io.StringIO(text, newline="")  # the line ends of Unix, Windows and old Macs
    if delimiter == BLANKS:
        lines, delimiter = (re.sub(r"[ \t]+", "\t", line.strip(" \t")) for line in lines), "\t"
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    begins = 1
    for record in reader:
        if record:
            yield begins, record
        begins = reader.line_num + 1


# ── the separator ──


def declared_delimiter(text: str) -> tuple[str | None, str]:
    """The separator that a first line such as "sep=;" declares, and the text with that line left empty."""
    found = _EXCEL_SEPARATOR.match(text)
    return (None, text) if found is None else (found[1], text[found.end() - 1 :])


def recognised_delimiter(path: FilePath, text: str) -> str:
    """What the cells of this table are separated by. Raises DataError where two answers are as good."""
    found = {one: _regularity(text, one) for one in SEPARATORS if one in text[: 1 << 20]}
    regular = [one for one, (cells, share) in found.items() if cells > 1 and share > 0.9]
    if not regular:  # a record that is too short or long, among few: the reader says which
        cells = {one: share for one, (most, share) in found.items() if most > 1}
        return max(cells, key=cells.__getitem__) if cells else _single(path, text)
    if len(regular) == 1:
        return regular[0]
    # 1,5;2,5 is regular in commas too: as decimals they are explained, and so is a comma in quoted or spaced text.
    others = [one for one in regular if one != ","]
    if len(others) == 1 and "," in regular and _explains_commas(text, others[0]):
        return others[0]
    one, other = regular[:2]
    raise DataError(
        f"{path}, line 1: separated by {SEPARATORS[one]} or by {SEPARATORS[other]}? Every line can be cut at either; "
        f"write delimiter = {_as_toml(one)} or delimiter = {_as_toml(other)}{advice.where()}"
    )


def _sample(text: str, delimiter: str) -> list[list[str]]:
    try:
        return [record for _, record in itertools.islice(records(text, delimiter), SAMPLE)]
    except csv.Error:  # a giant cell; the reader says so of the separator that is chosen
        return []


def _regularity(text: str, delimiter: str) -> tuple[int, float]:
    """How many cells most records have, and the share of those that have as many."""
    counts = Counter(len(record) for record in _sample(text, delimiter))
    if not counts:
        return 0, 0.0
    cells, often = max(counts.items(), key=lambda item: (item[1], item[0]))
    return cells, often / counts.total()


_COMMA_NUMBER = re.compile(r"\s*[+-]?[\d.' \u00a0]*,\d+\s*")


def _explains_commas(text: str, delimiter: str) -> bool:
    """Whether, cut at another separator, all commas but those of a first record of names are decimal commas."""
    cells = [cell for record in _sample(text, delimiter)[1:] for cell in record if "," in cell]
    return bool(cells) and all(_COMMA_NUMBER.fullmatch(cell) for cell in cells)


def _single(path: FilePath, text: str) -> str:
    first = text.lstrip("\n\r ").split("\n", 1)[0].strip()
    if re.search(r"\S[ \t]+\S", first):
        raise DataError(
            f"{path}, line 1: no ',', ';', tab or '|' between cells; write delimiter = \" \"{advice.where()} if blanks "
            "separate them"
        )
    return ","


def _as_toml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'
