"""One file per site: read by itself, matched by name, never pooled; and every way in which a file can differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import SiteReading, load_sites
from fedsolve.data.advice import written_in
from fedsolve.data.site_names import short_names, site_files
from fedsolve.errors import ConfigError, DataError, FedsolveError, UnknownName

RNG = np.random.default_rng(5)
SITES = ("arden", "bryn", "corrie")
SCHEMA = fs.data.Schema((fs.data.Numeric("age"), fs.data.Categorical("sex", ("f", "m"), drop_first=True)))


def rows_of(site: int, count: int = 40) -> list[tuple[float, str, str]]:
    rng = np.random.default_rng([9, site])
    age = rng.normal(60, 9, count).round(1)
    sex = np.where(rng.random(count) < 0.5, "f", "m")
    ill = np.where((age - 60) / 9 + (sex == "m") + rng.normal(size=count) > 0.4, "yes", "no")
    return list(zip(age.tolist(), sex.tolist(), ill.tolist(), strict=True))


def plain(rows: list[tuple[float, str, str]]) -> str:
    return "age,sex,ill\n" + "".join(f"{age},{sex},{ill}\n" for age, sex, ill in rows)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The same three sites, in three dialects."""
    first, second, third = (rows_of(site) for site in range(3))
    (tmp_path / "arden.csv").write_text(plain(first))
    comma = "".join(f"{ill};{str(age).replace('.', ',')};{sex}\r\n" for age, sex, ill in second)
    (tmp_path / "bryn.csv").write_bytes(f"ill;age;sex\r\n{comma}".encode("utf-8-sig"))
    tabs = "".join(f"{sex}\t{ill}\t{age}\n" for age, sex, ill in third)
    (tmp_path / "corrie.csv").write_text(f"sex\till\tage\n{tabs}")
    return {site: tmp_path / f"{site}.csv" for site in SITES}


NEWTON = fs.Newton(fs.Logistic(l2=0.01, intercept="free"))


def fitted(sites: fs.data.Sites) -> fs.Run:
    return fs.run(NEWTON, sites.clients, preprocess=fs.data.Preprocess(SCHEMA))


def test_three_dialects_are_one_model(files: dict[str, Path], tmp_path: Path) -> None:
    """The model of the files as they come is that of the same rows in one plain table."""
    sites = load_sites(files, target="ill", schema=SCHEMA)
    (tmp_path / "all.csv").write_text(plain([row for site in range(3) for row in rows_of(site)]))
    whole = fs.data.load(tmp_path / "all.csv", target="ill")
    pooled = fs.Client("all", whole.X, whole.labels, feature_names=whole.feature_names, classes=("no", "yes"))
    expected = fs.run(NEWTON, [pooled], preprocess=fs.data.Preprocess(SCHEMA))
    run = fitted(sites)
    assert run.status == "converged"
    assert np.allclose(run.model.w, expected.model.w, rtol=0, atol=1e-10)
    assert run.model.classes == ("no", "yes")
    assert [client.name for client in sites.clients] == list(SITES)
    assert sites.notes == (
        "bryn.csv: separated by ';', decimal comma",
        "corrie.csv: separated by tabs",
        "corrie.csv: its columns are in another order, and matched by name",
    )


