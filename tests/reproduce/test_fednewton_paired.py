"""Comparisons seed by seed of the FedNewton paper's figures, and the shifts of its synthetic data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.federation.client import Client
from fedsolve.reproduce import Measured, find, perform
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton import (
    definition2,
    figure2,
    figure3_paired,
    figure4_paired,
    lemmas_shifted,
    mnist_paired,
    paired,
    readings,
    shifts,
    table3_rounds,
)
from fedsolve.reproduce.fednewton.bounded import Drawn, world
from fedsolve.reproduce.fednewton.synthetic import SETTING, problem
from fedsolve.reproduce.tally import Tally
from tests.reproduce.test_experiments import needs_data


def test_pairs_by_hand() -> None:
    """Halved in one seed and in the other a quarter: the mean logarithm is that of √8, its standard error log 2 / 2."""
    share, errors = paired.below(Measured((1.0, 1.0)), Measured((2.0, 4.0)))
    assert share == pytest.approx(1 - 1 / math.sqrt(8))
    assert errors == pytest.approx(1.5 / 0.5)
    assert paired.below(Measured((2.0, 4.0)), Measured((1.0, 1.0)))[1] == pytest.approx(-3.0)
    assert paired.everywhere({"a": (Measured((1.0, 4.0)), Measured((2.0, 2.0)))})[0] is False
    falling = [Measured((4.0, 5.0)), Measured((2.0, 2.4)), Measured((1.0, 1.1))]
    assert paired.chain(falling)[0]
    assert not paired.chain(falling[::-1])[0]


def test_draws_that_vary_more_than_methods_are_compared_by_pairs() -> None:
    """The median of the second method is lower, and it is worse on every seed but one."""
    one, other = Measured((1.0, 2.0, 3.0, 9.0, 10.0)), Measured((1.1, 2.2, 2.9, 9.9, 11.0))
    assert other.median < one.median
    assert paired.below(one, other)[1] > paired.SURE


def test_the_largest_eigenvalue_and_the_traces() -> None:
    posed = problem(4, 60, 0.0, 0)
    covariance = posed.features.T @ posed.features / len(posed.features)
    assert paired.largest_eigenvalue(posed.clients) == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-6)
    found = paired.traces(posed.clients, SETTING, posed.test_error, 2)
    assert found["FedNewton"][0] == found["DKRR"][0] == found["FedAvg, 1"][0]
    assert set(paired.by_heading(found, (1, 2))) == {"KRR", "DKRR", "FedProx", *paired.AVERAGED, "#1", "#2"}


CASES = [(1000.0, 10.0), (500.0, 20.0), (100.0, 100.0)]


def _figure3(eight: float) -> Tally[tuple[float, float]]:
    tally = Tally[tuple[float, float]]()
    scores = {"KRR": 1.0, "DKRR": 1.2, "FedProx": 1.1, "#1": 1.05, "#2": 1.02, "#4": 1.01, "#8": eight}
    scores |= dict.fromkeys(paired.AVERAGED, 1.15)
    for case in CASES:
        for seed in range(3):
            tally.add(case, {name: value * (1 + seed) * (1 + 1e-4 * seed * value) for name, value in scores.items()})
    return tally


@pytest.mark.parametrize(("eight", "holds"), [(1.001, True), (1.3, False)])
def test_figure_3_by_seed_can_fail(eight: float, holds: bool) -> None:
    found = dict(figure3_paired.claims(_figure3(eight), CASES, quick=False))
    for other in (
        "DKRR, by seed",
        "FedProx, by seed",
        "FedAvg as printed, by seed",
        "FedAvg with its best step, by seed",
    ):
        what = "8 rounds are" if other.startswith("DKRR") else "FedNewton is"
        assert found[f"from 263 samples {what} better than {other}"].holds is holds
    assert found["with fewer than 200 samples DKRR is better than 8 rounds, by seed"].holds is not holds


def test_every_beta_must_be_worse() -> None:
    tally = Tally[tuple[float, float]]()
    for beta, error in ((0.0, 1.0), (0.001, 0.99), (0.3, 2.0)):
        for seed in range(3):
            scores = {name: error * (1 + seed + 0.001 * seed * beta) for name in figure4_paired.COMPARED}
            tally.add((0.0, beta), scores)
    claims = Claims(quick=False)
    figure4_paired.models(tally, [(0.0, 0.0), (0.0, 0.001), (0.0, 0.3)], claims)
    found = dict(claims.found)
    assert found["the largest β is worse for all methods, by seed"].holds
    assert found["every β is worse for all methods, by seed"].holds is False


def test_sampling_and_shifts() -> None:
    rng = np.random.default_rng(0)
    assert shifts.shift([np.eye(2), np.eye(2)]) == 0
    assert 1 / 1.05 < shifts.over_shuffled(shifts.features_of(100, 0.0, 0), rng) < 1.05
    assert shifts.over_shuffled(shifts.features_of(100, 1.0, 0), rng) > 2
    assert shifts.explained(rng) < 0.01


def test_sentences_on_shifts_can_fail() -> None:
    good = {"500": 1.0, "2000": 1.05, "α = 0": 1.01, "α = 0.005": 1.7, "negative": 0.0, "linear": 0.001}
    bad = {"500": 1.0, "2000": 1.2, "α = 0": 1.1, "α = 0.005": 1.0, "negative": 0.5, "linear": 0.1}
    for found, holds in ((good, True), (bad, False)):
        claims = Claims(quick=False)
        shifts.claims_on([found], (500, 2000), claims)
        assert [verdict.holds for _, verdict in claims.found] == [holds] * 5


def test_the_bounds_of_clients_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    of = world(4, 30, 0.1, lemmas_shifted.BETA)
    drawn = Drawn.of(of.draw(50, np.random.default_rng(0)), of.locals(), 1e-2)
    found = lemmas_shifted.ratios(of, drawn, 50)
    assert max(found[name] for name in lemmas_shifted.LIKELY) < 1
    monkeypatch.setattr(lemmas_shifted, "LOG", 0.01)
    assert lemmas_shifted.ratios(of, drawn, 50)[lemmas_shifted.THIRD] > 1


def test_the_adjoint_is_one_for_the_distribution_alone() -> None:
    found = definition2.inclusion(np.random.default_rng(0), 5)
    assert max(found.values()) < 1e-12


def test_remarkable_is_more_than_sure() -> None:
    assert readings.remarkably("a", 90.2, 90.0, 0.1, True, "")[1]
    assert not readings.remarkably("a", 90.05, 90.0, 0.01, True, "")[1]
    assert not readings.remarkably("a", 92.0, 90.0, 0.1, False, "")[1]
    assert not readings.remarkably("a", 90.2, 90.0, 0.3, True, "")[1]
    assert readings.deviation("90.20 ± 0.12") == 0.12


@pytest.mark.parametrize(("second", "holds"), [("92.23", True), ("92.10", False), ("92.60", False)])
def test_what_approximates_krr_is_nearer_than_dkrr(second: str, holds: bool) -> None:
    line = {"KRR": "92.26 ± 0.1", "DKRR": "91.86 ± 0.1", "#1": "93.00 ± 0.1", "#2": f"{second} ± 0.1"}
    assert readings.approximated("a", "iid", line)[1] is holds


@pytest.mark.parametrize(("dkrr", "eight", "holds"), [(90.0, 95.0, True), (94.8, 95.0, False), (90.0, 94.0, False)])
def test_a_great_gap_is_more_than_the_seeds_differ_by(dkrr: float, eight: float, holds: bool) -> None:
    tally = Tally[str]()
    for case in mnist_paired.MANY:
        for seed in range(3):
            rest = 0.5 * seed
            tally.add(case, {"KRR": 95 + rest, "DKRR": dkrr + rest + 0.001 * seed, "#8": eight + rest})
    claims = Claims(quick=False)
    mnist_paired.on_the_gap(tally, claims)
    assert dict(claims.found)["MNIST, n > 4400: a great gap between DKRR and KRR, by seed"].holds is holds
    assert dict(claims.found)["MNIST, n > 4400: a gap between DKRR and KRR, by seed"].holds


def test_accuracies_by_seed() -> None:
    good = {"a": (Measured((90.2, 91.3)), Measured((90.0, 91.0)))}
    assert mnist_paired.above(good)[0]
    assert not mnist_paired.above({"a": good["a"][::-1]})[0]
    assert table3_rounds.difference_of(*good["a"]).values == pytest.approx((0.2, 0.3))


@needs_data
def test_sizes_and_labels_of_a_set() -> None:
    claim, verdict = figure2.every_set(5, quick=True)
    assert claim.startswith("c = 0.5")
    assert verdict.holds
    assert "smallest: dna " in verdict.said


@pytest.mark.parametrize("what", ["fig3-paired", "fig4-paired", "fig5-paired", "shifts", "lemmas-shifted"])
def test_quick_forms(what: str) -> None:
    found = dict(perform(find(f"fednewton-{what}"), quick=True).result.claims)
    assert found
    assert all(verdict.holds is None for verdict in found.values() if what.endswith("paired"))


@needs_data
@pytest.mark.parametrize("what", ["fig3-mnist-paired", "fig5-mnist-paired", "table3-rounds"])
def test_quick_forms_on_real_data(what: str) -> None:
    found = dict(perform(find(f"fednewton-{what}"), quick=True).result.claims)
    assert found
    assert all(verdict.holds is None for verdict in found.values())


def test_clients_have_one_width() -> None:
    """The step 1/λ_max is of all rows together, whatever the sizes of the clients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    clients = [Client("a", X[:10], np.zeros(10)), Client("b", X[10:], np.zeros(40))]
    assert paired.largest_eigenvalue(clients) == pytest.approx(np.linalg.eigvalsh(X.T @ X / 50)[-1], rel=1e-6)
