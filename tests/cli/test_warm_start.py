"""`warm_start` of [run] and [server] in run files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.runfiles import problem as problems
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.portable import from_anywhere
from tests.cli.conftest import RUN_FILE, Command
from tests.extras import optional

RunFile = Callable[..., Path]
ONE_ROUND = RUN_FILE.replace("rounds = 20\ntolerance = 1e-9", "rounds = 0")


def _written(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _weights(folder: Path) -> np.ndarray:
    return fs.load_model(folder / "model.npz").w


def test_a_run_begins_with_the_model_of_a_file(command: Command, tmp_path: Path) -> None:
    first = _written(tmp_path, RUN_FILE)
    assert command("run", str(first), "--output", str(tmp_path / "first"), "--json").status == 0
    again = _written(tmp_path, ONE_ROUND + 'warm_start = "first/model.npz"\n', "again.toml")
    outcome = command("run", str(again), "--output", str(tmp_path / "again"), "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.json["rounds"] == 0
    assert outcome.json["warm_start"] == {"file": str(tmp_path / "first" / "model.npz")}
    assert np.array_equal(_weights(tmp_path / "again"), _weights(tmp_path / "first"))


def test_a_run_begins_with_an_algorithm_that_runs_first(command: Command, tmp_path: Path) -> None:
    warm = _written(tmp_path, ONE_ROUND + 'warm_start = { name = "FedAvg", rounds = 2, local = { steps = 3 } }\n')
    outcome = command("run", str(warm), "--output", str(tmp_path / "warm"), "--json")
    assert outcome.status == 0, outcome.err
    what = config.parse(warm.read_text(), str(warm))
    problem = problems.prepare(what, warm)
    loss = fs.Logistic(l2=0.01, intercept="free")
    local, preprocess = fs.GradientSteps(steps=3), problem.preprocess
    limits = fs.Stopping(rounds=2, tolerance=None)
    expected = fs.run(fs.FedAvg(loss, local), problem.clients, stopping=limits, measure=0, preprocess=preprocess)
    assert np.array_equal(_weights(tmp_path / "warm"), expected.model.w)
    said = outcome.json["warm_start"]
    assert (said["algorithm"], said["rounds"]) == ("FedAvg", 2)
    assert said["bytes_up"] == expected.ledger.total().bytes_up
    people = command("run", str(warm), "--output", str(tmp_path / "people"))
    assert "It began with the model of FedAvg after 2 rounds" in people.out


def test_each_algorithm_of_a_comparison_has_its_warm_start(command: Command, tmp_path: Path) -> None:
    text = ONE_ROUND.replace('[algorithm]\nname = "Newton"\n\n[algorithm.loss]', "[loss]") + (
        'warm_start = { name = "Newton", rounds = 3 }\n'
        '[[algorithms]]\nname = "FedAvg"\n[[algorithms]]\nname = "FedDyn"\n'
    )
    outcome = command("compare", str(_written(tmp_path, text)), "--output", str(tmp_path / "both"), "--json")
    assert outcome.status == 0, outcome.err
    rows = outcome.json["rows"]
    assert [row["warm_start"]["algorithm"] for row in rows] == ["Newton", "Newton"]
    assert rows[0]["value"] == rows[1]["value"]


def test_a_resumed_run_does_not_begin_again(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RUN_FILE.replace("rounds = 20", "rounds = 2") + 'warm_start = { name = "FedAvg", rounds = 1 }\n'
    folder = str(tmp_path / "run")
    assert command("run", str(_written(tmp_path, text)), "--output", folder, "--json").status == 0
    more = _written(tmp_path, text.replace("rounds = 2", "rounds = 6", 1))

    def fail(*_: object) -> None:
        raise AssertionError("the warm start of a resumed run was made anew")

    monkeypatch.setattr("fedsolve.cli.warm_starts.first_algorithm", fail)
    outcome = command("run", str(more), "--output", folder, "--resume", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.json["rounds"] > 2


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ('"nowhere.npz"', "there is no model file"),
        ('{ name = "FedAverage" }', "FedAvg"),
        ('{ name = "FedAvg", step = 3 }', "run.warm_start"),
        ('{ name = "FedAvg", rounds = -1 }', "rounds"),
        ("3", "warm_start"),
    ],
)
def test_starts_that_cannot_be_made(command: Command, tmp_path: Path, start: str, words: str) -> None:
    outcome = command("run", str(_written(tmp_path, RUN_FILE + f"warm_start = {start}\n")), "--json")
    assert outcome.status == 2
    assert words in outcome.out + outcome.err


def test_a_model_of_other_columns_is_rejected(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clients = [fs.Client("a", rng.standard_normal((30, 4)), rng.integers(0, 2, 30).astype(float))]
    fs.run(fs.Newton(fs.Logistic(l2=0.1)), clients, rounds=1).model.save(tmp_path / "model.npz")
    outcome = command("run", str(_written(tmp_path, RUN_FILE + 'warm_start = "model.npz"\n')), "--json")
    assert outcome.status == 2
    assert "warm start" in outcome.out + outcome.err


# ── [server] ──

SERVER = "[server]\nrows = 100\nseed = 3\n"


def test_rows_are_set_aside_for_the_server(tmp_path: Path) -> None:
    file = _written(tmp_path, SERVER + RUN_FILE)
    problem = problems.prepare(config.parse(file.read_text(), str(file)), file)
    data = fs.data.load("breast_cancer")
    assert problem.server is not None
    assert problem.server.y is None
    assert problem.server.n_samples == 100
    assert sum(client.n_samples for client in problem.clients) == data.n_samples - 100
    everyone = np.concatenate([problem.server.X, *(client.X for client in problem.clients)])
    assert np.array_equal(np.sort(everyone, axis=0), np.sort(data.X, axis=0))
    assert problem.server.feature_names == data.feature_names


def test_the_server_reads_data_of_its_own(tmp_path: Path) -> None:
    data = fs.data.load("breast_cancer")
    header = ",".join([*data.feature_names, "unknown"])
    table = np.column_stack([data.X[:40], np.zeros(40)])
    np.savetxt(tmp_path / "public.csv", table, delimiter=",", header=header, comments="")
    text = '[server]\nfile = "public.csv"\ntarget = "unknown"\nrows = 30\n' + RUN_FILE
    file = _written(tmp_path, text)
    problem = problems.prepare(config.parse(text, str(file)), file)
    assert problem.server is not None
    assert problem.server.n_samples == 30
    assert problem.server.feature_names == data.feature_names
    assert sum(client.n_samples for client in problem.clients) == data.n_samples
    copied = from_anywhere(text, tmp_path)
    assert f'file = "{tmp_path / "public.csv"}"' in copied


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("rows = 569", "leaves none to the clients"),
        ("seed = 1", "rows = how many"),
        ("rows = 5\nscale = true", "rows = how many"),
        ('dataset = "iris"\nfile = "a.csv"', "not both"),
        ('dataset = "iris"\nsplit_by = "a"', "give them in [data]"),
    ],
)
def test_bad_server_tables(command: Command, tmp_path: Path, table: str, words: str) -> None:
    outcome = command("run", str(_written(tmp_path, f"[server]\n{table}\n" + RUN_FILE)), "--json")
    assert outcome.status == 2
    assert words in outcome.out + outcome.err


def test_paths_of_two_tables_stay_apart(tmp_path: Path) -> None:
    text = '[data]\nfile = "a.csv"\n[server]\nfile = "b.csv"\n[run]\nwarm_start = "m.npz"\n'
    copied = from_anywhere(text, tmp_path)
    for name in ("a.csv", "b.csv", "m.npz"):
        assert json.dumps(str(tmp_path / name)) in copied


# ── FFGBDistill, then FedAvg ──

NETWORK = """
[data]
dataset = "digits"
rows = 300

