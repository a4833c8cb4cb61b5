"""The proofs and remarks of Shen et al. as checks: what they measure with, against other means, and quick runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import fedsolve as fs
from fedsolve.losses import Logistic
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb import (
    choices,
    fitted_minimax,
    fitted_oracles,
    lemma_ball,
    participation_orders,
    participation_paths,
    proof_equal,
    proof_general,
    proof_orders,
    proof_rounds,
    proof_runs,
    proof_sums,
    proofs,
    remarks,
    remarks_adversary,
    remarks_functions,
    remarks_inputs,
    remarks_labels,
    remarks_needed,
    square_any,
    square_forms,
    square_more,
    square_orders,
    square_problems,
    square_proof,
    square_runs,
    square_sizes,
    square_slopes,
    square_split,
    theory_bounds,
)
from fedsolve.reproduce.ffgb.images import Images
from fedsolve.reproduce.ffgb.judging import AtLeast, Below, Found, Same, Within, Zero, gap, table
from fedsolve.reproduce.ffgb.oracles import Adversary, Honest, ScaleOracle
from fedsolve.reproduce.ffgb.theory_problems import MU, POINTS, L, same_inputs, shifted
from fedsolve.reproduce.ffgb.theory_runs import functions, squares
from tests.extras import optional
from tests.reproduce.test_ffgb_networks import tiny

NOT_SO = {  # what is known not to hold, in every seed
    "ffgb-proofs": {
        proof_general.POINTWISE,
        *(proof_general.STATIONARY, proof_general.SIGN, proof_general.HAT, proof_general.INDUCTION, proof_general.FOUR),
        *(proof_general.FOUR_FAR, proof_general.YOUNG, proof_rounds.TELESCOPE, proof_rounds.CANCELS, proof_rounds.LOG),
        *(proof_rounds.DOUBLE, proof_rounds.SQUARES, proof_rounds.SUM_SHORT, proof_rounds.TIMES_D),
        *(proof_rounds.CONSTANT, proof_equal.OPTIMAL, proof_equal.ANSWER, proof_equal.UPDATE, proofs.WITHOUT_ETA),
    },
    "ffgb-square-proof": {
        *(square_slopes.ANSWER, square_slopes.STEP, square_orders.WEAK),
        *(square_sizes.STEEP_LONG, square_sizes.ANSWER, square_sizes.MEAN, square_sizes.NORM, square_sizes.GLOBAL),
        *(square_sizes.SQUARED_MOVED, square_sizes.TIGHTER, square_split.TURNED, square_split.SUM),
        square_split.LOG_PRINTED,
        *(square_sizes.FROM_15, square_sizes.EVERYWHERE, square_split.PRINTED_FAR, square_split.MEANT_FAR),
        *(square_forms.PRINTED, square_forms.SIGN, square_forms.GRADIENT, square_forms.SQUARES, square_proof.TIMES),
        *(square_any.LATER, square_any.LONG, square_any.TRIANGLE_LONG, square_any.INDUCTION, square_any.MEAN),
        square_any.GLOBAL,
    },
    "ffgb-participation": set(),
    "ffgb-remarks": {
        *(remarks_functions.ALONE_SPLIT, remarks_functions.STRONGER, remarks_functions.FIXED, remarks.OMEGA),
        *(remarks_adversary.FAR, remarks_adversary.CYCLIC, remarks_adversary.ATTAINED, remarks_inputs.MAIN),
        *(remarks_inputs.SHARED, remarks_inputs.WEAK),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_SO)
def test_quick(name: str) -> None:
    """One seed says the same as five."""
    outcome = perform(find(name), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    claims = [claim for claim, _ in outcome.result.claims]
    assert len(claims) == len(set(claims))
    assert {claim for claim, one in outcome.result.claims if not one.holds} == {one.claim for one in NOT_SO[name]}


# ── verdicts ──


@pytest.mark.parametrize(
    ("check", "good", "bad", "said"),
    [
        (Same("p", "c"), [3e-16, 0.0], [3e-16, 1e-3], "the two sides differ by at most 3.0e-16 of their size"),
        (Below("p", "c"), [-0.5, -0.25], [-0.5, 0.1], "left less right is at most -0.25 of their size"),
        (AtLeast("p", "c", most=2.0), [2.5, 7.0], [1.5, 7.0], "at least 2.5"),
        (Within("p", "c", most=1.0, give=0.1), [0.95, 1.05], [0.95, 1.2], "0.95 to 1.05"),
        (Zero("p", "c"), [0.0, 0.0], [0.0, 1e-9], "exactly 0"),
    ],
)
def test_checks_show_the_quantity_and_can_fail(check: Check, good: list[float], bad: list[float], said: str) -> None:
    assert check.verdict(good).holds
    assert check.verdict(good).said == said
    assert not check.verdict(bad).holds
    assert not check.verdict([*good, float("nan")]).holds


def test_the_worst_of_a_seed() -> None:
    found, below, least = Found(), Below("p", "small"), AtLeast("p", "large", most=1.0)
    found.below(below, np.array([1.0, 2.0]), np.array([3.0, 2.5]))
    found.below(below, 0.0, 1.0)
    found.note(least, np.array([5.0, 4.0]))
    found.note(least, 9.0)
    assert found.worst == {"small": pytest.approx(-0.5 / 4.5), "large": 4.0}
    assert gap(1.0, 1.0, 0.0) == 0
    assert gap(0.0, 0.0) == 0
    assert gap(2.0, 1.0, np.array([-7.0, 3.0])) == pytest.approx(0.1)
    result = table((below, least), [found.worst], ())
    assert [row[3] for row in result.rows] == ["≤ 1.00e-12", "≥ 1"]
    assert [one.holds for _, one in result.claims] == [True, True]


# ── Algorithm 2 ──


def test_the_steps_are_those_of_the_library() -> None:
    problem, labels = same_inputs(3)
    one = proof_runs.Posed(np.full(labels.shape, 1 / POINTS), labels, MU)
    steps = proof_runs.boosted(one, np.zeros(POINTS), lambda query: 0.3 * query, 2.0, 3, 5)
    ends = [step.after.mean(axis=0) for step in steps if step.k == 3]
    loss, learner = Logistic(), ScaleOracle(0.3, POINTS)
    path = functions(loss, learner, problem.clients, problem.support, 5, K=3, mu=MU, rule="theorem 4.3")
    np.testing.assert_allclose(ends, path[1:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.best, problem.best, atol=1e-12)


def test_the_minimum_and_the_values() -> None:
    one = proof_runs.posed(np.random.default_rng(1), 3, 6, 0.7, same=False)
    assert (one.mass == 0).any()
    found = minimize(lambda f: one.value(np.tile(f, (3, 1))).mean(), np.zeros(6), tol=1e-12)
    np.testing.assert_allclose(found.x, one.best, atol=1e-5)
    f, step = one.best + 0.3, 1e-6
    for j in range(6):
        ahead, behind = (one.value(np.tile(f + s * step * np.eye(6)[j], (3, 1))) for s in (1, -1))
        wanted = one.mass[:, j] * (expit(f[j]) - one.labels[:, j] + 0.7 * f[j])
        np.testing.assert_allclose((ahead - behind) / (2 * step), wanted, atol=1e-8)


def test_oracles_satisfy_their_conditions_and_no_more() -> None:
    rng = np.random.default_rng(2)
    one = proof_runs.posed(rng, 4, 8, 0.5, same=True)
    query = rng.standard_normal((4, 8))
    left = proof_runs.square_oracle(one, 0.3, rng)(query) - query
    np.testing.assert_allclose(one.own(left, left), 0.7**2 * one.own(query, query))
    left = proof_runs.sup_oracle(one, 0.3, rng)(query) - query
    np.testing.assert_allclose(np.abs(left).max(axis=1), 0.7 * np.abs(query).max(axis=1))


def test_the_ball_by_hand() -> None:
    """γ = 1, K = 1: the ball is 4, and a first step of 4 from its edge goes to 4 − 4 (1 + 4/2) = −8, twice as far."""
    first, second, _ = lemma_ball.path(lemma_ball.absolute, 1.0, (0,), 1.0, 4.0)
    assert first == [1.0, -2.0]
    assert second == [-2.0, pytest.approx((-8 - 8 / 3 * (-1 - 4)) / 4)]
    weak = next(lemma_ball.path(lemma_ball.absolute, 0.5, (1, -1), 0.0, 4.0))
    # h is 1.5 and then half of −1.5; the ball is 8
    assert weak == [0.0, pytest.approx(-6 / 8), pytest.approx((-6 - 8 / 3 * (-2.25 - 3)) / 8)]


# ── Algorithm 3 ──


def test_a_far_start_is_a_start() -> None:
    one = square_problems.regression(np.random.default_rng(8))
    near, far = (
        next(square_runs.algorithm3(one, square_problems.scaled(1.0), 1.0, 1, 1, start)) for start in (0.0, 5.0)
    )
    np.testing.assert_array_equal(near.g, 0)
    np.testing.assert_array_equal(far.g, 5)
    np.testing.assert_allclose(far.after - near.after, 2.5)


def test_algorithm_3_is_the_library_s() -> None:
    posed = shifted(0.1, 0)
    X, y = posed.problem.support, posed.problem.best
    one = square_runs.Regression(X, y, np.repeat(np.arange(4), 12), L)
    steps = square_runs.algorithm3(one, square_problems.scaled(0.3), 4.0, 3, 5)
    ends = [step.after.mean(axis=0) for step in steps if step.k == 3]
    np.testing.assert_allclose(ends, squares(posed, 0.3, 5, K=3)[1:], atol=1e-12)
    np.testing.assert_allclose(one.u.mean(axis=0), posed.extensions)
    assert pytest.approx(posed.G) == one.G2**0.5
    assert pytest.approx((posed.B, posed.D)) == (one.B, one.D)


def test_lipschitz_oracles_satisfy_14_and_15() -> None:
    rng = np.random.default_rng(3)
    one = square_problems.regression(rng)
    for oracle in (square_problems.moved(one, 0.4, rng), square_problems.flipped(one, 0.4, 3)):
        h = oracle(one.u)
        np.testing.assert_allclose(one.sup(h - one.u), 0.6 * one.sup(one.u))
        assert one.lip(h - one.u).max() < 1e-12
    flipped = square_problems.flipped(one, 0.4, 3)
    signs = [np.sign((flipped(one.u) - one.u)[0, 0]) for _ in range(6)]
    assert signs == [-1, -1, 1, -1, -1, 1]
    assert square_problems.steady(rng).B == 1


def test_the_steepest_answer_is_the_last_of_a_round() -> None:
    one = square_problems.regression(np.random.default_rng(3))
    oracle = square_problems.steepened(0.4, 2)
    for factor in (0.4, 1.6, 0.4, 1.6):
        h = oracle(one.u)
        np.testing.assert_allclose(h, factor * one.u)
        np.testing.assert_allclose(one.lip(h - one.u), 0.6 * one.lip(one.u))
    steps = list(square_runs.algorithm3(one, square_problems.steepened(0.3, 40), np.inf, 40, 1, most=0.5))
    assert {step.eta for step in steps} == {0.5}
    slopes = [one.lip(step.h).max() * 0.3 for step in steps]
    assert max(slopes) == slopes[-1] == pytest.approx(1.7 * one.lip(one.u).max(), rel=0.01)


# ── a few clients, and remarks ──


def test_all_clients_are_the_full_path() -> None:
    one = proof_runs.posed(np.random.default_rng(4), 5, 6, 0.5, same=True)
    path = participation_paths.logistic_path(one, 2.0, 4, 5, 1, np.random.default_rng(0))[:, 0]
    gamma, K = participation_paths.GAMMA, participation_paths.K
    steps = proof_runs.boosted(one, np.zeros(6), lambda query: gamma * query, 2.0, K, 4)
    off = [step.after.mean(axis=0) - one.best for step in steps if step.k == K]
    np.testing.assert_allclose(path[1:], [one.all(each, each) for each in off], rtol=1e-10)
    few = participation_paths.logistic_path(one, 2.0, 4, 2, 50, np.random.default_rng(0))
    assert (few[0] == path[0]).all()
    assert few[-1].max() > few[-1].mean() > path[-1]
    assert participation_orders.M < participation_paths.CLIENTS


def test_every_subset_is_as_likely_and_every_client_as_frequent() -> None:
    found = participation_paths.subsets(5, 2, 5000, np.random.default_rng(0))
    assert found.shape == (5000, 2)
    assert (found[:, 0] != found[:, 1]).all()
    assert (np.bincount(found[:5].ravel(), minlength=5) == 2).all()
    pairs = np.bincount(np.sort(found, axis=1) @ [5, 1], minlength=25)
    assert (np.abs(np.sort(pairs)[-10:] - 500) < 100).all()
    assert participation_paths.subsets(5, 5, 1, np.random.default_rng(0)).shape == (1, 5)


def test_an_excess_that_is_not_there_is_open() -> None:
    check = participation_orders.EXCESS[0]
    assert check.verdict([-0.3, 0.05]).holds
    assert check.verdict([-0.3, 0.2]).holds is False
    left = check.verdict([-0.3, float("nan")])
    assert (left.holds, left.said) == (None, "exponent at most -0.3; no excess in 1 of 2 seeds")
    assert check.verdict([0.2, float("nan")]).holds is False
    assert check.verdict([float("nan")]).holds is None
    assert np.isnan(participation_orders.power((1, 2, 4), (3.0, 0.1, -0.1)))
    assert participation_orders.power((1, 2, 4), (3.0, 12.0, 48.0)) == pytest.approx(2)


def test_the_price_of_few_clients_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variance like 1/T⁰, or one that does not know m, fails where a bound with another term would not."""
    rng, found = np.random.default_rng(0), Found()
    whole = np.full((257, 1), 0.5)
    participation_orders.by_length(3, whole + 0.01 * rng.random((257, 50)), whole, found)
    assert found.worst[participation_orders.EXCESS[2].claim] > 0.5
    assert found.worst[participation_orders.ROOTS[2].claim] > 0.2

    def path(T: int, m: int, draws: int, local: int) -> np.ndarray:
        return np.full((T + 1, draws), 1.0 if m < participation_paths.CLIENTS else 0.5)

    participation_orders.growth(1, path, participation_orders.Varied(), found)
    assert found.worst[participation_orders.GROWTH[0].claim] > 1


