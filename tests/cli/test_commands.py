"""The commands that need no run file, the examples, and what importing costs."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fedsolve as fs
from fedsolve.cli import demo
from fedsolve.errors import ClientError, ConfigError
from fedsolve.report import tables
from fedsolve.runfiles.registry import names

from .conftest import Command

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_demo(command: Command, tmp_path: Path) -> None:
    outcome = command("demo", "--json")
    assert outcome.status == 0
    result = outcome.json
    rows = {row["algorithm"]: row for row in result["rows"]}
    assert list(rows) == list(names("algorithm"))
    for row in rows.values():
        assert {"status", "rounds", "bytes_up", "bytes_down", "distance_to_pooled"} <= set(row)
    assert rows["Newton"]["status"] == "converged"
    assert rows["Newton"]["distance_to_pooled"] <= 1e-8
    assert rows["Scaffold"]["distance_to_pooled"] <= 1e-6
    assert rows["FedNewtonCG"]["distance_to_pooled"] <= 1e-8
    assert rows["FedNL"]["distance_to_pooled"] <= 1e-8
    assert rows["FedNewton"]["status"] == "diverged"  # a result, not a fault
    assert rows["FedAvg"]["distance_to_pooled"] > 1e-3  # local steps on unlike clients: beside the solution
    assert rows["DKRR"]["distance_to_pooled"] > 1e-3  # so is the average of local fits
    assert result["pooled"]["gradient_norm"] < 1e-10
    assert sum(site["patients"] for site in result["hospitals"]) == 569
    assert all(0 < site["malignant"] < 1 for site in result["hospitals"])
    assert rows["SHED"]["distance_to_pooled"] <= 1e-8
    assert rows["SHEDLeastSquares"]["status"] == "not applicable"  # the loss is not squared
    folder = tmp_path / "runs/demo"
    ran = {name for name, row in rows.items() if row["status"] != "not applicable"}
    assert {"convergence.png", "report.html", "summary.json", *ran} == {each.name for each in folder.iterdir()}
    history = [json.loads(line) for line in (folder / "Scaffold/history.jsonl").read_text().splitlines()]
    assert history[-1]["gradient_norm"] < 1e-3 * history[len(history) // 4]["gradient_norm"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of a few rounds each; `test_demo` has all of them."""
    real = demo.run_algorithm

    def run(*given: Any, rounds: int, **named: Any) -> fs.Run:
        return real(*given, rounds=min(rounds, 12), **named)

    monkeypatch.setattr(demo, "run_algorithm", run)


@pytest.mark.usefixtures("short")
def test_demo_for_people_and_again(command: Command) -> None:
    for _ in range(2):  # its folder is its own to replace
        outcome = command("demo")
        assert outcome.status == 0
        for word in ("hospital-A", "malignant", "distance", *names("algorithm"), "runs/demo", "made up"):
            assert word in outcome.out
    assert (
        outcome.out.index("invented") < outcome.out.index("Newton's method finds it") < outcome.out.index("‖gradient‖")
    )
    ran = re.findall(r"^(\w+) +(?:converged|finished|diverged|round limit) +\d+ ", outcome.out, re.MULTILINE)
    assert len(ran) > 10
    rows = {row["algorithm"]: row for row in json.loads(Path("runs/demo/summary.json").read_text())["rows"]}
    close = [name for name in ran if rows[name]["distance_to_pooled"] < 1e-6]
    assert ran[: len(close)] == close == sorted(close, key=lambda name: rows[name]["rounds"])
    assert "what all hospitals together sent" in " ".join(outcome.out.split())
    assert "SHEDLeastSquares: SHEDLeastSquares" not in outcome.out


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ConfigError("it needs a quadratic loss"), "not applicable", 0),
        (ClientError("hospital-A", "local_update", "TypeError: broken"), "error", 1),
    ],
)
def test_the_demo_does_not_hide_a_fault(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str, code: int
) -> None:
    real = demo.run_algorithm

    def run(algorithm: Any, *rest: Any, **named: Any) -> fs.Run:
        if isinstance(algorithm, fs.FedAvg):
            raise error
        return real(algorithm, *rest, **named)

    monkeypatch.setattr(demo, "run_algorithm", run)
    outcome = command("demo", "--json")
    rows = {row["algorithm"]: row for row in outcome.json["rows"]}
    assert (rows["FedAvg"]["status"], outcome.status) == (status, code)
    assert rows["FedAvg"]["distance_to_pooled"] is None
    assert rows["FedAvg"]["message"] == str(error)


