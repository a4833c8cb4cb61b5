"""What a site says of its own files is what its administrator can write: TOML, and where it stands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError, PolicyRefusal, StorageError
from fedsolve.sites import Site, read_site_file
from fedsolve.sites.fill_log import Fill, FillLog
from fedsolve.sites.told import told_of
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, site_text, terms

ASKED = {"algorithm": fs.Newton(LOSS), "preprocess": PREPROCESS}
OF_SITE = " under [data] of the site file"


def start(folder: Path, data: str = "") -> Site:
    (folder / "arden.toml").write_text(site_text("arden", data=data))
    return Site(read_site_file(folder / "arden.toml"), terms().asking(ASKED))


def rows_of(folder: Path) -> list[str]:
    hospitals(folder)
    return (folder / "arden.csv").read_text().splitlines()


def write(folder: Path, lines: list[str]) -> None:
    (folder / "arden.csv").write_text("\n".join(lines) + "\n")


def test_a_forgotten_rename(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [header.replace("pressure", "bp_sys"), *lines])
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    do = 'rename = { "bp_sys" = "pressure" }'
    assert f"Write {do}{OF_SITE} if they are the same" in str(caught.value)
    assert "SiteReading" not in str(caught.value)
    start(tmp_path, do)


def test_a_forgotten_rename_of_a_column_that_the_run_does_not_ask_for(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [header.replace("pressure", "bp_sys"), *lines])
    few = fs.data.Preprocess(fs.data.Schema(tuple(one for one in PREPROCESS.schema.columns if one.name != "pressure")))  # type: ignore[union-attr]
    about, asked = read_site_file(tmp_path / "arden.toml"), terms().asking({**ASKED, "preprocess": few})
    with pytest.raises(DataError) as caught:
        Site(about, asked)
    assert "no column 'pressure', which [[schema]] of the site file declares" in str(caught.value)
    assert f'Write rename = {{ "bp_sys" = "pressure" }}{OF_SITE}' in str(caught.value)


def test_a_forgotten_code_for_missing_cells(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [header, *(f"{one.split(',')[0]},-9,{one.split(',', 2)[2]}" for one in lines[:9]), *lines[9:]])
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    do = "na = { pressure = [-9] }"
    assert f"write {do}{OF_SITE} if it is" in str(caught.value)
    start(tmp_path, do)


def test_a_column_that_nobody_declared(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [f"{header},ward", *(f"{one},7" for one in lines)])
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    assert f'Write drop = ["ward"]{OF_SITE}, beside what is in the list, to leave it out' in str(caught.value)
    start(tmp_path, 'drop = ["ward"]')


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [one.partition(",")[2] for one in (header, *lines)])
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    assert f'absent = ["age"]{OF_SITE} if this site has no values of it' in str(caught.value)
    assert "take age out of the [[preprocess.schema]] of the run file" in str(caught.value)


def test_a_category_that_nobody_declared(tmp_path: Path) -> None:
    header, *lines = rows_of(tmp_path)
    write(tmp_path, [header, *(one.replace(",f,", ",x,") for one in lines[:9]), *lines[9:]])
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    said = str(caught.value)
    assert "declare it in the [[schema]] of sex, in the site files of all sites" in said
    assert 'unseen = "other" or unseen = "zeros" under the [[preprocess.schema]] of sex of the run file' in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (",yes", ",", f'missing_target = "drop"{OF_SITE}'),
        ("age,pressure,sex,ill", "age,pressure,sex,ill\nx,1,f,no", f'write na = {{ age = ["x"] }}{OF_SITE}'),
    ],
)
def test_other_keys_say_where_they_stand(old: str, new: str, said: str, tmp_path: Path) -> None:
    lines = rows_of(tmp_path)
    (tmp_path / "arden.csv").write_text("\n".join(lines).replace(old, new, 1) + "\n")
    with pytest.raises(DataError) as caught:
        start(tmp_path)
    assert said in str(caught.value)


def test_a_run_without_a_schema_of_a_file_with_text(tmp_path: Path) -> None:
    lines = rows_of(tmp_path)
    (tmp_path / "arden.toml").write_text(site_text("arden", declared=""))
    assert lines
    with pytest.raises(DataError, match=r"declare all columns as \[\[schema\]\], in the site files of all sites"):
        Site(read_site_file(tmp_path / "arden.toml"), terms().asking({"algorithm": fs.Newton(LOSS)}))


def test_defaults_of_the_policy_are_toml(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(site_text("a", "min_row = 3"))
    with pytest.raises(ConfigError) as caught:
        read_site_file(path)
    listed = str(caught.value).partition("Policy takes: ")[2]
    for part in ("refuse = []", "networks = false", "fills = true", 'also = ["StandardErrors", "FederationGain", '):
        assert part in listed
    names = [part.split(" = ")[0] for part in listed.split(", ") if " = " in part]
    lines = listed
    for name in names[1:]:
        lines = lines.replace(f", {name} = ", f"\n{name} = ")
    read = tomllib.loads(lines)
    assert read["min_rows"] == 5
    path.write_text(site_text("a", lines))
    assert read_site_file(path).policy == fs.sites.Policy()


def test_a_refusal_by_fills_says_what_to_write(tmp_path: Path) -> None:
    log = FillLog(tmp_path / "fills.json")
    log.keep({"pressure": Fill("a", few=True)})
    with pytest.raises(PolicyRefusal) as caught:
        log.check({"pressure": Fill("b", few=True)})
    said = str(caught.value)
    assert 'impute = NUMBER under name = "pressure" in [[preprocess.schema]] of the run file' in said
    assert 'fs.load_model("…/model.npz").transform.fills["pressure"]' in said


def test_what_a_transform_fills_with_is_by_name() -> None:
    schema = fs.data.Schema(
        (
            fs.data.Categorical("sex", ("f", "m"), impute="mode"),
            fs.data.Numeric("age"),
            fs.data.Numeric("size", impute=None),
        )
    )
    X = np.array([["m", 1.0, 2.0], ["m", 4.0, 2.5], [np.nan, np.nan, 3.0], ["f", 4.0, 2.0]], dtype=object)
    client = fs.Client("a", X, np.array([0.0, 1.0, 0.5, 1.0]), feature_names=["sex", "age", "size"])
    run = fs.run(fs.Newton(fs.Squared(l2=0.1)), [client], preprocess=fs.data.Preprocess(schema))
    assert run.model.transform.fills == {"sex": "m", "age": 3.0}


@pytest.mark.parametrize("folder", ["plain", "with some spaces"])
def test_the_data_file_is_not_named_to_a_server_and_the_site_file_without_its_folders(
    folder: str, tmp_path: Path
) -> None:
    home = tmp_path / folder
    home.mkdir()
    about = read_site_file(hospitals(home).files["arden"])
    assert told_of(StorageError(f"{about.file} cannot be read"), about) == "the data file cannot be read"
    path = home / "arden.toml"
    assert told_of(StorageError(f"the site file {path} cannot be read"), None, path) == (
        "the site file arden.toml cannot be read"
    )
