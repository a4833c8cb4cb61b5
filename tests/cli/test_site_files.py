"""Run files with one file per site, and the ways in which they and the files can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.runfiles.portable import from_anywhere

from .conftest import Command

RUN = """
[data]
files = {files}
target = "ill"
{data}
[[preprocess.schema]]
name = "age"
[[preprocess.schema]]
name = "sex"
categories = ["f", "m"]
drop_first = true
unseen = "zeros"

[algorithm]
name = "Newton"
loss = {{ name = "Logistic", l2 = 0.01, intercept = "free" }}

[output]
figures = false
{more}
"""
TABLE = '{ arden = "sites/arden.csv", "st. bryn" = "sites/bryn.csv" }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sites, of which one is of another dialect and order."""
    (tmp_path / "sites").mkdir()
    for site, seed in (("arden", 0), ("bryn", 1)):
        rng = np.random.default_rng(seed)
        age, male = rng.normal(60, 9, 50).round(1), rng.random(50) < 0.5
        ill = np.where((age - 60) / 9 + male + rng.normal(size=50) > 0.4, "yes", "no")
        rows = list(zip(age.tolist(), np.where(male, "m", "f").tolist(), ill.tolist(), strict=True))
        if site == "arden":
            text = "age,sex,ill\n" + "".join(f"{a},{s},{y}\n" for a, s, y in rows)
        else:
            text = "ill;sex;age\n" + "".join(f"{y};{s};{str(a).replace('.', ',')}\n" for a, s, y in rows)
        (tmp_path / "sites" / f"{site}.csv").write_text(text)
    return tmp_path


def write(folder: Path, files: str = TABLE, data: str = "", more: str = "") -> Path:
    path = folder / "run.toml"
    path.write_text(RUN.format(files=files, data=data, more=more))
    return path


def test_a_table_a_pattern_and_a_list(command: Command, folder: Path) -> None:
    found = []
    for number, files in enumerate((TABLE, '"sites/*.csv"', '["sites/arden.csv", "sites/bryn.csv"]')):
        write(folder, files)
        outcome = command("run", "run.toml", "--output", f"out{number}", "--json")
        assert outcome.status == 0, outcome.err
        assert outcome.json["status"] == "converged"
        assert outcome.json["notes"][0] == "bryn.csv: separated by ';', decimal comma"
        assert outcome.err.startswith("bryn.csv: separated by ';', decimal comma\n")
        found.append(fs.load_model(folder / f"out{number}" / "model.npz"))
        assert outcome.json["scores"]["train"] > 0.6
        again = command("run", f"out{number}/config.toml", "--output", f"again{number}", "--json")  # the copy works too
        assert again.status == 0, again.err
    assert np.array_equal(found[0].w, found[1].w)
    assert np.array_equal(found[0].w, found[2].w)
    assert found[0].classes == ("no", "yes")


def test_other_commands_take_sites(command: Command, folder: Path) -> None:
    write(folder, more="[select]\nl2 = [0.01, 0.1]\n")
    assert command("diagnose", "run.toml", "--json").status == 0
    assert command("gain", "run.toml", "--json").status == 0
    selected = command("select", "run.toml", "--output", "chosen", "--json")
    assert selected.status == 0, selected.err
    assert command("run", "chosen/chosen.toml", "--output", "out", "--json").status == 0
    write(folder, more="[evaluation]\n[gain]\nheld_out = 0.2\n")
    judged = command("run", "run.toml", "--output", "judged", "--json")
    assert judged.status == 0, judged.err
    assert judged.json["held_out"] is not None


def test_worker_processes_give_the_same(command: Command, folder: Path) -> None:
    write(folder)
    assert command("run", "run.toml", "--output", "one").status == 0
    write(folder, more='[run]\ntransport = "processes"\nworkers = 2\n')
    assert command("run", "run.toml", "--output", "two").status == 0
    one, two = (fs.load_model(folder / name / "model.npz") for name in ("one", "two"))
    assert np.array_equal(one.w, two.w)


@pytest.mark.parametrize(
    ("files", "data", "more", "message"),
    [
        (TABLE, "", '[partition]\nscheme = "iid"\nclients = 2\n', "data.files has one file for each client, so leave"),
        (TABLE, 'file = "x.csv"', "", "either dataset = a name, or file = a path, or files"),
        (TABLE, 'split_by = "sex"', "", "split_by is for one file or data set"),
        (TABLE, "rows = 5", "", "rows is for one file"),
        (TABLE, "", "[server]\nrows = 5\n", "the server needs a file of its own"),
        (TABLE, "[data.sites.corrie]\nna = [-9]", "", "unknown site 'corrie'"),
        (TABLE, "[data.sites.arden]\nnas = [-9]", "", "nas is not known, did you mean 'na'"),
        (TABLE, "na = { agee = [0] }", "", "unknown column in na 'agee'. Did you mean 'age'?"),
        (TABLE, 'delimiter = ";;"', "", "delimiter is one character"),
        (TABLE, 'decimal = ":"', "", 'decimal is "." or ","'),
        (TABLE, 'drop = ["sexx"]', "", "unknown column to drop 'sexx'"),
        ('"*.parquet"', "", "", "no file matches"),
        ("3", "", "", "data.files must be"),
    ],
)
def test_what_is_wrong_in_the_run_file(
    command: Command, folder: Path, files: str, data: str, more: str, message: str
) -> None:
    write(folder, files, data, more)
    outcome = command("run", "run.toml")
    assert outcome.status == 2
    assert message in outcome.sentence


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age;sex;ill\n6l;f;yes\n50;m;no\n", "sites/bryn.csv, line 2, column age: '6l' is not a number"),
        ("age,sex,ill\n-9,f,yes\n50,m,no\n61,m,no\n", "sites/bryn.csv, line 2, column age: -9, in 1 of 3 rows"),
        ("age,ill\n61,yes\n", "sites/bryn.csv, line 1: it lacks 'sex'"),
        ("age,sex,ill\n61,f,yes\n50,m,\n", "sites/bryn.csv, line 3, column ill: the target is missing"),
        ("age,sex,ill\n61,f,yes\n50,m,maybe\n", "the target ill has 3 different values ('maybe', 'no', 'yes')"),
        ("age,sex\n61,f\n", "sites/bryn.csv, line 1: no column 'ill'"),
        ("age,sex,ill\n61,f,yes\n50,m\n", "sites/bryn.csv: line 3 has 2 cells"),
        ('pop;sex;ill\n"1,234";f;yes\n', "sites/bryn.csv, line 2, column pop: '1,234', which is 1234 or 1.234"),
    ],
)
def test_what_is_wrong_in_a_file(command: Command, folder: Path, content: str, message: str) -> None:
    (folder / "sites" / "bryn.csv").write_text(content)
    write(folder)
    outcome = command("run", "run.toml")
    assert outcome.status == 2
    assert message in outcome.sentence


