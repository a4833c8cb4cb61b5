"""Traces that experiments share: the same to the bit, shortened for a lower limit, and otherwise computed anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedsolve.losses import Logistic
from fedsolve.reproduce.harness import Seeds
from fedsolve.reproduce.shed.comparison import GAP, Comparison, compare
from fedsolve.reproduce.shed.gaps import Trace, optimum
from fedsolve.reproduce.shed.kept_traces import FOLDER, kept, shortened
from fedsolve.reproduce.shed.methods import FEDNL, FIB, FIB_PLUS, HEAVY, MONT_DEC, Method
from fedsolve.reproduce.shed.problems import Problem, images

METHODS = [FIB, FIB_PLUS, MONT_DEC, FEDNL, HEAVY]


def posed(seed: int) -> Problem:
    return images("digits", 6, 1e-3, iid=False, seed=seed, agents=3)


def compared(methods: list[Method], most: int) -> Comparison:
    seeds = Seeds((0, 1))
    found = compare(seeds, {"digits": posed}, methods, most)
    assert seeds.earlier == found.shared
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    assert compared([FIB], 40).shared == []
    assert compared([FIB], 40).shared == []


def test_what_was_kept_is_the_same_to_the_bit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = compared(METHODS, 40), compared(METHODS, 40)
    monkeypatch.delenv(FOLDER)
    alone = compared(METHODS, 40)
    assert first.traces == second.traces == alone.traces
    assert not first.shared
    assert len(second.shared) == len(list(folder.iterdir())) == 2 * len(METHODS)
    assert any("kept from earlier" in note for note in second.notes)
    assert first.notes == alone.notes


def test_a_lower_limit_takes_the_beginning_and_a_higher_one_begins_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(METHODS, 40)
    lower, higher = compared(METHODS, 12), compared(METHODS, 60)
    monkeypatch.delenv(FOLDER)
    assert lower.traces == compared(METHODS, 12).traces
    assert higher.traces == compared(METHODS, 60).traces
    assert len(lower.shared) == 2 * len(METHODS)
    assert len(higher.shared) < len(lower.shared)


def test_other_problems_links_options_and_seeds_are_other_traces(folder: Path) -> None:
    best = optimum(posed(0).clients, Logistic(l2=1e-3))
    cases = {
        (best, FIB.told(best, 0)),
        (best, FIB.told(best, 1)),
        (best, FIB_PLUS.told(best, 0)),
        (best, replace(FIB_PLUS, link=None).told(best, 0)),
        (best, HEAVY.told(best, 0)),
        (optimum(posed(0).clients, Logistic(l2=1e-4)), FIB.told(best, 0)),
        (optimum(posed(1).clients, Logistic(l2=1e-3)), FIB.told(best, 0)),
    }
    trace = Trace([0.0], [0.0], [0], [0.0], [0], [0.0])
    assert [kept(one, told, GAP, 1, lambda: trace).seconds_before for one, told in cases] == [None] * len(cases)
    assert len(list(folder.iterdir())) == len(cases)


def test_shortened() -> None:
    trace = Trace([3.0, 2.0, 1.0], [0.0] * 3, [0, 2, 4], [0.0] * 3, [0] * 3, [0.0] * 3)
    assert shortened(trace, 0.5, 4) == trace
    assert shortened(trace, 0.5, 5) is None
    assert shortened(trace, 1.0, 9) == trace
    once = shortened(trace, 0.5, 1)
    assert once is not None
    assert once.gaps == [3.0, 2.0]
