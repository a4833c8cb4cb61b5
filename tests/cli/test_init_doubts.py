"""What `fedsolve init` says of columns that are no quantities, and of targets that are not written alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Command
from .test_init import made, notes, rows_of, sites, tables, text_of

__all__ = ["sites"]

Sites = dict[str, dict[str, list[str]]]


def with_column(sites: Sites, cell: Callable[[int], str]) -> None:
    for site, columns in sites.items():
        columns["v"] = [cell(place) for place in range(60)]
        Path(f"{site}.csv").write_text(text_of(columns))


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (lambda i: f"2021{i % 12 + 1:02d}{i % 28 + 1:02d}", "it holds dates or times"),
        (lambda i: f"{i % 24}:{i % 60:02d}", "it holds dates or times"),
        (lambda i: str(12345678901234567890 + i % 7), "its whole numbers have more digits than are kept"),
    ],
)
def test_columns_that_are_no_quantities_are_dropped(
    command: Command, sites: Sites, cell: Callable[[int], str], why: str
) -> None:
    with_column(sites, cell)
    outcome = made(command)
    assert f"v is dropped: {why}" in notes(outcome)
    assert "v" in outcome.json["drop"]


@pytest.mark.parametrize("shape", ["{}%", "€ {}", "({})", "<{}", "{} mg/dl"])
def test_numbers_with_something_beside_them(command: Command, sites: Sites, shape: str) -> None:
    with_column(sites, lambda i: shape.format(i) if i % 2 else str(i))
    outcome = command("init", "arden.csv", "bryn.csv", "--target", "ill")
    assert outcome.status == 2
    assert f"arden.csv, line 3, column v: {shape.format(1)!r} is a number with something beside it" in outcome.sentence
    assert made(command, "--drop", "v").status == 0


def test_few_such_texts_are_categories(command: Command, sites: Sites) -> None:
    with_column(sites, lambda i: ["<5", "5-10", ">10"][i % 3])
    schema = made(command).json["columns"]
    assert next(one for one in schema if one["name"] == "v")["categories"] == ["5-10", "<5", ">10"]


def test_labels_that_differ_in_case(command: Command, sites: Sites) -> None:
    sites["bryn"]["ill"] = [one.title() for one in sites["bryn"]["ill"]]
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    outcome = command("init", "arden.csv", "bryn.csv", "--target", "ill")
    assert outcome.status == 2
    label = sites["bryn"]["ill"][0]
    assert "bryn.csv, line " in outcome.sentence
    assert f"the target is {label!r} here and {label.lower()!r} elsewhere" in outcome.sentence


def test_a_label_of_few_rows_is_mentioned(command: Command, sites: Sites) -> None:
    sites["bryn"]["ill"][4] = "yse"
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    assert "bryn.csv, line 6, column ill: the target ill is 'yse' in fewer than 5 rows" in notes(made(command))
    assert "yse" not in notes(made(command, "--positive", "yes", "--force"))


def test_targets_of_two_kinds(command: Command, sites: Sites) -> None:
    sites["bryn"]["ill"] = ["1" if one == "yes" else "0" for one in rows_of(1)["ill"]]
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    sentence = command("init", "arden.csv", "bryn.csv", "--target", "ill").sentence
    assert "column ill holds texts" in sentence
    assert "--drop" not in sentence  # a target cannot be left out


def test_a_penalty_is_said(command: Command, sites: Sites) -> None:
    assert "[summary]" in Path(made(command).json["file"]).read_text()
    sites["bryn"]["smoker"][:2] = ["pipe", "pipe"]
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    assert "l2 = 0.01, is proposed, because fewer than 5 rows of all sites have smoker=pipe" in notes(
        made(command, "--force")
    )
    assert "summary" not in tables()
