"""Γ to reach an accuracy: the minimum by other means, nothing of it counted, and the table by brute force."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import fedsolve as fs
from fedsolve.complexity import suboptimality
from fedsolve.complexity.costs import EPSILONS, Contestant, Cost, costs, in_words, tuned_path
from fedsolve.complexity.oracle import OracleComplexity
from fedsolve.complexity.suboptimality import Minimum, Suboptimality, minimum
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.transports import Processes
from tests.extras import optional
from tests.problems import PROBLEMS, Problem

LOSS = fs.Squared(l2=0.2)


def clients(m: int = 5, s: int = 30, p: int = 3) -> list[Client]:
    rng = np.random.default_rng(8)
    truth = rng.standard_normal(p)
    made = []
    for index in range(m):
        X = rng.standard_normal((s + 7 * index, p))
        made.append(Client(f"c{index}", X, X @ truth + index + rng.standard_normal(len(X))))
    return made


def objective(parts: list[Client], w: np.ndarray) -> float:
    """The squared loss of all samples together, by NumPy."""
    X, y = np.concatenate([one.X for one in parts]), np.concatenate([one.y for one in parts])
    return float(0.5 * np.mean((X @ w - y) ** 2) + 0.5 * LOSS.l2 * w @ w)


def solution(parts: list[Client]) -> np.ndarray:
    X, y = np.concatenate([one.X for one in parts]), np.concatenate([one.y for one in parts])
    return np.linalg.solve(X.T @ X / len(y) + LOSS.l2 * np.eye(X.shape[1]), X.T @ y / len(y))


def watched(algorithm: Any, parts: Any, rule: Suboptimality, **settings: Any) -> fs.Run:
    limits = fs.Stopping(rounds=settings.pop("rounds", 5), tolerance=settings.pop("tolerance", None))
    return fs.run(algorithm, parts, stopping=[limits, rule], **settings)


# ── the minimum ──


@pytest.mark.parametrize("case", sorted(PROBLEMS))
def test_the_minimum_is_that_of_other_solvers(case: str) -> None:
    """F at the answer of SciPy, scikit-learn or statsmodels: no lower than F*, and above it by its own tolerance."""
    problem: Problem = PROBLEMS[case]
    if problem.loss.l1:
        pytest.skip("l1 has no Hessian at the minimum")
    rule = Suboptimality(problem.loss)
    watched(fs.Newton(problem.loss), problem.clients(), rule, rounds=0)
    found = rule.known[False]
    answer = np.asarray(problem.pooled())
    at = {}
    for name, w in (("zero", np.zeros(answer.shape)), ("answer", answer)):
        run = fs.run(fs.FedAvg(problem.loss, fs.GradientSteps(1, 1e-300)), problem.clients(), rounds=0, warm_start=w)
        at[name] = run.history[0].value
    assert found.first == pytest.approx(at["zero"], rel=1e-14)
    assert found.least == pytest.approx(at["answer"], rel=1e-12)
    assert found.least <= at["answer"] + 1e-14 * abs(at["answer"])  # the rounding of a sum of 160 terms


def test_a_line_search_where_full_steps_lead_up() -> None:
    """Σ log cosh(w): from 3 a Newton step overshoots, and the next ones more and more."""
    asked = []

    def derivatives(w: np.ndarray) -> Any:
        asked.append(w.copy())
        f = float(np.sum(np.logaddexp(w, -w)))
        return f, np.tanh(w), np.diag(np.maximum(1 / np.cosh(w) ** 2, 1e-300))

    found = minimum(derivatives, np.array([3.0, -2.0]))
    assert found.least == pytest.approx(2 * math.log(2), rel=1e-14)
    assert found.first == pytest.approx(float(np.sum(np.logaddexp([3.0, -2.0], [-3.0, 2.0]))), rel=1e-14)
    assert any(np.abs(w).max() > 50 for w in asked)  # a full step was tried, and rejected


def test_separable_classes_have_an_infimum() -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    rule = Suboptimality(fs.Logistic())
    two = [Client("a", X[:2], np.zeros(2)), Client("b", X[2:], np.ones(2))]
    watched(fs.FedAvg(fs.Logistic()), two, rule, rounds=1)
    assert 0 <= rule.known[False].least < 1e-12


def test_a_start_at_the_minimum_is_rejected() -> None:
    flat = [Client("a", np.eye(3), np.zeros(3))]
    with pytest.raises(ConfigError, match="weights of 0 minimise"):
        watched(fs.Newton(LOSS), flat, Suboptimality(LOSS))


@pytest.mark.parametrize("loss", [fs.Squared(l1=0.1), fs.Network(fs.MLP((4,)), fs.Squared())])
def test_losses_without_a_known_minimum_are_rejected(loss: Any) -> None:
    with pytest.raises(ConfigError, match="losses of linear models without l1"):
        Suboptimality(loss)


def test_too_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suboptimality, "MOST_WEIGHTS", 2)
    with pytest.raises(ConfigError, match="would have 3 columns; at most 2 are formed"):
        watched(fs.AGD(LOSS), clients(), Suboptimality(LOSS))


def test_below_the_minimum_is_rounding() -> None:
    assert Minimum(3.0, 1.0).share(1.0 - 1e-16) == 0.0
    assert Minimum(3.0, 1.0).share(2.0) == 0.5


def test_a_value_that_is_no_number_is_not_near_enough() -> None:
    assert Minimum(3.0, 1.0).share(math.nan) == math.inf
    rule = Suboptimality(LOSS, asks=True, enough=1e-3)
    with np.errstate(all="ignore"):
        watched(fs.FedAvg(LOSS, fs.GradientSteps(5, 1e100, batch_size=1)), clients(), rule, measure=0)
    assert [rule.shares[round] for round in range(6)] == [1.0, *[math.inf] * 5]


# ── watching costs nothing, and changes nothing ──

SOME = fs.Participation(fraction=0.5)
WATCHED: dict[str, Any] = {
    "Newton": fs.Newton(LOSS),
    "AGD": fs.AGD(LOSS),
    "FedNewton": fs.FedNewton(LOSS),
    "DKRR": fs.DKRR(LOSS),
    "SHED": fs.SHED(fs.Squared(l2=0.2)),
    "FedAvg": fs.FedAvg(LOSS, fs.GradientSteps(4, 0.05, 1, batches="independent")),
    "FedPAQ": fs.FedAvg(LOSS, fs.GradientSteps(4, 0.05, 1, batches="independent"), fs.QuantisedUploads()),
    "Scaffold": fs.Scaffold(LOSS),
}


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.parametrize("asks", [False, True])
def test_a_watched_run_is_the_same_to_the_bit(name: str, asks: bool) -> None:
    rule = Suboptimality(LOSS, asks)
    settings: dict[str, Any] = {"measure": 0 if asks else 1, "seed": 3}
    if name not in ("DKRR", "Newton"):
        settings["participation"] = SOME if asks else None
    plain = fs.run(WATCHED[name], clients(), stopping=fs.Stopping(rounds=5, tolerance=None), **settings)
    run = watched(WATCHED[name], clients(), rule, **settings)
    assert run.model.w.tobytes() == plain.model.w.tobytes()
    for phi in (0.0, 1.0, 1000.0):
        ours, theirs = fs.oracle_complexity(run, phi), fs.oracle_complexity(plain, phi)
        np.testing.assert_array_equal(ours.curve, theirs.curve)
        assert (ours.total, ours.time, ours.epochs) == (theirs.total, theirs.time, theirs.epochs)
    assert run.ledger.total() == plain.ledger.total()


def test_the_shares_are_those_of_all_clients_whoever_took_part() -> None:
    """Every round's model by a run of as many rounds, and F by NumPy."""
    parts, rule = clients(), Suboptimality(LOSS, asks=True)
    run = watched(WATCHED["FedAvg"], parts, rule, rounds=6, participation=SOME, seed=1)
    best = objective(parts, solution(parts))
    first = objective(parts, np.zeros(3))
    assert sorted(rule.shares) == list(range(7))
    for rounds, share in rule.shares.items():
        w = fs.run(WATCHED["FedAvg"], clients(), rounds=rounds, tolerance=0, participation=SOME, seed=1).model.w
        assert share == pytest.approx((objective(parts, w) - best) / (first - best), rel=1e-9, abs=1e-14)
    assert any(row.measured_share < 1 for row in run.history)  # what the run measures is not of all


