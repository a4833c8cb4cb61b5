"""What the full Table 2 decides, from parts written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsolve.reproduce.ffgb.full_claims import Count, after_rounds, better_by_half, claims, counts
from fedsolve.reproduce.ffgb.full_settings import COLUMNS, SETTINGS, WARM, Case
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDAVG_DISTILL, FEDDYN, FFGB, Method
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.traces import Trace
from fedsolve.reproduce.result import Verdict

REPOSITORY = Path(__file__).parents[2] / "docs" / "reproduce" / "parts" / "ffgb-table2"


@pytest.mark.parametrize(
    ("ours", "theirs", "below", "agrees"),
    [
        ("3", "4", True, True),
        ("4", "4", False, True),
        ("3", "7", True, False),
        ("3", "> 100", True, False),
        ("51", "> 100", True, True),
        ("> 100", "24", False, False),
        ("> 100", "> 100", None, True),
        ("> 10", "> 100", None, None),
        ("> 10", "19", None, None),
        ("> 10", "3", False, False),
    ],
)
def test_counts_that_are_known_in_part(ours: str, theirs: str, below: bool | None, agrees: bool | None) -> None:
    assert str(Count.read(ours)) == ours
    assert Count.read(ours).is_below(Count.read(theirs)) is below
    assert Count.read(ours).agrees(Count.read(theirs)) is agrees


def _write(folder: Path, method: Method, accuracies: list[float], warm: bool = False, ended: str = "rounds") -> None:
    part = Part(0.1, Trace(tuple(accuracies), ended, 1.0))
    Parts(folder).made(Case("cifar10:0.1", 0).part(method, warm), lambda: part)


def test_one_setting_by_hand(tmp_path: Path) -> None:
    """Targets are 0.50 after the first round and 0.56, the best."""
    _write(tmp_path, FFGB, [0.1, 0.505, 0.55, 0.561])
    _write(tmp_path, FEDAVG, [0.1, 0.2, 0.3, 0.4, 0.51, 0.52, 0.57])
    _write(tmp_path, FEDAVG, [0.505, 0.55, 0.58], warm=True)
    _write(tmp_path, FEDDYN, [0.1, 0.2, 0.55, 0.58])
    _write(tmp_path, FEDDYN, [0.505, 0.55, 0.58], warm=True)
    _write(tmp_path, FEDAVG_DISTILL, [0.1, 0.4, 0.51], ended="time")
    rows = counts(COLUMNS, Parts(tmp_path), SETTINGS)
    assert set(rows) == {("cifar10:0.1", 0), ("cifar10:0.1", 1)}
    assert {name: str(one) for name, one in rows["cifar10:0.1", 1].items()} == {
        FFGB.name: "3",
        FEDAVG.name: "6",
        FEDAVG.name + WARM: "2",
        FEDDYN.name: "3",
        FEDDYN.name + WARM: "2",
        FEDAVG_DISTILL.name: "> 2",
    }
    found = dict(claims(COLUMNS, Parts(tmp_path), SETTINGS))
    said = found["FFGB-Distill needs fewer models than FedDyn, in every row"]
    assert said == Verdict(False, "1 of 2 rows, not at cifar10:0.1, target 2; 22 have not been run")
    assert found["FFGB-Distill needs fewer models than FedAvg, in every row"].holds is None  # rows are missing
    assert found["one round of FFGB-Distill saves FedDyn models, its own counted, in every row"].holds is False  # 2 + 1
    half = found["… FedAvg then needs at most half as many, in every row"]  # 0 + 1 against 4, 2 + 1 against 6
    assert half == Verdict(None, "2 of 2 rows; 22 have not been run; where both are reached 0.25 to 0.50 times as many")
    half = found["… FedDyn then needs at most half as many, in every row"]  # 0 + 1 against 2, 2 + 1 against 3
    assert half.holds is False
    assert half.said.startswith("1 of 2 rows, not at cifar10:0.1, target 2")
    assert found["CIFAR-10, FFGB-Distill: counts within twice the printed ones"] == Verdict(True, "1 (1), 3 (3)")
    assert found["CIFAR-10, FedAvg: counts within twice the printed ones"] == Verdict(False, "4 (25), 6 (39)")
    assert found["CIFAR-100, FedAvg: counts within twice the printed ones"].holds is None
    assert found["FFGB-Distill has an accuracy of 0.50 after one round (CIFAR-10, s = 0.1)"].holds is True


def test_the_parts_of_the_repository_are_the_whole_table() -> None:
    found = dict(claims(COLUMNS, Parts(REPOSITORY), SETTINGS))
    for other in ("FedAvg", "FedDyn", "FedAvg-Distill"):
        assert found[f"FFGB-Distill needs fewer models than {other}, in every row"] == Verdict(True, "24 of 24 rows")
    for method in ("FedAvg", "FedDyn"):
        half = found[f"… {method} then needs at most half as many, in every row"]
        assert half.holds is True
        assert half.said.startswith("24 of 24 rows; where both are reached 0.0")
        words = f"… {method} then needs at most half as many, in the 12 rows whose target is not the start's own"
        assert found[words].holds is True
        assert found[words].said.startswith("12 of 12 rows; ")
        assert half.said.endswith("to 0.50 times as many" if method == "FedDyn" else "to 0.42 times as many")
    # ten rounds of FedAvg-Distill tell one row in six
    assert found["FedAvg-Distill needs fewer models than FedAvg on CIFAR-10"].holds is None
    assert found["FedAvg-Distill is better than FedAvg after equally many rounds on CIFAR-10"].holds is True
    assert found["FedAvg-Distill is worse than FedAvg after equally many rounds on CIFAR-100"].holds is False
    assert not any("not been run" in verdict.said for verdict in found.values())


def test_a_missing_part_leaves_a_comparison_by_rounds_open(tmp_path: Path) -> None:
    parts, case = Parts(tmp_path), Case("cifar10:0.1", 0)
    parts.made(case.part(FEDAVG, False), lambda: Part(0.1, Trace((0.1, 0.2, 0.3), "rounds", 1.0)))
    assert after_rounds(parts, ("cifar10:0.1",), "cifar10", "better").holds is None
    parts.made(case.part(FEDAVG_DISTILL, False), lambda: Part(0.1, Trace((0.1, 0.25), "rounds", 1.0)))
    assert after_rounds(parts, ("cifar10:0.1",), "cifar10", "better") == Verdict(True, "0.250 against 0.200 after 1")
    assert after_rounds(parts, ("cifar10:0.1",), "cifar10", "worse").holds is False


def test_half_of_the_rounds_and_no_target(tmp_path: Path) -> None:
    setting = ("cifar10:0.1",)
    _write(tmp_path, FFGB, [0.1, 0.5, 0.6, 0.55, 0.5, 0.5])
    _write(tmp_path, FEDDYN, [0.1] * 10 + [0.59, 0.9])  # 0.9 comes after round 10
    found = better_by_half(Parts(tmp_path), setting, FEDDYN)
    assert found == Verdict(True, "by 0.010 (cifar10:0.1) to 0.010")
    _write(tmp_path, FEDAVG, [0.1] * 10 + [0.6])
    assert better_by_half(Parts(tmp_path), setting, FEDAVG).holds is False
    _write(tmp_path, FEDAVG_DISTILL, [0.1] * 10)  # nine rounds
    assert better_by_half(Parts(tmp_path), setting, FEDAVG_DISTILL).holds is None
