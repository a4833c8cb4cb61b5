"""Every fault of a run file is one sentence that names the key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from fedsolve.errors import ConfigError
from fedsolve.federation.participation import Participation
from fedsolve.loop.stopping import Stopping
from fedsolve.runfiles import keys
from fedsolve.runfiles import run_file as config

from .conftest import RUN_FILE, Command


def test_a_run_file() -> None:
    what = config.parse(RUN_FILE)
    assert what.data.dataset == "breast_cancer"
    assert what.partition is not None
    assert what.partition.plain() == {"alpha": 0.5, "min_samples": 20}
    assert what.run.tolerance == 1e-9
    assert [where for where, _ in what.tables()] == ["algorithm"]


BAD = [
    ("[data]", "[data", "not TOML"),
    ('dataset = "breast_cancer"', "", "data: either dataset"),
    ('dataset = "breast_cancer"', 'dataset = "iris"\nfile = "x.csv"', "data: either dataset"),
    ('dataset = "breast_cancer"', 'dataset = "breast_canser"', "Did you mean 'breast_cancer'?"),
    ('dataset = "breast_cancer"', 'file = "nothing.csv"', "nothing.csv: no such file"),
    ('dataset = "breast_cancer"', 'dataset = "breast_cancer"\nrows = 0', "data.rows must be greater than 0, got 0"),
    ('dataset = "breast_cancer"', 'dataset = "breast_cancer"\nrow = 9', "data.row is not known, did you mean 'rows'?"),
    ('dataset = "breast_cancer"', 'dataset = "iris"', "data.positive"),
    ('dataset = "breast_cancer"', 'dataset = "iris"\npositive = "rose"', "class for data.positive 'rose'"),
    ('dataset = "breast_cancer"', 'dataset = "breast_cancer"\nsplit_by = "town"', "column of breast_cancer"),
    ('dataset = "breast_cancer"', 'dataset = "breast_cancer"\ntarget = 3', "unknown option"),
    ('scheme = "dirichlet"', 'scheme = "dirichlett"', "unknown partition scheme in partition"),
    ('scheme = "dirichlet"', "", "partition.scheme is missing"),
    ("alpha = 0.5", "", "partition has no alpha"),
    ("alpha = 0.5", "alpha = -1", "positive number"),
    ("alpha = 0.5", 'alpha = "half"', "partition.alpha must be a number, got 'half'"),
    ("alpha = 0.5", "alpha = 0.5\nbeta = 1", "partition.beta is not known"),
    ("clients = 4", "clients = 4.5", "partition.clients must be a whole number, got 4.5"),
    ("clients = 4", "", "among how many clients"),
    ("[preprocess]", "[preprocess]\nstandardize = true", "did you mean 'standardise'?"),
    (
        "[preprocess]",
        '[preprocess]\nimpute = "median"',
        "preprocess.impute must be 'mean' or 'keep' or 'complete' or a number",
    ),
    ("[preprocess]", '[preprocess]\nschema = "x"', "schema"),
    ('name = "Newton"', 'name = "Newtown"', "Did you mean 'Newton'?"),
    ('name = "Newton"', "", "algorithm.name is missing"),
    ('name = "Newton"', 'name = "Newton"\nsteps = 3', "algorithm.steps is not known"),
    ('name = "Logistic"', 'name = "Logit"', "unknown loss in algorithm.loss 'Logit'"),
    ("l2 = 0.01", "l2 = -0.01", "algorithm.loss: l2"),
    ("rounds = 20", 'rounds = "ten"', "run.rounds must be a whole number, got 'ten'"),
    ("rounds = 20", "roundz = 20", "run.roundz is not known, did you mean 'rounds'?"),
    ("rounds = 20", "rounds = -1", "run.rounds must be at least 0, got -1"),
    ("rounds = 20", "checkpoint = 3", "run.checkpoint must be true or false or text in quotes, got 3"),
    ("rounds = 20", "checkpoint = false\nresume = true", "run: resume = true needs a checkpoint"),
    ("rounds = 20", 'transport = "pigeon"', "unknown transport 'pigeon'"),
    ("rounds = 20", "workers = 2", "run.workers needs transport = 'processes'"),
    ("tolerance = 1e-9", "[participation]\nfraction = 2", "fraction"),
    (
        "tolerance = 1e-9",
        "[participation]\ndeadline = 1.0\nlatency = { client-0 = 1.0, clinet-1 = 1.0 }",
        "unknown client in latency 'clinet-1'. Did you mean 'client-1'?",
    ),
    (
        "tolerance = 1e-9",
        "[participation]\ndeadline = 1.0\nlatency = { client-0 = 1.0 }",
        "latency has no entry for client 'client-1'",
    ),
    (
        'name = "Newton"',
        'name = "SHED"\nincrement = [3]',
        "algorithm.increment must be a whole number or a table or 'link'",
    ),
    ("tolerance = 1e-9", "[runn]\na = 1", "runn is not known, did you mean 'run'?"),
    ("tolerance = 1e-9", '[[algorithms]]\nname = "DKRR"', "not both"),
    ("tolerance = 1e-9", "[output]\nfolder = 3", "output.folder must be text in quotes, got 3"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD, ids=[new[:40] or f"no {old}" for old, new, _ in BAD])
def test_bad_run_files(
    command: Command, run_file: Callable[..., Path], tmp_path: Path, old: str, new: str, words: str
) -> None:
    outcome = command("run", run_file((old, new)))
    assert outcome.status == 2
    assert outcome.out == ""
    assert words in outcome.sentence
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(RUN_FILE.replace("rounds = 20", 'rounds = "x"\nworkers = 0'), "f.toml")
    assert str(caught.value).startswith("f.toml: run.")
    assert "run.rounds" in str(caught.value)
    assert "run.workers" in str(caught.value)


def test_limits_and_participation_are_the_dataclasses_own() -> None:
    """Their keys, types and defaults follow from the fields: what is added there can be said in a run file."""
    budget = config.parse(RUN_FILE.replace("rounds = 20", "").replace("tolerance = 1e-9", "")).run
    assert budget.stopping() == Stopping()
    for field in fields(Stopping):
        changed = config.parse(RUN_FILE.replace("rounds = 20", "").replace("tolerance = 1e-9", f"{field.name} = 7"))
        assert changed.run.stopping() == Stopping(**{field.name: 7})
    assert set(keys.ParticipationTable.model_fields) == {field.name for field in fields(Participation)}
    said = "[participation]\nfraction = 0.5\ndeadline = 2\nlatency = { a = 1, b = 2.5 }\nretries = 3\n"
    expected = Participation(fraction=0.5, deadline=2.0, latency={"a": 1.0, "b": 2.5}, retries=3)
    assert config.parse(RUN_FILE + said).participants() == expected
    assert config.parse(RUN_FILE).participants() is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("retries = -1", "participation.retries must be at least 0, got -1"),
        ("retries = 1.5", "participation.retries must be a whole number, got 1.5"),
        ('latency = "x"', "participation.latency must be a number or a table, got 'x'"),
        ("latency = { a = true }", "participation.latency.a must be a number, got True"),
        ("fractio = 1", "participation.fractio is not known, did you mean 'fraction'?"),
    ],
)
def test_what_a_participation_is_not(said: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(f"{RUN_FILE}\n[participation]\n{said}\n")
    assert words in str(caught.value)


def test_raw_columns_need_preprocessing(command: Command, run_file: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("a,b,y\n1,x,0\n2,,1\n3,x,0\n4,z,1\n")
    file = run_file(
        ('dataset = "breast_cancer"', 'file = "raw.csv"\ntarget = "y"'), ("[preprocess]", ""), ("min_samples = 20", "")
    )
    assert "add a [preprocess] table" in command("run", file).sentence


def test_the_right_command_for_the_file(command: Command, run_file: Callable[..., Path]) -> None:
    assert "fedsolve run" in command("compare", run_file()).sentence
    assert (
        "fedsolve compare"
        in command("run", run_file(("[algorithm]", "[[algorithms]]"), ("[algorithm.loss]", "[loss]"))).sentence
    )
    assert "no run file" in command("run", "absent.toml").sentence