def test_without_asking_rounds_that_some_clients_measured_are_left_out() -> None:
    rule = Suboptimality(LOSS)
    run = watched(WATCHED["FedAvg"], clients(), rule, rounds=6, participation=SOME, seed=1)
    assert set(rule.shares) == {row.round for row in run.history if row.measured_share == 1}


def test_the_servers_samples_count_where_the_algorithm_learns_from_them() -> None:
    parts = clients()
    own = Client("server", np.random.default_rng(0).standard_normal((12, 3)), np.full(12, 5.0))
    known: dict[bool, Minimum] = {}
    theirs, ours = Suboptimality(LOSS, known=known), Suboptimality(LOSS, known=known)
    watched(fs.AGD(LOSS), parts, theirs, server=own, rounds=2)
    run = watched(fs.FedLRGD(LOSS), parts, ours, server=own, rounds=2)
    everyone = [*parts, own]
    assert known[False].least == pytest.approx(objective(parts, solution(parts)), rel=1e-13)
    assert known[True].least == pytest.approx(objective(everyone, solution(everyone)), rel=1e-13)
    assert known[True].least > 1.01 * known[False].least
    reached = (objective(everyone, run.model.w) - known[True].least) / (known[True].first - known[True].least)
    assert ours.shares[run.rounds] == pytest.approx(reached, abs=1e-14)
    plain = fs.run(fs.FedLRGD(LOSS), parts, server=own, stopping=fs.Stopping(rounds=2, tolerance=None))
    assert fs.oracle_complexity(run, 10).total == fs.oracle_complexity(plain, 10).total


