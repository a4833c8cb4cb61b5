"""Table 2 and Figure 1 of Shen et al.: how they are made, on tiny images; in full with -m slow."""

from __future__ import annotations

import json
import time
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import DataError, UnknownName
from fedsolve.reproduce import Full, Measured, find, perform
from fedsolve.reproduce.ffgb import full_settings, full_table, images, table2, traces, warm_starts
from fedsolve.reproduce.ffgb.images import Images
from fedsolve.reproduce.ffgb.methods import FEDAVG, Method
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.printed import METHODS, TABLE2, printed
from fedsolve.reproduce.ffgb.traces import Trace
from fedsolve.reproduce.ffgb.tuning import Budget, tuned
from tests.extras import optional
from tests.reproduce.test_experiments import needs_data

torch = optional("torch")


def tiny(seed: int) -> Images:
    """Two classes that a line tells apart."""
    rng = np.random.default_rng(seed)
    X, T, P = (rng.standard_normal((n, 4)) for n in (400, 200, 60))
    y, y_test = ((one[:, 0] + one[:, 1] > 0).astype(int) for one in (X, T))
    return Images(X, y, T, y_test, P, fs.MLP((6,)), False, f"tiny, seed {seed}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (table2, warm_starts):
        monkeypatch.setattr(module, "small_mnist", tiny)
    monkeypatch.setattr(table2, "CLIENTS", 4)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two settings of tiny images, with few rounds; and what was run."""
    followed: list[str] = []
    monkeypatch.setattr(full_settings, "CLIENTS", 4)
    monkeypatch.setitem(full_settings.FULL, "cifar10", tiny)
    monkeypatch.setitem(full_settings.FULL, "emnist-d", tiny)
    for module in (full_settings, full_table):
        monkeypatch.setattr(module, "SETTINGS", ("emnist-d:0.1", "cifar10:0.1"))
    short = {method: Budget(2, 1, 0.05) for method in full_settings.BUDGETS}
    monkeypatch.setattr(full_settings, "BUDGETS", short)
    follow = traces.Arena.follow

    def noted(self: traces.Arena, algorithm: Any, *args: Any, **kwargs: Any) -> Any:
        followed.append(type(algorithm).__name__)
        return follow(self, algorithm, *args, **kwargs)

    monkeypatch.setattr(traces.Arena, "follow", noted)
    return followed


# ── the small form ──


def test_table2_quick(small: None) -> None:
    outcome = perform(find("ffgb-table2"), quick=True)
    rows = {str(row[0]): row for row in outcome.result.rows}
    assert set(rows) == {"FFGB-Distill", "FedAvg-Distill", "FedDyn", "FedAvg"}
    assert outcome.result.status == "ok"  # no verdict in the quick form
    assert all(verdict.holds is None for verdict in outcome.result.verdicts)
    assert rows["FFGB-Distill"][4] == "10"
    assert isinstance(rows["FedAvg"][2], Measured)
    assert rows["FedAvg"][2].printed == 30


def test_fig1_quick(small: None) -> None:
    outcome = perform(find("ffgb-fig1"), quick=True)
    rows = {(str(row[0]), str(row[1])): row for row in outcome.result.rows}
    begun = {key: row[2] for key, row in rows.items()}
    assert isinstance(begun["FedAvg", warm_starts.WARM], Measured)
    # both begin with the model of FFGB-Distill's round, and with the same random weights
    assert begun["FedAvg", warm_starts.WARM] == begun["FedDyn", warm_starts.WARM]
    assert begun["FedAvg", warm_starts.RANDOM] == begun["FedDyn", warm_starts.RANDOM]


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ffgb-table2", "ffgb-fig1"])
def test_the_small_setting(name: str) -> None:
    assert perform(find(name)).result.status == "ok"


# ── the full form ──


def test_a_full_run_goes_on_where_it_stopped(full: list[str], tmp_path: Path) -> None:
    what = find("ffgb-table2")
    nothing = perform(what, full=Full(tmp_path / "parts", minutes=0.0))
    assert nothing.result.rows == []
    assert "PARTIAL TABLE: 12 of 12 parts" in nothing.result.notes[0]
    assert full == []
    first = perform(what, full=Full(tmp_path / "parts", settings=("cifar10:0.1",)))
    assert [row[0] for row in first.result.rows] == ["cifar10:0.1"] * 2
    assert "PARTIAL TABLE: 6 of 12 parts" in first.result.notes[0]
    assert {"FFGBDistill", "FedAvgDistill", "FedDyn", "FedAvg"} == set(full)
    full.clear()
    again = perform(what, full=Full(tmp_path / "parts", settings=("cifar10:0.1",)))
    assert full == []  # everything was there
    assert [row[:2] for row in again.result.rows] == [row[:2] for row in first.result.rows]
    whole = perform(what, full=Full(tmp_path / "parts"))
    assert len(whole.result.rows) == 4
    assert not any("PARTIAL" in note for note in whole.result.notes)
    with pytest.raises(UnknownName, match="cifar10"):
        perform(what, full=Full(tmp_path / "parts", settings=("cifar11:0.1",)))


def test_parts_without_the_first_model_make_it_again(full: list[str], tmp_path: Path) -> None:
    perform(find("ffgb-fig1"), full=Full(tmp_path, settings=("cifar10:0.1",)))
    (model,) = tmp_path.glob("*first-model.npz")
    (warm,) = tmp_path.glob("*FedAvg-from-FFGB-Distill.json")
    trace = warm.read_text()
    model.unlink()
    warm.unlink()
    full.clear()
    perform(find("ffgb-fig1"), full=Full(tmp_path, settings=("cifar10:0.1",)))
    assert {"FFGBDistill", "FedAvg"} == set(full)
    assert json.loads(warm.read_text())["trace"]["accuracies"] == json.loads(trace)["trace"]["accuracies"]


def test_figure_1_in_full_shares_its_parts(full: list[str], tmp_path: Path) -> None:
    perform(find("ffgb-table2"), full=Full(tmp_path, settings=("cifar10:0.1",)))
    full.clear()
    outcome = perform(find("ffgb-fig1"), full=Full(tmp_path, settings=("cifar10:0.1",)))
    assert full == []
    assert len(outcome.result.columns) == 8  # without FedAvg-Distill


def test_parts_that_time_cut_short_are_marked_and_run_again(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    cut = Part(0.1, Trace((0.1, 0.2, 0.3), traces.TIME, 1.0))
    assert parts.made("a:0.1 x", lambda: cut) == cut
    shorter = Part(0.1, Trace((0.1, 0.2), traces.TIME, 1.0))
    assert parts.made("a:0.1 x", lambda: shorter) == cut  # what got farther stays
    assert full_table._counts([(cut, 0.25)], None) == "2"
    assert full_table._counts([(cut, 0.5)], "> 100") == "> 2* (paper: > 100)"
    done = Part(0.05, Trace((0.1, 0.6), "rounds", 1.0))
    assert parts.made("a:0.1 x", lambda: done) == done
    assert parts.made("a:0.1 x", lambda: cut) == done
    assert full_table._counts([(done, 0.7)], None) == "> 1"
    parts.path("a:0.1 x").write_text(json.dumps({"step_size": 1}))
    with pytest.raises(DataError, match="remove it to run it again"):
        parts.find("a:0.1 x")


@pytest.mark.parametrize("method", sorted(full_settings.LONG, key=lambda one: one.name))
def test_a_part_that_time_cut_short_goes_on_from_its_checkpoint(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = tiny(0)
    arena = traces.Arena(case.clients(0.1, 4, 0), case.server(), case.X_test, case.y_test, 0)
    loss, budget = fs.Network(case.architecture, fs.Softmax(classes=2)), Budget(5, 2, 0.05)
    at_one_go, _ = tuned(arena, method, loss, budget, inf)

    run_rounds: list[str] = []
    whole_round = type(method.make(loss, 0.1, 1.0)).round

    def noted(self: Any, fed: Any, state: Any) -> Any:
        run_rounds.append(f"{self.local.step_size} {fed.round}")
        return whole_round(self, fed, state)

    monkeypatch.setattr(type(method.make(loss, 0.1, 1.0)), "round", noted)
    cuts = []
    for _ in range(20):
        ticks = iter(range(1000))  # a second passes with every look at the clock: time for a round or two
        clock = SimpleNamespace(monotonic=lambda ticks=ticks: next(ticks), perf_counter=time.perf_counter)
        monkeypatch.setattr(traces, "time", clock)
        part, _ = tuned(arena, method, loss, budget, inf, deadline=2, keep=tmp_path)
        if part.trace.is_whole:
            break
        cuts.append(part.trace.rounds)
    assert len(cuts) >= 2
    assert part.step_size == at_one_go.step_size
    assert part.trace.accuracies == at_one_go.trace.accuracies
    pilots = len(method.step_sizes) > 1
    assert len(run_rounds) - len(set(run_rounds)) <= len(cuts) + pilots  # the last round before each end is run again


class Ladder(traces.Arena):
    """An arena in which a method has the accuracies that are given by its step size."""

    def follow(self, algorithm: Any, rounds: int, target: float = inf, **kwargs: Any) -> tuple[Trace, None]:
        known = LADDERS[algorithm.local.step_size]
        reached = next((place for place, one in enumerate(known) if one >= target), inf)
        end = min(rounds, reached, len(known) - 1)
        return Trace(known[: int(end) + 1], traces.ENOUGH if reached <= rounds else "rounds", 1.0), None


LADDERS = {0.01: (0.1, 0.2, 0.2, 0.3, 0.4), 0.05: (0.1, 0.2, 0.2, 0.4, 0.5), 0.1: (0.1, 0.2, 0.2, 0.2, 0.6)}


@pytest.mark.parametrize(
    ("pilot", "longer", "target", "chosen", "rounds"),
    [
        (3, 0, inf, 0.05, 4),  # the best after three rounds
        (2, 0, inf, 0.01, 4),  # a tie goes to the first
        (2, 4, inf, 0.1, 4),  # or to the best of a longer pilot
        (2, 3, inf, 0.05, 4),
        (1, 4, 0.5, 0.1, 4),  # which is equal to another's count of rounds and better
        (3, 4, 0.35, 0.05, 3),  # reached within the pilot
    ],
)
def test_step_sizes_are_chosen_by_a_pilot(pilot: int, longer: int, target: float, chosen: float, rounds: int) -> None:
    case = tiny(0)
    arena = Ladder(case.clients(0.1, 4, 0), case.server(), case.X_test, case.y_test, 0)
    loss = fs.Network(case.architecture, fs.Softmax(classes=2))
    part, _ = tuned(arena, FEDAVG, loss, Budget(4, pilot, longer=longer), target)
    assert (part.step_size, part.trace.rounds) == (chosen, rounds)


def test_targets_are_what_ffgb_distill_reaches() -> None:
    part = Part(10.0, Trace((0.1, 0.509, 0.57, 0.5699), "rounds", 1.0))
    assert full_settings.targets(part) == (0.5, 0.57)


def test_rounds_to_a_target() -> None:
    trace = Trace((0.1, 0.75, 0.7, 0.84), "rounds", 1.0)
    assert [trace.rounds_to(target) for target in (0.05, 0.75, 0.84, 0.9)] == [0, 1, 3, inf]


def test_the_printed_table_is_whole() -> None:
    assert set(TABLE2) == {f"{name}:{s}" for name in images.FULL for s in (0.1, 0.2, 0.3)}
    assert printed("cifar10:0.1", "FedDyn", 1) == "30"
    assert printed("cifar100:0.2", "target", 0) == "0.20"
    assert printed("emnist-l:0.3", "FFGB-Distill", 0) is None
    assert printed("emnist-l:0.3", "FFGB-Distill", 1) == "3"
    assert [printed("emnist-d:0.1", method, 1) for method in METHODS] == ["4", "> 100", "> 100", "> 100"]


# ── the images ──


LARGE = ("cifar10", "cifar100")


@needs_data
@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LARGE)) for one in images.FULL])
def test_images_of_the_full_form(name: str) -> None:
    found = images.FULL[name](0)
    sizes = {
        "emnist-d": (8000, 2000, 5934, 10, 784),
        "emnist-l": (4934, 1000, 10_000, 26, 784),
        "cifar10": (10_000, 2000, 10_000, 10, 3072),
        "cifar100": (10_000, 1999, 10_000, 100, 3072),
    }[name]
    assert (len(found.X), len(found.X_test), len(found.public), found.classes, found.X.shape[1]) == sizes
    assert {one.shape[1] for one in (found.X_test, found.public)} == {sizes[-1]}
    seen = {row.tobytes() for row in found.X}
    assert not any(row.tobytes() in seen for row in found.X_test)
    assert not any(row.tobytes() in seen for row in found.public)
    assert np.abs(found.X).max() <= 2.0
    if name.startswith("cifar"):
        raw = fs.data.load(name).X[7].reshape(32, 32, 3)
        np.testing.assert_allclose(found.X[7].reshape(3, 32, 32)[1, 5], (raw[5, :, 1] - 0.5) / 0.25)


@needs_data
def test_the_small_images() -> None:
    found, other = images.small_mnist(0), images.small_mnist(1)
    assert found.X.shape == found.public.shape == (5000, 196)
    assert not np.array_equal(found.X, other.X)
    raw = fs.data.load("mnist").X_test[3].reshape(28, 28)
    assert found.X_test[3, 14 * 6 + 7] == pytest.approx(raw[12:14, 14:16].mean())
    clients = found.clients(0.1, 50, 0)
    assert {client.n_samples for client in clients} == {100}
    # nine tenths of each client's rows are of at most three neighbouring labels, the rest of any
    for client in clients:
        counts = np.sort(np.bincount(np.asarray(client.y).astype(int), minlength=10))[::-1]
        assert counts[:3].sum() >= 90
