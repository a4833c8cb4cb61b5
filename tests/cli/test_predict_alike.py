"""`fedsolve predict` reads a file as the run has read its own, and says what is not as it was there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data.read_alike import FilesRead
from fedsolve.wire import archives

from ..extras import optional
from .conftest import Command

RNG = np.random.default_rng(3)
ROWS = [(round(float(age), 1), round(float(pressure))) for age, pressure in RNG.normal((60, 130), (9, 15), (60, 2))]
KINDS = ["never", "former", "current"]
RUN = """
[data]
files = "*.csv"
target = "ill"
{data}
{sites}
[[preprocess.schema]]
name = "age"
[[preprocess.schema]]
name = "pressure"
{numbers}
[[preprocess.schema]]
name = "smoker"
categories = ["never", "former", "current"]
drop_first = true
{smoker}
[algorithm]
name = "Newton"
loss = {{ name = "{loss}", l2 = 0.01, intercept = "free" }}
[output]
figures = false
"""
Fit = Callable[..., fs.LinearModel]


def write(path: str, rows: list[tuple[object, ...]], head: str = "age,pressure,smoker,ill", mark: str = ",") -> None:
    lines = [head.replace(",", mark), *(mark.join(map(str, row)) for row in rows)]
    Path(path).write_text("\n".join(lines) + "\n")


def cells(seed: int, missing: object = -9) -> list[tuple[object, ...]]:
    """Thirty rows of a site, the pressure missing in the first three."""
    rows = ROWS[30 * seed : 30 * seed + 30]
    return [
        (age, missing if i < 3 else bp, KINDS[i % 3], int(age + 5 * (i % 3) > 64)) for i, (age, bp) in enumerate(rows)
    ]


@pytest.fixture
def fit(command: Command, tmp_path: Path) -> Fit:
    """Fit to the files in the folder, in which new.csv is not yet."""

    def run(
        data: str = "na = { pressure = [-9] }",
        sites: str = "",
        numbers: str = "",
        smoker: str = 'unseen = "zeros"',
        loss: str = "Logistic",
    ) -> fs.LinearModel:
        text = RUN.format(data=data, sites=sites, numbers=numbers, smoker=smoker, loss=loss)
        Path("run.toml").write_text(text)
        outcome = command("run", "run.toml", "--output", "out")
        assert outcome.status == 0, outcome.err
        return fs.load_model("out/model.npz")  # type: ignore[no-any-return]

    write("arden.csv", cells(0))
    write("bryn.csv", cells(1))
    return run


def probabilities(model: fs.LinearModel, rows: list[tuple[object, ...]]) -> list[float]:
    """By hand: what the model says of rows whose missing cells are NaN."""
    return model.predict_proba(np.array([row[:3] for row in rows], dtype=object))[:, 1].tolist()  # type: ignore[no-any-return]


def test_markers_of_the_run_hold_for_new_files(command: Command, fit: Fit) -> None:
    model = fit()
    assert "leave --site out" in command("predict", "out", "arden.csv", "--site", "arden").sentence
    assert model.files_read is not None
    assert model.files_read.every.na == {"pressure": [-9]}
    write("new.csv", [(50, -9, "never"), (50, 140, "never"), (70, -9, "current")], "age,pressure,smoker")
    found = command("predict", "out", "new.csv", "--json").json
    by_hand = [(50, np.nan, "never"), (50, 140, "never"), (70, np.nan, "current")]
    assert found["probabilities"] == pytest.approx(probabilities(model, by_hand), rel=1e-14)
    mean = np.mean([row[1] for row in cells(0)[3:] + cells(1)[3:]])
    said = f"new.csv: pressure is missing in 2 of 3 rows (66.7%; lines 2, 4); {mean:.4g} stands for it, the mean of"
    assert found["notes"] == [f"{said} the run"]
    number = command("predict", "out", "new.csv", "--json", "--na", "pressure=").json  # said to be a number here
    by_hand[0] = (50, -9.0, "never")
    assert number["probabilities"][0] == pytest.approx(probabilities(model, by_hand)[0], rel=1e-14)


def test_a_code_that_the_run_did_not_have_is_rejected(command: Command, fit: Fit, tmp_path: Path) -> None:
    for site, seed in (("arden", 0), ("bryn", 1)):
        write(f"{site}.csv", cells(seed, 120))
    model = fit("")
    write("new.csv", [(50, -9, "never"), (50, 140, "former"), (61, 130, "never")], "age,pressure,smoker")
    said = "new.csv, line 2, column pressure: -9, in 1 of 3 rows, where all others are 130 … 140, looks like a code"
    outcome = command("predict", "out", "new.csv")
    assert outcome.status == 2
    assert said in outcome.sentence
    assert "--na pressure=-9 if it is, or --na pressure= if it is a number" in outcome.sentence
    model.read_as(None).save(tmp_path / "old.npz")  # as an earlier version saved it
    assert fs.load_model("old.npz").files_read is None
    assert said in command("predict", "old.npz", "new.csv").sentence
    assert command("predict", "old.npz", "new.csv", "--na", "pressure=-9", "--json").json["rows"] == 3


def test_what_was_declared_for_one_site(command: Command, fit: Fit) -> None:
    write("bryn.csv", cells(1, 0), "AGE,pressure,smoker,ill")
    sites = '[data.sites.bryn]\nna = { pressure = [0] }\nrename = { "AGE" = "age" }\n'
    model = fit(sites=sites)
    new = [(50, 0, "never"), (61, 140, "former")]
    write("new.csv", new, "AGE,pressure,smoker")
    outcome = command("predict", "out", "new.csv")
    assert outcome.status == 2
    assert "0, which marked a missing value at bryn in the run; say --site bryn" in outcome.sentence
    found = command("predict", "out", "new.csv", "--site", "bryn", "--json").json
    expected = probabilities(model, [(50, np.nan, "never"), (61, 140, "former")])
    assert found["probabilities"] == pytest.approx(expected, rel=1e-14)
    outcome = command("predict", "out", "new.csv", "--na", "pressure=0")
    assert "at bryn the run called 'AGE' 'age', so say --site bryn" in outcome.sentence
    write("new.csv", new, "age,pressure,smoker")  # of bryn, and renamed already
    assert (
        command("predict", "out", "new.csv", "--site", "bryn", "--json").json["probabilities"] == found["probabilities"]
    )
    assert "bryn" in command("predict", "out", "new.csv", "--site", "arden").sentence


@pytest.mark.parametrize("decimal", [",", "."])
def test_what_a_comma_is_was_declared(command: Command, fit: Fit, decimal: str) -> None:
    other = {",": ".", ".": ","}[decimal]
    for site, seed in (("arden", 0), ("bryn", 1)):
        write(f"{site}.csv", [(str(a).replace(".", decimal), *more) for a, *more in cells(seed)], mark=";")
    model = fit(f'na = {{ pressure = [-9] }}\ndecimal = "{decimal}"\nthousands = "{other}"')
    write("new.csv", [(f"1{decimal}234", f"1{other}130", "never")], "age,pressure,smoker", mark=";")
    found = command("predict", "out", "new.csv", "--json").json["probabilities"]
    assert found == pytest.approx(probabilities(model, [(1.234, 1130.0, "never")]), rel=1e-12)


def test_names_and_lines_above_the_table(command: Command, fit: Fit) -> None:
    for site, seed in (("arden", 0), ("bryn", 1)):
        write(f"{site}.csv", cells(seed), head=f"Export of {site}")
    data = 'na = { pressure = [-9] }\nskip = 1\nnames = ["age", "pressure", "smoker", "ill"]'
    model = fit(data)
    write("new.csv", [(50, -9, "never", "?"), (61, 140, "former", "?")], head="Export")
    found = command("predict", "out", "new.csv", "--json").json["probabilities"]
    assert found == pytest.approx(probabilities(model, [(50, np.nan, "never"), (61, 140, "former")]), rel=1e-14)


def test_the_offset_of_the_run_is_added(command: Command, fit: Fit) -> None:
    for site, seed in (("arden", 0), ("bryn", 1)):
        rows = [(*row, round(0.1 * i - 1, 2)) for i, row in enumerate(cells(seed))]
        write(f"{site}.csv", rows, "age,pressure,smoker,ill,log_years")
    for loss in ("Poisson", "Logistic"):
        model = fit('na = { pressure = [-9] }\noffset = "log_years"', loss=loss)
        assert model.files_read is not None
        assert model.files_read.offset == "log_years"
        write("new.csv", [(50, -9, "never", 0.7), (61, 140, "former", -0.2)], "age,pressure,smoker,log_years")
        X = np.array([(50, np.nan, "never"), (61, 140, "former")], dtype=object)
        found = command("predict", "out", "new.csv", "--json").json
        eta = model.decision_function(X) + np.array([0.7, -0.2])
        if loss == "Poisson":
            assert found["predictions"] == pytest.approx(np.exp(eta), rel=1e-14)
        else:
            assert found["probabilities"] == pytest.approx(1 / (1 + np.exp(-eta)), rel=1e-12)
        Path("out/new.csv").write_text("age,pressure,smoker\n50,140,never\n")
        outcome = command("predict", "out", "out/new.csv")
        assert "no column 'log_years', the offset of the run; add it, or say --no-offset" in outcome.sentence
        assert command("predict", "out", "out/new.csv", "--no-offset").status == 0
        Path("new.csv").unlink()
        for one in Path("out").iterdir():
            one.unlink()


def test_the_accuracy_of_a_run_takes_the_offset(command: Command, fit: Fit) -> None:
    rows = [(*row, 9 * (-1) ** i) for i, row in enumerate(cells(0))]  # the offset decides every row
    rows = [(*row[:3], int(row[4] > 0), row[4]) for row in rows]
    for site in ("arden", "bryn"):
        write(f"{site}.csv", rows, "age,pressure,smoker,ill,o")
    fit('na = { pressure = [-9] }\noffset = "o"')
    assert json.loads(Path("out/summary.json").read_text())["scores"]["train"] == 1.0


def test_one_table_with_a_column_of_sites(command: Command, fit: Fit) -> None:
    rows = [("ab"[i % 2], *row) for i, row in enumerate(cells(0) + cells(1))]
    Path("arden.csv").unlink()
    Path("bryn.csv").unlink()
    write("all.txt.csv", rows, "site,age,pressure,smoker,ill")
    text = RUN.format(
        data='na = { pressure = [-9] }\nsplit_by = "site"', sites="", numbers="", smoker="", loss="Logistic"
    )
    Path("run.toml").write_text(text.replace('files = "*.csv"', 'file = "all.txt.csv"'))
    assert command("run", "run.toml", "--output", "out").status == 0
    write("new.csv", [(50, -9, "never")], "age,pressure,smoker")
    found = command("predict", "out", "new.csv", "--json").json["probabilities"]
    expected = probabilities(fs.load_model("out/model.npz"), [(50, np.nan, "never")])
    assert found == pytest.approx(expected, rel=1e-14)


def test_markers_hold_in_parquet_files(command: Command, fit: Fit) -> None:
    arrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    model = fit()
    table = {"smoker": ["never", "former"], "age": [50, 61], "pressure": [-9, 140], "ill": [1, 0]}
    parquet.write_table(arrow.table(table), "new.parquet")
    found = command("predict", "out", "new.parquet", "--target", "ill", "--json").json
    expected = probabilities(model, [(50, np.nan, "never"), (61, 140, "former")])
    assert found["probabilities"] == pytest.approx(expected, rel=1e-14)


def test_how_files_were_read_is_saved_with_every_model(tmp_path: Path) -> None:
    model = fs.LinearModel(np.ones(2), False, "identity", feature_names=("a", "b"))
    own = fs.data.SiteReading(na={"a": [-9, "?"]}, rename={"A": "a"}, absent=["b"])
    read = FilesRead.of(
        {"na": [-9, "x"], "decimal": ",", "target": "y"}, {"one": own, "other": fs.data.SiteReading()}, "o"
    )
    assert list(read.sites) == ["one"]
    model.read_as(read).with_names(("a", "b")).save(tmp_path / "m.npz")
    assert fs.load_model(tmp_path / "m.npz").files_read == read
    text = json.dumps({**json.loads(fs.models.base.to_parts(model)[0]), "files_read": {"every": {"na": {"a": {}}}}})
    (tmp_path / "bad.npz").write_bytes(archives.pack(w=np.ones(2), model=np.array(text)))
    with pytest.raises(fs.errors.DataError, match="does not say how files were read"):
        fs.load_model(tmp_path / "bad.npz")


# ── what the run has never seen ──


def test_categories_that_nobody_had_are_said_by_line(command: Command, fit: Fit) -> None:
    model = fit()
    rows = [(50, 140, "never"), (61, 140, "cigar"), (50, 130, "pipe"), (55, 131, ""), (50, 120, "cigar")]
    write("new.csv", rows, "age,pressure,smoker")
    found = command("predict", "out", "new.csv", "--json").json
    assert found["notes"] == [
        "new.csv, line 3, column smoker: 'cigar' is none of the declared categories ('never', 'former', 'current'), as "
        "in 3 of 5 rows (60.0%; 'pipe' in line 4); they count as 'never', the reference",
        "new.csv: smoker is missing in 1 of 5 rows (20.0%; line 5); they count as 'never', the reference",
    ]
    expected = probabilities(model, [(61, 140, "never")])
    assert found["probabilities"][1] == pytest.approx(expected[0], rel=1e-14)
    assert "'cigar' is none of" in command("predict", "out", "new.csv").err


@pytest.mark.parametrize("cell", ["cigar", ""])
def test_categories_that_are_to_be_rejected(command: Command, fit: Fit, cell: str) -> None:
    fit(smoker='unseen = "error"')
    write("new.csv", [(50, 140, "never"), (61, 140, cell)], "age,pressure,smoker")
    outcome = command("predict", "out", "new.csv")
    assert outcome.status == 2
    said = "'cigar' is none of" if cell else "the cell is missing, and so in none of"
    assert f"new.csv, line 3, column smoker: {said} the declared categories" in outcome.sentence
    write("corrie.csv", [*cells(0)[:5], (60, 130, cell, 1)])  # and so does a run
    Path("new.csv").unlink()
    outcome = command("run", "run.toml", "--output", "again")
    assert f"corrie.csv, line 7, column smoker: {said} the declared categories" in outcome.sentence


@pytest.mark.parametrize(
    ("smoker", "said"),
    [
        ('unseen = "other"', "they count as the category 'other'"),
        ('unseen = "error"\nimpute = "mode"', "stands for it, the most frequent category of the run"),
        ('unseen = "zeros"\nimpute = "former"', "'former' stands for it, as the run declared"),
        ('unseen = "zeros"\nindicator = true', "they count as missing"),
    ],
)
def test_what_stands_for_a_missing_category(command: Command, fit: Fit, smoker: str, said: str) -> None:
    if "indicator" in smoker or "other" in smoker:  # else nobody has such a cell, and there is nothing to learn of it
        write("corrie.csv", [(*row[:2], "" if i < 4 else row[2], row[3]) for i, row in enumerate(cells(0))])
    fit(smoker=smoker)
    write("new.csv", [(50, 140, "never"), (61, 140, "")], "age,pressure,smoker")
    assert said in command("predict", "out", "new.csv", "--json").json["notes"][0]


def test_rows_without_a_value_that_the_model_needs(command: Command, fit: Fit) -> None:
    model = fit(numbers='impute = "complete"')
    rows = [
        ("a", 50, -9, "never", 1),
        ("b", 61, 140, "former", 0),
        ("c", 50, "", "never", 1),
        ("d", 70, 120, "never", ""),
    ]
    write("new.csv", rows, "id,age,pressure,smoker,ill")
    outcome = command("predict", "out", "new.csv", "--id", "id", "--output", "p.csv", "--target", "ill")
    assert outcome.status == 0
    lines = [line.split(",") for line in Path("p.csv").read_text().splitlines()]
    assert [line[0] for line in lines] == ["id", "a", "b", "c", "d"]
    assert [line[1:] for line in lines if line[0] in "ac"] == [["", ""], ["", ""]]
    expected = probabilities(model, [(61, 140, "former"), (70, 120, "never")])
    assert [float(line[2]) for line in lines if line[0] in "bd"] == pytest.approx(expected, rel=1e-14)
    assert "2 of 4 rows lack a value that the model needs" in outcome.err
    assert "the target is missing in 1 of 2 rows, which are not judged" in outcome.err
    assert outcome.out.startswith("2 predictions, accuracy")
    found = command("predict", "out", "new.csv", "--json").json
    assert (found["rows"], found["predictions"][0], found["probabilities"][2]) == (4, None, None)
    write("none.csv", [(50, -9, "never")], "age,pressure,smoker")
    assert "nothing is left to predict" in command("predict", "out", "none.csv").sentence


def test_a_file_without_a_header(command: Command, fit: Fit) -> None:
    model = fit()
    Path("new.csv").write_text("50,-9,never\n61,140,former\n")
    found = command("predict", "out", "new.csv", "--json").json
    expected = probabilities(model, [(50, np.nan, "never"), (61, 140, "former")])
    assert found["probabilities"] == pytest.approx(expected, rel=1e-14)
    assert "no header; its columns are taken for age, pressure, smoker, in this order" in found["notes"][0]
    Path("new.csv").write_text("p1,50,130,never\np2,61,140,former\n")
    outcome = command("predict", "out", "new.csv")
    assert "no header. It has 4 columns, and the model takes 3 (age, pressure, smoker)" in outcome.sentence
