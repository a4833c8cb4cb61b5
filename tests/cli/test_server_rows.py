"""FedLRGD from a run file: rows of the server with their targets, by either transport."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from tests.cli.conftest import Command

RUN = """
[server]
rows = 8
seed = 3

[data]
dataset = "iris"
positive = "setosa"

[partition]
clients = 3
scheme = "dirichlet"
alpha = 0.5
seed = 1

[algorithm]
name = "FedLRGD"
loss = { name = "Logistic", l2 = 0.1, intercept = "penalised" }

[run]
rounds = 30
transport = "TRANSPORT"
"""


def written(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_run_file_with_rows_of_the_server(command: Command, tmp_path: Path) -> None:
    weights = []
    for transport in ("in_process", "processes"):
        file = written(tmp_path, RUN.replace("TRANSPORT", transport), f"{transport}.toml")
        outcome = command("run", str(file), "--output", str(tmp_path / transport), "--json")
        assert outcome.status == 0, outcome.err
        assert outcome.json["status"] == "converged"
        weights.append(fs.load_model(tmp_path / transport / "model.npz").w)
    assert np.array_equal(*weights)
    problem = problems.prepare(config.parse(file.read_text(), str(file)), file)
    assert problem.server is not None
    assert problem.server.y is not None
    everyone = [*problem.clients, problem.server]
    assert sum(one.n_samples for one in everyone) == 150
    assert sum(one.y.sum() for one in everyone) == 50
    loss = fs.Logistic(l2=0.1, intercept="penalised")
    direct = fs.run(fs.FedLRGD(loss), problem.clients, server=problem.server, rounds=30)
    assert np.array_equal(direct.model.w, weights[0])
    pooled = fs.run(fs.Newton(loss), everyone, tolerance=1e-12).model.w
    np.testing.assert_allclose(weights[0], pooled, rtol=1e-6, atol=1e-8)


def test_a_run_file_without_a_server_says_so(command: Command, tmp_path: Path) -> None:
    text = RUN.replace("[server]\nrows = 8\nseed = 3\n", "").replace("TRANSPORT", "in_process")
    outcome = command("run", str(written(tmp_path, text, "run.toml")), "--output", str(tmp_path / "out"), "--json")
    assert outcome.status == 2
    assert "data of the server's own" in outcome.out + outcome.err


@pytest.mark.parametrize(("labels", "status"), [(("not setosa", "setosa"), 0), (("setosa", "rose"), 2)])
def test_classes_of_a_file_of_the_servers_own(
    command: Command, tmp_path: Path, labels: tuple[str, str], status: int
) -> None:
    iris = fs.data.load("iris").binary("setosa")
    chosen = np.r_[0:4, 50:54]
    names = np.array(labels)[iris.y[chosen]]
    lines = [",".join([*iris.feature_names, "species"])]
    lines += [",".join([*map(str, row), name]) for row, name in zip(iris.X[chosen], names, strict=True)]
    written(tmp_path, "\n".join(lines) + "\n", "own.csv")
    text = RUN.replace("rows = 8\nseed = 3", 'file = "own.csv"\ntarget = "species"').replace("TRANSPORT", "in_process")
    outcome = command("run", str(written(tmp_path, text, "run.toml")), "--output", str(tmp_path / "out"), "--json")
    assert outcome.status == status, outcome.err
    if status:
        assert "give both the same classes" in outcome.out + outcome.err
