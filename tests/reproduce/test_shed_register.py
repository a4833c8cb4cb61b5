"""SHED's register: each statement names claims that its experiment makes, and the page is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.register import judged, statements
from fedsolve.reproduce.register_pages import page
from tests.reproduce.test_experiments import needs_data

ROOT = Path(__file__).parents[2]
# Quick forms with the claims of the full ones, of experiments that take too long to have been run at every change.
SLOW = ["shed-fig8", "shed-fig9", "shed-fig10", "shed-fig11", "shed-fig13", "shed-fig14"]


def test_every_statement_has_an_answer_from_the_saved_results() -> None:
    found = judged("SHED")  # raises for a claim that the saved results do not have
    assert len({one.statement.place for one in found}) == len(found)
    explained = [one for one in found if one.answer == "NO"]
    assert explained
    assert all(one.statement.explanation for one in explained)


def test_the_iid_case_is_judged_by_iid_claims() -> None:
    """Section 6.7.2 says “in both cases” of two μ in the iid case."""
    found = {one.statement.place: one for one in judged("SHED")}
    for place in ("FedNL", "FedNL, μ = 1e-6", "FedNL and GN-SHED", "FedNL and GN-SHED, μ = 1e-6"):
        assert all(claim.startswith("iid: ") for claim in found[f"Section 6.7.2, {place}"].statement.claims)
        assert found[f"Section 6.7.2, not iid, {place}"].statement.says.startswith("(not said)")


def test_the_page_is_that_of_the_register() -> None:
    assert (ROOT / "docs" / "reproduce" / "shed-claims.md").read_text(encoding="utf-8") == page("SHED")


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_claims_of_slow_experiments_exist(name: str) -> None:
    made = {claim for claim, _ in perform(find(name), quick=True).result.claims}
    wanted = {claim for one in statements("SHED") if one.experiment == name for claim in one.claims}
    assert wanted
    assert wanted <= made
