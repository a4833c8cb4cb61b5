"""`fedsolve compare --phi`, and entries of a run file that are grids."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.cli.costs import parse_phis
from fedsolve.errors import ConfigError
from fedsolve.runfiles import grids, problem, run_file
from tests.cli.conftest import Command

HEAD = """
[data]
dataset = "diabetes"

[partition]
scheme = "iid"
clients = 5

[preprocess]

[loss]
name = "Squared"
l2 = 0.1

[run]
rounds = 12
"""
PLAIN = """
[output]
figures = false
"""
HEAD += PLAIN
NEWTON = """
[[algorithms]]
name = "Newton"
"""
AGD = """
[[algorithms]]
name = "AGD"
"""
TUNED = """
[[algorithms]]
name = "FedAvg"
local = { batch_size = 1, batches = "independent" }
grid = { local = { steps = [2, 20], step_size = [0.003, 0.02, 9.0] } }
"""
LOW_RANK = """
[server]
rows = 40

[[algorithms]]
name = "FedLRGD"
"""

Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(*parts: str, head: str = HEAD) -> Path:
        path = tmp_path / "several.toml"
        path.write_text(head + "".join(parts), encoding="utf-8")
        return path

    return write


@pytest.fixture
def drawn(written: Write) -> Write:
    """A run file whose comparison has figures, which take a while."""
    return lambda *parts: written(*parts, head=HEAD.replace(PLAIN, ""))


# ── --phi ──


def test_json_files_and_winners(command: Command, drawn: Write, tmp_path: Path) -> None:
    outcome = command("compare", drawn(NEWTON, AGD, TUNED), "--phi", "1,1000", "--json", "-o", "out")
    assert outcome.status == 0, outcome.err  # some points of the grid diverge, and others do not
    found = outcome.json
    table = found["costs"]["rows"]
    assert found["costs"]["phi"] == [1.0, 1000.0]
    assert len(table) == 2 * 6 * 3
    for phi in (1.0, 1000.0):
        for epsilon in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
            here = {one["algorithm"]: one for one in table if (one["phi"], one["epsilon"]) == (phi, epsilon)}
            assert set(here) == {"Newton", "AGD", "FedAvg"}
            reached = {name: one["cost"] for name, one in here.items() if one["cost"] is not None}
            winners = {name for name, one in here.items() if one["is_least"]}
            assert winners == {name for name, cost in reached.items() if cost == min(reached.values())}
    tuned = [one for one in table if one["algorithm"] == "FedAvg" and one["cost"] is not None]
    assert tuned
    for one in tuned:
        assert one["run"] == f"FedAvg, steps {one['values']['steps']}, step_size {one['values']['step_size']:g}"
        assert one["values"]["step_size"] < 1
    assert [one for one in table if one["algorithm"] == "Newton"][5]["cost"] > 0
    lines = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    assert [(float(one["phi"]), float(one["epsilon"]), one["algorithm"]) for one in lines] == [
        (one["phi"], one["epsilon"], one["algorithm"]) for one in table
    ]
    assert [float(one["cost"]) if one["cost"] else None for one in lines] == [one["cost"] for one in table]
    assert {one["is_least"] for one in lines} == {"True", "False"}
    assert (tmp_path / "out" / "costs.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["costs"] == found["costs"]


def test_costs_are_those_of_the_library(command: Command, written: Write) -> None:
    """The same run in Python, and Γ from its ledger."""
    file = written(AGD)
    rows = command("compare", file, "--phi", "7", "--json").json["costs"]["rows"]
    what = problem.prepare(run_file.read(file), file)
    ((_, agd),) = what.algorithms.items()
    run = fs.run(agd, what.clients, rounds=12, preprocess=what.preprocess)
    best = fs.run(fs.Newton(agd.loss), what.clients, preprocess=what.preprocess, tolerance=1e-13).history[-1].value
    gamma = fs.oracle_complexity(run, 7)
    first = run.history[0].value
    for one in rows:
        near = [row.round for row in run.history if row.value - best <= one["epsilon"] * (first - best)]
        assert one["round"] == (near[0] if near else None)
        assert one["cost"] == (gamma.after(near[0]) if near else None)


def test_curves_fall_and_end_in_the_table(command: Command, written: Write) -> None:
    found = command("compare", written(AGD, TUNED), "--phi", "10", "--json").json["costs"]
    for curve in found["curves"]:
        assert curve["cost"] == sorted(curve["cost"])
        assert curve["share"] == sorted(curve["share"], reverse=True)
        for row in found["rows"]:
            if row["algorithm"] == curve["algorithm"] and row["cost"] is not None:
                below = [
                    cost for cost, share in zip(curve["cost"], curve["share"], strict=True) if share <= row["epsilon"]
                ]
                assert row["cost"] == below[0]


def test_what_people_see(command: Command, written: Write, tmp_path: Path) -> None:
    outcome = command("compare", written(NEWTON, TUNED), "--phi", "1,100", "-o", "out")
    said = " ".join(outcome.out.split())
    assert "Γ, φ = 1 algorithm ε = 1e-01" in said
    assert "Γ, φ = 100" in said
    assert "*" in said
    assert "FedAvg: steps / step_size, the best of 6 runs" in said
    assert "FedAvg: steps = 20 is the largest of its list" in said
    assert "step_size 9" not in said  # what diverged is in its folder
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What an accuracy costs" in page
    assert "Definition 1" in page
    assert "fedsolve compare" in page
    assert "--phi 1,100" in page
    assert (tmp_path / "out" / "FedAvg-steps-2-step_size-9" / "history.jsonl").is_file()


def test_long_values_are_numbered(command: Command, written: Write) -> None:
    grid = TUNED.replace("steps = [2, 20]", 'steps = [20], schedule = ["none", { name = "InverseTime", decay = 0.5 }]')
    outcome = command("compare", written(grid), "--phi", "1")
    assert "FedAvg: steps / schedule / step_size, the best of 6 runs" in outcome.out
    assert "#1: 20 / " in outcome.out
    assert "…" not in outcome.out.partition("Definition 1")[0].partition("the best of")[2]  # nothing is cut off


def test_whose_objective_is_said(command: Command, written: Write) -> None:
    remarks = command("compare", written(LOW_RANK, NEWTON), "--phi", "10", "--json").json["costs"]["remarks"]
    assert any("FedLRGD minimises the mean over the clients' and the server's samples" in one for one in remarks)
    assert any("Each is judged by the objective that it minimises" in one for one in remarks)
    plain = command("compare", written(NEWTON), "--phi", "10", "--json", "-o", "alone").json
    assert plain["costs"]["remarks"] == []


def test_rounds_that_nobody_could_judge_are_said(command: Command, written: Write) -> None:
    """Where replies get lost, a round has no objective of all clients: its accuracy is not known, and not bad."""
    losing = "[participation]\ndropout = 0.4\nquorum = 0.2\n"
    found = command("compare", written(NEWTON, AGD, losing), "--phi", "1", "--json").json["costs"]
    (said,) = [one for one in found["remarks"] if "could not be judged" in one]
    assert "of Newton" in said
    assert "of AGD" in said
    quiet = command("compare", written(NEWTON, AGD), "--phi", "1", "--json", "-o", "quiet").json["costs"]
    assert quiet["remarks"] == []


def test_what_is_estimated_is_said(command: Command, written: Write) -> None:
    """FedProx minimises at each client, in as many steps as that takes there."""
    head = HEAD.replace('"diabetes"', '"breast_cancer"').replace('"Squared"', '"Logistic"')
    prox = '[[algorithms]]\nname = "FedProx"\n'
    found = command("compare", written(prox, AGD, head=head), "--phi", "1", "--json").json["costs"]["remarks"]
    assert [one for one in found if "estimated" in one] == [
        "Γ of FedProx is estimated: clients did not all compute the same, and only their sum is known."
    ]


def test_with_some_of_the_clients_every_round_is_judged_by_all(command: Command, written: Write) -> None:
    found = command("compare", written(AGD, "[participation]\nfraction = 0.4\n"), "--phi", "0", "--json").json["costs"]
    (curve,) = found["curves"]
    assert curve["share"][-1] < 1


def test_processes_cost_the_same(command: Command, written: Write) -> None:
    """One run of each kind: workers take a while to start."""
    one = TUNED.replace("[2, 20]", "[2]").replace("[0.003, 0.02, 9.0]", "[0.02]")
    ours = command("compare", written(one), "--phi", "1,10", "--json", "-o", "ours").json["costs"]
    file = written(one, head=HEAD.replace("rounds = 12", 'rounds = 12\ntransport = "processes"\nworkers = 2'))
    assert command("compare", file, "--phi", "1,10", "--json", "-o", "theirs").json["costs"] == ours


def test_without_phi_nothing_changes(command: Command, written: Write, tmp_path: Path) -> None:
    found = command("compare", written(NEWTON, AGD), "--json", "-o", "out").json
    assert "costs" not in found
    assert not (tmp_path / "out" / "table.csv").exists()
    assert command("compare", written(NEWTON, AGD), "--phi", "1", "-o", "out", "--force").status == 0
    command("compare", written(NEWTON, AGD), "-o", "out", "--force")
    assert not (tmp_path / "out" / "table.csv").exists()  # of an earlier comparison


@pytest.mark.parametrize("phi", ["-1", "a", "", ",", "1,,2", "1;2", "nan", "inf", "1,-0.5", "1e999"])
def test_wrong_numbers(command: Command, written: Write, tmp_path: Path, phi: str) -> None:
    outcome = command("compare", written(NEWTON), "--phi", phi)
    assert outcome.status == 2
    assert "--phi takes numbers of at least 0, separated by commas" in outcome.sentence
    assert not (tmp_path / "runs").exists()


def test_vectors_cost_more_where_matrices_are_sent(command: Command, written: Write) -> None:
    """Newton sends 1 + p + p(p + 1)/2 numbers of p = 10 in a message: 6.6 vectors, and AGD no more than one each."""
    file = written(NEWTON)
    ours = [
        command("compare", file, "--phi", phi, *more, "--json", "-o", f"{phi}{len(more)}").json["costs"]["rows"][0]
        for more in ((), ("--sending", "vectors"))
        for phi in ("0", "10")
    ]
    free, epochs, same, vectors = (one["cost"] for one in ours)
    assert free == same
    assert (vectors - free) / (epochs - free) == pytest.approx((1 + 10 + 55) / 10)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--sending", "vectors"), "give --phi too"), (("--phi", "1", "--sending", "bytes"), "is epochs or vectors, got")],
)
def test_wrong_sending(command: Command, written: Write, arguments: tuple[str, ...], words: str) -> None:
    outcome = command("compare", written(NEWTON), *arguments)
    assert outcome.status == 2
    assert words in outcome.sentence


def test_numbers() -> None:
    assert parse_phis("1, 10,1e3 ,0,10") == (1.0, 10.0, 1000.0, 0.0)
    with pytest.raises(ConfigError, match="got '-1'"):
        parse_phis("5,-1")


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ('[[algorithms]]\nname = "AGD"\nloss = { name = "Squared", l2 = 0.2 }\n', "the algorithms have 2 losses"),
        ('[[algorithms]]\nname = "Newton"\nloss = { name = "Squared", l1 = 0.2 }\n', "the algorithms have 2 losses"),
    ],
)
def test_one_objective(command: Command, written: Write, loss: str, words: str) -> None:
    outcome = command("compare", written(NEWTON, loss), "--phi", "1")
    assert outcome.status == 2
    assert words in outcome.sentence


def test_a_loss_whose_minimum_is_not_known(command: Command, written: Write) -> None:
    outcome = command("compare", written(NEWTON, head=HEAD.replace("l2 = 0.1", "l1 = 0.1")), "--phi", "1")
    assert outcome.status == 2
    assert "losses of linear models without l1" in outcome.sentence


def test_all_points_of_a_grid_diverge(command: Command, written: Write, drawn: Write) -> None:
    wild = TUNED.replace("[0.003, 0.02, 9.0]", "[5.0, 9.0]")
    outcome = command("compare", written(NEWTON, wild), "--phi", "1", "--json")
    assert outcome.status == 1
    assert outcome.json["status"] == "error"
    only = command("compare", drawn(wild), "--phi", "1", "-o", "only")
    assert only.status == 1
    assert "diverged" in only.out


# ── grids ──


def test_without_phi_a_grid_is_a_list(command: Command, written: Write) -> None:
    found = command("compare", written(TUNED), "--json").json
    assert [row["algorithm"] for row in found["rows"]] == [
        f"FedAvg, steps {steps}, step_size {size}" for steps in (2, 20) for size in ("0.003", "0.02", "9")
    ]
    assert {row["entry"] for row in found["rows"]} == {"FedAvg"}
    assert found["rows"][1]["values"] == {"steps": 2, "step_size": 0.02}


def algorithms(written: Write, *parts: str) -> dict[str, problem.Entry]:
    file = written(*parts)
    return problem.build_entries(run_file.read(file))


def test_ranges_names_and_parts(written: Write) -> None:
    grid = """