def test_patterns_lists_and_tables_name_the_same_sites(files: dict[str, Path], tmp_path: Path) -> None:
    for given in ("*.csv", [f"{site}.csv" for site in SITES], {site: f"{site}.csv" for site in SITES}):
        assert site_files(given, tmp_path) == files
    (tmp_path / "y2024").mkdir()
    (tmp_path / "y2024" / "ward_arden_v1.csv").write_text(plain(rows_of(0)))
    assert list(site_files("y*/ward_*_v1.csv", tmp_path)) == ["2024-arden"]
    assert short_names(["processed.cleveland.data", "processed.va.data"]) == ["cleveland", "va"]
    assert short_names(["a.csv.gz", "b.csv"]) == ["a", "b"]
    assert short_names(["site-a-2024.csv", "site-b-2024.csv"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("*.tsv", DataError, "no file matches .*tsv"),
        ({"arden": "ardern.csv"}, DataError, r"ardern\.csv, the file of site 'arden', does not exist"),
        ({"arden": "arden.csv", "bryn": "arden.csv"}, ConfigError, "'arden' and 'bryn' have one file"),
        (["arden.csv", "old/arden.csv"], ConfigError, "would both be the site 'arden'"),
        ({}, ConfigError, "names no file"),
    ],
)
def test_files_that_are_not_there(
    files: dict[str, Path], tmp_path: Path, given: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        site_files(given, tmp_path)  # type: ignore[arg-type]


# ── how sites differ ──


def test_a_column_missing_at_one_site(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age\nyes,61\nno,47\n")
    with pytest.raises(
        DataError, match=r'bryn\.csv, line 1: it lacks .sex.*drop=\["sex"\].*absent=\["sex"\]'
    ) as caught:
        load_sites(files, target="ill", schema=SCHEMA)
    assert 'sites={"bryn": fs.data.SiteReading(' in str(caught.value)
    with written_in("run file"), pytest.raises(DataError, match=r'absent = \["sex"\] under \[data.sites.bryn\]'):
        load_sites(files, target="ill", schema=SCHEMA)
    sites = load_sites(files, target="ill", schema=SCHEMA, sites={"bryn": SiteReading(absent=["sex"])})
    assert np.isnan(sites.clients[1].X[:, 1].astype(float)).all()
    assert load_sites(files, target="ill", drop=["sex"]).feature_names == ("age",)  # a site may lack it


def test_a_column_under_another_name(files: dict[str, Path]) -> None:
    files["bryn"].write_text("Outcome,AGE,sex\nyes,61,f\nno,-9,m\n")
    with pytest.raises(DataError, match=r"bryn\.csv, line 1: no column 'ill'"):
        load_sites(files, target="ill")
    own = SiteReading(rename={"Outcome": "ill", "AGE": "age"}, na={"age": [-9]})
    sites = load_sites(files, target="ill", schema=SCHEMA, sites={"bryn": own})
    assert sites.clients[1].X[0].tolist() == [61.0, "f"]
    assert np.isnan(sites.clients[1].X[1, 0])
    with pytest.raises(DataError, match=r"bryn\.csv, line 1: it lacks 'age' \(is it 'AGE'\?\).*rename"):
        load_sites(files, target="ill", sites={"bryn": SiteReading(rename={"Outcome": "ill"})})


def test_a_column_too_many(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex,ward\nyes,61,f,3\nno,47,m,4\n")
    with pytest.raises(DataError, match=r'bryn\.csv, line 1: it has .ward., which is not expected.*drop=\["ward"\]'):
        load_sites(files, target="ill")
    assert load_sites(files, target="ill", drop=["ward"]).feature_names == ("age", "sex")
    own = {"bryn": SiteReading(drop=["ward"])}
    assert load_sites(files, target="ill", sites=own).feature_names == ("age", "sex")
    with pytest.raises(UnknownName, match="wrad"):
        load_sites(files, target="ill", drop=["wrad"])


def test_a_cell_that_is_no_number(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,old,m\n")
    with pytest.raises(DataError, match=r"bryn\.csv, line 3, column age: 'old' is not a number"):
        load_sites(files, target="ill", schema=SCHEMA)
    with pytest.raises(DataError, match=r"arden\.csv, line 2, column sex: '[fm]' is not a number; declare"):
        load_sites(files, target="ill", numbers=True)


def test_a_code_for_missing_is_not_learned_from(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,-9,m\nno,47,f\nno,52,m\n")
    with pytest.raises(DataError, match=r"bryn\.csv, line 3, column age: -9, in 1 of 4 rows.*na={.age.: \[-9\]}"):
        load_sites(files, target="ill", schema=SCHEMA)
    for na in ([-9, "?"], {"age": [-9]}, {"*": [-9]}):
        found = load_sites(files, target="ill", schema=SCHEMA, na=na)  # type: ignore[arg-type]
        assert np.isnan(found.clients[1].X[1, 0])
    for na in ([], {"age": []}):
        assert load_sites(files, target="ill", schema=SCHEMA, na=na).clients[1].X[1, 0] == -9
    own = {"bryn": SiteReading(na=[-9])}
    assert np.isnan(load_sites(files, target="ill", schema=SCHEMA, sites=own).clients[1].X[1, 0])


def test_a_high_code_is_only_mentioned(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,999,m\nno,47,f\n")
    sites = load_sites(files, target="ill", schema=SCHEMA)
    assert any("line 3, column age: 999" in note and 'na={"age": [999]}' in note for note in sites.notes)


def test_an_unknown_category_at_one_site(files: dict[str, Path]) -> None:
    """It is a level of its own, and its share is said after the run, as for any table."""
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,47,x\n")
    run = fitted(load_sites(files, target="ill", schema=SCHEMA))
    assert "sex=other" in run.model.coefficients()
    assert dict((name, unseen) for name, _, unseen in run.model.transform.gaps())["sex"] > 0


# ── targets ──


def test_labels_are_agreed(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nyes,47,m\n")  # has no "no"
    sites = load_sites(files, target="ill")
    assert sites.classes == ("no", "yes")
    assert sites.clients[1].y.tolist() == [1, 1]
    turned = load_sites(files, target="ill", classes=["yes", "no"])
    assert turned.clients[1].y.tolist() == [0, 0]
    with pytest.raises(DataError, match=r"arden\.csv, line \d+, column ill: the label 'no' is none of the declared"):
        load_sites(files, target="ill", classes=["yes", "maybe"])


@pytest.mark.parametrize(
    ("positive", "expected", "classes"),
    [
        ("> 0", [0, 1, 1, 1], ("not > 0", "> 0")),
        (">=2", [0, 0, 1, 1], ("not >= 2", ">= 2")),
        ("<= 1", [1, 1, 0, 0], ("not <= 1", "<= 1")),
        ("1..2", [0, 1, 1, 0], ("not 1..2", "1..2")),
        ("2..", [0, 0, 1, 1], ("not 2..", "2..")),
        ([1, 4], [0, 1, 0, 1], ("not one of 1, 4", "one of 1, 4")),
        (4, [0, 0, 0, 1], ("not 4", "4")),
        ("4", [0, 0, 0, 1], ("not 4", "4")),
    ],
)
def test_positive(tmp_path: Path, positive: object, expected: list[int], classes: tuple[str, str]) -> None:
    (tmp_path / "a.csv").write_text("x,d\n1,0\n2,1\n3,2\n5,4\n")
    (tmp_path / "b.csv").write_text("x,d\n1,0\n2,0\n")
    sites = load_sites("*.csv", target="d", positive=positive, folder=tmp_path)  # type: ignore[arg-type]
    assert sites.clients[0].y.tolist() == expected
    assert sites.classes == classes
    whole = fs.data.load(tmp_path / "a.csv", target="d").binary(positive)  # type: ignore[arg-type]
    assert whole.y.tolist() == expected


@pytest.mark.parametrize(
    ("positive", "message"),
    [
        ("> many", "no comparison with a number"),
        ("4..1", "empty interval"),
        ([], "empty list"),
        ("> 9", "holds of no row"),
        ("ill", "unknown label of d for positive 'ill'"),
    ],
)
def test_positive_refusals(tmp_path: Path, positive: object, message: str) -> None:
    (tmp_path / "a.csv").write_text("x,d\n1,0\n2,1\n3,2\n5,4\n")
    with pytest.raises(FedsolveError, match=message):
        load_sites("*.csv", target="d", positive=positive, folder=tmp_path)  # type: ignore[arg-type]


def test_a_condition_is_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,d\n1,0\n2,1?\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3, column d: '1\?' is not a number, and positive is"):
        load_sites("*.csv", target="d", positive="> 0", folder=tmp_path)


def test_targets_that_do_not_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,d\n1,0\n2,1\n")
    (tmp_path / "b.csv").write_text("x,d\n1,0\n2,one\n")
    with pytest.raises(DataError, match=r"b\.csv, line 3, column d: 'one' is not a number, and the target is one in a"):
        load_sites("*.csv", target="d", folder=tmp_path)
    (tmp_path / "b.csv").write_text("x,d\n1,0\n2,\n")
    with pytest.raises(DataError, match=r"b\.csv, line 3, column d: the target is missing, in 1 of 2 rows"):
        load_sites("*.csv", target="d", folder=tmp_path)


def test_weights_offsets_and_several_targets(tmp_path: Path) -> None:
    for site, seed in (("a", 0), ("b", 1)):
        rng = np.random.default_rng(seed)
        x, w, o = rng.normal(size=30), rng.integers(1, 4, 30), rng.normal(size=30)
        n = rng.poisson(np.exp(0.3 * x + o))
        lines = "".join(f"{p},{q},{r},{s}\n" for p, q, r, s in zip(x, w, o, n, strict=True))
        (tmp_path / f"{site}.csv").write_text(f"x,w,log_pt,n\n{lines}")
    sites = load_sites("*.csv", target="n", weight="w", offset="log_pt", folder=tmp_path)
    run = fs.run(fs.Newton(fs.Poisson(intercept="free")), sites.clients)
    both = [
        np.concatenate([getattr(one, name) for one in sites.clients]) for name in ("X", "y", "sample_weight", "offset")
    ]
    eta = np.column_stack([both[0], np.ones(60)])
    score = eta.T @ (both[2] * (both[1] - np.exp(eta @ run.model.w + both[3])))  # zero at the maximum of the likelihood
    assert np.abs(score).max() < 1e-6 * np.abs(eta.T @ (both[2] * both[1])).max()
    two = load_sites("*.csv", target=["n", "log_pt"], drop=["w"], folder=tmp_path)
    assert two.clients[0].y.shape == (30, 2)
    assert fs.run(fs.Newton(fs.Squared(l2=0.1)), two.clients).status == "converged"
    with pytest.raises(ConfigError, match="different columns"):
        load_sites("*.csv", target="n", weight="n", folder=tmp_path)
    (tmp_path / "b.csv").write_text("x,w,log_pt,n\n1,2,0,3\n1,-1,0,3\n")
    with pytest.raises(DataError, match=r"b\.csv, line 3, column w: a weight of -1"):
        load_sites("*.csv", target="n", weight="w", offset="log_pt", folder=tmp_path)


# ── complete cases ──


def test_complete_cases(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,,m\nno,47,\n,52,m\nno,50,f\n")
    sites = load_sites(files, target="ill", complete=True)
    assert sites.clients[1].n_samples == 2
    assert any(note.startswith("bryn.csv: 3 of 5 rows have a missing cell and are left out") for note in sites.notes)
    assert load_sites(files, target="ill", complete=["age"]).clients[1].n_samples == 3
    files["bryn"].write_text("ill,age,sex\nyes,,f\nno,,m\n")
    with pytest.raises(DataError, match=r"bryn\.csv: every one of its 2 rows has a missing cell \(age.*drop = "):
        load_sites(files, target="ill", complete=True)


def test_complete_cases_in_python() -> None:
    X = np.array([[1.0, np.nan], [2.0, 3.0], [np.nan, 1.0], [4.0, 0.5]])
    client = fs.Client("a", X, np.array([0.0, 1, 0, 1]), np.array([1.0, 2, 3, 4]), feature_names=("u", "v"))
    preprocess = fs.data.Preprocess(impute="complete")
    with pytest.raises(FedsolveError, match="complete_cases"):
        fs.run(fs.Newton(fs.Squared(l2=0.1)), [client], preprocess=preprocess)
    (kept,), said = fs.data.complete_cases([client], preprocess)
    assert kept.X.tolist() == [[2, 3], [4, 0.5]]
    assert kept.sample_weight.tolist() == [2, 4]
    assert said == ["a: 2 of 4 rows have a missing cell and are left out"]
    assert fs.run(fs.Newton(fs.Squared(l2=0.1)), [kept], preprocess=preprocess).status == "converged"
    schema = fs.data.Schema((fs.data.Numeric("u", impute="complete"), fs.data.Numeric("v")))
    (some,), _ = fs.data.complete_cases([client], fs.data.Preprocess(schema))
    assert some.n_samples == 3


# ── parquet ──


def test_parquet(files: dict[str, Path], tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = rows_of(1)
    table = arrow.table(
        {"ill": [row[2] for row in rows], "age": [row[0] for row in rows], "sex": [row[1] for row in rows]}
    )
    parquet.write_table(table, tmp_path / "bryn.parquet")
    expected = load_sites(files, target="ill", schema=SCHEMA)
    found = load_sites({**files, "bryn": tmp_path / "bryn.parquet"}, target="ill", schema=SCHEMA)
    assert found.clients[1].X.tolist() == expected.clients[1].X.tolist()
    assert found.clients[1].y.tolist() == expected.clients[1].y.tolist()
    one = fs.data.load(tmp_path / "bryn.parquet", target="ill")
    assert one.target_names == ("no", "yes")
    parquet.write_table(arrow.table({"ill": [1, 0, None], "age": [[1], [2], [3]]}), tmp_path / "bryn.parquet")
    with pytest.raises(DataError, match=r"bryn\.parquet, row 1, column age: a value of type list"):
        fs.data.load(tmp_path / "bryn.parquet", target="ill")


def test_parquet_without_pyarrow(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bryn.parquet").write_bytes(b"PAR1....")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r'needs pyarrow: pip install "fedsolve\[parquet\]"'):
        load_sites({**files, "bryn": tmp_path / "bryn.parquet"}, target="ill")


def test_undeclared_categories_are_said_with_their_line(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,47,x\nno,52,m\nno,55,x\n")
    said = load_sites(files, target="ill", schema=SCHEMA).notes
    place = "bryn.csv, line 3, column sex: 'x' is none of the declared categories ('f', 'm'), as in 2 of 4 "
    assert f"{place}rows (50.0%); they count as the category 'other'" in said
    strict = fs.data.Schema((fs.data.Numeric("age"), fs.data.Categorical("sex", ("f", "m"), unseen="error")))
    with pytest.raises(DataError, match=r"bryn\.csv, line 3, column sex: 'x' is none of the declared categories"):
        load_sites(files, target="ill", schema=strict)


def test_an_infinite_number(files: dict[str, Path]) -> None:
    files["bryn"].write_text("ill,age,sex\nyes,61,f\nno,inf,m\n")
    with pytest.raises(DataError, match=r"bryn\.csv, line 3, column age: an infinite number"):
        load_sites(files, target="ill", schema=SCHEMA)


def test_a_header_of_numbers_is_known_by_the_target(tmp_path: Path) -> None:
    for site in ("a", "b"):
        (tmp_path / f"{site}.csv").write_text("2019,2020,ill\n1,2,0\n3,4,1\n")
    assert load_sites("*.csv", target="ill", folder=tmp_path).feature_names == ("2019", "2020")


def test_names_that_need_quotes_in_a_run_file(tmp_path: Path) -> None:
    (tmp_path / "st. a.csv").write_text("blood pressure,y\n120,1\n-9,0\n130,1\n")
    with written_in("run file"), pytest.raises(DataError, match=r'na = { "blood pressure" = \[-9\] }'):
        load_sites("*.csv", target="y", folder=tmp_path)
    (tmp_path / "b.csv").write_text("blood pressure,age,y\n100,1,1\n90,2,0\n")
    lacks = r'st\. a\.csv, line 1: it lacks .age.*\[data\.sites\."st\. a"\]'
    with written_in("run file"), pytest.raises(DataError, match=lacks):
        load_sites("*.csv", target="y", folder=tmp_path, na=[])


def test_the_site_that_differs_is_named_even_if_it_is_the_first(files: dict[str, Path]) -> None:
    files["arden"].write_text("ill,age\nyes,61\nno,47\n")
    with pytest.raises(DataError, match=r"arden\.csv, line 1: it lacks 'sex'; most sites have 'age', 'sex'"):
        load_sites(files, target="ill")
