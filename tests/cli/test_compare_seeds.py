"""`fedsolve compare` with several seeds and held-out rows: what it runs, writes, draws and says."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.errors import DataError
from fedsolve.report.comparison import Comparison, Trace
from fedsolve.report.comparison_figure import draw
from fedsolve.report.figures import rendered
from fedsolve.runfiles import problem, run_file
from fedsolve.runfiles.keys import Config
from tests.cli.conftest import Command

HEAD = """
[data]
dataset = "breast_cancer"
rows = 200

[partition]
scheme = "dirichlet"
alpha = 0.5
min_samples = 10
clients = 3
seed = 5

[preprocess]

[loss]
name = "Logistic"
l2 = 0.05
intercept = "free"

[run]
rounds = 5
seed = 7

[[algorithms]]
name = "Newton"

[[algorithms]]
name = "FedAvg"
local = { steps = 3, batch_size = 16 }
"""
HELD = """
[evaluation]
hold_out = 0.3
"""
NO_FIGURES = """
[output]
figures = false
"""

Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(*parts: str, head: str = HEAD) -> Path:
        path = tmp_path / "several.toml"
        path.write_text(head + "".join(parts), encoding="utf-8")
        return path

    return write


def rounds_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "rounds.csv").read_text(encoding="utf-8").splitlines()))


def test_every_seed_is_a_run_of_its_own(command: Command, written: Write, tmp_path: Path) -> None:
    """Seed 8 of the comparison is the run with run.seed = 8 and partition.seed = 6, to the bit."""
    outcome = command("compare", written(HELD, NO_FIGURES), "--seeds", "3", "--json", "-o", "out")
    assert outcome.status == 0, outcome.err
    found = outcome.json
    assert found["seeds"] == [7, 8, 9]
    assert [(row["algorithm"], row["seed"]) for row in found["rows"]] == [
        (name, seed) for seed in (7, 8, 9) for name in ("Newton", "FedAvg")
    ]
    head = HEAD.replace("seed = 5", "seed = 6").replace("seed = 7", "seed = 8")
    alone = written("[evaluation]\nhold_out = 0.3\nseed = 1\n", NO_FIGURES, head=head)
    rows = command("compare", alone, "--json", "-o", "alone").json["rows"]
    for row in rows:
        (same,) = [one for one in found["rows"] if (one["algorithm"], one["seed"]) == (row["algorithm"], 8)]
        assert {**row, "seconds": 0} == {**same, "seconds": 0}
    values = {row["value"] for row in found["rows"]}
    assert len(values) == 6  # partitions, held-out rows and batches differ
    folders = sorted(one.name for one in (tmp_path / "out").iterdir() if one.is_dir())
    assert folders == [f"{name}-seed-{seed}" for name in ("FedAvg", "Newton") for seed in (7, 8, 9)]


def test_the_csv_has_every_round_of_every_run(command: Command, written: Write, tmp_path: Path) -> None:
    found = command("compare", written(HELD, NO_FIGURES), "--seeds", "2", "--json", "-o", "out").json
    lines = rounds_of(tmp_path / "out")
    for row in found["rows"]:
        own = [line for line in lines if (line["algorithm"], line["seed"]) == (row["algorithm"], str(row["seed"]))]
        history = [
            json.loads(line)
            for line in (tmp_path / "out" / f"{row['algorithm']}-seed-{row['seed']}" / "history.jsonl")
            .read_text()
            .splitlines()
        ]
        assert [int(line["round"]) for line in own] == list(range(row["rounds"] + 1))
        for line, known in zip(own, history, strict=True):
            for name in ("value", "gradient_norm", "seconds", "bytes_up", "bytes_down"):
                assert float(line[name]) == known[name]
            assert float(line["held_out_accuracy"]) == known["held_out"]["accuracy"]
            assert int(line["partition_seed"]) == row["seed"] - 2
    for seed in ("7", "8"):  # the gap is to the lowest of the same seed
        here = [line for line in lines if line["seed"] == seed]
        lowest = min(float(line["value"]) for line in here)
        assert [float(line["objective_gap"]) for line in here] == [float(line["value"]) - lowest for line in here]
        assert min(float(line["objective_gap"]) for line in here) == 0


def test_medians_and_ranges_are_those_of_the_rows(command: Command, written: Write) -> None:
    found = command("compare", written(HELD, NO_FIGURES), "--seeds", "3", "--json").json
    for one in found["algorithms"]:
        own = [row for row in found["rows"] if row["algorithm"] == one["algorithm"]]
        for key, values in (
            ("value", [row["value"] for row in own]),
            ("bytes_up", [row["bytes_up"] for row in own]),
            ("held_out_accuracy", [row["held_out"]["accuracy"] for row in own]),
            ("held_out_auc", [row["held_out"]["auc"] for row in own]),
        ):
            assert one[key] == {"median": statistics.median(values), "least": min(values), "largest": max(values)}
        assert sum(one["ended"].values()) == 3


def test_what_people_see(command: Command, written: Write, tmp_path: Path) -> None:
    outcome = command("compare", written(HELD, "[compare]\nseeds = 2\n"), "-o", "out")
    assert outcome.status == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert "held-out accuracy" in said
    assert "Medians over 2 seeds" in said
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for text in ("held-out accuracy", "Medians over 2 seeds", "FedAvg, seed 7", "rounds.csv"):
        assert text in page
    assert "FedAvg, seed 8" not in page  # whose folder has it
    for name, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        data = (tmp_path / "out" / f"convergence.{name}").read_bytes()
        assert data.startswith(magic)
        assert len(data) > 5000
    first = (tmp_path / "out" / "convergence.svg").read_text(encoding="utf-8")
    assert "svg" in first


def test_one_seed_has_held_out_scores_and_all_formats_too(command: Command, written: Write, tmp_path: Path) -> None:
    outcome = command("compare", written(HELD), "-o", "out")
    assert outcome.status == 0, outcome.err
    assert "held-out accuracy" in outcome.out
    assert "Medians" not in outcome.out
    assert {line["seed"] for line in rounds_of(tmp_path / "out")} == {"7"}
    assert (tmp_path / "out" / "convergence.pdf").is_file()
    assert (tmp_path / "out" / "Newton").is_dir()
    replaced = command("compare", written(NO_FIGURES), "-o", "out", "--force", "--json")
    assert replaced.status == 0, replaced.err
    assert not list((tmp_path / "out").glob("convergence.*"))
    assert set(replaced.json) == {"status", "rows", "folder", "report"}


def test_a_regression_is_judged_by_its_error(command: Command, written: Write) -> None:
    head = HEAD.replace("breast_cancer", "diabetes").replace("Logistic", "Squared")
    head = head.replace("dirichlet", "iid").replace("alpha = 0.5\nmin_samples = 10\n", "")
    outcome = command("compare", written(HELD, head=head), "--seeds", "2", "-o", "out")
    assert outcome.status == 0, outcome.err
    assert "held-out R²" in " ".join(outcome.out.split())


def test_runs_that_diverge_or_cannot_start(command: Command, written: Write, tmp_path: Path) -> None:
    """They have their lines, the others their figure, and the command says that something is wrong."""
    diverging = '\n[[algorithms]]\nname = "FedAvg"\nlabel = "too far"\nlocal = { step_size = 1e6, steps = 3 }\n'
    impossible = '\n[[algorithms]]\nname = "SHEDLeastSquares"\n'
    outcome = command("compare", written(diverging, impossible, HELD), "--seeds", "2", "--json", "-o", "out")
    assert outcome.status == 1
    by_name = {one["algorithm"]: one for one in outcome.json["algorithms"]}
    assert by_name["SHEDLeastSquares"]["ended"] == {"error": 2}
    assert by_name["SHEDLeastSquares"]["value"]["median"] is None
    assert by_name["Newton"]["ended"] == {"rounds": 2} or "converged" in by_name["Newton"]["ended"]
    assert by_name["too far"]["ended"] == {"diverged": 2}
    failed = [line for line in rounds_of(tmp_path / "out") if line["algorithm"] == "SHEDLeastSquares"]
    assert [(line["seed"], line["status"], line["round"]) for line in failed] == [
        ("7", "error", ""),
        ("8", "error", ""),
    ]
    assert (tmp_path / "out" / "convergence.png").is_file()
    # What is the same with every seed is said once.
    assert (tmp_path / "out" / "report.html").read_text().count("SHEDLeastSquares needs") == 1
    assert "SHEDLeastSquares, seed" not in (tmp_path / "out" / "report.html").read_text()


def test_a_seed_whose_partition_cannot_be_made(
    command: Command, written: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The runs with the other seeds are kept."""
    prepare = problem.prepare

    def refuse(what: Config, file: Path) -> problem.Problem:
        if what.run.seed == 8:
            raise DataError("client-2 would have no rows")
        return prepare(what, file)

    monkeypatch.setattr("fedsolve.runfiles.problem.prepare", refuse)
    outcome = command("compare", written(NO_FIGURES), "--seeds", "3", "--json", "-o", "out")
    assert outcome.status == 1
    assert [one["ended"].get("error") for one in outcome.json["algorithms"]] == [1, 1]
    assert {(line["seed"], line["status"] == "error") for line in rounds_of(tmp_path / "out")} == {
        ("7", False),
        ("8", True),
        ("9", False),
    }
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("Newton, seed 8: client-2 would have no rows.") == 1


