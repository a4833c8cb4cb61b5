"""`fedsolve predict`: what it writes is what the model says."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs

from .conftest import Command


@pytest.fixture
def trained(command: Command, run_file: Callable[..., Path]) -> fs.LinearModel:
    assert command("run", run_file(), "--output", "out").status == 0
    return fs.load_model("out/model.npz")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The data as a table: features in another order, a column of names, the truth in words, and gaps."""
    data = fs.data.load("breast_cancer")
    assert data.feature_names is not None
    order = np.arange(30)[::-1]
    path = tmp_path / "new.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *(data.feature_names[j] for j in order), "diagnosis"])
        for i, (x, y) in enumerate(zip(data.X[:50], data.y[:50], strict=True)):
            cells = ["" if (i, j) == (3, 4) else repr(float(x[j])) for j in order]
            writer.writerow([f"p{i}", *cells, ("malignant", "benign")[y]])
    return path


def _expected(model: fs.LinearModel) -> tuple[list[str], np.ndarray]:
    X = fs.data.load("breast_cancer").X[:50].copy()
    X[3, 4] = np.nan
    return model.predict(X).tolist(), model.predict_proba(X)[:, 1]


def test_predictions_are_the_models(command: Command, trained: fs.LinearModel, table: Path) -> None:
    classes, probabilities = _expected(trained)
    for model in ("out", "out/model.npz"):
        result = command("predict", model, table, "--target", "diagnosis", "--json").json
        assert result["predictions"] == classes
        assert result["probabilities"] == probabilities.tolist()
        assert result["score"] > 0.9


def test_csv_out(command: Command, trained: fs.LinearModel, table: Path, tmp_path: Path) -> None:
    classes, probabilities = _expected(trained)
    outcome = command("predict", "out", table, "--output", "p.csv")
    assert outcome.status == 0
    assert "50 predictions" in outcome.out
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == classes
    assert [float(row["probability"]) for row in rows] == probabilities.tolist()
    assert "--force" in command("predict", "out", table, "--output", "p.csv").sentence
    assert command("predict", "out", table).out == (tmp_path / "p.csv").read_text()


def test_a_model_by_itself_counts_columns(command: Command, trained: fs.LinearModel, tmp_path: Path) -> None:
    trained.save(tmp_path / "alone.npz")  # without a summary beside it, only the order of the columns counts
    X = fs.data.load("breast_cancer").X[:5]
    np.savetxt(tmp_path / "plain.csv", X, delimiter=",", fmt="%.17g")
    assert command("predict", "alone.npz", "plain.csv", "--json").json["predictions"] == trained.predict(X).tolist()
    np.savetxt(tmp_path / "wide.csv", np.column_stack([X, X]), delimiter=",", fmt="%.17g")
    outcome = command("predict", "alone.npz", "wide.csv")
    assert outcome.status == 2
    assert "the model takes 30" in outcome.sentence


def test_a_data_set_by_name(command: Command, trained: fs.LinearModel) -> None:
    assert command("predict", "out", "breast_cancer", "--json").json["score"] > 0.95


def test_wrong_inputs(command: Command, trained: fs.LinearModel, table: Path) -> None:
    assert "no model file" in command("predict", "absent.npz", table).sentence
    assert "not a fedsolve model" in command("predict", table, table).sentence
    assert "no such file" in command("predict", "out", "absent.csv").sentence
    assert "no column 'x'" in command("predict", "out", table, "--target", "x").sentence
    outcome = command("predict", "out", "absent.csv", "--json")
    assert outcome.status == 2
    assert outcome.json["status"] == "error"


def test_a_regression_on_classes_is_scored_by_numbers(command: Command, table: Path, tmp_path: Path) -> None:
    data = fs.data.load("breast_cancer")
    clients = fs.data.partition(data.X, data.y, clients=3, feature_names=data.feature_names)
    fs.run(fs.Newton(fs.Squared(l2=0.1)), clients).model.save(tmp_path / "line.npz")
    result = command("predict", "line.npz", "breast_cancer", "--json").json
    residual = fs.load_model(tmp_path / "line.npz").predict(data.X) - data.y
    assert result["score"] == pytest.approx(1 - np.mean(residual**2) / np.var(data.y))
    whole = tmp_path / "whole.csv"
    whole.write_text("".join(line for i, line in enumerate(table.read_text().splitlines(keepends=True)) if i != 4))
    outcome = command("predict", "line.npz", whole, "--target", "diagnosis", "--drop", "patient")
    assert outcome.status == 2
    assert "the targets are text" in outcome.err