def _less(name: str, theorem: str) -> Callable[..., dict[str, float]]:
    """The bound of a theorem without one of its terms."""
    whole = getattr(theory_bounds, theorem)
    return lambda *of: {key: value for key, value in whole(*of).items() if key != name}


def test_orders_miss_no_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its third or last term a bound falls behind with T, without its first with ‖f⁰‖."""
    rng = np.random.default_rng(1)
    equal = proof_runs.posed(rng, 5, 12, 0.5, same=True)
    weak = [proof_orders.Case(equal, True, False, T=T, K=2) for T in proof_orders.LENGTHS]
    far = [proof_orders.Case(equal, False, False, K=1, T=2, far=far) for far in (4.0, 12.0, 36.0)]
    own = proof_orders.own_points(0.2, (np.arange(13) % 2).astype(float))
    inputs = [proof_orders.Case(own, False, False, 1.0, 1, T) for T in proof_orders.LENGTHS]
    cases = (
        ("weak learner", weak, proof_orders.LENGTHS),
        ("start", far, (4, 12, 36)),
        ("inputs", inputs, proof_orders.LENGTHS),
    )
    for name, some, x in cases:
        assert proof_orders.growth(x, some, rng) <= 0.1
        for theorem in ("theorem_4_1", "theorem_4_3"):
            monkeypatch.setattr(proof_orders, theorem, _less(name, theorem))
        assert proof_orders.growth(x, some, rng) > 0.5
        monkeypatch.undo()
    one = square_orders.copies(rng.random((4, 2)), 0.01)
    assert one.w1.mean() == pytest.approx(0.01, rel=0.5)
    exact, scaled = (square_orders.Case(one, False, gamma, T=64).level() for gamma in (1.0, 0.3))
    assert exact < 1e-3 < scaled


def test_the_adversary_cancels_the_weighted_sum() -> None:
    f = np.random.default_rng(5).standard_normal((2, 2))
    g = remarks_adversary.answers(f, (0, 1), (0.6, 0.4))
    np.testing.assert_allclose(0.6 * g[0] + 0.4 * g[1], 0, atol=1e-15)
    np.testing.assert_allclose(g[1, 1], expit(np.array([f[1, 0] - f[1, 1], f[1, 1] - f[1, 0]])) - [0, 1])


def test_labels_reach_an_oracle_that_is_exact_and_nothing_else() -> None:
    """One step from 0 at x_i is half of η (e_y − ½), as one client of two has the point; the adversary cancels it."""
    found = remarks_labels.relabelled(Honest(), (0, 1))
    np.testing.assert_allclose(found[1], [[0.125, -0.125], [-0.125, 0.125]])
    np.testing.assert_allclose(remarks_labels.relabelled(Honest(), (1, 0)), -found, atol=1e-15)
    np.testing.assert_array_equal(remarks_labels.relabelled(Adversary(), (1, 0)), 0)
    assert np.abs(remarks_labels.relabelled(Adversary(), (1, 1))).max() > 0.1  # it takes labels to be opposite
    for labels in remarks_labels.LABELLINGS:
        np.testing.assert_array_equal(remarks_labels.relabelled(remarks_labels.Told(labels), labels), 0)
    assert np.abs(remarks_labels.relabelled(remarks_labels.Told((0, 1)), (0, 0))).max() > 0.1  # told something else


def test_a_spike_satisfies_5_and_not_10() -> None:
    one = proof_runs.Posed(np.array([[0.01, 0.99], [0.99, 0.01]]), np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5)
    query = np.array([[0.2, 0.5], [-0.4, 0.1]])
    left = remarks_needed.spiked(one)(query) - query
    np.testing.assert_allclose(one.own(left, left), 0.49 * one.own(query, query))
    assert (np.abs(left).max(axis=1) > np.abs(query).max(axis=1)).all()
    np.testing.assert_array_equal(np.sign(left), [[1, 0], [0, 1]])  # towards 0 where the other's label is 1
    assert np.abs(remarks_needed.spiked(one, most=0.6)(query)).max() == 0.6
    exact = remarks_needed.level(one, lambda query: query, 1)
    assert exact < remarks_needed.level(one, remarks_needed.spiked(one), 1)


def test_sums_over_rounds_notice_a_stuck_run() -> None:
    """Where no step is taken the left side grows with T, and the terms that do not are passed."""
    one = proof_runs.posed(np.random.default_rng(8), 5, 12, 0.5, same=True)
    start = np.full(12, 100.0)
    stuck = list(proof_runs.boosted(one, start, lambda query: -one.mu * start + 0 * query, 2.0, 1, 40))
    assert max(proof_sums.quotients(one, stuck, 1.0, 1, short=True)) > 10
    fine = list(proof_runs.boosted(one, np.zeros(12), lambda query: query, 2.0, 1, 40))
    assert max(proof_sums.quotients(one, fine, 1.0, 1, short=True)[1:]) < 1


def test_other_gradients_and_plans() -> None:
    one, found = square_problems.regression(np.random.default_rng(9)), Found()
    square_more.gradients(one, np.random.default_rng(9), found)
    assert all(check.verdict([found.worst[check.claim]]).holds for check in (square_more.ANY, square_more.ONLY))
    plans = Found()
    square_more.plans(np.random.default_rng(10), plans)
    assert plans.worst[square_more.OUTSIDE.claim] <= 1e-9
    assert plans.worst[square_more.SADDLE_OFF.claim] > 1e3


def test_feddyn_ends_at_the_minimum() -> None:
    """And the mean of the clients' solutions does not: they differ."""
    dyn, pd = remarks_inputs.dynamics(np.random.default_rng(6), rounds=800)
    rng = np.random.default_rng(6)
    roots, goals = rng.standard_normal((4, 3, 3)), rng.standard_normal((4, 3))
    A = roots @ roots.transpose(0, 2, 1) / 3 + 0.1 * np.eye(3)
    wanted = np.linalg.solve(A.sum(axis=0), np.einsum("ijk,ik->j", A, goals))
    np.testing.assert_allclose(dyn[-1], wanted, atol=1e-6)
    np.testing.assert_allclose(pd[-1], wanted, atol=1e-6)


