"""SHED's claims on half-sentences and on the lemma behind Theorem 9: by hand, in closed form, and where they fail."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.reproduce.register import statements
from fedsolve.reproduce.shed import averaging, lemma_3_1, remarks, remarks_data, wider, wider_steps
from fedsolve.reproduce.shed.heard_messages import SIZES, agents
from fedsolve.reproduce.shed.problems import Problem
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.small_logistic import Agents, run

MODULES = {
    "shed-lemma31": lemma_3_1,
    "shed-averaging": averaging,
    "shed-remarks": remarks,
    "shed-remarks-data": remarks_data,
    "shed-wider": wider,
    "shed-wider-steps": wider_steps,
}


@pytest.mark.parametrize("name", MODULES)
def test_the_register_names_claims_that_are_made(name: str) -> None:
    wanted = {claim for one in statements("SHED") if one.experiment == name for claim in one.claims}
    assert wanted == {check.claim for check in MODULES[name].CHECKS}


# ── Theorem 9 and the lemma ──


@pytest.mark.parametrize(("eta", "xi", "c"), [(1.0, 0.8, 0.8), (0.5, 0.9, 1.8), (0.25, 0.95, 2.3)])
def test_the_constants_by_hand(eta: float, xi: float, c: float) -> None:
    """Eigenvalues 10, 5, 3 and 1, q = 1: ρ = 5, ξ_1 = 1 − η/5 and c_1 = 0.8 + (1 − η) 10/5."""
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    found = lemma_3_1.constants(turned @ np.diag(lemma_3_1.EXAMPLE) @ turned.T, 1, eta)
    assert found["xi_1"] == pytest.approx(xi)
    assert found["c_1"] == pytest.approx(c)
    assert found["own"] == pytest.approx(xi)
    assert (found["xi_2"], found["c_2"]) == pytest.approx((eta / 10, eta / 10))


def test_a_shorter_step_by_hand() -> None:
    """diag(4, 2, 1), T = 1: 1 − η along e_1 and e_2, 1 − η/2 along e_3."""
    own, bound = lemma_3_1.shorter(np.diag([4.0, 2.0, 1.0]), 1, 0.5)
    assert own == pytest.approx(0.75)
    assert bound == pytest.approx(0.5)
    assert lemma_3_1.shorter(np.diag([4.0, 2.0, 1.0]), 1, 1.0) == pytest.approx((0.5, 0.5))


def test_a_bound_that_is_too_small_is_noticed() -> None:
    """With a smaller L, as if the Hessian hardly changed, steps break (31)."""
    of, worst = Agents(0, 4, 4, 30, 0.01), Worst()
    start = of.best + 5 * np.ones(4)
    steps = run(of, lambda t: t == 1, 20, np.ones(4, dtype=int), start)
    lemma_3_1.bounded(of, steps, worst)
    assert worst.found[lemma_3_1.OWN_BOUND] <= 1
    of.L = of.L / 1000
    lemma_3_1.bounded(of, steps, worst)
    assert worst.found[lemma_3_1.OWN_BOUND] > 1


# ── FedAvg and its like ──


def test_where_fed_avg_ends() -> None:
    """At Σ p_i (I − (I − ηH_i)^s) (θ − θ_i) = 0, in closed form."""
    clients, mu, steps = agents(0), averaging.MU, 5
    local = [(one.X.T @ one.X / len(one.X) + mu * np.eye(one.X.shape[1]), averaging.solution([one])) for one in clients]
    eta = 1 / max(float(np.linalg.eigvalsh(H)[-1]) for H, _ in local)
    moved = [np.eye(len(H)) - np.linalg.matrix_power(np.eye(len(H)) - eta * H, steps) for H, _ in local]
    pulls = [M @ own for M, (_, own) in zip(moved, local, strict=True)]
    limit = np.linalg.solve(np.average(moved, axis=0, weights=SIZES), np.average(pulls, axis=0, weights=SIZES))
    best = averaging.solution(clients)
    found = averaging.ends(FedAvg(Squared(l2=mu), GradientSteps(steps=steps, step_size=eta)), clients, best)
    assert found[1] == pytest.approx(np.linalg.norm(limit - best) / np.linalg.norm(best), rel=1e-6)
    assert found[1] > 1e-3


def test_where_a_strong_pull_ends() -> None:
    """FedProx with a strong pull is nearly one gradient step, which ends at θ*."""
    clients = [Client("a", np.array([[1.0]]), np.array([0.0])), Client("b", np.array([[3.0]]), np.array([3.0]))]
    best = averaging.solution(clients)
    weak, strong = (averaging.ends(FedProx(Squared(l2=averaging.MU), pull=one), clients, best)[1] for one in (0.1, 100))
    assert strong < 0.1 * weak


# ── links, classes, privacy ──


def test_links_by_hand() -> None:
    worst = Worst()
    remarks.links(0, worst)
    assert worst.found[remarks.WAITS] == pytest.approx(0.9**-28)
    quantiles = np.log2(1 - np.log(0.9)), np.log2(1 - np.log(0.1))  # Γ = 1
    assert worst.found[remarks.VARIES] <= 0.5
    low = [np.log1p(-gain * np.log(0.9)) / np.log1p(-gain * np.log(0.1)) for gain in remarks.GAINS]
    assert worst.found[remarks.VARIES] == pytest.approx(max(low))
    assert quantiles[0] / quantiles[1] == pytest.approx(low[0])


def test_wrong_labels_and_penalties_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    worst = Worst()
    remarks.costs(0, worst)
    assert worst.found[remarks.PRINTED] < 1e-12
    monkeypatch.setattr(remarks, "SIZES", (1, 1, 1, 1))  # agents that weigh the same
    remarks.costs(0, worst)
    assert worst.found[remarks.PRINTED] > 1e-3


def test_whose_row_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with one row x has the Hessian xxᵀ + μI: √(λ_1 − μ) v_1 = ± x. One with more rows gives none away."""
    rng = np.random.default_rng(0)
    few = [Client(f"agent-{m}", rng.standard_normal((m, 4)), rng.standard_normal(m)) for m in (1, 2, 5)]
    monkeypatch.setattr(remarks_data, "songs", lambda *, iid, seed: Problem(few, Squared(l2=0.1), ""))
    worst = Worst()
    remarks_data.private(0, worst)
    assert worst.found == pytest.approx({remarks_data.PRIVATE: 1 / 3, remarks_data.SINGLE: 0.0})
    few[1].X[1] = few[1].X[0]  # a row that is there twice is known, too, and its agent has not one row
    worst = Worst()
    remarks_data.private(0, worst)
    assert worst.found == pytest.approx({remarks_data.PRIVATE: 2 / 3, remarks_data.SINGLE: 0.5})


# ── more n and μ ──


def test_a_hessian_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Agents(0, 4, 4, 30, 0.01)
    steps = run(of, lambda t: t % 4 == 1, 20, np.ones(4, dtype=int), of.best + np.ones(4))
    assert wider.unchanged(of, steps) == 0
    fixed = of.hessian(of.best)
    monkeypatch.setattr(of, "hessian", lambda w: fixed)
    assert wider.unchanged(of, steps) == 1


def test_rates_of_fed_nl() -> None:
    """Iterations of rate 1 over the fewest of the others; a single rate that is worse for sure makes it small."""
    assert 0.5 < wider.rated(2) < 2


def test_own_renewals_with_a_smaller_constant_are_noticed() -> None:
    of, worst = Agents(0, 4, 4, 30, 0.001), Worst()
    wider_steps.own_renewals(of, np.random.default_rng(0), 5.0, worst)
    assert worst.found[wider_steps.OWN] <= 1
    assert worst.found[wider_steps.ENDS] <= wider_steps.ARRIVED
    of.L, of.L_i = of.L / 1000, of.L_i / 1000
    wider_steps.own_renewals(of, np.random.default_rng(0), 5.0, worst)
    assert worst.found[wider_steps.OWN] > 1
