"""The harness, on a toy experiment; its command."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedsolve as fs
from fedsolve.cli import reproduce as commands
from fedsolve.errors import ConfigError, UnknownName
from fedsolve.reproduce import Column, Full, Measured, Result, Seeds, Verdict, experiment, find, harness, names, perform
from fedsolve.reproduce.figures import Curve, draw_curves, over_rounds
from fedsolve.reproduce.iterates import iterates
from tests.cli.conftest import Command


@pytest.fixture
def toy() -> Iterator[str]:
    """An experiment of two rows: one that has what it should, one that runs away."""

    @experiment("toy", paper="Toy", place="Table 1", title="A <toy> & more", takes="no time", seeds=3)
    def run(seeds: Seeds, quick: bool) -> Result:
        found: dict[str, list[float]] = {"a": [], "b": []}
        for seed, case in seeds.over(found):
            found[case].append(10.0 + seed if case == "a" else math.inf)

        def draw(figure: Any) -> None:
            draw_curves(figure.subplots(), {"a": over_rounds([[1.0, 0.1], [1.0, 0.2, 0.3]])}, over="bytes")

        held = Verdict(found["a"][0] == 10.0, "as said")
        return Result(
            columns=(Column("case"), Column("rounds", "{:.0f}".format, infinite="diverges"), Column("holds")),
            rows=[("a", Measured(tuple(found["a"]), 12), held), ("b", Measured(tuple(found["b"]), "diverges"), None)],
            notes=("Only a <toy>.",),
            draw=draw,
            claims=[("a <begins> at ten", Verdict(True, "10"))],
        )

    yield run.name
    del harness._known["toy"]


def test_the_command_and_its_folder(command: Command, toy: str, tmp_path: Path) -> None:
    outcome = command("reproduce", toy, "--json")
    assert outcome.status == 0
    assert outcome.err == ""  # no bar where nobody watches
    result = outcome.json
    assert (result["status"], result["quick"], result["seeds"]) == ("ok", False, [0, 1, 2])
    assert result["command"] == "fedsolve reproduce toy"
    assert result["version"] == fs.__version__
    first, second = result["rows"]
    assert first["rounds"] == {
        "median": 11.0,
        "low": 10.0,
        "high": 12.0,
        "printed": 12,
        "text": "11 (10–12)",
        "values": [10.0, 11.0, 12.0],
    }
    assert first["holds"] == {"holds": True, "said": "as said"}
    assert result["claims"] == [{"claim": "a <begins> at ten", "holds": True, "said": "10"}]
    assert (second["rounds"]["median"], second["rounds"]["text"]) == (None, "diverges")
    folder = tmp_path / "runs/reproduce-toy"
    assert {each.name for each in folder.iterdir()} == {"table.csv", "table.json", "figure.png", "report.html"}
    assert json.loads((folder / "table.json").read_text())["rows"] == result["rows"]
    with (folder / "table.csv").open() as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["case", "rounds", "rounds low", "rounds high", "rounds paper", "holds"]
    assert lines[1] == ["a", "11.0", "10.0", "12.0", "12", "yes, as said"]
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert "A &lt;toy&gt; &amp; more" in page
    assert "11 (10–12)" in page
    assert "a &lt;begins&gt; at ten" in page
    assert "2 of 2 claims hold" in page
    assert "<toy>" not in page


def test_for_people(command: Command, toy: str) -> None:
    said = command("reproduce", toy, "--seeds", "1").out
    for word in (
        "A <toy>",
        "Toy, Table 1",
        "diverges",
        "yes, as said",
        "a <begins> at ten: yes, 10",
        "runs/reproduce-toy/report.html",
    ):
        assert word in said
    assert "quick form" not in said


def test_quick_says_so_and_keeps_apart(command: Command, toy: str, tmp_path: Path) -> None:
    command("reproduce", toy)
    before = (tmp_path / "runs/reproduce-toy/table.json").read_bytes()
    said = command("reproduce", toy, "--quick").out
    assert "Do not quote its numbers" in said
    assert (tmp_path / "runs/reproduce-toy/table.json").read_bytes() == before
    quick = tmp_path / "runs/reproduce-toy-quick"
    assert json.loads((quick / "table.json").read_text())["quick"] is True
    assert "Do not quote its numbers" in (quick / "report.html").read_text()


def test_a_folder_of_others_is_kept(command: Command, toy: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").write_text("mine")
    outcome = command("reproduce", toy, "--output", "home")
    assert outcome.status == 2
    assert "contains other files" in outcome.sentence
    assert command("reproduce", toy, "--output", "out").status == 0
    assert command("reproduce", toy, "--output", "out").status == 0  # its own it replaces


def test_a_missed_verdict_is_status_1(command: Command, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missed = Result((Column("holds"),), [(Verdict(False, "1.4 ×"),)])
    shown = harness.Outcome(find(toy), missed, (0,), False, 0.0)
    monkeypatch.setattr(commands.experiments, "perform", lambda *_, **__: shown)
    outcome = command("reproduce", toy, "--json")
    assert (outcome.status, outcome.json["status"]) == (1, "missed")
    assert "NO, 1.4 ×" in command("reproduce", toy).out
    assert Result((), (), claims=[("so it is", Verdict(False, "not"))]).status == "missed"


def test_a_fault_leaves_no_folder(command: Command, toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.experiments, "perform", fail)
    outcome = command("reproduce", toy)
    assert outcome.status == 130
    assert not (tmp_path / "runs/reproduce-toy").exists()


def test_unknown_names(command: Command) -> None:
    outcome = command("reproduce", "fednewton-cg-round")
    assert outcome.status == 2
    assert "Did you mean 'fednewton-cg-rounds'?" in outcome.sentence
    assert "--list" in command("reproduce").sentence
    assert command("reproduce", "newton-rounds", "--seeds", "0").status == 2
    with pytest.raises(UnknownName):
        find("nothing")


def test_listing(command: Command) -> None:
    found = {one["name"]: one for one in command("reproduce", "--list", "--json").json["experiments"]}
    assert list(found) == list(names())
    assert found["fednewton-cg-rounds"]["paper"] == "FedNewton"
    assert all(one["title"] and one["place"] and one["takes"] for one in found.values())
    assert {one["paper"] for one in found.values()} == {
        "FFGB",
        "FedLRGD",
        "FedNewton",
        "SHED",
        "Su, Xu and Yang (2023)",
    }
    assert "newton-rounds" in command("reproduce", "--list").out


def test_progress_and_seeds(toy: str) -> None:
    steps: list[tuple[int, int, str]] = []
    outcome = perform(find(toy), seeds=2, on_step=lambda *step: steps.append(step))
    assert outcome.seeds == (0, 1)
    assert steps[0] == (0, 4, "seed 0  a")
    assert steps[-1] == (4, 4, "")
    assert list(Seeds((4, 7))) == [4, 7]
    with pytest.raises(ConfigError):
        perform(find(toy), seeds=0)
    with pytest.raises(ConfigError, match="two experiments"):
        experiment("toy")(lambda seeds, quick: Result((), ()))


def test_how_cells_are_written() -> None:
    mean = Column("accuracy", "{:.1f}".format, average="mean")
    assert mean.write(Measured((77.0, 78.0, 76.0), 77.3)) == "77.0 ± 1.0"
    assert mean.write_printed(Measured((77.0,), 77.3)) == "77.3"
    assert mean.write(None) == "–"
    assert Column("n", "{:.0f}".format).write(Measured((3.0, math.inf, math.inf))) == "∞ (3–∞)"
    with pytest.raises(ValueError, match="row of 1"):
        Result((Column("a"), Column("b")), [("x",)])


def test_curves_of_different_lengths() -> None:
    x, y = Curve([[0, 1, 2], [0, 1], [0, 1, 2, 3]], [[3, 2, 1], [3, 0], [3, 2, 1, 0]]).points()
    assert x.tolist() == [0, 1, 2]
    assert y.tolist() == [[3, 2, 1], [3, 0, 0], [3, 2, 1]]


def test_iterates_are_those_of_a_run() -> None:
    data = fs.data.load("diabetes")
    clients = fs.data.partition(data.X, data.y, clients=3)
    algorithm = fs.FedNewtonCG(fs.Squared(l2=0.1))
    run = fs.run(algorithm, clients, rounds=4, tolerance=0)
    steps = [step for step, _ in zip(iterates(algorithm, clients), range(5), strict=False)]
    assert [step.round for step in steps] == [0, 1, 2, 3, 4]
    assert (steps[-1].state.w == run.model.w).all()
    sent, last = steps[-1].sent, run.history[-1]
    assert (sent.scalars_up, sent.scalars_down) == (last.scalars_up, last.scalars_down)
    assert 0 < steps[0].bytes < steps[-1].bytes
    assert len(list(iterates(fs.DKRR(fs.Squared(l2=0.1)), clients))) == 1  # finished at once


@pytest.fixture
def long_toy() -> Iterator[str]:
    """An experiment with a full form that saves a part for each setting."""

    def in_full(seeds: Seeds, how: Full) -> Result:
        how.folder.mkdir(exist_ok=True)
        for setting in how.settings or ("a", "b"):
            (how.folder / f"{setting}.json").write_text("{}")
        done = sorted(path.stem for path in how.folder.iterdir())
        return Result(columns=(Column("done"),), rows=[(one,) for one in done], notes=(f"{how.minutes} minutes",))

    @experiment("long-toy", paper="Toy", place="Table 2", title="A long toy", takes="no time", full=in_full)
    def run(seeds: Seeds, quick: bool) -> Result:
        return Result(columns=(Column("done"),), rows=[("usual",)])

    yield run.name
    del harness._known["long-toy"]


def test_the_full_form_goes_on_where_it_stopped(command: Command, long_toy: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    given = ("reproduce", long_toy, "--full", "--settings", "b", "--minutes", "2", "--output", folder, "--json")
    first = command(*given)
    assert first.status == 0, first.err
    assert first.json["full"] is True
    assert first.json["seeds"] == [0]
    assert first.json["notes"] == ["2.0 minutes"]
    assert first.json["command"] == f"fedsolve reproduce long-toy --full --settings b --minutes 2.0 --output {folder}"
    assert [row["done"] for row in first.json["rows"]] == ["b"]
    (tmp_path / "out" / "table.json").unlink()  # as if it had been stopped before its end
    second = command("reproduce", long_toy, "--full", "--settings", "a", "--output", folder, "--json")
    assert [row["done"] for row in second.json["rows"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("long-toy", ("--settings", "a"), "add --full"),
        ("long-toy", ("--minutes", "1"), "add --full"),
        ("long-toy", ("--full", "--quick"), "exclude each other"),
        ("toy", ("--full",), "no full form (known: "),
    ],
)
def test_options_of_the_full_form(
    command: Command, toy: str, long_toy: str, name: str, options: tuple[str, ...], words: str
) -> None:
    outcome = command("reproduce", name, *options, "--json")
    assert outcome.status == 2
    assert words in outcome.out + outcome.err
