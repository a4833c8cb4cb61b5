"""`fedsolve run` and `fedsolve compare`: results, folders, exit statuses, resumption."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.cli import run as runs
from fedsolve.loop.history import Row
from fedsolve.report.output_folder import CHOSEN, EXTRAS, OURS, SUBMITTED

from .conftest import RUN_FILE, Command

RunFile = Callable[..., Path]


def test_run_and_its_folder(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    outcome = command("run", run_file(), "--output", "out", "--json")
    assert outcome.status == 0
    assert outcome.err == ""
    result = outcome.json
    assert result["status"] == "converged"
    assert result["gradient_norm"] <= 1e-9
    assert result["folder"] == "out"
    assert result["report"] == "out/report.html"
    assert result["scores"]["train"] > 0.95
    assert len(result["clients"]) == 4
    folder = tmp_path / "out"
    assert sorted(each.name for each in folder.iterdir()) == sorted(set(OURS) - {CHOSEN, SUBMITTED, *EXTRAS})
    assert (folder / "config.toml").read_text() == (tmp_path / "problem.toml").read_text()
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == list(range(result["rounds"] + 1))
    assert rows[-1]["bytes_up"] == result["bytes_up"]
    with (folder / "ledger.csv").open() as file:
        entries = list(csv.DictReader(file))
    sent = sum(int(e["bytes"]) for e in entries if e["purpose"] == "algorithm" and e["direction"] == "up")
    assert sent == result["bytes_up"]
    assert json.loads((folder / "summary.json").read_text())["value"] == result["value"]
    assert (folder / "convergence.png").read_bytes().startswith(b"\x89PNG")
    model = fs.load_model(folder / "model.npz")
    assert model.classes == ("malignant", "benign")
    assert "fedsolve run" in (folder / "report.html").read_text()
    assert not list(folder.glob(".*"))  # nothing temporary is left


def test_run_for_people(command: Command, run_file: RunFile) -> None:
    outcome = command("run", run_file())
    assert outcome.status == 0
    assert outcome.err == ""  # no bar where nobody watches
    for word in ("Newton", "converged", "‖gradient‖", "4 sites", "Accuracy", "runs/problem-", "report.html"):
        assert word in outcome.out


def test_the_file_of_the_problem_is_what_python_runs(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    command("run", run_file(), "--output", "out")
    data = fs.data.load("breast_cancer")
    clients = fs.data.partition(data.X, data.y, fs.data.Dirichlet(0.5, min_samples=20), clients=4)
    loss = fs.Logistic(l2=0.01, intercept="free")
    run = fs.run(fs.Newton(loss), clients, rounds=20, tolerance=1e-9, preprocess=fs.data.Preprocess())
    assert np.array_equal(fs.load_model(tmp_path / "out/model.npz").w, run.model.w)


def test_transports_agree(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    command("run", run_file(), "--output", "a")
    processes = run_file(("rounds = 20", 'rounds = 20\ntransport = "processes"\nworkers = 2'))
    assert command("run", processes, "--output", "b").status == 0
    a, b = (fs.load_model(tmp_path / name / "model.npz").w for name in "ab")
    assert np.array_equal(a, b)
    assert (tmp_path / "a/ledger.csv").read_text() == (tmp_path / "b/ledger.csv").read_text()


def test_csv_split_by_a_column(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["town,a,b,sick"]
    for row in range(90):
        a, b = rng.normal(size=2)
        lines.append(f"{('x', 'y', 'z')[row % 3]},{a},{'' if row % 10 == 0 else b},{'yes' if a + b > 0 else 'no'}")
    (tmp_path / "towns.csv").write_text("\n".join(lines))
    file = run_file(
        ('dataset = "breast_cancer"', 'file = "towns.csv"\ntarget = "sick"\nsplit_by = "town"\nrows = 60'),
        ('[partition]\nscheme = "dirichlet"\nalpha = 0.5\nclients = 4\nmin_samples = 20', ""),
    )
    result = command("run", file, "--json", "--output", "out").json
    assert [client["name"] for client in result["clients"]] == ["x", "y", "z"]
    assert sum(client["samples"] for client in result["clients"]) == 60
    assert result["feature_names"] == ["a", "b"]
    assert fs.load_model("out/model.npz").classes == ("no", "yes")


def test_one_class_against_the_rest(command: Command, run_file: RunFile) -> None:
    file = run_file(('dataset = "breast_cancer"', 'dataset = "iris"\npositive = "setosa"'), ("min_samples = 20", ""))
    assert command("run", file, "--json", "--output", "out").json["scores"]["train"] == 1.0
    assert fs.load_model("out/model.npz").classes == ("not setosa", "setosa")


# ── folders ──


def test_an_existing_folder_is_kept(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    command("run", run_file(), "--output", "out")
    before = (tmp_path / "out/summary.json").read_bytes()
    again = command("run", run_file(), "--output", "out")
    assert again.status == 2
    assert "--force" in again.sentence
    assert (tmp_path / "out/summary.json").read_bytes() == before
    (tmp_path / "out/notes.txt").write_text("mine")
    assert command("run", run_file(("l2 = 0.01", "l2 = 0.1")), "--output", "out", "--force").status == 0
    assert (tmp_path / "out/summary.json").read_bytes() != before
    assert (tmp_path / "out/notes.txt").read_text() == "mine"


def test_force_does_not_touch_what_is_no_run(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text("mine")
    (tmp_path / "home/letter.txt").write_text("mine")
    assert "something else" in command("run", run_file(), "--output", "home", "--force").sentence
    assert (tmp_path / "home/config.toml").read_text() == "mine"
    assert "is a file" in command("run", run_file(), "--output", tmp_path / "home/letter.txt").sentence


def test_a_run_from_its_own_copy(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    command("run", run_file(), "--output", "out")
    assert command("run", "out/config.toml", "--output", "out", "--force").status == 0
    assert (tmp_path / "out/config.toml").read_text() == (tmp_path / "problem.toml").read_text()


# ── endings ──

RUNAWAY = (
    ("[preprocess]", ""),
    ('name = "Newton"', 'name = "FedAvg"\nlocal = { step_size = 1 }'),
    ('name = "Logistic"', 'name = "Squared"'),
    ("tolerance = 1e-9", ""),
)


def test_divergence_is_said(command: Command, run_file: RunFile) -> None:
    outcome = command("run", run_file(*RUNAWAY), "--output", "out")
    assert outcome.status == 1
    assert "diverged" in outcome.out
    outcome = command("run", run_file(*RUNAWAY), "--output", "out", "--force", "--json")
    assert outcome.status == 1
    assert outcome.json["status"] == "diverged"


def test_a_lost_quorum_is_said(command: Command, run_file: RunFile) -> None:
    file = run_file(add="\n[participation]\ndropout = 0.3\nquorum = 0.9\n")
    outcome = command("run", file, "--json", "--output", "out")
    assert outcome.status == 1
    assert outcome.json["status"] == "no quorum"
    assert "quorum is 90%" in outcome.json["message"]


def test_a_fault_is_one_sentence(command: Command, run_file: RunFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr(runs, "run_algorithm", fail)
    outcome = command("run", run_file(), "--output", "out")
    assert outcome.status == 1
    assert outcome.sentence == "RuntimeError: the disk is on fire (--traceback shows where)"
    assert "Traceback" in command("run", run_file(), "--output", "other", "--traceback").err
    outcome = command("run", run_file(), "--output", "third", "--json")
    assert outcome.json == {"status": "error", "error": "RuntimeError", "message": outcome.sentence}


# ── going on ──

SLOW = (('name = "Newton"', 'name = "Scaffold"'), ("rounds = 20", "rounds = 12\ncheckpoint_every = 3"))


def test_ctrl_c_and_resume(
    command: Command, run_file: RunFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = command("run", run_file(*SLOW), "--output", "whole", "--json").json
    real = runs.RunFolder.append

    def interrupt(self: runs.RunFolder, row: Row) -> None:
        real(self, row)
        if row.round == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs.RunFolder, "append", interrupt)
        outcome = command("run", run_file(*SLOW), "--output", "out")
    assert outcome.status == 130
    assert "--output out --resume" in outcome.sentence
    assert len((tmp_path / "out/history.jsonl").read_text().splitlines()) == 8
    resumed = command("run", run_file(*SLOW), "--output", "out", "--resume", "--json").json
    assert resumed["value"] == whole["value"]
    assert resumed["bytes_up"] == whole["bytes_up"]
    a, b = (fs.load_model(tmp_path / name / "model.npz").w for name in ("whole", "out"))
    assert np.array_equal(a, b)
    rounds = [json.loads(line)["round"] for line in (tmp_path / "out/history.jsonl").read_text().splitlines()]
    assert rounds == list(range(13))


def test_resume_needs_something_to_go_on_from(command: Command, run_file: RunFile) -> None:
    assert "--output FOLDER" in command("run", run_file(), "--resume").sentence
    assert "no checkpoint" in command("run", run_file(), "--resume", "--output", "out").sentence
    off = run_file(("rounds = 20", "checkpoint = false"))
    assert "switches it off" in command("run", off, "--resume", "--output", "out").sentence
    command("run", run_file(), "--output", "out")
    other = command("run", run_file(("l2 = 0.01", "l2 = 0.5")), "--output", "out", "--resume")
    assert other.status == 2
    assert "another run" in other.sentence


# ── compare ──

SEVERAL = """
[[algorithms]]
name = "FedAvg"
local = { steps = 2 }
[[algorithms]]
name = "FedAvg"
local = { steps = 20 }
[[algorithms]]
name = "Newton"
label = "Newton / exact"
"""
COMPARE = (('[algorithm]\nname = "Newton"\n', ""), ("[algorithm.loss]", "[loss]"))


def test_compare(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    outcome = command("compare", run_file(*COMPARE, add=SEVERAL), "--json", "--output", "out")
    assert outcome.status == 0
    rows = outcome.json["rows"]
    assert [row["algorithm"] for row in rows] == ["FedAvg", "FedAvg 2", "Newton / exact"]
    assert [row["status"] for row in rows] == ["rounds", "rounds", "converged"]
    inner = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert inner == [
        "FedAvg",
        "FedAvg-2",
        "Newton-exact",
        "config.toml",
        "convergence.pdf",
        "convergence.png",
        "convergence.svg",
        "report.html",
        "rounds.csv",
        "summary.json",
    ]
    assert fs.load_model(tmp_path / "out/FedAvg-2/model.npz").w.shape == (31,)
    shown = command("compare", run_file(*COMPARE, add=SEVERAL), "--output", "out", "--force").out
    assert "Newton / exact" in shown


def test_compare_goes_on_after_a_failure(command: Command, run_file: RunFile, tmp_path: Path) -> None:
    # By class, every client has one class only: it has no fit of its own, and DKRR says so.
    split = (
        'scheme = "dirichlet"\nalpha = 0.5\nclients = 4\nmin_samples = 20',
        'scheme = "classes_per_client"\nk = 1\nclients = 2',
    )
    file = run_file(*COMPARE, split, add=SEVERAL + '[[algorithms]]\nname = "DKRR"\n')
    outcome = command("compare", file, "--json", "--output", "out")
    assert outcome.status == 1
    rows = {row["algorithm"]: row for row in outcome.json["rows"]}
    assert rows["DKRR"]["status"] == "error"
    assert rows["DKRR"]["rounds"] is None
    assert "only one class" in rows["DKRR"]["message"]
    assert rows["Newton / exact"]["status"] == "converged"
    assert not (tmp_path / "out/DKRR").exists()
    assert "only one class" in " ".join(command("compare", file, "--output", "b").out.split())


SHED_OVER_LINKS = """
[algorithm]
name = "SHED"
increment = "link"
renewals = { name = "Periodic", period = 10 }

