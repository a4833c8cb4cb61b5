"""Rows of the server's own between sites: read where a run is submitted, carried by its job, used at the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fedsolve as fs
from fedsolve.cli import deployment
from fedsolve.cli.main import app
from fedsolve.deploy import server_rows
from fedsolve.deploy.admin import SiteSeen
from fedsolve.deploy.job_folder import write_job
from fedsolve.deploy.preview import asked_of_sites
from fedsolve.deploy.server_run import ServerRun
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.client import Client
from fedsolve.runfiles import server_file
from fedsolve.runfiles.toml_writer import dumps
from tests.deploy.test_commands import LEAD, OneJob, leave
from tests.extras import optional
from tests.sites.curious import Direct
from tests.sites.hospitals import COLUMNS, LOSS, NAMES, PREPROCESS, Hospitals, hospitals, rows, site_text

RUN = "0123456789abcdef"
LRGD = {"name": "FedLRGD", "loss": {"name": "Logistic", "intercept": "free"}}
NETWORK = {"name": "Network", "architecture": {"name": "MLP", "hidden": [3]}, "loss": {"name": "Softmax", "classes": 2}}
OWN = {"file": "public.csv", "classes": ["no", "yes"]}


def text(algorithm: object = LRGD, server: object = OWN, **tables: Any) -> str:
    whole = {
        "sites": {"names": list(NAMES), "target": "ill"},
        "preprocess": {"schema": COLUMNS},
        "algorithm": algorithm,
        **({} if server is None else {"server": server}),
        **tables,
    }
    return dumps(whole)


def own_file(folder: Path, count: int = 8, old: str = "", new: str = "") -> Path:
    path = folder / "public.csv"
    path.write_text("\n".join(rows("public", count, 3)).replace(old, new) + "\n")
    return path


def read(folder: Path, run: str) -> Client:
    found = server_rows.read(server_file.parse(run), folder)
    assert found is not None
    return found


def through_a_job(rows: Client) -> Client:
    return server_rows.from_plain(json.loads(json.dumps(server_rows.to_plain(rows), allow_nan=False)))


def same_rows(a: Client, b: Client) -> bool:
    cells = zip(a.X.ravel().tolist(), b.X.ravel().tolist(), strict=True)
    alike = all(x == y or (x != x and y != y) for x, y in cells) and a.X.dtype == b.X.dtype
    targets = a.y is b.y if a.y is None or b.y is None else np.array_equal(a.y, b.y)
    return alike and targets and (a.feature_names, a.classes) == (b.feature_names, b.classes)


# ── a run ──


def carried(found: Hospitals, folder: Path, run: str) -> dict[str, Any]:
    plain = json.loads(json.dumps(server_rows.to_plain(read(folder, run))))
    return ServerRun(RUN, run, "", folder / "run", plain).execute(Direct(found.files), lambda row: None)


def test_a_run_between_sites_is_that_of_a_simulation_to_the_bit(tmp_path: Path) -> None:
    found, path = hospitals(tmp_path), own_file(tmp_path)
    summary = carried(found, tmp_path, text())
    assert summary["status"] == "converged", summary["message"]
    server = fs.data.load_sites({"server": path}, target="ill", classes=["no", "yes"], schema=PREPROCESS.schema)
    here = fs.run(fs.FedLRGD(LOSS), found.clients, preprocess=PREPROCESS, server=server.clients[0])
    model = fs.load_model(tmp_path / "run" / "model.npz")
    assert isinstance(model, fs.LinearModel)
    assert np.array_equal(model.w, here.model.w)
    everyone = [*found.clients, server.clients[0]]
    pooled = fs.run(fs.Newton(LOSS), everyone, preprocess=fs.data.Preprocess(PREPROCESS.schema), tolerance=1e-12)
    inputs = server.clients[0].X
    np.testing.assert_allclose(model.predict_proba(inputs), pooled.model.predict_proba(inputs), atol=1e-5)


@pytest.mark.parametrize("name", ["FedAvgDistill", "FFGBDistill"])
def test_networks_are_distilled_on_rows_without_targets(name: str, tmp_path: Path) -> None:
    optional("torch")
    found = hospitals(tmp_path, policy="networks = true")
    own_file(tmp_path, 20)
    run = text({"name": name, "loss": NETWORK}, {"file": "public.csv"}, run={"rounds": 2})
    assert read(tmp_path, run).y is None
    assert carried(found, tmp_path, run)["rounds"] == 2
    model: Any = fs.load_model(tmp_path / "run" / "model.npz")
    assert np.isfinite(model.predict_proba(found.clients[0].X)).all()


def test_a_run_goes_on_with_the_same_rows_only(tmp_path: Path) -> None:
    found, path = hospitals(tmp_path), own_file(tmp_path)
    short = text(run={"rounds": 1})
    assert carried(found, tmp_path, short)["status"] == "rounds"
    own_file(tmp_path, 9)
    with pytest.raises(DataError, match="is not what the run began with"):
        carried(found, tmp_path, text())
    own_file(tmp_path)
    assert path.is_file()
    assert carried(found, tmp_path, text())["status"] == "converged"


def test_the_server_opens_no_file_that_a_job_names(tmp_path: Path) -> None:
    found, path = hospitals(tmp_path), own_file(tmp_path)
    run = text(server={**OWN, "file": str(path)})
    with pytest.raises(ConfigError, match=r"has not brought the rows of \[server\]"):
        ServerRun(RUN, run, "", tmp_path / "run").execute(Direct(found.files), lambda row: None)


def test_classes_that_sites_do_not_have(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    own_file(tmp_path)
    with pytest.raises(DataError, match=r"declares the classes .*'yes', 'no'.*, the clients .*'no', 'yes'"):
        carried(found, tmp_path, text(server={"file": "public.csv", "classes": ["yes", "no"]}))


# ── the rows ──


@pytest.mark.parametrize("algorithm", [LRGD, {"name": "FFGBDistill", "loss": NETWORK}], ids=lambda one: one["name"])
@pytest.mark.parametrize("schema", [True, False])
def test_rows_are_the_same_behind_a_job(algorithm: object, schema: bool, tmp_path: Path) -> None:
    own_file(tmp_path, 30)
    preprocess = {"schema": COLUMNS} if schema else {}
    drop = {} if schema else {"drop": ["sex"]}
    found = read(tmp_path, text(algorithm, {**OWN, **drop}, preprocess=preprocess))
    assert same_rows(found, through_a_job(found))
    assert found.feature_names == (("age", "pressure", "sex") if schema else ("age", "pressure"))
    assert (found.y is None) == (algorithm is not LRGD)


def test_odd_cells_are_the_same_behind_a_job() -> None:
    floats = np.array([[0.1 + 0.2, -0.0, 5e-324], [np.nan, 1e308, 1 / 3]])
    mixed = np.array([["1", 1.0, np.nan], ["é\n", -0.5, np.nan]], dtype=object)
    for X in (floats, mixed):
        for y, classes in ((None, None), (np.array([0.25, -1.0]), None), (np.array(["b", "a"]), ("a", "b"))):
            one = Client("server", X, y, feature_names=["x", "y", "z"], classes=classes)
            assert same_rows(one, through_a_job(one))
    assert np.signbit(through_a_job(Client("server", floats, None, feature_names=["x", "y", "z"])).X[0, 1])


@pytest.mark.parametrize(
    "plain", [{}, {"cells": 1}, {"columns": ["x"], "cells": [["a"]]}, {"columns": ["x"], "cells": [[1.0], [1.0, 2.0]]}]
)
def test_a_job_with_rows_that_are_none(plain: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="no rows of the server's own that can be read"):
        server_rows.from_plain(plain)


def test_so_many_rows_are_drawn(tmp_path: Path) -> None:
    own_file(tmp_path, 30)
    every, some = read(tmp_path, text()), read(tmp_path, text(server={**OWN, "rows": 10, "seed": 4}))
    chosen = np.sort(np.random.default_rng(4).choice(30, 10, replace=False))
    assert some.X.tolist() == every.X[chosen].tolist()
    assert np.array_equal(some.y, every.y[chosen])
    assert read(tmp_path, text(server={**OWN, "rows": 99})).n_samples == 30


def test_public_rows_need_no_target(tmp_path: Path) -> None:
    run = text({"name": "FedAvgDistill", "loss": NETWORK}, {"file": "public.csv"})
    own_file(tmp_path)
    with_target = read(tmp_path, run)
    lines = [line.rsplit(",", 1)[0] for line in (tmp_path / "public.csv").read_text().splitlines()]
    (tmp_path / "public.csv").write_text("\n".join(lines) + "\n")
    assert same_rows(with_target, read(tmp_path, run))


def test_more_rows_than_a_job_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_rows.MOST < 10 * 2**20  # of a file of a job, for NVFlare
    monkeypatch.setattr(server_rows, "MOST", 100)
    own_file(tmp_path)
    with pytest.raises(ConfigError, match=r"take fewer, with server\.rows"):
        server_rows.to_plain(read(tmp_path, text()))


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"file": "publik.csv"}, r"server\.file: there is no file .*publik\.csv"),
        ({"file": "public.csv"}, "none of the declared classes"),
        ({**OWN, "target": "sick"}, "sick"),
        ({**OWN, "drop": ["sex"]}, r"absent = \[\"sex\"\] under \[server\]"),
    ],
)
def test_files_that_do_not_fit(server: object, said: str, tmp_path: Path) -> None:
    own_file(tmp_path)
    with pytest.raises((ConfigError, DataError), match=said):
        read(tmp_path, text(server=server))


# ── the run file ──


@pytest.mark.parametrize(
    ("algorithm", "server", "said"),
    [
        (LRGD, None, r"FedLRGD computes with rows of the server's own, with their targets: .*\[server\] file = a path"),
        ({"name": "FFGBDistill", "loss": NETWORK}, None, "FFGBDistill computes with .*, without their targets"),
        ({"name": "FedAvgDistill", "loss": NETWORK}, None, "FedAvgDistill computes with .*, without their targets"),
        ({**LRGD, "name": "Newton"}, OWN, r"Newton has no use for the rows of \[server\]"),
        (LRGD, {"rows": 5}, "server: give file = a path: .* are for simulations"),
        (LRGD, {"dataset": "iris"}, "server: give file = a path: .* are for simulations"),
        (LRGD, {}, r"server\.file is missing"),
        (LRGD, {"fle": "x"}, r"server\.fle is not known, did you mean 'file'"),
        (LRGD, {**OWN, "split_by": "x"}, r"server\.split_by is not known"),
    ],
)
def test_a_server_table_that_does_not_fit(algorithm: object, server: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        server_file.parse(text(algorithm, server))


def test_intercepts_of_sites_and_rows_of_no_site() -> None:
    with pytest.raises(ConfigError, match="belong to no site"):
        server_file.parse(text(preprocess={"schema": COLUMNS, "site_intercepts": True}))


# ── the commands ──


def consent(folder: Path, run: str) -> Result:
    (folder / "site.toml").write_text(site_text("arden"))
    (folder / "run.toml").write_text(run)
    return CliRunner().invoke(app, ["consent", str(folder / "site.toml"), str(folder / "run.toml")])


def test_a_site_is_not_told_that_it_takes_part_in_what_cannot_be_submitted(tmp_path: Path) -> None:
    said = consent(tmp_path, text(server=None))
    assert said.exit_code == 2
    assert "FedLRGD computes with rows of the server's own" in said.stderr
    said = consent(tmp_path, text())  # without the server's rows, which stay with whoever submits
    assert said.exit_code == 0, said.output
    assert "arden takes part in this run." in said.stdout
    assert asked_of_sites(server_file.parse(text())).target == "ill"


def test_the_rows_are_in_the_servers_part_of_the_job_alone(tmp_path: Path) -> None:
    own_file(tmp_path)
    job = write_job(tmp_path, "job", RUN, text(), NAMES, "", server_rows.to_plain(read(tmp_path, text())))
    having = [one for one in job.rglob("*.json") if "cells" in one.read_text()]
    assert having == [job / "app_server/config/server_rows.json"]
    assert len(list(job.rglob("*.json"))) == 5


def test_submit_reads_the_rows_beside_the_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    class Server(OneJob):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(leave)

        def sites(self) -> list[SiteSeen]:
            return [SiteSeen(name, 1.0) for name in NAMES]

        def submit(self, folder: Path, token: str) -> str:
            sent.append(json.loads((folder / "app_server/config/server_rows.json").read_text()))
            return "job"

    monkeypatch.setattr(deployment, "open_kit", lambda folder, kind: LEAD)
    monkeypatch.setattr(deployment, "Admin", Server)
    (tmp_path / "run.toml").write_text(text())
    given = ["submit", str(tmp_path / "run.toml"), "--kit", "kit", "--output", str(tmp_path / "out"), "--json"]
    missing = CliRunner().invoke(app, given)
    assert missing.exit_code == 2
    assert "there is no file" in missing.stderr
    assert not (tmp_path / "out").exists()
    own_file(tmp_path)
    CliRunner().invoke(app, given)
    assert same_rows(server_rows.from_plain(sent[0]), read(tmp_path, text()))
