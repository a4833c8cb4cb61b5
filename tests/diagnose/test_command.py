"""`fedsolve diagnose`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert set(found["sentences"]) == {"contraction", "data", "model", "dimension", "regime"}
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


@pytest.mark.parametrize("given", [("--steps", "0"), ("--nothing",)])
def test_wrong_input(command: Command, run_file: RunFile, given: tuple[str, ...]) -> None:
    assert command("diagnose", run_file(), *given).status == 2
