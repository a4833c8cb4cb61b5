"""`ffgb-wider`: its closed forms against runs and hand computations, and that its checks can fail."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.ffgb import rules_drift, rules_grid, rules_halves, rules_unit, rules_wider
from fedsolve.reproduce.ffgb.judging import Found

NOT_SO = {rules_drift.EQUAL, rules_unit.PRINTED, rules_halves.LOG}


def test_quick() -> None:
    outcome = perform(find("ffgb-wider"), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    left = {claim for claim, verdict in outcome.result.claims if not verdict.holds}
    assert left == {one.claim for one in NOT_SO}
    assert [check for check, _ in outcome.result.claims] == [one.claim for one in rules_wider.CHECKS]


# ── units ──


@pytest.mark.parametrize(("c", "printed"), [(1.0, 0.510), (100.0, 0.0153), (1000.0, 0.0108)])
def test_two_points_by_hand(c: float, printed: float) -> None:
    """Ld = 1: ω is d/2, D is d, B is 1, so that L(LD + B)ω is 1, and G² is 1 + 2."""
    one = rules_unit.two_points(c)
    assert one.radius == pytest.approx(1)
    np.testing.assert_allclose(one.G2, 3)
    np.testing.assert_allclose(one.u.mean(axis=0), [1, 1])
    ends = rules_unit.over_terms(one, 1, 4096, 0.5)
    assert 0.5 / ends.printed == pytest.approx(printed, rel=0.005)
    assert 0.5 / ends.right == pytest.approx((0.5 + 5 * log(4097) + 4096) / 4097)
    (*_, last) = rules_unit.long_run(one, 1)
    assert last.printed == pytest.approx(ends.printed)


def test_a_bound_that_has_the_unit_of_x_is_seen() -> None:
    found = Found()
    by_unit = [rules_unit.Ends(c**0.5, 2.0, 1 / c) for c in rules_unit.UNITS]
    rules_unit.note_growth(by_unit, found)
    assert found.worst[rules_unit.PRINTED.claim] == pytest.approx(0.5)
    assert found.worst[rules_unit.RIGHT.claim] == pytest.approx(0, abs=1e-12)
    assert found.worst[rules_unit.UNIT.claim] == pytest.approx(-1)


# ── FedProx and Mime ──


def scalars() -> rules_drift.Quadratics:
    """Two clients in one dimension: ½(w − 0)² and 3/2 (w − 4)², with the minimum of the mean at 3."""
    return rules_drift.Quadratics([], np.array([[[1.0]], [[3.0]]]), np.array([[0.0], [12.0]]))


def test_ends_by_hand() -> None:
    """Exact local solutions with a pull of 1: Σ (b − Hw)/(H + 1) = −w/2 + (12 − 3w)/4 = 0."""
    one = scalars()
    assert one.best()[0] == pytest.approx(3)
    assert one.end(one.exact(1.0))[0] == pytest.approx(12 / 5)
    assert one.end(one.steps(1, 0.1))[0] == pytest.approx(3)  # one step is a gradient step
    # two steps of 0.1: P is 0.1 (1 + 0.9) and 0.1 (1 + 0.7); with a pull of 2, 0.1 (1 + 0.7) and 0.1 (1 + 0.5)
    assert one.end(one.steps(2, 0.1))[0] == pytest.approx(1.7 * 12 / (1.9 + 1.7 * 3))
    assert one.end(one.steps(2, 0.1, 2.0))[0] == pytest.approx(1.5 * 12 / (1.7 + 1.5 * 3))


def test_mime_by_hand() -> None:
    """One round from 0: the mean gradient is −6, and m is 0; without momentum one step is a gradient step."""
    one = scalars()
    assert rules_drift.mime(one, 1, 0.1, False, rounds=1, beta=0.0)[0] == pytest.approx(0.6)
    # two corrected steps: both clients are at 0.6; their gradients there are 0.6 − 6 and 1.8 − 6
    assert rules_drift.mime(one, 2, 0.1, True, rounds=1, beta=0.0)[0] == pytest.approx(0.6 + 0.1 * (5.4 + 4.2) / 2)
    assert rules_drift.mime(one, 2, 0.1, True)[0] == pytest.approx(3, abs=1e-9)
    without = rules_drift.mime(one, 2, 0.1, False, beta=0.0)
    np.testing.assert_allclose(without, one.end(one.steps(2, 0.1)), atol=1e-9)  # MimeLite without momentum is FedAvg
    # two rounds of one step, β = ½: w = 0.3, m = −3, then a step along ½(2 · 0.3 − 6) + ½ m
    assert rules_drift.mime(one, 1, 0.1, False, rounds=2, beta=0.5)[0] == pytest.approx(0.3 + 0.1 * (2.7 + 1.5))


# ── step sizes beyond the grid ──


def test_claims_beyond_the_grid() -> None:
    """Half as many with the start's own round counted: 4 + 1 of 10, and not 5 + 1; what is not reached fails."""

    def seed(own: float, warm: float, cold: float) -> rules_grid.Found:
        names = [("FedAvg", rules_grid.WARM), ("FedDyn", rules_grid.WARM)]
        colds = [("FedAvg", rules_grid.RANDOM), ("FedDyn", rules_grid.RANDOM)]
        rounds = dict.fromkeys(names, warm) | dict.fromkeys(colds, cold)
        return {key: (one, 1.0) for key, one in (rounds | {("FFGB-Distill", rules_grid.RANDOM): own}).items()}

    def held(*every: rules_grid.Found) -> list[bool | None]:
        return [verdict.holds for _, verdict in rules_grid.claims(every, quick=False)][:3]

    assert held(seed(2, 4, 10)) == [True, True, True]
    assert held(seed(2, 4, 10), seed(10, 5, 10)) == [True, False, False]
    assert held(seed(2, 9, 10)) == [False, False, True]
    assert held(seed(2, np.inf, np.inf)) == [False, False, True]


# ── halves of sentences ──


def test_logarithms_by_hand() -> None:
    """K = 4, t = 0: ½ + ⅓ + ¼ is 1.083, log 3 − log 1 is 1.099 and log 4 is 1.386; K = 2: ½ against log 1 and log 2."""
    assert rules_halves.sums(4, 0) == pytest.approx((13 / 12, log(3), log(4)))
    assert rules_halves.sums(2, 0) == pytest.approx((0.5, 0.0, log(2)))
    found = Found()
    rules_halves.logarithms(found)
    assert found.worst[rules_halves.LOG.claim] == pytest.approx(1)
    assert found.worst[rules_halves.LOG_RIGHT.claim] <= 0


def test_a_gradient_with_a_rare_large_value() -> None:
    """Labels 0 and 10 with masses 0.99 and 0.01: ‖y‖ is 1 in squares, and 10 at most."""
    assert rules_halves.norms(0.01) == pytest.approx((1, 10))
