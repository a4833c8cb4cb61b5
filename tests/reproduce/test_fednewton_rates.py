"""FedNewton's learning rates with shifts and with r below ½: what counts as learned, as felt and as linear."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce import Verdict
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton import rates, rates_rough, rates_shifts, remark7, sharp, theorem5
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.slopes import WORSE, Case, Slopes
from fedsolve.reproduce.tally import Tally

TOTALS = (512, 1024, 8192, 16384)


def test_rho_is_what_rounds_leave_in_the_end() -> None:
    """Few rows and many in one federation, of unequal clients."""
    of = sharp.Sharp(0.5, 0.5, size=20, tilt=0.3, models=0.2)
    parts = of.parts(61, 4, np.random.default_rng(1))
    parts = [(np.vstack([parts[0][0], parts[1][0]]), np.concatenate([parts[0][1], parts[1][1]])), *parts[2:]]
    rho = sharp.rho(of, parts, 0.5)
    late = [sharp.errors(of, parts, 0.5, rounds)[f"federated, #{rounds}"] for rounds in (14, 15)]
    assert late[1] / late[0] == pytest.approx(rho, rel=1e-2)
    assert sharp.rho(of, [parts[0]], 0.5) == pytest.approx(0.0, abs=1e-9)


def test_rho_of_many_rows_with_shifts_is_that_of_the_densities() -> None:
    """Densities 1 ± h leave at most h²/(1 − h²), whatever λ is."""
    of, h = sharp.Sharp(0.5, 0.5, size=10, tilt=0.5), 0.5
    found = sharp.rho(of, of.parts(200_000, 2, np.random.default_rng(0)), 1e-6)
    assert 0.5 * h**2 / (1 - h**2) < found < 1.05 * h**2 / (1 - h**2)


def _values(
    of: sharp.Sharp, total: int, federated: float = 0.1, left: float = 1e-3, rho: float = 0.5
) -> dict[str, float]:
    """An error that is learned at the rate of the theorem."""
    error = total**of.exponent
    found = {name: error for name in ("KRR", "DKRR", "#8")}
    return found | {"federated, DKRR": federated * error, "federated, #8": federated * left * error, "ρ": rho}


def _of_shifts(changed: dict[sharp.Sharp, dict[str, float]]) -> dict[str, Verdict]:
    """The claims on shifts where a moderate one leaves twenty times as much, with some values changed."""
    usual: dict[sharp.Sharp, dict[str, float]] = {
        rates_shifts.MODERATE: {"left": 2e-2},
        rates_shifts.MODELS: {"federated": 0.2},
    }
    tally, tried = Tally[Case](), rates_shifts.cases(TOTALS)
    for case in tried:
        of, total = case[:2]
        values = _values(of, total, **(usual.get(of, {}) | changed.get(of, {})))
        if of == rates_shifts.LARGE and total < rates_shifts.FROM:
            values["ρ"] = 1.2
        tally.add(case, values)
    claims = Claims(quick=False)
    rates_shifts.on_shifts(Slopes(tally, tried), claims)
    return dict(claims.found)


def _broken(found: dict[str, Verdict]) -> list[str]:
    return [claim for claim, verdict in found.items() if not verdict.holds]


def test_a_shift_that_is_not_felt_is_no() -> None:
    assert _broken(_of_shifts({})) == []
    assert _broken(_of_shifts({rates_shifts.MODERATE: {"left": 9e-3}})) == [
        "inputs with h = 0.3: eight rounds leave at least 10 times what they leave without"
    ]
    assert _broken(_of_shifts({rates_shifts.MODELS: {"federated": 0.14}})) == [
        "models with b = 0.3: DKRR's federated error is at least 1.5 times that without"
    ]


def test_a_shift_with_which_rounds_diverge_is_no() -> None:
    assert _broken(_of_shifts({rates_shifts.MODERATE: {"left": 2e-2, "rho": 1.01}})) == [
        "inputs with h = 0.3: ρ < 1 at every |D|"
    ]
    many = "inputs with h = 0.5: from |D| = 8192 on ρ < 1 and rounds help"
    assert _broken(_of_shifts({rates_shifts.LARGE: {"left": 1.1}})) == [many]
    assert _broken(_of_shifts({rates_shifts.LARGE: {"rho": 1.1}})) == [many]


def test_learned_is_by_the_exponent_and_beside_krr() -> None:
    of, tally = sharp.Sharp(0.25, 0.5), Tally[Case]()
    tried: list[Case] = [(of, total, 0.5, 1.0) for total in TOTALS]
    for case in tried:
        values = _values(of, case[1])
        values |= {"slow": values["KRR"] * case[1] ** 0.04, "far": 1.01 * WORSE * values["KRR"]}
        tally.add(case, values)
    slopes = Slopes(tally, tried)
    assert slopes.learned(of, 0.5, "#8")[0]
    assert not slopes.learned(of, 0.5, "slow")[0]
    assert not slopes.learned(of, 0.5, "far")[0]
    assert "|D|^-0.250" in slopes.learned(of, 0.5, "#8")[1]


def test_r_below_one_half_is_outside_the_space_and_is_judged_by_its_own_rate() -> None:
    """‖w*‖² = Σ (f*_i)²/σ_i grows without end; λ = 1/|D| where 2r + γ = 1."""
    edge = rates_rough.EDGE
    norms = np.cumsum(edge.target() ** 2 / edge.values())
    assert norms[-1] > 1.9 * norms[299]
    assert norms[-1] == pytest.approx(edge.amplitude**2 * 600)
    assert edge.l2(1000) == pytest.approx(1e-3)
    assert edge.exponent == -0.25
    assert np.sum(edge.values() > edge.l2(16384)) < edge.size / 4
    assert rates_rough.ROUGH.exponent == pytest.approx(-0.4 / 1.3)
    tally, tried = Tally[Case](), rates_rough.cases(TOTALS)
    tried += [(rates_rough.SMOOTH, total, 1.0, 1) for total in TOTALS]
    for case in tried:
        slower = 0.1 if case[0] == rates_rough.EDGE else 0.0
        tally.add(case, {name: value * case[1] ** slower for name, value in _values(*case[:2]).items()})
    claims = Claims(quick=False)
    rates_rough.on_rough(Slopes(tally, tried), claims)
    assert _broken(dict(claims.found)) == [
        "r = 0.25, γ = 0.5: KRR learns at the optimal rate",
        "r = 0.25, γ = 0.5: eight rounds of 4 clients learn at the optimal rate",
    ]


def test_the_seeds_of_cases_differ() -> None:
    assert rates._as_seed(2) == (2,)
    assert rates._as_seed(0.25) != rates._as_seed(4)
    assert rates._size(1.0, 0.25) == "|D|/4"
    assert rates._size(2 / 3, 2) == "2 |D|^0.667"


def _moderate(rho: float, slowest: float) -> list[bool | None]:
    tally = Tally[remark7.Case]()
    for total in TOTALS:
        tally.add(("rates", total, remark7.ENOUGH, 0.0), {"ρ": 0.02})
        for alpha in remark7.MODERATE:
            tally.add(("rates", total, remark7.ENOUGH, alpha), {"ρ": rho, "slowest round": slowest})
    claims = Claims(quick=False)
    remark7._on_moderate_shifts(tally, TOTALS, claims)
    return [verdict.holds for _, verdict in claims.found]


def test_moderate_shifts_are_felt_and_every_round_counts() -> None:
    assert _moderate(0.03, 0.4) == [True, True, True, True]
    assert _moderate(0.025, 0.4) == [True, False, True, False]
    assert _moderate(0.03, 0.6) == [False, True, False, True]
    # the shift of before is that of clients alike, and a moderate one is not
    rho = {alpha: remark7.with_shift(512, remark7.ENOUGH, alpha, 0)["ρ"] for alpha in (0.0, remark7.SMALL, 0.1)}
    assert rho[remark7.SMALL] < 1.05 * rho[0.0]
    assert rho[0.1] > 2 * rho[0.0]


def test_upsilon_beside_theorem_5() -> None:
    """Above 1 its bound grows with the rounds."""
    of = world(4, 40, 0.1)
    drawn = Drawn.of(of.draw(200, np.random.default_rng(0)), of.locals(), 1e-2)
    found = theorem5.ratios(of, drawn, 200)
    assert found[theorem5.UPSILON] > 1 > found[theorem5.THEOREM_5]
    assert math.isfinite(found[theorem5.UPSILON])
