"""`ffgb-sentences`, `-setting`, `-divergence` and `-distilling`: what they measure with, and that claims can fail."""

from __future__ import annotations

import dataclasses
from math import inf

import numpy as np
import pytest
from scipy.optimize import minimize

import fedsolve as fs
from fedsolve.local import GradientSteps
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.ffgb import (
    distilling,
    divergence,
    methods,
    passing,
    printed,
    printed_claims,
    proof_runs,
    sentences,
    sentences_outputs,
    sentences_runs,
    sentences_spaces,
    sentences_square,
    setting_data,
    setting_made,
    square_problems,
    square_runs,
)
from fedsolve.reproduce.ffgb.images import Images
from fedsolve.reproduce.ffgb.judging import Found
from tests.extras import optional
from tests.reproduce.test_experiments import needs_data
from tests.reproduce.test_ffgb_networks import tiny

NOT_SO = {
    *(sentences_runs.HIDDEN, sentences_spaces.EMBEDDED, sentences_spaces.ALL_G, sentences_square.TIGHTER_FAR),
    *(sentences_square.PENALISED, sentences_square.BY_OUTPUT, sentences_square.KINK, sentences.SOON_ERRORS),
}
BY_SEED = {sentences.ONE_STEP, sentences.ONE_STEP_RIDGE, sentences_runs.STRONGER, sentences_runs.CENTRAL}


# ── sentences ──


def test_quick() -> None:
    outcome = perform(find("ffgb-sentences"), quick=True, seeds=1)
    assert outcome.result.status == "ok"
    left = {claim for claim, verdict in outcome.result.claims if not verdict.holds}
    assert left - {one.claim for one in BY_SEED} == {one.claim for one in NOT_SO}


