"""Columns and classes of files by name: schemas, predictions, declared classes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.file_formats import read_csv
from fedsolve.errors import DataError

from .conftest import Command

RNG = np.random.default_rng(3)
AGE, DOSE = RNG.normal(50, 9, 80), RNG.normal(1, 0.1, 80)
SEX = np.where(RNG.random(80) < 0.5, "f", "m")
OUTCOME = np.where(AGE / 9 + (SEX == "f") + RNG.normal(size=80) > 6, "ill", "well")
SITE = np.repeat(["north", "south"], 40)
TABLE = {"age": AGE, "sex": SEX, "dose": DOSE, "site": SITE, "outcome": OUTCOME}

RUN = """
[data]
file = "own.csv"
target = "outcome"
split_by = "site"

[[preprocess.schema]]
name = "age"
[[preprocess.schema]]
name = "sex"
categories = ["f", "m"]
[[preprocess.schema]]
name = "dose"

[algorithm]
name = "Newton"
loss = { name = "Logistic", l2 = 0.01, intercept = "free" }

[output]
figures = false
"""


def write(path: Path, columns: Sequence[str], header: bool = True) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(columns)
        writer.writerows(zip(*(TABLE[name].tolist() for name in columns), strict=True))


@pytest.fixture
def fitted(command: Command, tmp_path: Path) -> Command:
    write(tmp_path / "own.csv", list(TABLE))
    (tmp_path / "run.toml").write_text(RUN)
    assert command("run", "run.toml", "--output", "out", "--json").json["status"] == "converged"
    return command


def test_a_schema_in_another_order(fitted: Command, tmp_path: Path) -> None:
    expected = fitted("predict", "out", "own.csv", "--target", "outcome", "--json").json
    write(tmp_path / "own.csv", ["outcome", "dose", "site", "sex", "age"])
    found = fitted("run", "run.toml", "--output", "turned", "--json").json
    assert found["status"] == "converged"
    before, after = (fs.load_model(tmp_path / name / "model.npz") for name in ("out", "turned"))
    assert before.coefficients() == after.coefficients()
    assert found["scores"]["train"] == expected["score"]  # judged on the same columns
    again = fitted("predict", "turned", "own.csv", "--target", "outcome", "--json").json
    assert again["predictions"] == expected["predictions"]
    assert set(again["predictions"]) == {"ill", "well"}


def test_a_schema_of_other_columns(fitted: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN.replace('name = "dose"', 'name = "dosis"'))
    outcome = fitted("run", "run.toml", "--output", "other")
    assert outcome.status == 2
    assert "lacks 'dosis' (is it 'dose'?) and has 'dose', which is not expected" in outcome.sentence


def test_a_table_without_names_goes_by_place(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "own.csv", list(TABLE), header=False)
    (tmp_path / "run.toml").write_text(
        RUN.replace('"outcome"', "4").replace('"site"', "3").replace("split_by", "header = false\nsplit_by")
    )
    assert command("run", "run.toml", "--output", "out", "--json").json["status"] == "converged"


def test_predicting_data_with_other_names(fitted: Command, tmp_path: Path) -> None:
    outcome = fitted("predict", "out", "iris")
    assert outcome.status == 2
    assert "no column 'age'" in outcome.sentence
    write(tmp_path / "new.csv", ["age", "sex"])
    assert "no column 'dose'" in fitted("predict", "out", "new.csv").sentence


def test_what_differs_is_said_however_wide_the_file(command: Command, tmp_path: Path) -> None:
    wide = [f"column {i}" for i in range(30)]
    y = RNG.integers(0, 2, 40)
    X = RNG.normal(size=(40, 30))
    client = fs.Client("a", X, y, feature_names=wide)
    fs.run(fs.Newton(fs.Logistic(l2=0.1)), [client]).model.save(tmp_path / "model.npz")
    (tmp_path / "new.csv").write_text(",".join([*wide[:-1], "another"]) + "\n" + ",".join(["1"] * 30) + "\n")
    said = command("predict", "model.npz", "new.csv").sentence
    assert "'column 29'" in said
    assert "another" in said
    assert "column 3" not in said.replace("column 29", "")


def test_declared_classes(command: Command, tmp_path: Path) -> None:
    """Each site numbers its own file: the same label is the same number, also where a class is missing."""
    for site, labels in (("a", ["yes", "no"]), ("b", ["yes", "yes"])):
        (tmp_path / f"{site}.csv").write_text("x,y\n1," + labels[0] + "\n2," + labels[1] + "\n")
    a, b = (read_csv(tmp_path / f"{site}.csv", target="y", classes=("no", "yes")) for site in "ab")
    assert a.y.tolist() == [1, 0]
    assert b.y.tolist() == [1, 1]
    assert a.target_names == b.target_names == ("no", "yes")
    clients = [fs.Client(name, one.X, one.y, classes=one.target_names) for name, one in (("a", a), ("b", b))]
    assert fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients).model.classes == ("no", "yes")
    with pytest.raises(DataError, match="the label 'yes'"):
        read_csv(tmp_path / "a.csv", target="y", classes=("no", "maybe"))
    for read in ({}, {"target": "y"}):
        own = [read_csv(tmp_path / f"{site}.csv", **read) for site in "ab"]
        numbered = [fs.Client(name, one.X[:], one.y[:]) for name, one in zip("ab", own, strict=True)]
        for transport in ("in_process", "processes"):
            with pytest.raises(DataError, match=r"client 'b' were numbered as \['yes'\].*classes="):
                fs.run(fs.Newton(fs.Logistic(l2=0.1)), numbered, transport=transport)
    alone = read_csv(tmp_path / "b.csv", target="y")  # numbered by itself, "yes" would be 0
    with pytest.raises(DataError, match="two or more"):
        fs.Client("b", alone.X, alone.y, classes=alone.target_names)


def test_classes_in_a_run_file(fitted: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN.replace("split_by", 'classes = ["well", "ill"]\nsplit_by'))
    assert fitted("run", "run.toml", "--output", "turned", "--json").json["status"] == "converged"
    before, after = (fs.load_model(tmp_path / name / "model.npz") for name in ("out", "turned"))
    assert before.classes == ("ill", "well")
    assert after.classes == ("well", "ill")
    assert np.allclose(before.w, -after.w, atol=1e-8)
    (tmp_path / "run.toml").write_text(RUN.replace("split_by", 'classes = ["well", "dead"]\nsplit_by'))
    assert "'ill'" in fitted("run", "run.toml", "--output", "more").sentence


def test_a_column_twice_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("a,b,a,y\n1,2,3,0\n4,5,6,1\n")
    with pytest.raises(DataError, match="column 'a' given more than once"):
        fs.data.load(tmp_path / "own.csv")
