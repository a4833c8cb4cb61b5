"""SHED's bounds on grids: parts by hand, and wrong constants that are noticed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.register import statements
from fedsolve.reproduce.shed import grids, proofs_least_squares, proofs_rates, saved_tables, superior
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.small_logistic import Agents, run


def test_the_register_names_claims_that_are_made() -> None:
    wanted = {claim for one in statements("SHED") if one.experiment == "shed-grids" for claim in one.claims}
    assert wanted == {one.claim for one in grids.CHECKS}


def test_exponents_are_those_of_the_other_experiments() -> None:
    of = Agents(0, 8, 4, 30, 0.01)
    assert grids.exponents(of.hessians(of.best), of.weights, 4, middle=False) == pytest.approx(
        proofs_rates.exponent(of)
    )
    squares = proofs_least_squares.Agents(0)
    _, bound = grids.exponents(squares.hessians, squares.p, 5, middle=True)
    assert bound == pytest.approx(float(np.prod([squares.contraction(q) for q in range(1, 6)])) ** (1 / 5))


def test_one_agent_attains_the_bound_and_no_smaller_one() -> None:
    hessian = np.diag([4.0, 2.0, 1.0, 0.5])
    own, bound = grids.exponents([hessian], np.ones(1), 2, middle=False)
    assert own == pytest.approx(bound)
    assert own == pytest.approx(math.sqrt((1 - 0.5 / 2) * (1 - 0.5 / 1)))
    own, bound = grids.exponents([hessian], np.ones(1), 2, middle=True)  # ρ* of least squares: 1.25 and 0.75
    assert own == pytest.approx(math.sqrt(0.6 / 3))
    assert own == pytest.approx(bound)


def test_another_power_of_the_condition_number_is_noticed() -> None:
    """γ_t with (ρ̄/K)² or without ρ̄ misses one of the two limits."""
    worst = Worst()
    grids.scaling(worst)
    assert worst.found[grids.GAMMA] <= 1
    assert worst.found[grids.GAMMA_ORDER] <= 10
    found = {
        float(ratio): min(grids.lowered(float(ratio), 0.3, float(share)) for share in np.logspace(-2, 2, 41))
        for ratio in grids.RATIOS
    }
    assert max(found.values()) < 1.2 * min(found.values()) * 2
    assert min(ratio * one for ratio, one in found.items()) < 1e-3  # the decrease over a γ_t without ρ̄/K
    assert max(one / ratio for ratio, one in found.items()) > 1e3  # over one with its square


def test_known_pairs_by_hand() -> None:
    """n = 4, T = 3: renewals at 1, 3, 6, 9, …, all three pairs at 5, 8, 11, …"""
    assert grids.known(4, 3, 11).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert grids.known(4, 2, 40)[-1] == 0
    of = Agents(0, 8, 4, 30, 0.1)
    steps = run(of, lambda t: t == 1 or t % 7 == 0, 60, np.ones(4, dtype=int), np.zeros(8))
    assert grids.known(8, 7, 60).tolist() == np.cumsum(proofs_rates.whole(steps)).tolist()


def test_a_wrong_lipschitz_constant_is_noticed() -> None:
    of, right, wrong = Agents(0, 8, 4, 30, 0.01), Worst(), Worst()
    grids.newton(of, np.random.default_rng(0), right)
    assert right.found[grids.QUADRATIC] <= 1
    assert right.found[grids.ORDER] <= 1
    of.best = of.best + 1e-3  # linear at best from there
    grids.newton(of, np.random.default_rng(0), wrong)
    assert wrong.found[grids.QUADRATIC] > 1


def test_a_run_below_its_bound() -> None:
    worst = Worst()
    grids.random_renewals(Agents(0, 8, 4, 30, 0.01), np.random.default_rng(0), worst)
    grids.random_renewals(Agents(0, 8, 1, 30, 0.01), np.random.default_rng(0), worst)
    assert 0.5 < worst.found[grids.RANDOM] < 1
    assert worst.found[grids.RANDOM_SAME] < 1e-6


def test_claims_on_all_figures_by_hand() -> None:
    found = dict(perform(find("shed-superior"), quick=False).result.claims)
    claim = "Fashion-MNIST 1e-5: GN-SHED: rounds within 1.5 times of Fib-SHED's, more or fewer"
    assert found[claim].holds is False
    tables = saved_tables.Tables((*saved_tables.IMAGES, *saved_tables.SONGS))
    assert superior.similar(tables, [saved_tables.IMAGES[0]], "rounds")[0]
    assert not superior.similar(tables, [saved_tables.IMAGES[1]], "rounds")[0]