def test_rounds_by_hand() -> None:
    """One client, one step of 2/(2μ) = 2 from 0 with the whole gradient: f = −2 (½ − y)."""
    labels = np.array([[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(sentences_runs.by_hand(labels, [[0]], 1, 1.0), [-1.0, 1.0])
    np.testing.assert_allclose(sentences_runs.by_hand(labels, [[0, 1]], 1, 1.0), [0.0, 1.0])
    # two steps, γ = ½: h is ¼ and then half of ¼ + σ(−½)
    g = -2 * 0.25
    h = 0.5 * (0.25 + 1 / (1 + np.exp(0.5)))
    wanted = g - 4 / 3 * (h + 0.5 * g)
    np.testing.assert_allclose(sentences_runs.by_hand(labels[:1, :1], [[0]], 2, 0.5), [wanted])


def test_norms_and_rows() -> None:
    f, mass = np.array([3.0, 4.0]), np.array([0.5, 0.5])
    assert sentences_spaces.largest_norm(f, mass, 2) == pytest.approx(np.sqrt(12.5))
    X = np.arange(6.0).reshape(3, 2)
    assert sentences_spaces.held([X.ravel()], X) == 1
    assert sentences_spaces.held([X[0], np.array([2.0])], X) == pytest.approx(1 / 3)


def test_the_minimum_with_a_penalty() -> None:
    one = square_problems.regression(np.random.default_rng(0))
    np.testing.assert_allclose(sentences_square.minimum(one, 1.0), one.y / 2, atol=1e-12)
    np.testing.assert_allclose(sentences_square.minimum(one, 0.0), one.y, atol=1e-12)


def test_without_the_residual_the_end_is_that_of_the_weak_gradient() -> None:
    one = proof_runs.posed(np.random.default_rng(2), sentences.CLIENTS, sentences.POINTS, sentences.MU, same=True)
    f = sentences.limit(one)
    slope = one.gradient(np.tile(f, (sentences.CLIENTS, 1))).mean(axis=0)
    np.testing.assert_allclose(sentences.GAMMA * slope + sentences.MU * f, 0, atol=1e-12)
    assert sentences.without_residual(one, 4, 4096) == pytest.approx(sentences.distance(one, f), rel=1e-4)
    assert sentences.distance(one, one.best) == 0


def test_little_mass_far_away() -> None:
    """A client's own twentieth, 20 from the middle: W_1 is about 20/20 of a step, and ω_TV 1/20 (1 − 1/N)."""
    ratio = sentences_square.own_share(np.random.default_rng(1))
    near = sentences_square.own_share(np.random.default_rng(1), rows=40)
    assert ratio == pytest.approx(near, rel=0.05)  # both radii grow with the share
    assert 1 < ratio < 2


def test_the_nearest_class_mean() -> None:
    _, new = sentences_runs.blobs(np.random.default_rng(3), 1)
    assert 0.8 < sentences_runs._nearest_mean(new) <= 1
    mixed = fs.Client("new", new.X, np.random.default_rng(0).permutation(np.asarray(new.y)))
    assert sentences_runs._nearest_mean(mixed) < 0.4


def test_the_farthest_point_of_all_discs() -> None:
    rng = np.random.default_rng(5)
    centres, a = rng.random((6, 2)), np.array([0.6, 0.8])
    radii = np.linalg.norm(centres - centres.mean(axis=0), axis=1) + 0.2
    found = sentences_outputs.farthest(centres, radii, a)
    room = {"type": "ineq", "fun": lambda v: radii**2 - ((v - centres) ** 2).sum(axis=1)}
    wanted = minimize(lambda v: -v @ a, centres.mean(axis=0), constraints=room, method="SLSQP").x
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_outputs_in_the_plane() -> None:
    """Both extensions meet the labels; (13) for each output is steeper than L, and a bound with L² for L is missed."""
    rng = np.random.default_rng(6)
    one = sentences_outputs.posed(rng.random((6, 2)), 0.3, np.array([1.0, 0.0]), sentences_outputs.turned(rng, 2))
    joint = sentences_outputs.kirszbraun(one, np.array([0.0, 1.0]))
    for u in (one.coordinates, joint):
        for each, own in zip(u, one.inputs.inside, strict=True):
            np.testing.assert_allclose(each[own], one.y[own], atol=1e-12)
    assert sentences_outputs.steepest(one, joint) <= 1 + 1e-6 < sentences_outputs.steepest(one, one.coordinates)
    assert sentences_outputs.steepest(one, one.coordinates) <= np.sqrt(2) + 1e-9
    f = sentences_outputs.algorithm3(joint, sentences_outputs.scaled(1.0), 2, 8)
    np.testing.assert_allclose(f, joint.mean(axis=0), atol=1e-12)
    phi = one.coordinates
    moved = sentences_outputs.moved(one, 0.3, np.array([1.0, 0.0]))(phi, 1) - phi
    for each, left, own in zip(phi, moved, one.inputs.inside, strict=True):  # (14) with equality, in the norm of R^c
        assert np.linalg.norm(left[own], axis=1).max() == pytest.approx(0.7 * np.linalg.norm(each[own], axis=1).max())


def test_one_output_is_algorithm_3() -> None:
    rng = np.random.default_rng(7)
    one = sentences_outputs.posed(rng.random((5, 2)), 0.2, np.array([0.0, 1.0]), sentences_outputs.turned(rng, 1))
    np.testing.assert_allclose(one.coordinates[:, :, 0], one.inputs.u, atol=1e-12)
    *_, last = square_runs.algorithm3(one.inputs, square_problems.scaled(0.3), 4.0, 3, 4)
    f = sentences_outputs.algorithm3(one.coordinates, sentences_outputs.scaled(0.3), 3, 4)
    np.testing.assert_allclose(f[:, 0], last.after.mean(axis=0), atol=1e-12)
    assert one.radius(1.0) == pytest.approx(one.inputs.radius)


def test_outputs_notice_extensions_that_do_not_end_at_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that are 0 off a client's rows: the level no longer goes to 0 with the shift."""

    def zero_off(one: sentences_outputs.Outputs) -> np.ndarray:
        return np.where(one.inputs.inside[:, :, None], one.y[None], 0.0)

    monkeypatch.setattr(sentences_outputs.Outputs, "coordinates", property(zero_off))
    found = Found()
    sentences_outputs.measure(np.random.default_rng(8), found)
    assert found.worst[sentences_outputs.ORDER.claim] > 0.5
    assert found.worst[sentences_outputs.RADIUS.claim] > 1


# ── the setting ──


def test_what_is_made_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")
    assert all(verdict.holds for verdict in setting_made.budgets().values())
    monkeypatch.setattr(methods, "CLIP", 4.0)
    monkeypatch.setattr(methods, "FUNCTIONAL", (9.0,))
    wrong = {claim for claim, verdict in setting_made.budgets().items() if not verdict.holds}
    assert wrong == {"all clients and servers clip gradients to norm 5", "FFGB-Distill's rate is 10"}
    monkeypatch.setattr(methods, "BATCH", 32)
    assert sum(not verdict.holds for verdict in setting_made.budgets().values()) == 4


def test_weights_by_hand() -> None:
    optional("torch")
    assert setting_made.conv(3) == 64 * 76 + 64 * 1601
    assert setting_made.dense((3, 2, 1)) == 2 * 4 + 3
    every = {name: tiny(0) for name in ("cifar10", "cifar100", "emnist-d", "emnist-l")}
    assert not any(verdict.holds for verdict in setting_made.networks(every).values())


def test_divisions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(setting_data.one_split(s) for s in setting_data.SHARES)

    def at_random(y: np.ndarray, scheme: object, clients: int, seed: int) -> list[np.ndarray]:
        return np.split(np.random.default_rng(seed).permutation(len(y)), clients)

    monkeypatch.setattr(setting_data, "split_indices", at_random)
    assert not setting_data.one_split(0.1)


def test_public_rows_of_another_set() -> None:
    every = {name: tiny(place) for place, name in enumerate(setting_data.OTHER)}
    assert not setting_data.divided(every)[
        "public rows: CIFAR-100 for CIFAR-10, capitals for digits, and the reverse, all of them"
    ].holds
    swapped = {}
    for name, other in setting_data.OTHER.items():
        theirs = every[other]
        swapped[name] = dataclasses.replace(every[name], public=np.concatenate([theirs.X, theirs.X_test])[::-1])
    assert setting_data.divided(swapped)[
        "public rows: CIFAR-100 for CIFAR-10, capitals for digits, and the reverse, all of them"
    ].holds


def test_claims_about_the_printed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    found = printed_claims.claims()
    assert [claim for claim, verdict in found.items() if not verdict.holds] == [
        "printed: FFGB-Distill reaches every target within 5 models",
        "printed: … at s = 0.1, the highest heterogeneity",
    ]
    assert printed_claims.halves("FFGB-Distill", "FedDyn").said == "at most 0.46 of them"  # 17 of 37
    assert not printed_claims.halves("FedDyn", "FedAvg").holds
    assert dict(printed_claims.rows("cifar100:0.1"))["cifar100:0.1, 0.20"]["FedAvg"] == inf
    table = {"cifar10:0.1": (("0.50", "9", "8", "7", "6"),), "cifar100:0.1": (("0.20", "9", "8", "7", "9"),)}
    monkeypatch.setattr(printed_claims, "TABLE2", table)
    holds = {claim: verdict.holds for claim, verdict in printed_claims.claims().items()}
    assert [claim for claim, one in holds.items() if one] == []
    assert printed.METHODS == ("FFGB-Distill", "FedAvg-Distill", "FedDyn", "FedAvg")


@needs_data
def test_the_setting() -> None:
    optional("torch")
    outcome = perform(find("ffgb-setting"))
    assert {claim for claim, one in outcome.result.claims if not one.holds} == {
        "printed: FFGB-Distill reaches every target within 5 models",
        "printed: … at s = 0.1, the highest heterogeneity",
    }


# ── divergence ──


def test_thresholds() -> None:
    assert divergence.threshold((4.0,)) == pytest.approx(0.5)
    edge = divergence.threshold((1.0, 4.0))
    assert abs(np.mean((1 - edge * np.array([1.0, 4.0])) ** divergence.K)) == pytest.approx(1)
    assert divergence.quadratics((4.0,), 0.25) == 0
    assert divergence.quadratics((4.0,), 0.51, rounds=1) == pytest.approx(1.04**divergence.K)


def test_divergence_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")
    monkeypatch.setattr(divergence, "small_mnist", tiny)
    monkeypatch.setattr("fedsolve.reproduce.ffgb.table2.CLIENTS", 4)
    outcome = perform(find("ffgb-divergence"), quick=True)
    assert len(outcome.result.rows) == 2 * len(divergence.STEPS)
    assert [one.holds for one in outcome.result.verdicts] == [None] * 6 + [True] * 2


def test_claims_about_divergence_can_fail() -> None:
    calm = {step: (0.5 + step / 100, 0.5, 1.0) for step in divergence.STEPS}
    wild = {
        **{step: (0.9, 0.5, 1.0) for step in methods.STEP_SIZES},
        **dict.fromkeys(divergence.LARGER, (0.1, 3.0, 9.0)),
    }
    found = [verdict.holds for _, verdict in divergence.claims([{"clipped": calm, "not clipped": calm}], quick=False)]
    assert found == [False, False, False, False, True, False, True, True]
    found = [verdict.holds for _, verdict in divergence.claims([{"clipped": wild, "not clipped": wild}], quick=False)]
    assert found == [True] * 8


# ── distilling ──


def test_distilling_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")

    def same_letters(seed: int, images: Images) -> np.ndarray:
        return np.asarray(images.public)

    monkeypatch.setattr(distilling, "small_mnist", tiny)
    monkeypatch.setattr(distilling, "letters", same_letters)
    monkeypatch.setattr(distilling, "CLIENTS", 4)
    outcome = perform(find("ffgb-distilling"), quick=True, seeds=1)
    found = {str(row[0]): row[1] for row in outcome.result.rows}
    assert found[distilling.LETTERS] == found[distilling.OURS]  # the same public rows
    assert [one.holds for one in outcome.result.verdicts][:2] == [True, True]
    assert all(one.holds is None for one in outcome.result.verdicts[2:])


def test_linear_networks_show_what_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")
    assert distilling.linear(1) < 1e-3
    assert distilling.squares(1) < 1e-3

    def short(**kwargs: object) -> GradientSteps:
        return GradientSteps(steps=1, step_size=0.01)

    monkeypatch.setattr(distilling, "Adam", short)
    assert distilling.linear(1) > 0.01
    assert distilling.squares(1) > 0.01


def test_noise_has_the_digits_greys() -> None:
    images = tiny(2)
    found = distilling.noise(0, images)
    np.testing.assert_array_equal(np.sort(found, axis=None), np.sort(images.public, axis=None))
    assert not np.array_equal(found, images.public)


def test_claims_about_distilling_can_fail() -> None:
    good = dict.fromkeys((distilling.LINEAR, distilling.SQUARES), 1e-5)
    good |= {distilling.OURS: 0.9, distilling.LETTERS: 0.85, distilling.NOISE: 0.5}
    good |= {distilling.FUSED: 0.8, distilling.SAME_LOSS: 0.8, distilling.SAME_SOLVER: 0.8}
    assert all(verdict.holds for _, verdict in distilling.claims([good], quick=False))
    bad = dict.fromkeys((distilling.LINEAR, distilling.SQUARES), 1e-2)
    bad |= {distilling.OURS: 0.6, distilling.LETTERS: 0.4, distilling.NOISE: 0.55}
    bad |= {distilling.FUSED: 0.8, distilling.SAME_LOSS: 0.6, distilling.SAME_SOLVER: 0.59}
    assert not any(verdict.holds for _, verdict in distilling.claims([good, bad], quick=False))
    assert fs.MLP(()).hidden == ()


# ── in passing ──


def test_passing_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    optional("torch")
    monkeypatch.setattr(passing, "small_mnist", tiny)
    monkeypatch.setattr(passing, "CLIENTS", 4)
    outcome = perform(find("ffgb-passing"), quick=True, seeds=1)
    found = {str(row[0]) for row in outcome.result.rows}
    assert {passing.WIDE, passing.EARLY, passing.UNLIKE, passing.ALIKE} < found
    assert all(one.holds is None for one in outcome.result.verdicts)


def test_paired_differences_count_in_standard_errors() -> None:
    noisy = [{"a": 0.5 + 0.1 * place, "b": 0.5} for place in (-1, 0, 1, 0, 1)]  # mean 0.02, its error 0.037
    assert not passing.above(noisy, "a", "b", 0.0, quick=False).holds
    steady = [{"a": 0.52 + 0.001 * place, "b": 0.5} for place in range(5)]
    assert passing.above(steady, "a", "b", 0.0, quick=False).holds
    assert not passing.above(steady, "a", "b", 0.03, quick=False).holds
    assert not passing.above(steady, "b", "a", 0.0, quick=False).holds
    assert not passing.above(steady[:1], "a", "b", 0.0, quick=False).holds  # no error from one seed


def test_claims_in_passing_can_fail() -> None:
    names = [passing.rated(rate) for rate in passing.RATES] + [passing.WIDE, passing.EARLY, passing.UNLIKE]
    names += [passing.ALIKE, *(passing.twice(method.name) for method in passing.OTHERS)]
    flat = [dict.fromkeys(names, 0.5) | {passing.rated(10.0): 0.5 + 0.01 * place} for place in (-1, 1)]
    assert not any(verdict.holds for _, verdict in passing.claims(flat, quick=False))
    good = dict.fromkeys(names, 0.5) | {passing.rated(10.0): 0.7, passing.WIDE: 0.8, passing.EARLY: 0.7}
    good |= {passing.ALIKE: 0.9}
    assert all(verdict.holds for _, verdict in passing.claims([good, good], quick=False))
