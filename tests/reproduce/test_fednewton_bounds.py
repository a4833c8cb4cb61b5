"""FedNewton's bounds where they can fail: Υ < 1, terms that are needed, clients with both shifts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsolve.diagnose import upsilon
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton import below_one, bound_terms, proofs_between, remark7, theorem4
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.population import Operators
from fedsolve.reproduce.fednewton.sharp import Sharp
from fedsolve.reproduce.fednewton.theorem3_bound import PROBLEM, shares_of_bound
from fedsolve.reproduce.tally import Tally


def test_sixteen_in_one_dimension_is_that_of_the_library() -> None:
    samples, own, l2 = np.array([1.0, 3.0, 0.5]), np.array([1.5, 2.0, 1.6]), 0.1
    ops = Operators([np.array([[x]]) for x in samples], [np.array([[x]]) for x in own], l2)
    assert below_one.left(samples, l2) == pytest.approx(abs(ops.rho()))
    wanted = upsilon(ops.samples, ops.locals, ops.pooled, l2, form="proof")
    assert below_one.right(samples, own, l2) == pytest.approx(wanted)
    less = [below_one.right(samples, own, l2, name) for name in below_one.NEEDED if name != "P_Dj"]
    assert max(less) < wanted


def test_a_term_that_is_not_needed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(quick=False)
    below_one.on_terms(claims)
    assert all(verdict.holds for _, verdict in claims.found)
    far = (np.array([1.0, 1.1]), np.array([1.0, 1.0]), 0.1)
    monkeypatch.setitem(below_one.NEEDED, "R_D", far)
    claims = Claims(quick=False)
    below_one.on_terms(claims)
    assert [claim for claim, verdict in claims.found if not verdict.holds] == ["(16) needs R_D"]


def test_the_bound_with_a_small_upsilon_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    of = world(4, below_one.FEATURES)
    drawn = Drawn.of(of.draw(250, np.random.default_rng(0)), of.locals(), 0.05)
    found = below_one.measured(of, drawn)
    assert found["Υ"] < 1
    assert 0 < found["printed"] < 1
    assert found["rounds"] >= 2
    monkeypatch.setattr(below_one, "upsilon", lambda *_, **__: found["ρ"] / 10)
    smaller = below_one.measured(of, drawn)
    assert smaller["printed"] > 1
    assert smaller["step"] > 1


def test_covariances_of_tilted_inputs_are_means_over_many() -> None:
    of = Sharp(0.5, 0.5, size=5, tilt=0.5, models=0.2)
    root, rng = np.sqrt(of.values()), np.random.default_rng(0)
    for (E, y), C, w in zip(
        of.parts(400_000, 2, rng), bound_terms.covariances(of, 2), bound_terms.models_of(of, 2), strict=True
    ):
        X = E * root
        assert np.abs(X.T @ X / len(X) - C).max() < 0.01 * np.abs(C).max()
        assert np.abs(X.T @ y / len(y) - C @ w).max() < 0.02


def test_theorem_4_on_alike_clients_is_theorem_3() -> None:
    for share in (0.5, 0.9):
        four = bound_terms.theorem_4(PROBLEM, 512, share, np.random.default_rng(1))
        three = max(shares_of_bound(PROBLEM, 512, share, np.random.default_rng(1)))
        clients = bound_terms.evenly(512, share)
        if clients == max(2, round(512 ** (1 - share))):
            assert four == pytest.approx(three, rel=1e-6)


def test_the_terms_of_38_add_up() -> None:
    one = bound_terms.sides(bound_terms.ALIKE, 512, 4, 0.05, np.random.default_rng(0))
    assert one.right(2) == pytest.approx(one.value**2 * one.federated + one.spread + one.bias)
    assert one.right(2, "A_D") == pytest.approx(one.right(2) - one.spread)
    assert not one.data.any()
    assert one.models.max() < 1e-9
    # R is ‖L^-½ f*‖
    wanted = 3 * math.sqrt(sum(1 / i for i in range(1, 121)) * 0.05)
    assert one.bias == pytest.approx(wanted)
    moved = bound_terms.sides(replace(bound_terms.ALIKE, models=1.0), 512, 4, 0.05, np.random.default_rng(0))
    assert moved.federated > 2 * one.federated


def test_a_growing_share_of_the_bound_is_no() -> None:
    tally, totals = Tally[bound_terms.Case](), (512, 1024)
    for what in bound_terms.RATES:
        for total in totals:
            for share in bound_terms.SHARES:
                tally.add((what, total, share), {"Υ": 0.5, "over": 0.2 * (total / 512) ** 0.2})
    claims = Claims(quick=False)
    bound_terms.on_rates(tally, totals, claims)
    found = dict(claims.found)
    assert found["(38), second line, constant 1: within it"].holds
    assert found["(38), second line, constant 1: the error over it does not grow"].holds is False


def test_what_samples_add_to_a_shift() -> None:
    """C_D − C_Dj is (1 − 3)/2 = −1 for the first client, C − C_j is 0."""
    one, three, two = (np.array([[x]]) for x in (1.0, 3.0, 2.0))
    assert proofs_between.sampling(Operators([three, one], [two, two], 1.0)) == pytest.approx([1.0, 1.0])


def test_the_target_of_both_shifts_is_the_projection() -> None:
    """KRR of clients that differ in both comes to that f* with many samples, and not to the mean of their models."""
    of = world(4, 10, 1.0, 1.0)
    locals_ = of.locals()
    drawn = Drawn.of(of.draw(100_000, np.random.default_rng(0)), locals_, 1e-9)
    C, truth = drawn.ops.pooled, theorem4.projected(of, locals_)
    near, far = (drawn.pooled_fit - w for w in (truth, np.mean(of.targets, axis=0)))
    assert near @ C @ near < 0.01 * (far @ C @ far)


def test_a_slope_of_r_has_two_sides() -> None:
    """Υ, P and R fall with n; R_D falls like n^-2, which is not 1/|D|."""
    tally, sizes = Tally[remark7.Case](), (250, 1000)
    for n in sizes:
        names = ("R_Dj", "P_Dj", "Υ", "R_Dj / R_D", "spread")
        tally.add(("R", n, 0.0, 0.0), {**dict.fromkeys(names, 1 / n), "R_D": n**-2.0})
    claims = Claims(quick=False)
    remark7._on_samples(tally, sizes, claims)
    found = dict(claims.found)
    assert found["R_D falls like 1/|D|"].holds is False
    assert found["Υ, P_Dj and R_Dj become smaller with |D_j|"].holds


@pytest.mark.parametrize("name", ["below-one", "bound-terms"])
def test_quick_forms(name: str) -> None:
    found = perform(find(f"fednewton-{name}"), quick=True).result.claims
    assert found
    assert all(verdict.holds is None for _, verdict in found)
