"""What `fedsolve init` tells a newcomer to do is what works."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError

from .conftest import Command, Outcome
from .test_init import fit, notes, rows_of, text_of

Cells = dict[str, dict[str, list[str]]]


@pytest.fixture
def sites(tmp_path: Path) -> Cells:
    """Three files with gaps: two ages at arden, four pressures at bryn, of which three are -9."""
    found = {site: rows_of(seed) for seed, site in enumerate(("arden", "bryn", "corrie"))}
    for row in (3, 7):
        found["arden"]["age"][row] = "NA"
    for row, cell in ((2, "-9"), (5, "-9"), (9, "-9"), (11, "")):
        found["bryn"]["pressure"][row] = cell
    save(found, tmp_path)
    return found


def save(sites: Cells, folder: Path = Path()) -> None:
    for site, columns in sites.items():
        (folder / f"{site}.csv").write_text(text_of(columns))


def made(command: Command, *more: str) -> Outcome:
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill", "--json", "--force", *more)
    assert outcome.status == 0, outcome.err
    return outcome


def run_file() -> dict[str, Any]:
    return tomllib.loads(Path("run.toml").read_text())


# ── missing cells ──


def test_missing_cells_are_counted_and_their_fate_is_said(command: Command, sites: Cells) -> None:
    said = notes(made(command))
    assert "6 cells are missing (age 2 at arden, pressure 4 at bryn); they become the mean over all sites." in said
    assert 'R\'s glm would leave these rows out: for that write impute = "complete"' in said
    assert "under the [[preprocess.schema]] of age and pressure" in said
    assert [one.get("impute") for one in run_file()["preprocess"]["schema"]] == ["mean", "mean", None]
    assert '"complete": leave such rows out' in Path("run.toml").read_text()
    assert "-9 looks like a code for a missing value, and is taken for one in 3 of 60 rows" in said
    assert "if it is a number, write na = { pressure = [] }" in said


def test_complete_cases_are_those_of_r(command: Command, sites: Cells) -> None:
    """As the note says; statsmodels, like R, leaves out rows with a gap."""
    from statsmodels.api import Logit, add_constant

    made(command)
    text = Path("run.toml").read_text()
    Path("run.toml").write_text(text.replace('impute = "mean"', 'impute = "complete"'))
    found = fit(command, "out").json
    assert found["inference"]["rows"] == 174
    table = [dict(zip(one, row, strict=True)) for one in sites.values() for row in zip(*one.values(), strict=True)]
    kept = [row for row in table if row["age"] != "NA" and row["pressure"] not in ("-9", "")]
    X = [
        [float(row["age"]), float(row["pressure"]), row["smoker"] == "former", row["smoker"] == "never"] for row in kept
    ]
    expected = Logit([row["ill"] == "yes" for row in kept], add_constant(np.array(X, dtype=float))).fit(
        disp=0, tol=1e-12
    )
    ours = [one["estimate"] for one in found["inference"]["coefficients"]]
    assert ours == pytest.approx(expected.params, rel=1e-6)


def test_complete_for_all_columns_beside_a_schema(command: Command, sites: Cells) -> None:
    made(command)
    text = (
        Path("run.toml")
        .read_text()
        .replace("# The columns of every", '[preprocess]\nimpute = "complete"\n# The columns of every')
    )
    Path("run.toml").write_text(text)
    outcome = command("run", "run.toml")
    assert outcome.status == 2
    assert 'write impute = "complete" under the [[preprocess.schema]] of age, pressure and smoker' in outcome.sentence
    with pytest.raises(ConfigError, match='write impute="complete" in the schema for age'):
        fs.data.Preprocess(fs.data.Schema((fs.data.Numeric("age"),)), impute="complete")


def test_a_number_that_looks_like_a_code(command: Command, sites: Cells) -> None:
    made(command, "--na", "pressure=")
    assert run_file()["data"]["na"] == {"pressure": []}
    assert fit(command, "out").json["missing"]["pressure"] == pytest.approx(1 / 180)


def test_categories_that_nobody_else_has_are_errors_later(command: Command, sites: Cells) -> None:
    made(command)
    (smoker,) = (one for one in run_file()["preprocess"]["schema"] if one["name"] == "smoker")
    assert smoker["unseen"] == "error"
    sites["bryn"]["smoker"][4] = ""  # of fewer than 5 % the mode, and other values stay errors
    save(sites)
    made(command)
    (smoker,) = (one for one in run_file()["preprocess"]["schema"] if one["name"] == "smoker")
    assert (smoker["unseen"], smoker["impute"]) == ("error", "mode")


def test_what_is_compared_with_what(command: Command, sites: Cells) -> None:
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill")
    assert "Logistic: ill: yes counts as 1, no as 0 (change with --positive)" in outcome.out
    assert "smoker (3 categories, compared with current)" in outcome.out
    assert '"current" is the reference; to choose another, put it first' in Path("run.toml").read_text()


# ── columns that some site lacks ──


def test_a_column_that_two_sites_lack_is_kept_as_the_note_says(command: Command, sites: Cells) -> None:
    for site in ("arden", "bryn"):
        del sites[site]["pressure"]
    save(sites)
    said = notes(made(command))
    assert "arden.csv, line 1: no column pressure (nor at bryn), so it is dropped everywhere" in said
    assert "say --keep pressure: its cells are then missing at arden and bryn" in said
    kept = made(command, "--keep", "pressure").json["reveals"]
    assert [f"the names of its {count} columns" in line for count, line in zip((5, 5, 6), kept, strict=True)] == [
        True
    ] * 3
    assert run_file()["data"]["sites"] == {"arden": {"absent": ["pressure"]}, "bryn": {"absent": ["pressure"]}}
    assert fit(command, "out").json["missing"]["pressure"] == pytest.approx(2 / 3)
    assert "presure" in command("init", "arden.csv", "--target", "ill", "--keep", "presure", "--force").sentence


def test_a_column_that_is_kept_by_hand(command: Command, sites: Cells) -> None:
    for site in ("arden", "bryn"):
        del sites[site]["pressure"]
    save(sites)
    made(command)
    text = (
        Path("run.toml")
        .read_text()
        .replace('"pressure", ', "")
        .replace(', "pressure"', "")
        .replace('["pressure"]', "[]")
    )
    Path("run.toml").write_text(text + '\n[data.sites.arden]\nabsent = ["pressure"]\n')
    first = command("run", "run.toml").sentence
    assert "'pressure' is declared absent for arden, and the schema" in first
    assert 'declare it for all sites ([[preprocess.schema]] with name = "pressure"' in first
    text = (
        Path("run.toml").read_text().replace("[algorithm]", '[[preprocess.schema]]\nname = "pressure"\n\n[algorithm]')
    )
    Path("run.toml").write_text(text)
    second = command("run", "run.toml").sentence
    assert "bryn.csv, line 1: it lacks 'pressure'" in second
    assert 'absent = ["pressure"] under [data.sites.bryn] if this site has no values of it' in second
    Path("run.toml").write_text(text + '\n[data.sites.bryn]\nabsent = ["pressure"]\n')
    fit(command, "out")


# ── files ──


def test_names_for_the_one_file_without_a_header(command: Command, sites: Cells) -> None:
    del sites["corrie"]["ward"]
    whole = text_of(sites["corrie"])
    save(sites)
    made(command)
    before = fit(command, "with").json["value"]
    Path("corrie.csv").write_text(whole.partition("\n")[2])
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill", "--force")
    assert outcome.status == 2
    assert "the file has no header, so give the names of its columns: --names corrie=…" in outcome.sentence
    names = whole.partition("\n")[0]
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill", "--force", "--names", names)
    assert "give names only to files without a header, --names SITE=" in outcome.sentence
    made(command, "--names", f"corrie={names}")
    assert run_file()["data"]["sites"] == {"corrie": {"names": names.split(",")}}
    assert fit(command, "without").json["value"] == before
    assert "cory" in command("init", "arden.csv", "--target", "ill", "--names", "cory=a", "--force").sentence


def test_files_of_one_name(command: Command, sites: Cells) -> None:
    for folder in ("north", "south"):
        Path(folder).mkdir()
    Path("arden.csv").rename("north/export.csv")
    Path("bryn.csv").rename("south/export.csv")
    outcome = command("init", "north/export.csv", "south/export.csv", "--target", "ill")
    assert "name them, fedsolve init north=north/export.csv south=south/export.csv" in outcome.sentence
    assert command("init", "north=north/export.csv", "south=south/export.csv", "--target", "ill").status == 0
    mixed = command("init", "north=north/export.csv", "corrie.csv", "--target", "ill", "--force", "--json").json
    assert list(mixed["sites"]) == ["north", "corrie"]
    outcome = command("init", "corrie=north/export.csv", "corrie.csv", "--target", "ill", "--force")
    assert "two files would be the site 'corrie'" in outcome.sentence


def test_one_file_twice(command: Command, sites: Cells) -> None:
    assert "arden.csv is given twice" in command("init", "arden.csv", "./arden.csv", "--target", "ill").sentence
    Path("copy.csv").write_text(Path("bryn.csv").read_text())
    outcome = command("init", "arden.csv", "bryn.csv", "copy.csv", "--target", "ill", "--json")
    assert "bryn.csv and copy.csv have the same contents, so every row of bryn counts twice" in notes(outcome)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", "ardn.csv", "--target", "ill"), "does not exist; is it arden.csv?"),
        (("init", "arden.csv", "--target", "iill"), "no column 'iill' (is it 'ill'?)"),
        (
            ("run", "arden.csv"),
            "arden.csv is a data file, and this command takes a run file; write one with: fedsolve init",
        ),
        (("compare", "arden.csv"), "arden.csv is a data file"),
        (("run", "problm.toml"), "there is no run file problm.toml; is it problem.toml?"),
        (("predict", "model.npz", "ardn.csv"), "ardn.csv: no such file; is it arden.csv?"),
        (("predict", "model.npz", "far.csv"), "Give an existing file, or a name of `fedsolve datasets`"),
    ],
)
def test_what_is_nearly_right(command: Command, sites: Cells, arguments: tuple[str, ...], said: str) -> None:
    Path("problem.toml").write_text("")
    fs.LinearModel(np.ones(2), False, "identity", feature_names=("a", "b")).save("model.npz")
    outcome = command(*arguments)
    assert outcome.status == 2
    assert said in outcome.sentence


# ── in Python ──


def test_the_recipe_in_python_works_with_codes(sites: Cells, tmp_path: Path) -> None:
    files = [tmp_path / f"{site}.csv" for site in sites]
    proposal = fs.data.propose(files, target="ill")
    assert 'write na={"pressure": []}' in "\n".join(proposal.notes)
    with pytest.raises(DataError, match=r'write na={"pressure": \[-9\]} if it is'):
        fs.data.load_sites(files, target="ill", schema=proposal.schema, drop=proposal.drop)
    found = fs.data.load_sites(files, target="ill", schema=proposal.schema, drop=proposal.drop, na=proposal.na)
    assert sum(int((client.X[:, 1] != client.X[:, 1]).sum()) for client in found.clients) == 4
    run = fs.run(
        fs.Newton(fs.Logistic(l2=0.01, intercept="free")),
        found.clients,
        preprocess=fs.data.Preprocess(proposal.schema),
    )
    model = run.model.read_as(found.files_read)
    model.save(tmp_path / "model.npz")
    assert fs.load_model(tmp_path / "model.npz").files_read.every.na == {"pressure": [-9.0]}


def test_a_column_is_kept_in_python_too(sites: Cells, tmp_path: Path) -> None:
    del sites["arden"]["pressure"]
    save(sites, tmp_path)
    files = [tmp_path / f"{site}.csv" for site in sites]
    assert 'say keep=["pressure"]' in "\n".join(fs.data.propose(files, target="ill").notes)
    proposal = fs.data.propose(files, target="ill", keep=["pressure"])
    found = fs.data.load_sites(
        files, target="ill", schema=proposal.schema, drop=proposal.drop, na=proposal.na, sites=proposal.sites
    )
    assert np.isnan(found.clients[0].X[:, found.feature_names.index("pressure")].astype(float)).all()


def test_quotes_in_names_are_kept() -> None:
    from fedsolve.data import advice

    with advice.written_in("run file"):
        assert tomllib.loads(advice.na('a "b"', [-9, "?"])) == {"na": {'a "b"': [-9, "?"]}}
        assert tomllib.loads(advice.key("drop", ["x", 'y"'])) == {"drop": ["x", 'y"']}
    with advice.written_in("command"):
        assert next(csv.reader([advice.na("a b", [0])], delimiter=" ", quotechar="'")) == ["--na", "a b=0"]