[algorithm.loss]
name = "Logistic"
l2 = 0.01

[link]
name = "Rayleigh"

[link.by_client.client-1]
name = "Link"
bytes_per_round = 2000
"""


def over_links(text: str) -> str:
    head, rest = RUN_FILE.split("[algorithm]")
    return head + text + "[run]" + rest.split("[run]")[1]


def test_links_of_a_run_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(over_links(SHED_OVER_LINKS))
    outcome = command("run", "links.toml", "--output", "out", "--json")
    assert outcome.status == 0
    assert outcome.json["status"] == "converged"
    sent: dict[int, int] = {}
    with (tmp_path / "out/ledger.csv").open() as file:
        for entry in csv.DictReader(file):
            if entry["client"] == "client-1" and entry["direction"] == "up" and entry["purpose"] == "algorithm":
                sent[int(entry["round"])] = sent.get(int(entry["round"]), 0) + int(entry["bytes"])
    assert max(sent.values()) <= 2000
    assert max(sent.values()) > 1000  # it is used, too


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"Periodic", period = 10', '"Sometimes"', "Sometimes"),
        ("client-1]", "client-9]", "client-9"),
        ('"Rayleigh"', '"Rayleigh"\nbandwidth = 3', "bandwidth"),
        ("bytes_per_round = 2000", "bytes_per_round = -1", "positive number of bytes"),
    ],
)
def test_faults_in_links_are_named(command: Command, tmp_path: Path, before: str, after: str, said: str) -> None:
    (tmp_path / "links.toml").write_text(over_links(SHED_OVER_LINKS.replace(before, after)))
    outcome = command("run", "links.toml", "--output", "out")
    assert outcome.status == 2
    assert said in outcome.err


def test_a_link_that_is_too_narrow_is_wrong_input(command: Command, run_file: Callable[..., Path]) -> None:
    outcome = command("run", run_file(add="\n[link]\nbytes_per_round = 2000\n"), "--output", "out")
    assert outcome.status == 2
    assert "Newton sends more than" in outcome.sentence
    assert "fits what it sends to the link" in outcome.sentence


# ── few rows ──


def test_a_site_with_few_rows_is_named_once(command: Command, run_file: Callable[..., Path]) -> None:
    """31 parameters, and a client of 20 rows or a few more."""
    outcome = command("run", run_file(), "--output", "out")
    assert outcome.status == 0
    assert outcome.out.count("The fit has 31 parameters, more than a third of the rows of client") == 1
    assert "Warning" not in outcome.err
    assert json.loads(Path("out/summary.json").read_text())["notices"]
    assert "The fit has 31 parameters" in Path("out/report.html").read_text()
    quiet = command("run", run_file(("[run]", "[run]\nmin_rows = 0")), "--output", "quiet")
    assert "The fit has" not in quiet.out


def test_a_site_with_one_row_is_rejected_unless_the_file_allows_it(command: Command, tmp_path: Path) -> None:
    lines = [f"{i % 7},{i % 3},{'a' if i < 20 else 'b'}" for i in range(21)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,site", *lines]) + "\n")
    text = """
        [data]
        file = "t.csv"
        target = "y"
        split_by = "site"
        [algorithm]
        name = "Newton"
        loss = { name = "Squared", l2 = 0.1 }
        [run]
        rounds = 5
        """
    (tmp_path / "r.toml").write_text(text)
    outcome = command("run", "r.toml", "--output", "out")
    assert outcome.status == 2
    assert "client 'b' has one row" in outcome.sentence
    assert "[run] min_rows = 1" in outcome.sentence
    assert not Path("out").exists()
    (tmp_path / "r.toml").write_text(text + "min_rows = 1\n")
    assert command("run", "r.toml", "--output", "out").status == 0
