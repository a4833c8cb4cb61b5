"""`fedsolve select`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.runfiles import toml_writer as toml
from tests.cli.conftest import Command, command, run_file
from tests.selection import test_kernel_width
from tests.selection.pooled import judged

__all__ = ["command", "run_file"]

RunFile = Callable[..., Path]
SELECT = "\n[select]\nl2 = [1e-4, 1e-2, 1.0]\n"


def test_json_is_what_python_finds(command: Command, run_file: RunFile) -> None:
    outcome = command("select", run_file(add=SELECT + "folds = 3\nseed = 5\n"), "--json", "-o", "chosen")
    assert (outcome.status, outcome.err) == (0, "")
    found = outcome.json
    data = fs.data.load("breast_cancer")
    scheme, names = fs.data.Dirichlet(0.5, min_samples=20), data.feature_names
    parties = fs.data.partition(data.X, data.y, scheme, clients=4, feature_names=names)
    grid = fs.loss_grid(fs.Logistic(intercept="free"), l2=[1e-4, 1e-2, 1.0])
    expected = fs.cross_validate(grid, parties, folds=3, seed=5, preprocess=fs.data.Preprocess())
    errors = {each.loss.l2: each.errors for each in expected.candidates}
    assert {row["values"]["l2"]: tuple(row["errors"]) for row in found["rows"]} == errors
    assert found["best"] == {"l2": expected.best.l2}
    assert found["simplest"] == {"l2": expected.simplest.l2}
    assert [row["values"]["l2"] for row in found["rows"] if row["best"]] == [expected.best.l2]
    total, setup = expected.ledger.total(), expected.ledger.total("setup")
    assert (found["exchanges"], found["bytes_up"], found["bytes_down"]) == (
        total.exchanges,
        total.bytes_up,
        total.bytes_down,
    )
    assert found["setup_bytes_up"] == setup.bytes_up
    assert (found["error"], found["folds"], found["seed"], found["samples"]) == ("log-loss", 3, 5, 569)
    folder = Path("chosen")
    assert json.loads((folder / "summary.json").read_text()) == found
    sent = (folder / "ledger.csv").read_text().splitlines()[1:]
    assert (
        sum(int(line.split(",")[6]) for line in sent if ",up," in line and ",setup,up," not in line) == total.bytes_up
    )


def test_for_people_and_the_fit_that_follows(command: Command, run_file: RunFile) -> None:
    outcome = command("select", run_file(add=SELECT), "--output", "chosen")
    assert outcome.status == 0
    for word in ("breast_cancer, 4 clients, 569 samples", "log-loss", "accuracy", "best", "exchanges", "only sums"):
        assert word in outcome.out
    best = next(line for line in outcome.out.splitlines() if "  best" in line)
    assert best.split()[0] == "0.01"
    assert "Best: l2 = 0.01" in outcome.out
    assert "of its list" not in outcome.out
    page = Path("chosen/report.html").read_text(encoding="utf-8")
    for word in ("Cross-validation on breast_cancer", "folds.evaluate", "fedsolve select", "l2 = [1e-4, 1e-2, 1.0]"):
        assert word in page
    assert "fedsolve run chosen/chosen.toml" in outcome.out
    assert command("run", run_file(add=SELECT), "-o", "as-it-was").status == 0  # which does not look at [select]
    after = command("run", "chosen/chosen.toml", "--json", "--output", "fit")
    assert (after.status, after.json["status"]) == (0, "converged")
    assert "l2=0.01" in after.json["hyper_parameters"]
    assert "select" not in tomllib.loads(Path("chosen/chosen.toml").read_text(encoding="utf-8"))


def test_the_run_file_for_both_roads_and_the_folder(command: Command, run_file: RunFile) -> None:
    here = command("select", run_file(add=SELECT), "--json", "-o", "a").json
    there = command("select", run_file(add='transport = "processes"\n' + SELECT), "--json", "-o", "b").json
    assert here["rows"] == there["rows"]
    assert here["bytes_up"] == there["bytes_up"]
    again = command("select", run_file(add=SELECT), "-o", "a")
    assert again.status == 2
    assert "not empty" in again.sentence
    assert command("select", run_file(add=SELECT), "-o", "a", "--force").status == 0
    assert command("select", run_file(add=SELECT), "--json").json["folder"].startswith("runs/problem-select-")


KERNEL = """
[data]
file = "circle.npz"
split_by = "groups"

