"""Csv files as they come: separators, decimal marks, encodings, markers, headers; recognised, or refused by line."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from fedsolve.data import load
from fedsolve.data.csv_tables import Reading, Table, read_table
from fedsolve.errors import DataError, UnknownName


def table(tmp_path: Path, content: str | bytes, **how: object) -> Table:
    path = tmp_path / "arden.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    kinds = how.pop("kinds", None)
    return read_table(path, Reading(**how), kinds)  # type: ignore[arg-type]


def column(read: Table, name: str) -> list[object]:
    return [None if value != value else value for value in read.columns[name].tolist()]


# ── separators ──


@pytest.mark.parametrize(("mark", "said"), [(",", ""), (";", "';'"), ("\t", "tabs"), ("|", "'|'")])
def test_separators_are_recognised_and_said(tmp_path: Path, mark: str, said: str) -> None:
    read = table(tmp_path, f"age{mark}sex{mark}y\n61{mark}f{mark}1\n47{mark}m{mark}0\n")
    assert column(read, "age") == [61, 47]
    assert column(read, "sex") == ["f", "m"]
    assert read.said() == (f"arden.csv: separated by {said}" if said else "")


def test_commas_in_text_do_not_separate(tmp_path: Path) -> None:
    read = table(tmp_path, "name;age\nDoe, Jane;61\nRoe, Max;47\nPoe;33\n")
    assert column(read, "name") == ["Doe, Jane", "Roe, Max", "Poe"]


def test_blanks_separate_only_if_said(tmp_path: Path) -> None:
    text = "age  sex y\n61   f  1\n 47 m   0\n"
    with pytest.raises(DataError, match=r'arden\.csv, line 1: no .* write delimiter = " "'):
        table(tmp_path, text)
    assert column(table(tmp_path, text, delimiter=" "), "y") == [1, 0]


def test_two_separators_that_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'arden\.csv, line 1: separated by .* write delimiter = ";" or .*"\|"'):
        table(tmp_path, "a;b|c\nx;y|z\nu;v|w\n")
    assert list(table(tmp_path, "a;b|c\nx;y|z\n", delimiter="|").columns) == ["a;b", "c"]


def test_a_wrong_separator_is_named(tmp_path: Path) -> None:
    (tmp_path / "arden.csv").write_text("age;y\n1,5;0\n2,5;1\n")
    with pytest.raises(
        DataError, match=r"arden\.csv: line 2 has 2 cells, the header in line 1 has 1.*separated by ';'"
    ):
        load(tmp_path / "arden.csv", delimiter=",")


# ── decimal commas and thousands ──


@pytest.mark.parametrize("header", ["age;dose\n", ""])
def test_a_decimal_comma(tmp_path: Path, header: str) -> None:
    read = table(tmp_path, f"{header}1,5;2,25\n-0,5;3\n7;,5\n")
    assert [values.tolist() for values in read.columns.values()] == [[1.5, -0.5, 7], [2.25, 3, 0.5]]
    assert read.said() == "arden.csv: separated by ';', decimal comma"
    declared = table(tmp_path, f"{header}1,5;2,25\n-0,5;3\n7;,5\n", decimal=",", delimiter=";")
    assert declared.said() == ""


def test_quoted_decimal_commas_between_commas(tmp_path: Path) -> None:
    read = table(tmp_path, 'age,dose\n"1,5","2,25"\n3,4\n')
    assert column(read, "dose") == [2.25, 4]
    assert read.said() == "arden.csv: decimal comma"


def test_a_decimal_comma_late_in_the_file(tmp_path: Path) -> None:
    rows = "".join(f"{i};{i % 7}\n" for i in range(25_000))  # more than a chunk of whole numbers
    read = table(tmp_path, f"a;b\n{rows}1,5;2\n")
    assert read.columns["a"][-1] == 1.5
    assert read.columns["a"][24_999] == 24_999


def test_decimal_point_and_comma_contradict(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"arden\.csv, line 3, column b: '2\.75' has a decimal point.*decimal = "):
        table(tmp_path, "a;b\n1,5;2\n2,5;2.75\n")


@pytest.mark.parametrize(
    ("cells", "expected", "said"),
    [
        (["1,234.5", "12"], [1234.5, 12], "thousands grouped by ','"),
        (["1,234,567", "12"], [1234567, 12], "thousands grouped by ','"),
        (["1.234,5", "12"], [1234.5, 12], "decimal comma, thousands grouped by '.'"),
        (["1 234,5", "12"], [1234.5, 12], "decimal comma, thousands grouped by blanks"),
        (["1'234.5", "12"], [1234.5, 12], 'thousands grouped by "\'"'),
        (["1 234", "12"], [1234, 12], "thousands grouped by blanks"),
        (["1\u00a0234\u00a0567", "12"], [1234567, 12], "thousands grouped by blanks"),
    ],
)
def test_thousands(tmp_path: Path, cells: list[str], expected: list[float], said: str) -> None:
    read = table(tmp_path, "a;b\n" + "".join(f"{cell};1\n" for cell in cells))
    assert column(read, "a") == expected
    assert read.said() == f"arden.csv: separated by ';', {said}"


def test_a_comma_that_may_be_either_is_refused(tmp_path: Path) -> None:
    text = "people;y\n1,234;0\n5,678;1\n"
    with pytest.raises(DataError, match=r"arden\.csv, line 2, column people: '1,234', which is 1234 or 1\.234; write"):
        table(tmp_path, text)
    assert column(table(tmp_path, text, thousands=","), "people") == [1234, 5678]
    assert column(table(tmp_path, text, decimal=","), "people") == [1.234, 5.678]


# ── encodings ──


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-8", ""), ("utf-8-sig", ""), ("latin-1", "Latin-1"), ("cp1252", "Latin-1"), ("utf-16", "UTF-16")],
)
def test_encodings(tmp_path: Path, encoding: str, said: str) -> None:
    read = table(tmp_path, "größe,y\nfähig,1\nzäh,0\n".encode(encoding))
    assert column(read, "größe") == ["fähig", "zäh"]
    assert read.said() == (f"arden.csv: {said}" if said else "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\nx\x81,1\n", r"line 2 has the byte 0x81.*encoding = "),
        ("a,b\nä,1\n".encode() + b"\xe4,2\n", r"arden\.csv, line 3: the byte 0xe4 is not UTF-8, and other"),
        ("a,b\nx,1\n".encode("utf-16-le"), r"arden\.csv, line 1: a zero byte.*utf-16-le"),
        (b"PK\x03\x04....", r"arden\.csv: this is an Excel workbook.*save it as csv"),
    ],
)
def test_what_is_no_text(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(tmp_path, content)


def test_an_encoding_that_is_said(tmp_path: Path) -> None:
    content = "größe,y\nfähig,1\n".encode("cp850")
    assert column(table(tmp_path, content, encoding="cp850"), "größe") == ["fähig"]
    with pytest.raises(DataError, match=r"line 1: the byte 0x94 is not utf-8; leave encoding out"):
        table(tmp_path, content, encoding="utf-8")
    with pytest.raises(DataError, match="no text encoding 'martian'"):
        table(tmp_path, content, encoding="martian")


# ── missing cells ──


def test_markers(tmp_path: Path) -> None:
    text = "age,chol,sex\n61,0,f\n-9.0,212,?\n-9,NA,-9\n"
    read = table(tmp_path, text, na=[-9, "?", "NA"])
    assert column(read, "age") == [61, None, None]
    assert column(read, "sex") == ["f", None, None]
    assert column(read, "chol") == [0, 212, None]
    by_column = table(tmp_path, text, na={"chol": [0, "NA"], "*": ["?"]})
    assert column(by_column, "chol") == [None, 212, None]
    assert column(by_column, "age") == [61, -9, -9]
    assert column(by_column, "sex") == ["f", None, "-9"]
    assert column(table(tmp_path, text, na={"chol": [0]}), "chol") == [None, 212, None]  # the usual ones too
    with pytest.raises(UnknownName, match="cholesterol"):
        table(tmp_path, text, na={"cholesterol": [0]})


def test_texts_that_can_only_be_missing_numbers(tmp_path: Path) -> None:
    read = table(tmp_path, "age,kind\n61,.\n.,b\n#N/A,c\n47,d\n")
    assert column(read, "age") == [61, None, None, 47]
    assert column(read, "kind") == [".", "b", "c", "d"]  # a column of texts: the point may be one of them
    assert read.said() == "arden.csv: '#N/A', '.' taken for missing in columns of numbers"
    assert column(table(tmp_path, "age\n61\nNULL\n", na=["?"]), "age") == ["61", "NULL"]  # the user has said what is


# ── what else files have ──


def test_a_cell_that_is_no_number_is_named(tmp_path: Path) -> None:
    text = 'age,note,chol\n61,"two\nlines",212\n\n47,x,abc\n'
    with pytest.raises(DataError, match=r"arden\.csv, line 5, column chol: 'abc' is not a number"):
        table(tmp_path, text, kinds={"chol": "number"})
    read = table(tmp_path, text)
    assert read.lines.tolist() == [2, 5]
    assert column(read, "chol") == ["212", "abc"]


def test_text_late_in_the_file_keeps_the_texts_before(tmp_path: Path) -> None:
    rows = "".join(f"{i:06d},{i}\n" for i in range(25_000))
    read = table(tmp_path, f"code,b\n{rows}A1,2\n")
    assert read.columns["code"][[0, 24_999, 25_000]].tolist() == ["000000", "024999", "A1"]
    assert read.columns["b"].dtype == np.float64


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_empty_lines_and_trailing_separators(tmp_path: Path, end: str) -> None:
    read = table(tmp_path, end.join(["a,b,", "1,2,", "", ",,", "3,4,", ""]))
    assert list(read.columns) == ["a", "b"]
    assert column(read, "b") == [2, 4]
    assert read.lines.tolist() == [2, 5]
    assert read.said() == "arden.csv: a separator at the end of each line is ignored"
    below = table(tmp_path, end.join(["a,b", "1,2,", "3,4,"]))
    assert column(below, "b") == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", r"line 3 has 1 cells, the first has 2"),
        ('a,b\n1,"2\n3,4\n5,6\n', r"arden\.csv, line 2, column b: several lines in one cell.*quotation mark"),
        ("a,b\nx,1,2\ny,3,4\n", r"line 2 has 3 cells, the header in line 1 has 2.*R leaves out"),
        ("a,b,a\n1,2,3\n", "column 'a' given more than once"),
        ("name,n\nx,1\ny,2\nTotal,3\n", r"arden\.csv, line 4, column name: 'Total' in the last line only.*skip_footer"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        table(tmp_path, text, kinds={"b": "number"})
    assert "arden.csv" in str(caught.value)


def test_titles_and_totals_are_skipped_if_said(tmp_path: Path) -> None:
    read = table(tmp_path, "Patients of 2024\n\nname,n\nx,1\ny,2\nTotal,3\n", skip=2, skip_footer=1)
    assert column(read, "n") == [1, 2]
    assert read.lines.tolist() == [4, 5]


def test_a_column_without_a_name(tmp_path: Path) -> None:
    assert list(table(tmp_path, ",age,y\n0,61,1\n1,47,0\n").columns) == ["unnamed_0", "age", "y"]


def test_names_for_files_without_a_header(tmp_path: Path) -> None:
    names = ["age", "sex", "y"]
    assert column(table(tmp_path, "61,f,1\n", names=names), "sex") == ["f"]
    own = table(tmp_path, "Sex,y,AGE\nf,1,61\n", names=names)  # this file has a header after all
    assert column(own, "age") == [61]
    assert column(own, "sex") == ["f"]
    with pytest.raises(DataError, match=r"arden\.csv, line 1: this looks like a header \(AGE, sex, outcome\)"):
        table(tmp_path, "AGE,sex,outcome\n61,f,1\n", names=names)
    assert column(table(tmp_path, "AGE,sex,outcome\n61,f,1\n", names=names, header=True), "y") == [1]
    with pytest.raises(DataError, match=r"line 1: 2 columns and 3 names"):
        table(tmp_path, "61,f\n", names=names)


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "arden.csv.gz"
    path.write_bytes(gzip.compress(b"a;b\r\n1,5;2\r\n"))
    assert read_table(path).columns["a"].tolist() == [1.5]


def test_offsets_weights_and_several_targets(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,w,log_t,a,b\n1,2,0.5,3,4\n2,1,0.25,5,6\n")
    data = load(tmp_path / "t.csv", target=["a", "b"], weight="w", offset="log_t")
    assert data.feature_names == ("x",)
    assert data.y.tolist() == [[3, 4], [5, 6]]
    assert data.target_names == ("a", "b")
    assert (data.sample_weight.tolist(), data.offset.tolist()) == ([2, 1], [0.5, 0.25])
    (tmp_path / "t.csv").write_text("x,w,y\n1,2,0\n2,,1\n")
    with pytest.raises(DataError, match=r"t\.csv, line 3, column w: missing or infinite, and weight is"):
        load(tmp_path / "t.csv", target="y", weight="w")


def test_several_chunks(tmp_path: Path) -> None:
    rows = "".join(f"{i / 8},{i % 3}\n" for i in range(60_000))
    read = table(tmp_path, f"a,b\n{rows}")
    assert read.columns["a"][-1] == (60_000 - 1) / 8
    assert math.fsum(read.columns["b"]) == 60_000
