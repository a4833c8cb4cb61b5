"""The experiments on the steps of proofs (SHED, FedNewton): quantities by hand or against the library, quick forms."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest

from fedsolve.algorithms import DKRR, FedAvg, FedNewton
from fedsolve.curvature.renewals import Periodic
from fedsolve.federation.client import Client
from fedsolve.local import GradientSteps
from fedsolve.losses import Logistic, Squared
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import capacity, exponents, first_order, memory, remark7, source_condition
from fedsolve.reproduce.fednewton.synthetic import SETTING, problem
from fedsolve.reproduce.iterates import iterates
from fedsolve.reproduce.shed import (
    intervals,
    learning_rate,
    messages,
    other_gaps,
    proofs_convex,
    proofs_least_squares,
    proofs_rates,
    proofs_unequal,
)
from fedsolve.reproduce.shed.gaps import follow, optimum
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.renewal_sets import sets
from fedsolve.reproduce.shed.small_logistic import Agents, estimate, run
from tests.reproduce.test_experiments import needs_data

# ── SHED ──


def test_the_small_logistic_regression_is_the_librarys() -> None:
    """Value, gradient, Hessian, and the iterates of Algorithm 4, whose searches have other constants: full steps."""
    of = Agents(0, 5, 3, 40, 0.1)
    clients = [Client(f"agent-{j}", Z, np.ones(len(Z))) for j, Z in enumerate(of.rows)]  # rows are y x
    loss, w = Logistic(l2=0.1), np.linspace(-1, 1, 5)
    assert of.value(w) == pytest.approx(np.mean([loss.value(one, w) for one in clients]), rel=1e-12)
    assert of.gradient(w) == pytest.approx(np.mean([loss.gradient(one, w) for one in clients], axis=0), abs=1e-14)
    assert of.hessians(w)[1] == pytest.approx(loss.hessian(clients[1], w).full(), abs=1e-14)
    best = optimum(clients, loss)
    assert of.best == pytest.approx(best.w, abs=1e-9)
    steps = run(of, set(sets(Periodic(3), 5, 10)).__contains__, 10, np.ones(3, dtype=int), np.zeros(5))
    trace = follow(as_printed(loss, renewals=Periodic(3)), best, gap=0.0, iterations=10)
    assert all(one.eta == 1 for one in steps)
    ours = [float(np.linalg.norm(one.after - best.w)) for one in steps]
    assert ours == pytest.approx(trace.errors[1:], rel=1e-4, abs=1e-11)


def test_agents_of_different_sizes_are_weighted_as_the_librarys() -> None:
    of = Agents(0, 5, 3, (2, 7, 30), 0.1)
    clients = [Client(f"agent-{j}", Z, np.ones(len(Z))) for j, Z in enumerate(of.rows)]
    assert [one.n_samples for one in clients] == [2, 7, 30]
    assert of.best == pytest.approx(optimum(clients, Logistic(l2=0.1)).w, abs=1e-9)
    assert of.value(of.best) == pytest.approx(optimum(clients, Logistic(l2=0.1)).value, rel=1e-12)
    assert float(of.mean(np.array([1.0, 2.0, 3.0]))) == pytest.approx((2 + 14 + 90) / 39)
    claims = dict(perform(find("shed-proofs-unequal"), quick=True).result.claims)
    assert set(proofs_unequal.CLAIMS.values()) < set(claims)


def test_progress_early_and_late_in_an_interval() -> None:
    """A gap that falls tenfold in each of the last five iterations of 15, and not at all before."""
    gaps = [1.0] * 4 + [1.0] * 10 + [10.0**-k for k in range(1, 6)] + [1e-5]
    found = intervals.progress(gaps, [1, 4, 19])
    assert list(found) == [(4, 19)]
    assert found[4, 19] == pytest.approx((0.0, 1.0))
    assert intervals.progress(gaps[:18], [1, 4, 19]) == {}  # not complete


def test_giant_is_ahead_where_a_ratio_is_below_one() -> None:
    assert other_gaps.giant_ahead({"rounds": 1.2, "vectors": math.inf}).holds is False
    assert other_gaps.giant_ahead({"rounds": 1.2, "vectors": 0.8}).said == "1 of 2 counts: 0.8 times the vectors"


def test_an_estimate_by_hand() -> None:
    """diag(3, 2, 1) with one known eigenpair becomes diag(3, 2, 2)."""
    (found,), rho = estimate(np.array([[3.0, 2, 1]]), np.eye(3)[None], np.array([1]))
    assert found == pytest.approx(np.diag([3.0, 2, 2]))
    assert rho.tolist() == [2.0]


def test_the_counts_of_periodic_renewals() -> None:
    assert proofs_least_squares.counts(3, 8) == [1, 2, 1, 2, 3, 1, 2, 3]  # renewals at 1, 3, 6


def test_lemma_11s_example_by_hand() -> None:
    """Two agents: H = 0.51 I, Ĥ = 1.01 I; the full step lowers f by (1/1.01 − 0.51/(2 · 1.01²)) ‖g‖²."""
    printed, own = proofs_convex.disjoint(agents=2)
    fell = 1 / 1.01 - 0.51 / (2 * 1.01**2)
    assert printed == pytest.approx(0.05 * 1.01 / 0.51**2 / fell)
    assert own == pytest.approx(0.05 / 1.01 / fell)
    assert own < 1
    assert proofs_convex.disjoint()[0] > 1
    # the same with matrices, as Algorithm 4 would see it with one eigenpair of each agent
    blocks = [np.diag(np.repeat(np.eye(10)[j], 2)) + 0.01 * np.eye(20) for j in range(10)]
    pairs = [np.linalg.eigh(one) for one in blocks]
    values = np.array([v[::-1] for v, _ in pairs])
    parts, rho = estimate(values, np.array([V[:, ::-1] for _, V in pairs]), np.ones(10, dtype=int))
    assert np.mean(parts, axis=0) == pytest.approx(1.01 * np.eye(20))
    assert rho == pytest.approx(np.full(10, 1.01))


def test_lemma_12_with_a_sum_by_hand() -> None:
    assert proofs_convex.summed() == math.inf  # the full step from 2 raises f
    assert proofs_convex.summed(agents=1) == 0.0  # the mean's condition does not hold there
    g, H = 2 / math.sqrt(5) + 0.02, 5**-1.5 + 0.01
    assert 2 - g / H == pytest.approx(-7.2, abs=0.05)


def test_the_exponent_of_a_period_is_the_rate_of_a_run() -> None:
    of = Agents(1, proofs_rates.N, proofs_rates.AGENTS, proofs_rates.SAMPLES, proofs_rates.MU)
    steps = run(of, lambda t: t % proofs_rates.PERIOD == 0 or t == 1, 60, np.ones(4, dtype=int), np.zeros(8))
    errors = [float(np.linalg.norm(one.w - of.best)) for one in steps]
    last = max(t for t, e in enumerate(errors) if e > 1e-9)
    rate = (errors[last] / errors[last - 8]) ** (1 / 8)
    assert proofs_rates.exponent(of)[0] == pytest.approx(rate, rel=0.1)


def test_a_scaled_correction_is_a_share_of_it() -> None:
    found = messages.agents(4, 0)
    whole, half = (
        follow(
            learning_rate.with_rate(rate).make(Logistic(l2=0.01)),
            optimum(found, Logistic(l2=0.01)),
            gap=0,
            iterations=5,
        )
        for rate in (1.0, 0.5)
    )
    own = follow(messages.METHODS["FedNL"], optimum(found, Logistic(l2=0.01)), gap=0, iterations=5)
    assert whole.errors == own.errors
    assert half.errors[:2] == own.errors[:2]  # the first step has the first Hessian
    assert half.errors[3] != own.errors[3]


@pytest.mark.parametrize("name", ["shed-proofs-ls", "shed-proofs", "shed-proofs-rates", "fednewton-proofs"])
def test_quick_forms_agree_with_what_is_saved(name: str) -> None:
    outcome = perform(find(name), quick=True)
    assert any(verdict.holds for _, verdict in outcome.result.claims)
    assert all(verdict.holds is not False for _, verdict in outcome.result.claims)


@needs_data
@pytest.mark.parametrize("name", ["shed-setting", "shed-fednl-rate", "shed-messages"])
def test_quick_forms_of_counts(name: str) -> None:
    assert all(verdict.holds is None for _, verdict in perform(find(name), quick=True).result.claims)


# ── FedNewton ──


def test_the_source_condition_by_hand() -> None:
    """One eigenvalue σ = λ: ‖w_λ‖ = λ^(r−½)/2 and ‖f_λ − f*‖ = λ^r/2."""
    assert source_condition.fit_norm(np.array([1e-4]), 0.25, 1e-4) == pytest.approx(1e-4**-0.25 / 2)
    assert source_condition.bias(np.array([1e-4]), 0.25, 1e-4) == pytest.approx(1e-4**0.25 / 2)
    assert source_condition.bias(np.array([1.0]), 2.0, 1e-3) == pytest.approx(1e-3 / 1.001)  # λ, not λ²


def test_exponents_by_hand() -> None:
    """r = ½, γ = 1, |D_j| = |D|^0.6: R A has |D_j|^-1 |D|^½, −0.1."""
    assert exponents.case_39(0.6, 1.0, 2.0) == pytest.approx(-0.1)
    assert max(exponents.four_terms(0.6, 0.5, 1.0)) == pytest.approx(-0.1)
    assert len(exponents.PAIRS) == 14


def test_theorem_4s_terms_by_hand() -> None:
    assert remark7.aleph(10_000, 10) == pytest.approx(10**-1.5 * 1e3)
    assert remark7.aleph(10_000, 500) == pytest.approx(0.2)
    assert remark7.aleph(10_000, 5000) == pytest.approx(0.1)
    few, many = (remark7.pi(10_000, n, np.array([0.1]), np.array([0.5]))[0] for n in (50, 500))
    assert few == pytest.approx(10_000 / 50 * 0.1 + 100 / 50 * 0.5)
    assert many == pytest.approx((1 + 10) * (0.5 + 10))


def test_memory_counts_the_data_and_what_comes_in() -> None:
    assert memory.peak(50, 400) >= 50 * 400 + 50 * 50
    assert memory.server_numbers(10, 4) == 10 + 2 * 4 * 10


@pytest.mark.parametrize("name", ["fednewton-estimates", "fednewton-source"])
def test_quick_forms_of_estimates(name: str) -> None:
    found = dict(perform(find(name), quick=True).result.claims)
    assert all(verdict.holds is not False for verdict in found.values())


def test_theorem_4_quick() -> None:
    assert all(verdict.holds is None for _, verdict in perform(find("fednewton-remark7"), quick=True).result.claims)


def test_effective_dimensions_of_all_clients() -> None:
    """C = diag(1, 0), C_1 = diag(3, 1): N(1) = ½ and N_1(1) = ¾ + ½."""
    assert capacity.largest([np.diag([1.0, 0.0]), np.diag([3.0, 1.0])], 1.0) == pytest.approx(1.25)
    claims = dict(perform(find("fednewton-capacity")).result.claims)
    assert [claims[one].holds for one in (capacity.LOW, capacity.HIGH, capacity.INSIDE)] == [False, True, True]


def test_rounds_of_a_geometric_error() -> None:
    assert first_order.rounds_to(lambda t: 0.5**t, 1e-3) == 10
    assert first_order.rounds_to(lambda t: 0.5**t, 0.5) == 1


def test_gradient_descent_and_fednewton_are_the_librarys() -> None:
    """Errors and rounds against runs of FedNewton, and of FedAvg with one local step."""
    posed = problem(20, 500, 0.0, 0)
    of, loss = first_order.Errors(posed), Squared(l2=SETTING.l2)
    (dkrr,) = (one.state.w for one in iterates(DKRR(loss), posed.clients))
    size = np.linalg.norm(posed.features @ posed.w) / math.sqrt(len(posed.features))
    average = FedAvg(loss, GradientSteps(steps=1, step_size=1 / float(of.values[-1])))
    path = [posed.error(one.state.w) * size for one in islice(iterates(average, posed.clients, warm_start=dkrr), 11)]
    assert path == pytest.approx([of.gradient_descent(t) for t in range(11)], rel=1e-6)
    newton = [posed.error(one.state.w) for one in islice(iterates(FedNewton(loss), posed.clients, warm_start=dkrr), 15)]
    assert of.fednewton(1e-2) == next(t for t, error in enumerate(newton) if error <= 1e-2 * newton[0])