def test_clients_that_are_given_and_nothing_random(command: Command, written: Write) -> None:
    head = HEAD.replace("dirichlet", "contiguous").replace("alpha = 0.5\nmin_samples = 10\n", "")
    head = head.split('[[algorithms]]\nname = "FedAvg"')[0]
    outcome = command("compare", written(NO_FIGURES, head=head), "--seeds", "2")
    assert "All seeds gave the same: nothing in this run file is drawn at random." in " ".join(outcome.out.split())


def test_losses_that_differ_have_gaps_of_their_own(command: Command, written: Write, tmp_path: Path) -> None:
    other = '\n[[algorithms]]\nname = "Newton"\nlabel = "less"\nloss = { name = "Logistic", l2 = 0.001 }\n'
    assert command("compare", written(other, NO_FIGURES), "-o", "out").status == 0
    lines = rounds_of(tmp_path / "out")
    for label in ("Newton", "less"):
        gaps = [float(line["objective_gap"]) for line in lines if line["algorithm"] == label]
        assert gaps[0] > 0
        assert min(gaps) == 0


def test_the_same_figure_has_the_same_bytes(command: Command, written: Write, tmp_path: Path) -> None:
    """Drawn again from the same rows: seconds are measured, and differ between two runs."""
    file = written()
    what = problem.prepare(run_file.read(file), file)
    run = fs.run(what.algorithms["Newton"], what.clients, rounds=2, preprocess=what.preprocess)
    found = Comparison([Trace("Newton", 0, 0, run.status, run.message, "", run.history, run.model_row)])
    assert rendered(draw(found)) == rendered(draw(found))


