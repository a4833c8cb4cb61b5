"""`fedsolve diagnose`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.cli.diagnose import _linear_sentences
from fedsolve.diagnose import contraction, heterogeneity, regime
from tests.cli.conftest import Command

RunFile = Callable[..., Path]


def test_json(command: Command, run_file: RunFile) -> None:
    outcome = command("diagnose", run_file(), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    found = outcome.json
    assert (found["status"], found["clients"], found["features"]) == ("ok", 4, 30)
    rho = found["contraction"]
    assert rho["verdict"] == "diverges"
    assert rho["rho"] > 1
    assert rho["upper"] > rho["rho"] > 0
    assert not rho["upper_is_proved"]  # a free intercept
    assert len(found["heterogeneity"]["data"]) == len(found["effective_dimension"]["local"]) == 4
    assert found["effective_dimension"]["pooled"] < 30
    assert set(found["sentences"]) == {"contraction", "data", "model", "dimension", "regime", "inputs"}
    distances = found["input_distances"]
    assert set(distances["tv"]) == set(distances["w1_error"]) == set(found["heterogeneity"]["data"])
    assert 0 < distances["omega_tv"] < 0.75  # at most 1 − 1/N
    assert max(distances["w1"][one] / distances["w1_error"][one] for one in distances["w1"]) > 3  # by skewed labels
    assert found["bytes_up"] > 0


def test_for_people(command: Command, run_file: RunFile) -> None:
    said = command("diagnose", run_file()).out
    for word in ("breast_cancer", "FedNewtonCG", "effective dimensions", "client-0", "Theorem 3", "only sums"):
        assert word in said


def test_other_losses_and_roads(command: Command, run_file: RunFile) -> None:
    squared = run_file(('name = "Logistic"', 'name = "Squared"'), ('intercept = "free"\n', ""), name="squared.toml")
    here = command("diagnose", squared, "--json").json
    assert here["contraction"]["upper_is_proved"]
    there = run_file(
        ('name = "Logistic"', 'name = "Squared"'),
        ('intercept = "free"\n', ""),
        add='transport = "processes"\n',
        name="processes.toml",
    )
    assert command("diagnose", there, "--json").json == here
    more = command("diagnose", squared, "--steps", "30", "--json").json["contraction"]
    assert more["rho"] >= here["contraction"]["rho"]


def test_a_loss_that_is_not_quadratic_gets_an_indication(command: Command, run_file: RunFile) -> None:
    said = " ".join(command("diagnose", run_file()).out.split())
    assert "• With the Hessians at w = 0, which is an indication and no more, plain FedNewton would diverge" in said
    assert "rounds to 1e-8 for each Newton step" in said
    squared = run_file(('name = "Logistic"', 'name = "Squared"'), name="squared.toml")
    said = command("diagnose", squared, "--json").json["sentences"]["contraction"]
    assert "indication" not in said
    assert "for each Newton step" not in said


def test_the_theorem_does_not_contradict_what_was_measured(command: Command, run_file: RunFile) -> None:
    found = command("diagnose", run_file(), "--json").json
    assert found["regime"]["iterations_help"]
    assert "would diverge" in found["sentences"]["contraction"]
    assert "is no guide here" in found["sentences"]["regime"]
    assert found["sentences"]["regime"].endswith("what was measured says otherwise")
    assert "least squares" in found["sentences"]["regime"]


def test_the_theorem_where_it_agrees_and_where_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    loss = fs.Squared(l2=0.1)
    clients = fs.data.partition(X, X @ np.ones(3), fs.data.IID(), clients=2)
    rho, differs = contraction(loss, clients), heterogeneity(loss, clients)
    for case, agrees in ((regime(200, 400), True), (regime(2, 400), False)):
        said = _linear_sentences(rho, differs, loss, case)["regime"]
        assert said.startswith("by Theorem 3") == agrees
        assert ("no guide" in said) != agrees


def test_boosting_is_told_of_its_inputs(command: Command, run_file: RunFile) -> None:
    """FFGB has functions and no weights: what is said of weights is left out."""
    boosting = run_file(
        ('name = "Newton"', 'name = "FFGB"\nlearner = "RidgeLearner"'),
        ("l2 = 0.01\n", ""),
        ('intercept = "free"\n', ""),
    )
    found = command("diagnose", boosting, "--json").json
    assert found["contraction"] is found["heterogeneity"] is found["effective_dimension"] is found["regime"] is None
    assert set(found["sentences"]) == {"inputs"}
    assert found["input_distances"]["omega_tv"] > 0
    assert found["features"] == 30
    said = command("diagnose", boosting).out
    assert "ω_TV is at least" in said
    assert "FedNewton" not in said


def test_too_few_rows_to_compare(command: Command, tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 3},{i},{'ab'[i % 2]}" for i in range(12))
    (tmp_path / "small.csv").write_text(f"x,y,site\n{rows}\n")
    file = tmp_path / "small.toml"
    file.write_text(
        '[data]\nfile = "small.csv"\ntarget = "y"\nsplit_by = "site"\n[algorithm]\nname = "Newton"\n'
        '[algorithm.loss]\nname = "Squared"\nl2 = 0.1\n'
    )
    outcome = command("diagnose", file, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.json["input_distances"] is None
    assert "the 20 rows that comparing inputs needs" in outcome.json["sentences"]["inputs"]
    assert " – " in command("diagnose", file).out


def test_names_are_spelt_as_they_are(command: Command, run_file: RunFile) -> None:
    said = command("diagnose", run_file()).out
    assert "client-" in said
    assert "Client-" not in said


@pytest.mark.parametrize("given", [("--steps", "0"), ("--nothing",)])
def test_wrong_input(command: Command, run_file: RunFile, given: tuple[str, ...]) -> None:
    assert command("diagnose", run_file(), *given).status == 2