def test_a_minimum_is_found_once() -> None:
    known: dict[bool, Minimum] = {}
    first = watched(fs.AGD(LOSS), clients(), Suboptimality(LOSS, known=known))
    second = watched(fs.AGD(LOSS), clients(), Suboptimality(LOSS, known=known))
    spent = [run.ledger.total("setup").exchanges for run in (first, second)]
    assert spent[0] > spent[1]


@pytest.mark.parametrize("asks", [False, True])
def test_near_enough_ends_a_run(asks: bool) -> None:
    rule = Suboptimality(LOSS, asks, enough=1e-3)
    run = watched(fs.AGD(LOSS), clients(), rule, rounds=200)
    assert run.status == "near enough"
    *before, last = [rule.shares[round] for round in sorted(rule.shares)]
    assert last <= 1e-3 < min(before)
    assert run.rounds == max(rule.shares)


def test_in_processes_and_with_tensors() -> None:
    torch = optional("torch")
    rules = [Suboptimality(LOSS, asks=True) for _ in range(3)]
    watched(fs.AGD(LOSS), clients(), rules[0])
    watched(fs.AGD(LOSS), Processes(clients(), workers=2), rules[1])
    made = [Client(one.name, torch.tensor(one.X), torch.tensor(one.y)) for one in clients()]
    watched(fs.AGD(LOSS), made, rules[2])
    assert rules[0].shares == rules[1].shares
    assert rules[2].shares == pytest.approx(rules[0].shares, rel=1e-9)


def test_a_run_that_diverges_is_never_near() -> None:
    rule = Suboptimality(LOSS, asks=True, enough=1e-3)
    run = watched(fs.FedAvg(LOSS, fs.GradientSteps(5, 1e30)), clients(), rule)
    assert run.status == "diverged"
    assert not any(share < 1 for round, share in rule.shares.items() if round)


def test_several_outputs() -> None:
    problem = PROBLEMS["softmax, free intercept | unbalanced"]
    rule = Suboptimality(problem.loss)
    run = watched(fs.Newton(problem.loss), problem.clients(), rule, rounds=20, tolerance=1e-10)
    assert rule.shares[0] == 1.0
    assert rule.shares[run.rounds] < 1e-13


# ── the table ──


def contestant(
    algorithm: str, run: str, computed: list[float], sent: list[float], shares: dict[int, float]
) -> Contestant:
    count = len(computed)
    empty = np.zeros(count)
    found = OracleComplexity(0.0, np.arange(count), np.array(computed), np.array(sent), empty.astype(int), empty)
    return Contestant(algorithm, run, {"b": run}, found, shares)


ONE = contestant("A", "a1", [0, 10, 20, 30], [0, 1, 2, 3], {0: 1.0, 1: 0.05, 2: 0.2, 3: 1e-3})
TWO = contestant("A", "a2", [0, 50, 100, 150], [0, 1, 2, 3], {0: 1.0, 1: 1e-2, 2: math.nan, 3: 1e-7})
THREE = contestant("B", "b", [0, 40], [0, 0.5], {1: 0.0})