def test_the_hospitals_are_drawn_by_the_seed() -> None:
    (a, _, _), (b, _, _), (c, _, _) = demo.hospitals(0), demo.hospitals(0), demo.hospitals(1)
    assert (a[0].X == b[0].X).all()
    assert not (a[0].X == c[0].X).all()


def test_datasets(command: Command) -> None:
    found = {one["name"]: one for one in command("datasets", "--json").json["datasets"]}
    assert set(found) == {one.name for one in fs.data.datasets()}
    assert found["breast_cancer"]["available"] is True
    assert "breast_cancer" in command("datasets").out


def test_algorithms(command: Command) -> None:
    found = {one["name"]: one for one in command("algorithms", "--json").json["algorithms"]}
    assert list(found) == list(names("algorithm"))
    assert all(one["summary"] for one in found.values())
    assert "hessian" in found["Newton"]["needs"]
    shown = command("algorithms").out
    for word in ("Scaffold", "Logistic", "Dirichlet", "Processes", "loss (required)"):
        assert word in shown


def test_help_and_version(command: Command) -> None:
    for arguments in ((), ("--help",)):
        outcome = command(*arguments)
        assert outcome.status == 0
        assert "compare" in outcome.out
    assert command("--version").out.strip() == fs.__version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rum",), "Did you mean 'run'?"),
        (("run",), "FILE.toml"),
        (("demo", "--sed", "3"), "--sed"),
        (("demo", "--seed", "x"), "'--seed'"),
    ],
)
def test_a_wrong_command_line(command: Command, arguments: tuple[str, ...], words: str) -> None:
    outcome = command(*arguments)
    assert outcome.status == 2
    assert outcome.out == ""
    assert words in outcome.sentence
    assert command(*arguments, "--json").json["status"] == "error"


# ── examples ──


def test_example_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert runpy.run_path(str(EXAMPLES / "quickstart.py"))["main"]() > 0.95
    assert "converged" in capsys.readouterr().out


def test_example_hospitals(command: Command) -> None:
    assert command("run", EXAMPLES / "hospitals.toml", "--json").json["status"] == "converged"


def test_example_compare(command: Command) -> None:
    rows = command("compare", EXAMPLES / "compare.toml", "--json").json["rows"]
    status = {row["algorithm"]: row["status"] for row in rows}
    assert status["Newton"] == status["Scaffold"] == "converged"


@pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="the heart data is not here")
def test_example_heart(command: Command) -> None:
    result = command("run", EXAMPLES / "heart.toml", "--json").json
    assert result["status"] == "converged"
    assert [client["name"] for client in result["clients"]] == ["cleveland", "hungarian", "switzerland", "va"]


# ── as a program ──


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_is_light() -> None:
    loaded = _python("import fedsolve, sys; print(*sys.modules)").split()
    heavy = {"torch", "nvflare", "flwr", "matplotlib", "typer", "pydantic", "rich", "sklearn", "pandas"}
    # Half of the time that the import took went to these two, which one function each needs.
    heavy |= {"scipy.stats", "scipy.optimize"}
    assert not heavy & set(loaded)


def test_the_command_line_needs_no_matplotlib_to_list() -> None:
    listing = "try: app(['algorithms', '--json'])\nexcept SystemExit: pass\n"
    code = f"import sys\nfrom fedsolve.cli.main import app\n{listing}print(*sys.modules)"
    heavy = {"torch", "matplotlib", "sklearn", "scipy.stats", "scipy.optimize"}
    assert not heavy & set(_python(code).splitlines()[-1].split())


def test_as_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedsolve.cli.main"]
    done = subprocess.run([*command, "datasets", "--json"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["status"] == "ok"
    wrong = subprocess.run([*command, "run", "x.toml"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr == "fedsolve: there is no run file x.toml\n"


def test_a_narrow_terminal_has_fewer_columns_and_none_is_cut() -> None:
    row = {"algorithm": "SHEDLeastSquares", "status": "converged", "rounds": 100, "bytes_up": 123456, "bytes_down": 99}
    row |= {"value": 1234.56, "gradient_norm": 1e-11, "seconds": 1.5}
    for width, shown, spared in ((100, ("seconds", "‖gradient‖"), ()), (60, ("rounds", "down"), ("seconds",))):
        console = Console(width=width, file=io.StringIO(), record=True)
        console.print(tables.fitting(console, [row]))
        text = console.export_text()
        assert "…" not in text
        assert all(heading in text for heading in shown)
        assert not any(heading in text for heading in spared)