[loss]
name = "{name}"
intercept = "free"
features = {{ name = "RandomFourier", features = 40, gamma = 9.0, seed = 4 }}

[[algorithms]]
name = "Newton"

[[algorithms]]
name = "FedNewtonCG"

[select]
l2 = {{ low = 1e-5, high = 1e-1, points = 3 }}
features = {{ gamma = [1e-3, 0.3, 100] }}
folds = 4
seed = 1
"""


@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
def test_the_width_of_a_kernel(command: Command, tmp_path: Path, kind: str) -> None:
    """Against pooled cross-validation; a [loss] that several algorithms share; a data file from elsewhere."""
    parties = test_kernel_width.clients(kind)
    (tmp_path / "there").mkdir()
    np.savez(
        tmp_path / "there/circle.npz",
        X=np.vstack([c.X for c in parties]),
        y=np.concatenate([c.y for c in parties]),
        groups=np.repeat([c.name for c in parties], [c.n_samples for c in parties]),
    )
    (tmp_path / "there/circle.toml").write_text(KERNEL.format(name=kind.capitalize()), encoding="utf-8")
    outcome = command("select", "there/circle.toml", "--json", "-o", "chosen")
    assert outcome.err == ""
    grid = fs.loss_grid(test_kernel_width.LOSSES[kind], l2=[1e-5, 1e-3, 1e-1], features={"gamma": [1e-3, 0.3, 100.0]})
    pooled = {loss: np.mean([error for error, _ in judged(parties, loss, 4, 1)]) for loss in grid}
    best: Any = min(pooled, key=lambda loss: pooled[loss])
    assert outcome.json["best"] == {"l2": best.l2, "features": {"gamma": 0.3}}
    chosen = tomllib.loads(Path("chosen/chosen.toml").read_text(encoding="utf-8"))
    assert chosen["loss"]["features"] == {"name": "RandomFourier", "features": 40, "gamma": 0.3, "seed": 4}
    assert chosen["loss"]["l2"] == best.l2
    assert command("compare", "chosen/chosen.toml", "-o", "fits", "--json").json["status"] == "ok"


def test_a_choice_at_the_end_of_its_list_is_said(command: Command, run_file: RunFile) -> None:
    low = command("select", run_file(add="\n[select]\nl2 = [1e-6, 1e-5]\n"), "-o", "a").out
    assert "l2 = 1e-05 is the largest of its list: larger ones may be better still." in low
    high = command("select", run_file(add="\n[select]\nl2 = [1.0, 10.0]\n"), "-o", "b", "--json").json
    assert high["notices"] == ["l2 = 1 is the smallest of its list: smaller ones may be better still."]


def test_points_without_a_minimum_are_said(command: Command, run_file: RunFile) -> None:
    found = command("select", run_file(add="\n[select]\nl2 = [0, 0.01, 0.1]\n"), "-o", "a", "--json").json
    assert found["best"] == {"l2": 0.01}
    assert found["rows"][0]["error"] is None
    assert "1 of the grid's points have no error" in found["notices"][0]
    assert "classes that can be separated" in found["notices"][0]


@pytest.mark.parametrize(
    ("add", "message"),
    [
        ("", "has no [select] table"),
        ("\n[select]\nfolds = 3\n", "select: there is nothing to choose between"),
        ("\n[select]\nl2 = []\n", "there is nothing to choose between"),
        ("\n[select]\nl2 = 0.1\n", "select.l2 must be a list in brackets or a table, got 0.1"),
        ("\n[select]\nl2 = [0.1, 'x']\n", "select.l2[1] must be a number"),
        ("\n[select]\nl2 = [-1.0, 1.0]\n", "select: l2 is a finite penalty of at least 0, got -1.0"),
        (
            "\n[select]\nl2 = { low = 0, high = 1, points = 3 }\n",
            "problem.toml: select.l2.low must be greater than 0.0, got 0",
        ),
        (
            "\n[select]\nl2 = { low = 1, high = 0.1, points = 3 }\n",
            "problem.toml: select.l2: low = 1 is above high = 0.1",
        ),
        ("\n[select]\nl1 = { low = 1, hig = 2, points = 3 }\n", "problem.toml: select.l1.high is missing"),
        ("\n[select]\nl2 = { low = 1, high = 2 }\n", "select.l2.points is missing"),
        ("\n[select]\nl2 = [0.1]\nfolds = 1\n", "select.folds must be at least 2, got 1"),
        ("\n[select]\nl2 = [0.1]\nfold = 3\n", "select.fold is not known, did you mean 'folds'?"),
        ("\n[select]\nl2 = [0.1]\nfolds = 570\n", "570 folds of 569 samples"),
        ("\n[select]\nfeatures = { gamma = [1.0] }\n", "gamma would be of the loss's feature map, and it has none"),
    ],
)
def test_wrong_input(command: Command, run_file: RunFile, tmp_path: Path, add: str, message: str) -> None:
    outcome = command("select", run_file(add=add), "-o", "results")
    assert outcome.status == 2
    assert message in outcome.err.splitlines()[0]
    assert not (tmp_path / "results").exists()


def test_different_losses_are_refused(command: Command, run_file: RunFile) -> None:
    second = '\n[[algorithms]]\nname = "Newton"\nloss = "Logistic"\n[[algorithms]]\nname = "Newton"\nloss = "Squared"\n'
    text = run_file(add=SELECT).read_text().replace("[algorithm]\nname", "[other]\nname")
    text = text[: text.index("[other]")] + text[text.index("[run]") :]
    Path("two.toml").write_text(text.replace("[run]", second + "\n[run]"), encoding="utf-8")
    outcome = command("select", "two.toml")
    assert outcome.status == 2
    assert "[select] chooses for one loss, and the algorithms have 2" in outcome.sentence


def test_tables_are_read_back_as_they_were() -> None:
    tables = {
        "first": 1,
        "data": {"file": 'a "b"\\\n\tc/ü\x7f', "rows": 10, "drop": ["x", 3], "empty": [], "none": {}},
        "run": {"tolerance": 1e-300, "seed": 2**63, "resume": True, "gap": float("inf"), "two words": 0.1 + 0.2},
        "algorithms": [{"name": "Newton"}, {"name": "FedAvg", "local": {"steps": 5, "a": {"b": [1.5, 2.0]}}}],
    }
    assert tomllib.loads(toml.dumps(tables)) == tables


def test_penalties_the_algorithm_has_no_step_for_are_refused(
    command: Command, run_file: RunFile, tmp_path: Path
) -> None:
    file = run_file(('name = "Newton"', 'name = "FedNewtonCG"'), add="\n[select]\nl1 = [0.0, 1e-3]\n")
    outcome = command("select", file, "-o", "results")
    assert outcome.status == 2
    assert "select: FedNewtonCG has no step for an l1 penalty; use Newton" in outcome.sentence
    assert not (tmp_path / "results").exists()


def test_a_link_too_narrow_for_the_replies_names_reply_bytes(command: Command, run_file: RunFile) -> None:
    outcome = command("select", run_file(add=SELECT + "\n[link]\nbytes_per_round = 5000\n"), "-o", "results")
    assert outcome.status == 2
    assert "smaller reply_bytes" in outcome.sentence
    assert "SHED" not in outcome.sentence