[server]
rows = 100

[partition]
scheme = "homogeneity"
s = 0.1
clients = 4

[preprocess]

[loss]
name = "Network"
architecture = { name = "MLP", hidden = [8] }
loss = { name = "Softmax", classes = 10 }

[algorithm]
name = "FedAvg"
local = { name = "GradientSteps", epochs = 1, step_size = 0.05, batch_size = 32 }

[run]
rounds = 1
"""
FIRST = 'name = "FFGBDistill", rounds = 1, local = { name = "Adam", epochs = 3, batch_size = 32 }'


def test_ffgb_distill_starts_fedavg_in_one_line(command: Command, tmp_path: Path) -> None:
    optional("torch")
    distil = "distil = { local = { name = 'Adam', epochs = 3, batch_size = 32 } }"
    file = _written(tmp_path, NETWORK + f"warm_start = {{ {FIRST}, {distil} }}\n")
    outcome = command("run", str(file), "--output", str(tmp_path / "run"), "--json")
    assert outcome.status == 0, outcome.out + outcome.err
    said = outcome.json["warm_start"]
    assert (said["algorithm"], said["rounds"]) == ("FFGBDistill", 1)
    problem = problems.prepare(config.parse(file.read_text(), str(file)), file)
    adam = fs.Adam(epochs=3, batch_size=32)
    (algorithm,) = problem.algorithms.values()
    boosting = fs.FFGBDistill(algorithm.loss, local=adam, distil=fs.Distil(local=adam))  # type: ignore[attr-defined]
    given = {"server": problem.server, "preprocess": problem.preprocess}
    first = fs.run(boosting, problem.clients, rounds=1, **given)  # type: ignore[arg-type]
    second = fs.run(algorithm, problem.clients, rounds=1, warm_start=first.model, **given)  # type: ignore[arg-type]
    assert np.array_equal(_weights(tmp_path / "run"), second.model.w)


def test_an_algorithm_that_distils_says_what_it_lacks(command: Command, tmp_path: Path) -> None:
    optional("torch")
    text = NETWORK.replace("[server]\nrows = 100\n", "") + f"warm_start = {{ {FIRST} }}\n"
    outcome = command("run", str(_written(tmp_path, text)), "--output", str(tmp_path / "run"), "--json")
    assert outcome.status == 2
    assert "run.warm_start" in outcome.out + outcome.err
    assert "server" in outcome.out + outcome.err