def test_a_separator_that_is_declared_wrongly(command: Command, folder: Path) -> None:
    write(folder, data='delimiter = ","')
    assert "bryn.csv" in command("run", "run.toml").sentence
    write(folder, data='[data.sites."st. bryn"]\ndelimiter = ";"\ndecimal = ","\n')
    assert command("run", "run.toml", "--output", "out").status == 0


def test_complete_cases(command: Command, folder: Path) -> None:
    path = folder / "sites" / "arden.csv"
    lines = path.read_text().splitlines()
    lines[3] = "," + lines[3].split(",", 1)[1]
    path.write_text("\n".join(lines) + "\n")
    run = write(folder)
    run.write_text(run.read_text().replace('name = "age"', 'name = "age"\nimpute = "complete"'))
    outcome = command("run", "run.toml", "--output", "out", "--json")
    assert outcome.status == 0, outcome.err
    assert "arden.csv: 1 of 50 rows have a missing cell and are left out" in outcome.err
    whole = folder / "whole.csv"
    whole.write_text("age,sex,ill,site\n61,f,yes,a\n,m,no,a\n40,m,no,a\n50,f,no,b\n71,m,yes,b\n")
    text = run.read_text().replace(f"files = {TABLE}", 'file = "whole.csv"\nsplit_by = "site"')
    run.write_text(text)
    outcome = command("run", "run.toml", "--output", "whole", "--json")
    assert outcome.status == 0, outcome.err
    assert "a: 1 of 3 rows have a missing cell and are left out" in outcome.err


def test_predictions_are_judged_by_the_condition(command: Command, folder: Path) -> None:
    for site in ("arden", "bryn"):
        rng = np.random.default_rng(len(site))
        x, stage = rng.normal(size=40), rng.integers(0, 4, 40)
        rows = "".join(f"{a + (d > 0):.3f},{d}\n" for a, d in zip(x, stage, strict=True))
        (folder / "sites" / f"{site}.csv").write_text(f"x,stage\n{rows}")
    (folder / "run.toml").write_text(
        '[data]\nfiles = "sites/*.csv"\ntarget = "stage"\npositive = "> 0"\n[algorithm]\nname = "Newton"\n'
        'loss = { name = "Logistic", l2 = 0.01, intercept = "free" }\n'
    )
    assert command("run", "run.toml", "--output", "out").status == 0
    outcome = command("predict", "out", "sites/arden.csv", "--target", "stage", "--json")
    assert set(outcome.json["predictions"]) <= {"> 0", "not > 0"}
    truth = fs.data.load(folder / "sites" / "arden.csv").y > 0
    right = np.mean([(guess == "> 0") == true for guess, true in zip(outcome.json["predictions"], truth, strict=True)])
    assert outcome.json["score"] == pytest.approx(right)


def test_paths_of_sites_are_made_absolute(tmp_path: Path) -> None:
    text = '[data]\nfiles = { a = "a.csv", "b c" = \'b.csv\' } # two\n'
    assert str(tmp_path.resolve() / "b.csv") in from_anywhere(text, tmp_path)
    listed = '[data]\nfiles = ["a.csv", "b.csv"]\n'
    assert str(tmp_path.resolve() / "b.csv") in from_anywhere(listed, tmp_path)


def test_one_file_says_what_was_recognised_too(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{'ab'[i % 2]};{rng.normal(50, 9):.1f};{int(rng.random() < 0.5)}".replace(".", ",") for i in range(40)]
    lines[3] = "b;-9;0"
    (tmp_path / "own.csv").write_text("\n".join(["site;age;y", *lines]) + "\n")
    (tmp_path / "own.toml").write_text(
        '[data]\nfile = "own.csv"\ntarget = "y"\nsplit_by = "site"\n[preprocess]\n[algorithm]\nname = "Newton"\n'
        'loss = { name = "Logistic", l2 = 0.1 }\n[output]\nfigures = false\n'
    )
    outcome = command("run", "own.toml", "--output", "out", "--json")
    assert outcome.status == 0, outcome.err
    first, second = outcome.json["notes"]
    assert first == "own.csv: separated by ';', decimal comma"
    assert "own.csv, line 5, column age: -9, in 1 of 40 rows" in second