def test_costs_by_hand() -> None:
    found = {(one.phi, one.epsilon, one.algorithm): one for one in costs([ONE, TWO, THREE], [0, 100])}
    assert found[0, 1e-1, "A"] == Cost(0, 1e-1, "A", 10.0, "a1", 1, {"b": "a1"}, True)
    assert found[0, 1e-2, "A"] == Cost(0, 1e-2, "A", 30.0, "a1", 3, {"b": "a1"}, True)
    assert found[0, 1e-6, "A"] == Cost(0, 1e-6, "A", 150.0, "a2", 3, {"b": "a2"}, False)
    assert found[0, 1e-6, "B"] == Cost(0, 1e-6, "B", 40.0, "b", 1, {"b": "b"}, True)
    # With φ = 100 the larger steps of a2 pay: one round of it is 150, three of a1 are 330.
    assert found[100, 1e-2, "A"] == Cost(100, 1e-2, "A", 150.0, "a2", 1, {"b": "a2"}, False)
    assert found[100, 1e-1, "B"].cost == 90.0
    assert len(found) == 2 * len(EPSILONS) * 2


def test_what_is_never_reached_has_no_cost_and_does_not_win() -> None:
    never = contestant("A", "a", [0, 1], [0, 1], {0: 1.0, 1: 0.5})
    assert costs([never], [1.0], [0.1]) == [Cost(1.0, 0.1, "A")]
    assert [one.is_least for one in costs([never, THREE], [1.0], [0.1])] == [False, True]


def test_values_in_words() -> None:
    values = {"steps": 5, "step_size": 0.05, "schedule": {"name": "InverseTime", "decay": 0.3}, "uploads": "none"}
    assert in_words(values) == "steps 5, step_size 0.05, schedule InverseTime(decay=0.3), uploads none"


def test_equal_costs_win_together() -> None:
    twin = contestant("C", "c", [0, 40], [0, 0.5], {1: 0.0})
    assert all(one.is_least for one in costs([THREE, twin], [7.0]))


def test_the_curve_of_a_tuned_algorithm_is_the_lower_envelope() -> None:
    """Against brute force: the least share of any round of any run whose Γ is no larger."""
    rng = np.random.default_rng(2)
    runs = []
    for index in range(4):
        steps = np.cumsum(rng.integers(1, 9, 30))
        shares = {round: float(10 ** -rng.uniform(0, 1 + round / 5)) for round in range(30)}
        runs.append(contestant("A", f"r{index}", list(map(float, steps)), list(map(float, range(30))), shares))
    for phi in (0.0, 3.0):
        path = tuned_path(runs, phi)
        assert [gamma for gamma, _ in path] == sorted({gamma for gamma, _ in path})
        assert all(before[1] > after[1] for before, after in pairwise(path))
        every = [
            (run.complexity.computed[k] + phi * run.complexity.sent[k], run.shares[k])
            for run in runs
            for k in range(30)
        ]
        for gamma, share in path:
            assert share == min(one for cost, one in every if cost <= gamma)
        for epsilon in EPSILONS:
            (found,) = costs(runs, [phi], [epsilon])
            brute = [cost for cost, share in every if share <= epsilon]
            assert found.cost == (min(brute) if brute else None)


def test_logistic_by_hand() -> None:
    """The whole chain once, on two weights: Γ of AGD by hand, and shares by NumPy."""
    rng = np.random.default_rng(1)
    X, loss = rng.standard_normal((60, 2)), fs.Logistic(l2=0.1)
    y = (rng.random(60) < expit(X @ [2.0, -1.0])).astype(float)
    parts = [Client(f"c{i}", X[i::3], y[i::3]) for i in range(3)]
    rule = Suboptimality(loss)
    run = watched(fs.AGD(loss), parts, rule, rounds=40)
    one = Contestant("AGD", "AGD", {}, fs.oracle_complexity(run, 0.0), rule.shares)

    def value(w: np.ndarray) -> float:
        eta = X @ w
        return float(np.mean(np.logaddexp(0, eta) - y * eta) + 0.05 * w @ w)

    least = rule.known[False].least
    assert rule.shares[40] == pytest.approx((value(run.model.w) - least) / (value(np.zeros(2)) - least), abs=1e-14)
    for found in costs([one], [5.0]):
        if found.cost is not None:
            spent = fs.oracle_complexity(run, 5.0).after(found.round)
            assert found.cost == spent
            assert rule.shares[found.round] <= found.epsilon < rule.shares[found.round - 1]