# ── networks ──


def test_oracles_quick() -> None:
    optional("torch")
    outcome = perform(find("ffgb-oracles"), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    left = {claim for claim, verdict in outcome.result.claims if not verdict.holds}
    assert fitted_minimax.ANYWHERE.claim in left
    assert left <= {one.claim for one in (fitted_minimax.ANYWHERE, fitted_oracles.EVERYWHERE, fitted_oracles.STEEP)}


def test_queries_are_gradients() -> None:
    client = fs.Client("c", np.eye(3), np.array([0.0, 1.0, 1.0]))
    first, second, _ = fitted_minimax.queries(
        client, 2, np.stack([np.zeros((3, 2)), np.eye(3, 2)]), np.random.default_rng(0)
    )
    np.testing.assert_allclose(first, [[-0.5, 0.5], [0.5, -0.5], [0.5, -0.5]])
    np.testing.assert_allclose(second[0], [expit(1) - 1, 1 - expit(1)])
    np.testing.assert_allclose(second[1], [expit(-1), expit(1) - 1])


def _coloured(seed: int) -> Images:
    rng = np.random.default_rng(seed)
    X, T, P = (rng.standard_normal((n, 108)) for n in (40, 20, 20))
    architecture = fs.CNN((3, 6, 6), ((2, 3),), (4,))
    return Images(X, np.arange(40) % 10, T, np.arange(20) % 10, P, architecture, True, "tiny images")


def test_choices_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")
    monkeypatch.setattr(choices, "small_mnist", tiny)
    monkeypatch.setattr(choices, "small_cifar", _coloured)
    monkeypatch.setattr("fedsolve.reproduce.ffgb.table2.CLIENTS", 4)
    outcome = perform(find("ffgb-choices"), quick=True)
    assert len(outcome.result.rows) == 12
    assert all(verdict.holds is None for verdict in outcome.result.verdicts)


def test_claims_about_choices_can_fail() -> None:
    good = {f"FFGB-Distill, rate {rate:g}": 0.5 for rate in choices.RATES}
    good |= {"FFGB-Distill, rate 10": 0.8, "FFGB-Distill, 256 units": 0.9, "FFGB-Distill, labels at the server": 0.8}
    good |= {
        "FedAvg, step size 0.1": 0.7,
        "FedAvg, step size 1": 0.7,
        "FedAvg, step size 10": 0.1,
        "FedAvg, s = 1": 0.9,
    }
    good |= {"CIFAR-10, with augmentation": 0.5, "CIFAR-10, without augmentation": 0.4}
    assert all(verdict.holds for _, verdict in choices.claims([good], quick=False))
    worse = {name: 1 - value for name, value in good.items()} | {"CIFAR-10, with augmentation": 0.41}
    worse |= {"CIFAR-10, without augmentation": 0.4, "FFGB-Distill, labels at the server": 0.3}
    assert not any(verdict.holds for _, verdict in choices.claims([good, worse], quick=False))


def test_halved_images() -> None:
    raw = np.random.default_rng(7).random((2, 3072))
    found = choices._halved(raw).reshape(2, 3, 16, 16)
    wanted = raw.reshape(2, 32, 32, 3)[1, 4:6, 10:12, 2].mean()
    assert found[1, 2, 2, 5] == pytest.approx((wanted - 0.5) / 0.25)
