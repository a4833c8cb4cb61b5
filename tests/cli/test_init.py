"""`fedsolve init`: from files as they lie to a run file that runs as it is, and what it says on the way."""

from __future__ import annotations

import glob
import os
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs

from .conftest import Command, Outcome


def rows_of(seed: int, count: int = 60) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    age, pressure = rng.normal(60, 9, count).round(1), rng.normal(130, 15, count).round()
    smoker = rng.choice(["never", "former", "current"], count)
    ill = (age - 60) / 9 + (smoker == "current") + rng.normal(size=count) > 0.4
    return {
        "patient": [f"P{seed}-{i:03d}" for i in range(count)],
        "age": [f"{one}" for one in age],
        "pressure": [f"{one:g}" for one in pressure],
        "smoker": smoker.tolist(),
        "ward": ["west"] * count,
        "ill": ["yes" if one else "no" for one in ill],
    }


def text_of(columns: dict[str, list[str]], mark: str = ",") -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join([mark.join(columns), *(mark.join(row) for row in rows)]) + "\n"


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, dict[str, list[str]]]:
    """The cells of three sites, and their files in the current folder."""
    found = {site: rows_of(seed) for seed, site in enumerate(("arden", "bryn", "corrie"))}
    for site, columns in found.items():
        (tmp_path / f"{site}.csv").write_text(text_of(columns))
    return found


def made(command: Command, *more: str) -> Outcome:
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill", "--json", *more)
    assert outcome.status == 0, outcome.err
    return outcome


def fit(command: Command, folder: str) -> Outcome:
    """Run the run file as it is, but for the figures, which take a second each."""
    path = Path("run.toml")
    text = path.read_text()
    path.write_text(f"{text}\n[output]\nfigures = false\n")
    outcome = command("run", path, "--output", folder, "--json")
    path.write_text(text)
    assert outcome.status == 0, outcome.err
    return outcome


def notes(outcome: Outcome) -> str:
    return "\n".join(outcome.json["notes"])


def tables(path: str = "run.toml") -> dict[str, dict[str, object]]:
    return tomllib.loads(Path(path).read_text())


def test_files_to_a_model_in_two_commands(command: Command, sites: object) -> None:
    outcome = made(command)
    assert outcome.json["loss"] == "Logistic"
    assert outcome.json["drop"] == ["patient", "ward"]
    assert "patient is dropped: nearly every row has a text of its own" in notes(outcome)
    assert "ward is dropped: it has one value in every row" in notes(outcome)
    assert [column["name"] for column in outcome.json["columns"]] == ["age", "pressure", "smoker"]
    assert tables()["data"]["files"] == {"arden": "arden.csv", "bryn": "bryn.csv", "corrie": "corrie.csv"}
    fitted = command("run", "run.toml", "--output", "out", "--json")
    assert fitted.json["status"] == "converged"
    assert fs.load_model("out/model.npz").classes == ("no", "yes")


def test_what_it_says_to_people(command: Command, sites: object) -> None:
    outcome = command("init", "*.csv", "--target", "ill")  # a pattern is read by itself, too
    assert outcome.status == 0, outcome.err
    assert "3 sites, 180 rows: arden 60, bryn 60, corrie 60" in outcome.out
    assert (
        "arden tells the names of its 6 columns, its 60 rows; which 3 categories of smoker occur there" in outcome.out
    )
    assert "rounded ranges of age, pressure" in outcome.out
    assert "Written: run.toml. Read it, then: fedsolve run run.toml" in outcome.out
    text = Path("run.toml").read_text()
    assert text.count("#") > 10
    ages = [float(age) for seed in range(3) for age in rows_of(seed)["age"]]
    assert f"{min(ages):g}" not in text  # no person's own value
    assert f"{max(ages):g}" not in text


