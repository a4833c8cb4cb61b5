"""Cells that are numbers or texts to a program, and may have been meant otherwise: said, or refused by line."""

from __future__ import annotations

import gzip
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from fedsolve.data.csv_tables import Reading, Table, read_table
from fedsolve.data.doubtful_numbers import rounded_integers
from fedsolve.errors import DataError


def table(tmp_path: Path, content: str | bytes, **how: str) -> Table:
    path = tmp_path / "arden.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, Reading(**how))  # type: ignore[arg-type]


def column(read: Table, name: str) -> list[object]:
    return read.columns[name].tolist()


def lines(*cells: str) -> str:
    return "v;y\n" + "".join(f"{cell};{place % 2}\n" for place, cell in enumerate(cells))


# ── points that group thousands ──


def test_points_that_group_thousands_are_refused(tmp_path: Path) -> None:
    text = lines("950", "1.050", "2.345", "12.000")
    with pytest.raises(
        DataError, match=r"arden\.csv, line 3, column v: '1\.050', which is 1050 or 1\.050\?.*thousands"
    ):
        table(tmp_path, text)
    assert column(table(tmp_path, text, thousands=".", decimal=","), "v") == [950, 1050, 2345, 12000]
    assert column(table(tmp_path, text, decimal="."), "v") == [950, 1.05, 2.345, 12]


def test_points_that_may_be_either_are_said(tmp_path: Path) -> None:
    """A specific gravity has three decimals too."""
    read = table(tmp_path, lines("1.005", "1.010", "1.030"))
    assert column(read, "v") == [1.005, 1.01, 1.03]
    assert "points in v (1.005) taken for decimal points, not thousands" in read.said()


@pytest.mark.parametrize(
    "cells", [("1.5", "1.125", "1.375", "2.625"), ("0.125", "1.375", "2.625", "100"), ("1.125", "100")]
)
def test_other_decimals_are_not_mentioned(tmp_path: Path, cells: tuple[str, ...]) -> None:
    read = table(tmp_path, lines(*cells))
    assert column(read, "v") == [float(cell) for cell in cells]
    assert read.said() == "arden.csv: separated by ';'"


def test_several_points_group_thousands(tmp_path: Path) -> None:
    read = table(tmp_path, lines("1.234.567", "950.000", "12"))
    assert column(read, "v") == [1234567, 950000, 12]
    assert "thousands grouped by '.'" in read.said()
    with pytest.raises(
        DataError, match=r"line 2, column w: '2\.5' has a decimal point, and '1\.234\.567' in line 2, col"
    ):
        table(tmp_path, "v;w\n1.234.567;2.5\n2.345.678;3.5\n")


def test_a_single_decimal_comma_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"line 2, column v: '1\.5' has a decimal point, and '2,5' in line 4, column v has"
    ):
        table(tmp_path, lines("1.5", "3.5", "2,5"))


# ── codes and identifiers ──


def test_leading_zeros_are_said(tmp_path: Path) -> None:
    read = table(tmp_path, "postcode,born,y\n01067,2020-01-05,0\n99084,2021-02-06,1\n")
    assert read.said() == "arden.csv: postcode has leading zeros (01067), as codes have, and is read as numbers"
    assert not table(tmp_path, "v,born,y\n0,2020-01-05,0.05\n10,2021-02-06,1.01\n").said()
    assert not read_table(tmp_path / "arden.csv", kinds={"v": "category"}).said()


def test_long_whole_numbers_are_said(tmp_path: Path) -> None:
    """2⁵³ + 1 is the first that a float64 does not have; 2⁵³ + 2 it has."""
    read = table(tmp_path, f"a,b,c\n{2**53 + 1},{2**53 + 2},1e300\n7,8,2e300\n")
    assert read.rounded == {"a"}
    assert read.said() == "arden.csv: a has whole numbers that are too long to be kept exactly"
    assert list(rounded_integers({"a": [2**53 + 1, None], "b": [2**53 + 2, 1.5], "c": ["x"]})) == ["a"]


# ── texts ──


def test_letters_are_composed(tmp_path: Path) -> None:
    text = "größe,y\nfähig,1\n"
    read = table(tmp_path, unicodedata.normalize("NFD", text))
    assert list(read.columns) == ["größe", "y"]
    assert column(read, "größe") == ["fähig"]


def test_a_typographical_minus(tmp_path: Path) -> None:
    assert column(table(tmp_path, lines("\u22125", "3", "\u22120.5")), "v") == [-5, 3, -0.5]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_by_which_excel_knows_the_separator(tmp_path: Path, end: str) -> None:
    read = table(tmp_path, end.join(["sep=;", "a;b", "1,5;x,y", "2,5;z"]) + end)
    assert column(read, "a") == [1.5, 2.5]
    assert column(read, "b") == ["x,y", "z"]
    assert read.lines.tolist() == [3, 4]
    assert column(table(tmp_path, f"sep=~{end}a~b{end}1~2{end}"), "b") == [2]


# ── what is no table ──


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a,b\n1,2\n", mtime=0), r"this is packed with gzip; let its name end in \.gz"),
        (b"%PDF-1.4\n", "this is a PDF document"),
        (b"<!DOCTYPE html><html><body>Please log in</body>", "line 1: this is a web page or XML, not a table"),
        (b'[{"a": 1, "b": 2}]', "line 1: this is JSON, not a table"),
        (b"Export of March\n\na,b\n1,2\n", r"line 3 has 2 cells.*write skip = 2 if line 1 is a title"),
        (b"a,b,a\n1,2,3\n", r"arden\.csv, line 1: column 'a' given more than once"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(tmp_path, content)


def test_parquet_identifiers(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from fedsolve.data.parquet_tables import read_parquet_table

    path = tmp_path / "bryn.parquet"
    parquet.write_table(arrow.table({"id": [2**60 + 1, 2**60 + 2], "age": [61, 47]}), path)
    read = read_parquet_table(path)
    assert read.rounded == {"id"}
    assert read.said() == "bryn.parquet: id has whole numbers that are too long to be kept exactly"
    assert np.array_equal(read.columns["age"], [61, 47])
