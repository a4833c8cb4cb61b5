"""Figures 3 to 5 of paper 000: quick forms against answers found another way, full ones with -m slow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsolve.reproduce import Outcome, find, perform
from fedsolve.reproduce.fednewton_synthetic import L2, problem


def column(outcome: Outcome, heading: str) -> list[Any]:
    headings = [one.heading for one in outcome.result.columns]
    return [row[headings.index(heading)] for row in outcome.result.rows]


def test_fig3_quick() -> None:
    outcome = perform(find("fednewton-fig3"), quick=True)
    assert outcome.result.status == "ok"
    # KRR of 10 clients, by another road: its weights are the pooled ones, its error that at the test points.
    posed = problem(10, 1000, 0.0, 0)
    inputs, truth = posed.test
    y = np.concatenate([client.y for client in posed.clients])
    augmented = np.vstack([posed.features / np.sqrt(len(y)), np.sqrt(L2) * np.eye(200)])
    w = np.linalg.lstsq(augmented, np.concatenate([y / np.sqrt(len(y)), np.zeros(200)]), rcond=None)[0]
    assert column(outcome, "KRR")[0].median == pytest.approx(np.mean((inputs @ w - truth) ** 2), rel=1e-8)
    for rho, plain, cg, krr in zip(*(column(outcome, each) for each in ("ρ", "#8", "CG #8", "KRR")), strict=True):
        assert (plain.median < 2 * krr.median) == (rho.median < 1.5)  # ρ^8 of what DKRR lacks, and it lacks little
        assert cg.median == pytest.approx(krr.median, rel=0.02)


def test_fig4_quick() -> None:
    outcome = perform(find("fednewton-fig4"), quick=True)
    assert outcome.result.status == "ok"
    alphas, rho = column(outcome, "α, β"), column(outcome, "ρ")
    same = [one.median for case, one in zip(alphas, rho, strict=True) if case.startswith("0,")]
    assert len(set(same)) == 1  # ρ is of the inputs alone
    assert [one.median for case, one in zip(alphas, rho, strict=True) if case.endswith(", 0")] == sorted(
        one.median for case, one in zip(alphas, rho, strict=True) if case.endswith(", 0")
    )


def test_fig5_quick_follows_the_closed_form() -> None:
    """e_t = (I − AH)^t e_0, notes on paper 000."""
    outcome = perform(find("fednewton-fig5"), quick=True)
    assert outcome.result.status == "ok"
    posed = problem(20, 500, 0.01, 0, beta=0.001)
    hessians = [one.X.T @ one.X / 500 + L2 * np.eye(200) for one in posed.clients]
    local = [np.linalg.solve(H, one.X.T @ one.y / 500) for H, one in zip(hessians, posed.clients, strict=True)]
    change = np.eye(200) - np.mean([np.linalg.inv(H) for H in hessians], axis=0) @ np.mean(hessians, axis=0)
    error = np.mean(local, axis=0) - posed.w
    for t, measured in zip(column(outcome, "round"), column(outcome, "FedNewton"), strict=True):
        expected = posed.test_error(posed.w + np.linalg.matrix_power(change, t) @ error)
        assert measured.median == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fednewton-fig3", "fednewton-fig4", "fednewton-fig5"])
def test_the_figures_in_full(name: str) -> None:
    outcome = perform(find(name))
    assert outcome.seeds == (0, 1, 2, 3, 4)
    assert [claim for claim, verdict in outcome.result.claims if verdict.holds is not True] == []