@pytest.fixture
def small(tmp_path: Path) -> fs.LinearModel:
    """A model of the columns a, b, c and age, by itself in small.npz."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    client = fs.Client("one", X, X @ [1.0, 2.0, 3.0, 4.0], feature_names=["a", "b", "c", "age"])
    model = fs.run(fs.Newton(fs.Squared()), [client]).model
    model.save(tmp_path / "small.npz")
    return model  # type: ignore[no-any-return]


def test_columns_are_found_by_name(command: Command, small: fs.LinearModel, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,age,c,b,a\n7,4,3,2,1\n")
    found = command("predict", "small.npz", "new.csv", "--json").json["predictions"]
    assert found == pytest.approx([30.0])
    (tmp_path / "plain.csv").write_text("1,2,3,4\n")
    assert command("predict", "small.npz", "plain.csv", "--json").json["predictions"] == pytest.approx([30.0])


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("age,c,b,A", "no column 'a' (is it 'A'?)"),
        ("id,a,b,c", "no column 'age'"),
        ("id,a,b", "no column 'c', 'age'"),
        ("p,q,r,s", "no column 'a', 'b', 'c', 'age'"),
    ],
)
def test_a_column_that_is_missing_is_named(
    command: Command, small: fs.LinearModel, tmp_path: Path, header: str, said: str
) -> None:
    (tmp_path / "new.csv").write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    outcome = command("predict", "small.npz", "new.csv")
    assert outcome.status == 2
    assert said in outcome.sentence
    assert header.replace(",", ", ") in outcome.sentence


def test_a_model_without_names_counts_the_columns_of_a_header(command: Command, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[0, 0] = np.nan
    client = fs.Client("one", X, X[:, 1])
    model = fs.run(fs.Newton(fs.Squared(l2=0.1)), [client], preprocess=fs.data.Preprocess()).model
    model.save(tmp_path / "nameless.npz")
    (tmp_path / "new.csv").write_text("p,q\n1,2\n")
    found = command("predict", "nameless.npz", "new.csv", "--json").json["predictions"]
    assert found == model.predict(np.array([[1.0, 2.0]])).tolist()


# ── ids ──


def test_ids_are_carried_through_as_they_are_written(command: Command, small: fs.LinearModel, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,age,c,b,a,ward\n007,4,3,2,1,=A1\n1e5,0,0,0,1,\n")
    outcome = command("predict", "small.npz", "new.csv", "--id", "ward", "--id", "id")
    rows = list(csv.reader(outcome.out.splitlines()))
    assert rows[0] == ["ward", "id", "prediction"]
    assert [row[:2] for row in rows[1:]] == [["'=A1", "007"], ["", "1e5"]]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([30.0, 1.0])
    found = command("predict", "small.npz", "new.csv", "--id", "id", "--json").json
    assert found["ids"] == {"id": ["007", "1e5"]}
    assert "ids" not in command("predict", "small.npz", "new.csv", "--json").json


def test_an_id_is_no_feature(command: Command, tmp_path: Path) -> None:
    """A model without names takes columns by place, without the ids."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = fs.run(fs.Newton(fs.Squared(l2=0.1)), [fs.Client("one", X, X[:, 1])]).model
    model.save(tmp_path / "nameless.npz")
    (tmp_path / "new.csv").write_text("p,number,q\n1,77,2\n")
    found = command("predict", "nameless.npz", "new.csv", "--id", "number", "--json").json
    assert found["predictions"] == model.predict(np.array([[1.0, 2.0]])).tolist()
    assert found["ids"] == {"number": ["77"]}


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        ("a,b,c,age\n1,1,1,1\n", "id", "no column 'id' for --id; expected one of a, b, c, age"),
        ("id,id,a,b,c,age\n1,1,1,1,1,1\n", "id", "id"),
    ],
)
def test_ids_that_are_not_there(
    command: Command, small: fs.LinearModel, tmp_path: Path, text: str, given: str, words: str
) -> None:
    (tmp_path / "new.csv").write_text(text)
    outcome = command("predict", "small.npz", "new.csv", "--id", given)
    assert outcome.status == 2
    assert words in outcome.sentence


def test_ids_are_of_files(command: Command, trained: fs.LinearModel) -> None:
    assert "is no file" in command("predict", "out", "breast_cancer", "--id", "id").sentence


# ── a run that diverged ──


@pytest.fixture
def diverged(command: Command, run_file: Callable[..., Path]) -> Path:
    file = run_file(('name = "Newton"', 'name = "FedAvg"\nlocal = { steps = 5, step_size = 1e6 }'))
    outcome = command("run", file, "--output", "bad", "--json")
    assert outcome.json["status"] == "diverged"
    return Path("bad")


def test_the_model_of_a_run_that_diverged_needs_a_word(command: Command, diverged: Path, table: Path) -> None:
    for model in (diverged, diverged / "model.npz"):
        outcome = command("predict", model, table)
        assert outcome.status == 2
        assert "diverged" in outcome.sentence
        assert "--anyway" in outcome.sentence
    outcome = command("predict", diverged, table, "--anyway")
    assert outcome.status == 0
    assert "diverged" in outcome.err
    assert outcome.out.count("\n") == 51


def test_a_model_remembers_how_its_run_ended(command: Command, diverged: Path, tmp_path: Path) -> None:
    with pytest.warns(fs.errors.DivergedModelWarning, match="diverged"):
        model = fs.load_model(diverged / "model.npz")
    assert model.run_status == "diverged"
    model.with_names(tuple(f"x{i}" for i in range(30))).save(tmp_path / "again.npz")
    with pytest.warns(fs.errors.DivergedModelWarning, match="diverged"):
        assert fs.load_model(tmp_path / "again.npz").run_status == "diverged"


def test_an_older_model_file_is_judged_by_what_lies_beside_it(
    command: Command, diverged: Path, table: Path, tmp_path: Path
) -> None:
    with pytest.warns(fs.errors.DivergedModelWarning):
        model = fs.load_model(diverged / "model.npz")
    model.left_by(None).save(diverged / "model.npz")  # as an earlier version wrote it
    assert fs.load_model(diverged / "model.npz").run_status is None
    assert "--anyway" in command("predict", diverged, table).sentence
    (diverged / "summary.json").unlink()
    assert command("predict", diverged, table, "--drop", "patient").status == 0


@pytest.mark.parametrize(("rounds", "status"), [(1, "rounds"), (50, "converged")])
def test_other_endings_need_no_word(tmp_path: Path, rounds: int, status: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    clients = [fs.Client("one", X, (X[:, 0] + X[:, 1] > 0.1).astype(float))]
    run = fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients, rounds=rounds)
    run.model.save(tmp_path / "m.npz")
    assert fs.load_model(tmp_path / "m.npz").run_status == run.model.run_status == status