# ── what is rejected ──


@pytest.mark.parametrize(
    ("arguments", "parts", "said"),
    [
        (["--seeds", "0"], [], "Invalid value for '--seeds': "),
        (["--seeds", "2", "--phi", "1"], [], "--phi judges one run of each algorithm, and here are 2 seeds"),
        (["--phi", "1"], ["[compare]\nseeds = 3\n"], "and here are 3 seeds: use --seeds 1 with it"),
        ([], ["[compare]\nseeds = 0\n"], "compare.seeds must be at least 1, got 0"),
        ([], ["[compare]\nseed = 2\n"], "compare.seed is not known, did you mean 'seeds'?"),
        ([], ['[compare]\nband = "sd"\n'], "compare.band must be one of 'range' or 'quartiles', got 'sd'"),
    ],
)
def test_wrong_input(command: Command, written: Write, arguments: list[str], parts: list[str], said: str) -> None:
    outcome = command("compare", written(*parts), *arguments)
    assert outcome.status == 2
    assert said in outcome.sentence


def test_seeds_that_are_too_large(command: Command, written: Write) -> None:
    outcome = command("compare", written(head=HEAD.replace("seed = 7", f"seed = {2**64 - 1}")), "--seeds", "2")
    assert outcome.status == 2
    assert "run.seed = 18446744073709551615 leaves no room below 2⁶⁴ for 2 seeds" in outcome.sentence


def test_phi_with_seeds_of_one(command: Command, written: Write, tmp_path: Path) -> None:
    outcome = command("compare", written("[compare]\nseeds = 3\n"), "--phi", "10", "--seeds", "1", "-o", "out")
    assert outcome.status == 0, outcome.err
    for name in ("costs.png", "costs.pdf", "costs.svg", "table.csv", "rounds.csv"):
        assert (tmp_path / "out" / name).is_file()