[[algorithms]]
name = "FedAvg"
label = "tuned"
local = "Momentum"

[algorithms.grid]
uploads = ["none", { bits = 16 }]

[algorithms.grid.local]
step_size = { low = 0.01, high = 1, points = 3 }
"""
    found = algorithms(written, grid, TUNED)
    expected = [(uploads, size) for uploads in (None, fs.QuantisedUploads(16)) for size in (0.01, 0.1, 1.0)]
    made = [one.algorithm for one in found.values() if one.entry == "tuned"]
    assert [(one.uploads, one.local.step_size) for one in made] == expected
    assert {type(one.local) for one in made} == {fs.Momentum}
    others = [one for one in found.values() if one.entry == "FedAvg"]
    assert [(one.algorithm.local.steps, one.algorithm.local.step_size) for one in others[:2]] == [(2, 0.003), (2, 0.02)]
    assert all(one.algorithm.local.batch_size == 1 for one in others)


def test_labels_do_not_meet(written: Write) -> None:
    found = algorithms(written, TUNED, TUNED, NEWTON)
    assert len(found) == 13
    assert list(dict.fromkeys(one.entry for one in found.values())) == ["FedAvg", "FedAvg 2", "Newton"]
    twice = TUNED.replace("[2, 20]", "[2, 2]")
    assert len(algorithms(written, twice)) == 6


def test_a_grid_of_penalties_around_the_shared_loss(command: Command, written: Write) -> None:
    several = '[[algorithms]]\nname = "Newton"\ngrid = { loss = { l2 = [0.1, 1.0] } }\n'
    found = algorithms(written, several)
    assert [one.algorithm.loss for one in found.values()] == [fs.Squared(l2=0.1), fs.Squared(l2=1.0)]
    assert "the algorithms have 2 losses" in command("compare", written(several), "--phi", "1").sentence


def test_names_of_keys_that_meet() -> None:
    found = grids.points({}, {"local": {"steps": [1]}, "search": {"steps": [2]}}, "algorithms[0]")
    assert found == [({"local.steps": 1, "search.steps": 2}, {"local": {"steps": 1}, "search": {"steps": 2}})]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("grid = {}", "algorithms[0].grid is empty"),
        ("grid = { local = { steps = [] } }", "algorithms[0].grid.local.steps is an empty list"),
        ("grid = { local = { steps = 5 } }", "algorithms[0].grid.local.steps must be a list of values to try"),
        ("grid = { local = { steps = [1.5] } }", "algorithms[0].local.steps must be a whole number"),
        ("grid = { locl = { steps = [1] } }", "did you mean 'local'?"),
        ("grid = { local = { step_size = { low = 1, high = 0.1, points = 3 } } }", "is above high"),
        ("grid = { local = { step_size = { low = 0.1, high = 1 } } }", "algorithms[0].grid.local.step_size.points"),
        ("grid = 3", "algorithms[0].grid must be a table"),
        (f"grid = {{ local = {{ steps = {list(range(1, 1100))} }} }}", "more than 1000 combinations"),
    ],
)
def test_wrong_grids(command: Command, written: Write, grid: str, words: str) -> None:
    outcome = command("compare", written('[[algorithms]]\nname = "FedAvg"\n', grid))
    assert outcome.status == 2
    assert words in outcome.sentence


def test_a_grid_is_for_comparisons(command: Command, written: Write) -> None:
    outcome = command("run", written('[algorithm]\nname = "FedAvg"\ngrid = { local = { steps = [1, 2] } }\n'))
    assert outcome.status == 2
    assert "grid is for [[algorithms]]" in outcome.sentence


def test_a_grid_of_one_point_and_of_words(command: Command, written: Write) -> None:
    """True is no largest number of a list, and one run is not the best of several."""
    one = TUNED.replace("steps = [2, 20], step_size = [0.003, 0.02, 9.0]", "steps = [20], step_size = [0.02]")
    momentum = """
[[algorithms]]
name = "FedAvg"
label = "Momentum"
local = { name = "Momentum", steps = 5, step_size = 0.01, batch_size = 8 }
grid = { local = { nesterov = [true, false] } }
"""
    said = " ".join(command("compare", written(one, momentum), "--phi", "1").out.split())
    assert "FedAvg: steps / step_size, one run" in said
    assert "Momentum: nesterov, the best of 2 runs" in said
    assert "of its list" not in said
    assert "A Hessian of a sample counts as one gradient for each of its columns" in said
