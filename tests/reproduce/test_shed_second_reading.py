"""SHED's claims of the second reading of its paper: parts by hand, and inputs with which they fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.register import statements
from fedsolve.reproduce.saved_results import read_saved
from fedsolve.reproduce.shed import (
    degenerate,
    intervals,
    newton_direction,
    proofs_convex,
    proofs_rates,
    proofs_rest,
    proofs_sharp,
    proofs_squares_rest,
    random_four,
    renewal_sets,
    renewing,
    resilience,
    same_load,
    saved_tables,
    setting,
)
from fedsolve.reproduce.shed.gaps import Trace
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.proofs_least_squares import Agents as LeastSquares
from fedsolve.reproduce.shed.small_logistic import Agents, run
from tests.reproduce.test_experiments import needs_data

SMALL = [
    "shed-degenerate",
    "shed-proofs-rest",
    "shed-proofs-ls-rest",
    "shed-renewing",
    "shed-fig3",
    "shed-newton-direction",
    "shed-proofs",
    "shed-proofs-rates",
    "shed-order",
    "shed-links",
    "shed-current",
    "shed-background",
]
WITH_DATA = ["shed-intervals", "shed-setting", "shed-pairs-sent", "shed-random-four", "shed-resilience"]


def wanted(name: str) -> set[str]:
    return {claim for one in statements("SHED") if one.experiment == name for claim in one.claims}


@pytest.mark.parametrize("name", SMALL)
def test_the_register_names_claims_that_are_made(name: str) -> None:
    assert wanted(name)
    assert wanted(name) <= {claim for claim, _ in perform(find(name), quick=True).result.claims}


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_DATA)
def test_the_register_names_claims_that_are_made_with_data(name: str) -> None:
    assert wanted(name)
    assert wanted(name) <= {claim for claim, _ in perform(find(name), quick=True).result.claims}


# ── counterexamples ──


def test_a_gap_that_tends_to_0() -> None:
    rng = np.random.default_rng(0)
    assert degenerate.factor(rng, apart=False) > 1e3
    assert degenerate.factor(rng, apart=True) < 2
    assert math.isinf(degenerate.exponent(rng))


def test_costs_by_hand() -> None:
    cost, w = degenerate.Cost(np.array([2.0, 1.0]), np.array([0.0, 1.0])), np.array([0.3, 0.7])
    h = 1e-5
    slopes = [(cost.value(w + h * e) - cost.value(w - h * e)) / (2 * h) for e in np.eye(2)]
    assert slopes == pytest.approx(cost.gradient(w), rel=1e-8)
    curved = [(cost.gradient(w + h * e) - cost.gradient(w - h * e)) @ e / (2 * h) for e in np.eye(2)]
    assert curved == pytest.approx(cost.curvatures(w), rel=1e-8)
    assert cost.gap(w, 0) == pytest.approx(1 - 0.49 / 1.49)
    assert cost.gap(w, 1) == 0


def test_an_iteration_that_knows_everything_is_noticed() -> None:
    """λ_3 = λ_4 along the whole run: X_t is not empty, and nothing is said against (35)."""
    cost = degenerate.Cost(np.array([5.0, 3.0, 1.0, 1.0]), np.zeros(4))
    path = degenerate.followed(cost, np.ones(4), lambda t: 2, lambda t: True)
    assert math.isinf(path[0][1])
    assert len(path) == 1  # the Hessian is known, and the step is exact


# ── renewals ──


def test_going_on_is_algorithm_4() -> None:
    of = Agents(0, 8, 4, 30, 0.01)
    w, known = renewing.advanced(of, np.zeros(8), renewing._renewed(of, np.zeros(8)), 5)
    assert w == pytest.approx(run(of, lambda t: t == 1, 5, np.ones(4, dtype=int), np.zeros(8))[-1].after)
    assert known[2].tolist() == [5] * 4


def test_what_a_renewal_gains_by_hand() -> None:
    assert renewing.falling([[3.0, 1.0, 0.0], [2.0, 0.5, -0.6]])[0]
    assert not renewing.falling([[3.0, 1.0, 2.0], [2.0, 0.5, 0.6]])[0]
    assert not renewing.falling([[3.0, 1.0], [1.0, 3.0]])[0]  # 0 on average
    assert renewing.gaining([1.0, 1.1, 0.9])[0]
    assert not renewing.gaining([1.0, -1.0, 0.3])[0]


def test_delays_of_random_sets() -> None:
    holds, said = renewal_sets._alike(np.random.default_rng(1), 20)
    assert holds
    assert said == "in 20 of 20 sets one less than the largest gap; unbounded in 10 of 10"


# ── paired differences ──


def test_paired_differences_decide() -> None:
    assert random_four.fewer([10, 11, 12], [20, 21.5, 22], quick=False).holds
    assert not random_four.fewer([10, 21, 12], [20, 11, 12], quick=False).holds
    assert same_load.no_more([10, 11, 9], [10, 10, 10], quick=False).holds
    assert not same_load.no_more([11, 11.1, 11], [10, 10, 10], quick=False).holds
    assert not same_load.no_more([10, 20, 9], [10, 10, 10], quick=False).holds  # noisy, and 30 % more
    assert same_load.no_more([9, 8, 7], [10, 10, 10], quick=True).holds is None


def test_much_more_resilient_by_hand() -> None:
    assert resilience.much([4.0, 4.1, 4.2], [2.0, 2.0, 2.1], quick=False).holds
    assert not resilience.much([3.1, 2.5, 3.4], [2.0, 2.0, 2.1], quick=False).holds
    assert resilience.much([math.inf] * 3, [2.0] * 3, quick=False).holds
    assert resilience.much([math.inf, 4.0], [2.0] * 2, quick=False).holds is None
    assert saved_tables.quartiles("1,141 (1,051–1,252)") == (1051, 1252)
    assert saved_tables.quartiles("16") == (16, 16)


def test_giant_that_does_not_arrive() -> None:
    saved = read_saved(resilience.CONDITIONING)
    assert saved is not None
    assert resilience.giant(saved.lines, 3000, quick=False).holds
    assert not resilience.giant(saved.lines, 2000, quick=False).holds
    arrived = [[*line[:3], "9" if line[3] == "not reached" else line[3]] for line in saved.lines]
    assert resilience.giant(arrived, 3000, quick=False).holds is None


@needs_data
def test_pairs_sent_by_songs() -> None:
    iterations, pairs = same_load.sent(0, 30)
    assert (iterations, pairs) == (2, 53)


# ── least squares, data ──


def test_columns_outside_of_the_unit_interval() -> None:
    assert setting.outside(np.array([[0.0, -0.1, 0.5], [1.0, 0.2, 1.1]])) == 2
    assert setting.outside(np.array([[0.0, 1.0]])) == 0


def test_a_wrong_factor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> dict[str, float]:
        worst = Worst()
        proofs_squares_rest.many_agents(LeastSquares(0), worst)
        return worst.found

    right = found()
    assert right[proofs_squares_rest.TIGHT] < 1e-9
    assert right[proofs_squares_rest.PRINTED] == pytest.approx(119, rel=0.01)  # 120 samples, not 1
    monkeypatch.setattr(proofs_squares_rest, "best", lambda values, q: (values[q], 1 - values[-1] / values[q]))
    assert found()[proofs_squares_rest.TIGHT] > 1e-3


def test_the_full_step_by_hand() -> None:
    values = np.array([3.0, 2.0, 0.5])
    assert proofs_squares_rest.passes(values, 1, 2.0, 0.49)
    assert not proofs_squares_rest.passes(values, 1, 1.25, 0.3)  # ρ*: α ≤ 0.2
    assert proofs_squares_rest.passes(values, 1, 1.25, 0.2)


def test_conditions_that_stop_holding_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of, right, wrong = Agents(0, 8, 4, 30, 1.0), Worst(), Worst()
    proofs_rest.conditions(of, right)
    assert right.found[proofs_rest.HOLD] == 0
    calls = iter([0.5] + 1000 * [2.0])
    monkeypatch.setattr(proofs_rates, "near", lambda of, one: (next(calls), 0.0))
    proofs_rest.conditions(of, wrong)
    assert wrong.found[proofs_rest.HOLD] > 0.9


def test_directions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert newton_direction.angle(np.array([1.0, 0]), np.array([0, 2.0])) == pytest.approx(math.pi / 2)
    of, rng = Agents(0, 8, 4, 30, 0.01), np.random.default_rng(0)
    assert newton_direction.farther(of, rng) <= 0.05
    monkeypatch.setattr(of, "hessian", lambda w: np.eye(8))  # no curvature: not nearer
    assert newton_direction.farther(of, rng) == 1


# ── the third reading ──


def test_falls_from_period_to_period() -> None:
    sizes = [4.0, 1.0, 0, 0, 0, 0, 1.0, 2.0, 0, 0, 0, 0, 0.5]
    assert proofs_convex.falls(sizes) == 0.5
    assert proofs_convex.falls([1.0] * 12) == 1
    assert proofs_convex.falls([1.0]) == 0  # one period: nothing to compare


def test_means_whose_distance_stays_do_not_settle() -> None:
    assert proofs_rates.settles(0.5 ** np.arange(40)) < 1e-5
    assert proofs_rates.settles(np.ones(40)) == pytest.approx(19 / 40)


def test_a_factor_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of, right, wrong = Agents(0, 8, 4, 30, 1.0), Worst(), Worst()
    proofs_rates.first_part(of, right)
    assert right.found[proofs_rates.ANY_STEP] <= 1
    assert right.found[proofs_rates.OVER_ONE] < 0.5
    whole = proofs_rates.any_step
    monkeypatch.setattr(proofs_rates, "any_step", lambda of, one: 0.15 * whole(of, one))
    proofs_rates.first_part(of, wrong)
    assert wrong.found[proofs_rates.ANY_STEP] > 1
    assert wrong.found[proofs_rates.OVER_ONE] > 1


def test_increments_of_every_iteration() -> None:
    of = Agents(0, 8, 2, 30, 0.1)
    sent = np.array([[1, 0], [0, 3], [9, 1], [2, 2]])
    steps = run(of, lambda t: t in (1, 4), 4, sent, np.zeros(8))
    assert [one.counts.tolist() for one in steps] == [[1, 0], [1, 3], [7, 4], [2, 2]]


def test_the_edges_of_lemma_12_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of, right, wrong = Agents(0, 8, 4, 6, 1.0), Worst(), Worst()
    proofs_sharp.contracts(of, np.random.default_rng(0), right)
    assert right.found[proofs_sharp.BELOW_ONE] < 1
    assert right.found[proofs_sharp.ABOVE_ONE] < 1
    monkeypatch.setattr(proofs_sharp, "INSIDE", 1.002)
    monkeypatch.setattr(proofs_sharp, "OUTSIDE", 0.998)
    proofs_sharp.contracts(of, np.random.default_rng(0), wrong)
    assert wrong.found[proofs_sharp.BELOW_ONE] > 1
    assert wrong.found[proofs_sharp.ABOVE_ONE] > 1


def test_gamma_is_attained_for_steep_searches_only() -> None:
    assert proofs_sharp.attained() < 0.01
    assert proofs_sharp.attained(alpha=0.1, beta=0.5) == pytest.approx(0.9)  # 2 α β = 0.1


def test_renewals_by_the_ledger() -> None:
    hessians = [0.0, 1, 2, 2, 3, 3, 3, 4, 4]
    gaps = [10.0**-t for t in range(len(hessians))]
    trace = Trace(gaps, gaps, [0], [0], [0], hessians)
    assert intervals.renewed(trace) == [2, 4, 7]
    assert intervals.marked([trace], 20) == (True, "in iterations 2, 4, 7, or in more")
    other = Trace(gaps, gaps, [0], [0], [0], [0.0, 1, 2, 3, 3, 3, 3, 4, 4])
    assert not intervals.marked([trace, other], 20)[0]
    assert not intervals.marked([Trace(gaps[:6], gaps, [0], [0], [0], hessians[:6])], 20)[0]  # two renewals


def test_shortened_steps_are_noticed() -> None:
    near, far = newton_direction.steps(0), newton_direction.steps(0, 3 * np.ones(12))
    assert max(near[0], far[0]) < 1e-9
    assert far[1] > 0
