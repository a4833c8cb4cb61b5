"""The register of FedNewton, and its experiments on Tables 1 to 3 and Figure 2: quick forms and hand counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedsolve.reproduce import Measured, find, perform
from fedsolve.reproduce.fednewton import figure2, printed, search, table1, table3, table3_claims
from fedsolve.reproduce.fednewton.figure4_claims import crossing
from fedsolve.reproduce.fednewton.table2 import CASES, PRINTED, Printed
from fedsolve.reproduce.register import judged, statements
from tests.reproduce.test_experiments import needs_data


def test_the_register_reads_and_every_claim_is_in_its_saved_results() -> None:
    found = judged("FedNewton")  # raises where a claim is not
    places = [(one.place, one.says, one.rule) for one in statements("FedNewton")]
    assert len(set(places)) == len(places)
    unexplained = [one.statement.place for one in found if one.answer == "NO" and not one.statement.explanation]
    assert unexplained == []


def test_costs_by_hand() -> None:
    """A round of FedNewton: w down, g_j up, g down, the step up; of Newton's method a Hessian, a gradient and a value
    up."""
    costs = {name: table1.costs(method, 10, labels) for name, (method, labels) in table1.COUNTED.items()}
    assert set(costs["FedNewton"].vectors(10)) == {4}
    assert set(costs["FedProx"].vectors(10)) == {2}
    assert costs["Newton"].up[1] == 10 * 11 / 2 + 10 + 1
    assert sum(costs["FedNewton"].factorisations) == 1
    assert table1.rounds_to([8.0, 4.0, 2.0, 1.0], 0.25) == 2
    assert table1.rounds_to([8.0, 4.0], 0.25) == math.inf


def test_table1_quick() -> None:
    found = dict(perform(find("fednewton-table1"), quick=True).result.claims)
    assert found["FedNewton sends twice what FedAvg and FedProx send in a round"].holds
    assert found["FedNewton: rounds grow like log(1/ε)"].holds is None


def test_chi_square_is_that_of_scipy() -> None:
    table = np.array([[10, 20, 30], [20, 20, 20], [5, 40, 9]])
    assert figure2.chi_square(table) * 4 == pytest.approx(stats.chi2_contingency(table).statistic)


@needs_data
def test_fig2_quick() -> None:
    outcome = perform(find("fednewton-fig2"), quick=True)
    assert outcome.result.status == "ok"
    y = np.repeat([1, 2, 3], 100)
    table = figure2.counts(y, 1.0, 0)
    assert table.shape == (10, 3)
    assert table.sum(axis=0).tolist() == [100, 100, 100]


@needs_data
def test_what_is_printed_quick() -> None:
    found = dict(perform(find("fednewton-printed"), quick=True).result.claims)
    assert (
        "shuttle (printed (43500, 48, 11), the file has (43500, 9, 7))"
        in found["Table 2: sizes, columns and classes"].said
    )
    assert found["Theorem 3: the four cases of ℵ meet"].holds
    assert found["r = ½, γ = 1: the rate of the norm is |D|^-½"].holds is False


def test_underlined_is_by_students_test() -> None:
    assert stats.t.ppf(0.95, 18) == pytest.approx(printed.CRITICAL, abs=5e-4)
    best, other = PRINTED["dna"]["#1"], PRINTED["dna"]["#2"]
    welch = stats.ttest_ind_from_stats(best.mean, best.deviation, 10, other.mean, other.deviation, 10, equal_var=False)
    assert printed._apart(best, other) == pytest.approx(welch.statistic)


def test_cells_are_compared_in_standard_errors() -> None:
    ours = Measured((90.0, 92.0, 91.0, 91.0))
    welch = stats.ttest_ind_from_stats(ours.mean, ours.deviation, 4, 90.5, 0.6, 10, equal_var=False)
    assert table3_claims.apart(ours, Printed(90.5, 0.6)) == pytest.approx(welch.statistic)


def test_the_splits_of_a_line() -> None:
    names = {case.data: list(table3.splits(case)) for case in CASES}
    assert names["usps"] == ["iid", "Dirichlet"]
    assert names["dna"] == ["iid", "Dirichlet", "Dirichlet, α of Table 2"]


def test_where_a_ratio_crosses_one() -> None:
    assert crossing([0, 1, 2], [0.5, 0.5, 2.0]) == pytest.approx(1.5)
    assert crossing([0, 1, 2], [2.0, 0.5, 0.5]) == math.inf


@needs_data
@pytest.mark.parametrize(
    "name",
    [
        "fednewton-usps",
        "fednewton-letter",
        "fednewton-shuttle",
        "fednewton-mnist-prox",
        "fednewton-fig3-mnist",
        "fednewton-fig3-mnist-late",
        "fednewton-fig5-mnist",
    ],
)
def test_quick_forms_decide_nothing(name: str) -> None:
    outcome = perform(find(name), quick=True)
    assert all(verdict.holds is None for _, verdict in outcome.result.claims)


@needs_data
def test_table2_quick_finds_the_least_error() -> None:
    outcome = perform(find("fednewton-table2"), quick=True)
    assert [row[0] for row in outcome.result.rows] == ["synthetic", "dna"]
    for row in outcome.result.rows:
        assert row[3] <= row[4]  # type: ignore[operator]
    clients = search.clients_of("dna", 0)
    assert sum(client.n_samples for client in clients) == 2000