def test_an_existing_run_file_is_kept(command: Command, sites: object) -> None:
    Path("run.toml").write_text("mine\n")
    outcome = command("init", "*.csv", "--target", "ill")
    assert outcome.status == 2
    assert "already a file run.toml; choose another with --output, or add --force" in outcome.sentence
    assert Path("run.toml").read_text() == "mine\n"
    made(command, "--force")
    made(command, "--output", "deep/er/other.toml")
    assert command("run", "deep/er/other.toml", "--output", "out", "--json").status == 0  # paths fit the folder


# ── how files differ: each is recognised, or rejected by file, line and column ──


def test_another_dialect_and_order(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    columns = dict(reversed(sites["bryn"].items()))
    columns["age"] = [age.replace(".", ",") for age in columns["age"]]
    columns["smoker"] = [one.replace("never", "jamäis") for one in columns["smoker"]]
    Path("bryn.csv").write_bytes(text_of(columns, ";").replace("\n", "\r\n").encode("latin-1"))
    outcome = made(command)
    assert "bryn.csv: separated by ';', decimal comma, Latin-1" in notes(outcome)
    assert "smoker: the category 'jamäis' occurs at bryn only; it is kept" in notes(outcome)
    assert "bryn.csv: its columns are in another order, and matched by name" in notes(outcome)
    assert fit(command, "out").json["status"] == "converged"


def test_codes_for_missing_values(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    sites["bryn"]["pressure"][4] = "-9"
    sites["corrie"]["pressure"][:9] = ["0"] * 9
    for site in ("bryn", "corrie"):
        Path(f"{site}.csv").write_text(text_of(sites[site]))
    outcome = made(command)
    assert "bryn.csv, line 6, column pressure: -9 looks like a code for a missing value" in notes(outcome)
    assert "pressure is 0 in 9 rows at corrie" in notes(outcome)
    assert "--na pressure=0" in notes(outcome)
    assert tables()["data"]["na"] == {"pressure": [-9]}
    made(command, "--na", "pressure=0", "--force")
    assert tables()["data"]["na"] == {"pressure": [0, -9]}
    fitted = fit(command, "out")
    assert fitted.json["missing"]["pressure"] == pytest.approx(10 / 180)


def test_a_column_missing_at_one_site(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    del sites["corrie"]["pressure"]
    Path("corrie.csv").write_text(text_of(sites["corrie"]))
    outcome = made(command)
    assert "corrie.csv, line 1: no column pressure, so it is dropped everywhere; to keep it" in notes(outcome)
    assert "pressure" in outcome.json["drop"]
    assert fit(command, "out").status == 0
    assert "--keep pressure" in notes(outcome)
    kept = made(command, "--keep", "pressure", "--force")  # as the note says
    assert "pressure" not in kept.json["drop"]
    assert tables()["data"]["sites"] == {"corrie": {"absent": ["pressure"]}}
    kept = fit(command, "kept")
    assert kept.json["missing"]["pressure"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("column", "row", "cell", "message"),
    [
        ("age", 4, "abc", "bryn.csv, line 6, column age: 'abc' is not a number, and 98% of the column are"),
        ("ill", 2, "maybe", "the target ill has 3 different values (maybe, no, yes), and Logistic takes two"),
        ("patient", 59, "Total", "bryn.csv, line 61, column patient: 'Total' in the last line only"),
    ],
)
def test_cells_that_are_wrong(
    command: Command, sites: dict[str, dict[str, list[str]]], column: str, row: int, cell: str, message: str
) -> None:
    sites["bryn"][column][row] = cell
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    more = ("--loss", "Logistic") if column == "ill" else ()
    outcome = command("init", "arden.csv", "bryn.csv", "corrie.csv", "--target", "ill", *more)
    assert outcome.status == 2
    assert message in outcome.sentence
    assert not Path("run.toml").exists()


def test_codings_that_do_not_agree(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    codes = {"never": "0", "former": "1", "current": "2"}
    sites["bryn"]["smoker"] = [codes[one] for one in sites["bryn"]["smoker"]]
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    sentence = command("init", "arden.csv", "bryn.csv", "--target", "ill").sentence
    assert "arden.csv, line 1: column smoker holds texts" in sentence
    assert "in bryn.csv numbers; code it alike everywhere" in sentence
    sites["bryn"]["smoker"] = [one.title() for one in rows_of(1)["smoker"]]
    sites["bryn"]["pressure"] = [f"{float(one) / 7.5:.1f}" for one in sites["bryn"]["pressure"]]  # mmHg to kPa
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    outcome = made(command)
    assert "'Current' and 'current' differ in case only" in notes(outcome)
    assert "are the units the same?" not in notes(outcome)  # a factor of 7.5 may be real
    sites["bryn"]["pressure"] = [f"{float(one) / 20:.1f}" for one in sites["bryn"]["pressure"]]
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    assert "pressure is about 1.3e+02 at " in notes(made(command, "--force"))


def test_many_categories_are_asked_for(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    for seed, site in enumerate(sites):
        rng = np.random.default_rng(seed)
        columns = rows_of(seed, 1500)
        columns["patient"] = [f"drug {i}" for i in rng.integers(0, 1300, 1500)]
        Path(f"{site}.csv").write_text(text_of(columns))
    outcome = command("init", "*.csv", "--target", "ill")
    assert outcome.status == 2
    assert "patient would have 1," in outcome.sentence
    assert "--drop patient, or say --yes" in outcome.sentence
    made(command, "--yes")
    assert len(tables()["preprocess"]["schema"][0]["categories"]) > 1000  # type: ignore[index]
    made(command, "--drop", "patient", "--force")


# ── targets ──


@pytest.mark.parametrize(
    ("values", "more", "loss", "data"),
    [
        ((0, 1), (), "Logistic", {}),
        ((1, 2), (), "Logistic", {"positive": 2}),
        ((0, 1, 2, 3), (), "Softmax", {"classes": [0, 1, 2, 3]}),
        ((0, 1, 2, 3), ("--positive", "> 0"), "Logistic", {"positive": "> 0"}),
        ((0, 1, 2, 3), ("--positive", "2,3"), "Logistic", {"positive": [2, 3]}),
        ((0, 1, 2, 3), ("--loss", "Poisson"), "Poisson", {}),
        (("a", "b", "c"), (), "Softmax", {"classes": ["a", "b", "c"]}),
        (tuple(range(40)), (), "Squared", {}),
        ((0.5, 1.25, 2.75), (), "Squared", {}),
    ],
)
def test_the_loss_follows_from_the_target(
    command: Command,
    sites: dict[str, dict[str, list[str]]],
    values: tuple[object, ...],
    more: tuple[str, ...],
    loss: str,
    data: dict[str, object],
) -> None:
    rng = np.random.default_rng(0)
    for site, columns in sites.items():
        columns["ill"] = [str(values[i]) for i in rng.integers(0, len(values), 60)]
        Path(f"{site}.csv").write_text(text_of(columns))
    outcome = made(command, *more)
    assert outcome.json["loss"] == loss
    found = {name: tables()["data"].get(name) for name in ("positive", "classes") if name in tables()["data"]}
    assert found == data
    fitted = fit(command, "out")
    assert fitted.json["status"] == "converged", fitted.out


def test_rows_without_a_target(command: Command, sites: dict[str, dict[str, list[str]]]) -> None:
    sites["bryn"]["ill"][7] = ""
    Path("bryn.csv").write_text(text_of(sites["bryn"]))
    outcome = made(command)
    assert "bryn.csv: the target ill is missing in 1 of 60 rows, which are left out" in notes(outcome)
    fitted = fit(command, "out")
    assert fitted.json["status"] == "converged"
    assert "bryn.csv: 1 of 60 rows have a missing cell and are left out" in fitted.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("arden.csv", "--target", "sick"), "arden.csv, line 1: no column 'sick'"),
        (("nowhere.csv", "--target", "ill"), "nowhere.csv, the file of site 'nowhere', does not exist"),
        (("*.tsv", "--target", "ill"), "no file matches *.tsv"),
        (("arden.csv", "--target", "ill", "--loss", "Probit"), "--loss is one of Logistic, Softmax, Squared, Poisson"),
        (("arden.csv", "--target", "ill", "--loss", "Squared"), "and Squared predicts numbers"),
        (("arden.csv", "--target", "ill", "--positive", "perhaps"), "unknown label of ill for positive 'perhaps'"),
        (("arden.csv", "--target", "ward"), "one value in every row"),
        (("arden.csv", "--target", "ill", "--na", "presure=0"), "presure"),
    ],
)
def test_what_is_wrong_in_the_command(
    command: Command, sites: object, arguments: tuple[str, ...], message: str
) -> None:
    outcome = command("init", *arguments)
    assert outcome.status == 2
    assert message in outcome.sentence
    assert not Path("run.toml").exists()


def test_names_for_sites(command: Command, sites: object) -> None:
    outcome = command("init", "one=arden.csv", "two=bryn.csv", "--target", "ill", "--json")
    assert list(outcome.json["sites"]) == ["one", "two"]


def test_a_proposal_in_python(command: Command, sites: object) -> None:
    proposal = fs.data.propose("*.csv", target="ill")
    read = fs.data.load_sites("*.csv", target="ill", schema=proposal.schema, drop=proposal.drop)
    run = fs.run(fs.Newton(fs.Logistic(intercept="free")), read.clients, preprocess=fs.data.Preprocess(proposal.schema))
    assert run.status == "converged"


# ── the heart files ──

PAGE = Path(__file__).parents[2] / "docs" / "own-files.md"


def heart_commands(folder: Path) -> list[list[str]]:
    """The commands of the section on the heart files, as a shell would split and expand them."""
    part = PAGE.read_text(encoding="utf-8").split("## The four heart files")[1].split("\n## ")[0]
    found = []
    for line in re.findall(r"^fedsolve (.*)$", part, re.MULTILINE):
        words = shlex.split(line.replace("$FEDSOLVE_DATA", str(folder)))
        found.append([one for word in words for one in (sorted(glob.glob(word)) if "*" in word else [word])])
    return found


def test_the_heart_files_as_they_lie(command: Command, tmp_path: Path) -> None:
    """The three commands of the documentation, and their model against the score of the pooled rows."""
    folder = Path(os.environ.get("FEDSOLVE_DATA", "nowhere"))
    files = sorted((folder / "heart").glob("processed.*.data"))
    if len(files) != 4:
        pytest.skip("the heart files are not here: set FEDSOLVE_DATA")
    first, second, third = heart_commands(folder)
    begun = command(*first, "--json")
    assert begun.status == 0, begun.err
    assert list(begun.json["sites"]) == ["cleveland", "hungarian", "switzerland", "va"]
    quoted = re.findall(r"^> (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert quoted in begun.json["notes"]
    assert command(*second).status == 0
    fitted = command(*third, "--json")
    assert fitted.json["status"] == "converged"
    assert fitted.json["rounds"] == 6
    assert fitted.json["inference"]["status"] == "ok"
    assert len(fitted.json["inference"]["coefficients"]) == 27
    model = fs.load_model(tmp_path / "heart" / "model.npz")
    lines = [line.split(",") for path in files for line in path.read_text().split()]
    raw = np.array([[np.nan if cell == "?" else float(cell) for cell in line] for line in lines])
    assert len(raw) == 920
    for place in (3, 4):
        raw[raw[:, place] == 0, place] = np.nan
    X = np.column_stack([model.transform.apply(raw[:, :-1]), np.ones(len(raw))])
    y = raw[:, -1] > 0
    mean = 1 / (1 + np.exp(-X @ model.w))
    assert np.abs(X.T @ (y - mean)).max() / len(raw) < 1e-8  # the score of the pooled rows is zero: their fit
    assert fitted.json["scores"]["train"] == pytest.approx(np.mean((mean > 0.5) == y))
