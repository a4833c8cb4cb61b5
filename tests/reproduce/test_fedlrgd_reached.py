"""`fedlrgd-sentences`: bounds that are reached, queues, times, risks, distances and orders; wrong formulas fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce.fedlrgd import (
    sentences_distances,
    sentences_epochs,
    sentences_limits,
    sentences_queues,
    sentences_reached,
    sentences_risks,
)
from fedsolve.reproduce.fedlrgd.remarks_times import departures
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU
from fedsolve.reproduce.fedlrgd.theory_times import slowest_mean

# ── bounds that are reached ──


def test_a_step_on_a_quadratic() -> None:
    rng = np.random.default_rng(0)
    H, vectors = sentences_reached.quadratic(rng, 10.0, 5)
    scales = np.linalg.eigvalsh(H)
    assert scales[-1] / scales[0] == pytest.approx(10)
    np.testing.assert_allclose(H @ vectors[:, -1], scales[-1] * vectors[:, -1], atol=1e-12)
    leading = sentences_reached.drop_ratio(H, vectors[:, -1], float(scales[-1]))
    assert leading == pytest.approx(1, abs=1e-12)
    # ‖∇F‖²/(1.4 L_1) instead, which a logistic regression passes, is more than what a step lowers F by
    assert leading * 2 / 1.4 > 1.4
    assert sentences_reached.drop_ratio(H, vectors[:, 0], float(scales[-1])) == pytest.approx(1 / (2 - 0.1))
    # of a step with the wrong L_1
    assert sentences_reached.drop_ratio(H, vectors[:, -1], 1.1 * float(scales[-1])) != pytest.approx(1, abs=1e-3)


def test_lemma_2_is_reached_only_from_there() -> None:
    H, vectors = sentences_reached.quadratic(np.random.default_rng(1), 10.0, 4)
    assert sentences_reached.against(H, vectors[:, 0], 0.7) == pytest.approx([1, 1, 1], abs=1e-9)
    assert max(sentences_reached.against(H, vectors[:, -1], 0.7)) < 0.9
    assert sentences_reached.drift(H, vectors[:, 0], 0.7, 200) > 0.99
    assert sentences_reached.drift(H, vectors[:, 0], 0.7, 5) < 0.5


def test_cosines_by_definition() -> None:
    theta = np.random.default_rng(2).uniform(0, 2 * np.pi, (50, 3))
    step = np.sin(theta)
    drop = np.cos(theta).sum(axis=1) - np.cos(theta + step).sum(axis=1)
    found = 2 * (np.sin(theta + step / 2) * np.sin(step / 2)).sum(axis=1)
    np.testing.assert_allclose(found, drop, atol=1e-12)
    assert np.linalg.eigvalsh(-np.diag(np.cos([0.1, 3.0])))[0] < 0  # Σ cos θ_i is not convex


def test_the_gradient_by_differences() -> None:
    rng = np.random.default_rng(3)
    x, theta, other = rng.random((1, 4)), rng.standard_normal((1, 4)), rng.standard_normal((1, 4))

    def gradient(at: np.ndarray) -> np.ndarray:
        return np.asarray((1 / (1 + np.exp(-(x @ at.T))) - 0.3) * x + MU * at)

    by_hand = np.linalg.norm(gradient(other) - gradient(theta)) / np.linalg.norm(other - theta)
    assert sentences_reached.moved(x, theta, other)[0] == pytest.approx(by_hand)


# ── queues and times ──


def test_queues_by_their_rate() -> None:
    rng = np.random.default_rng(4)
    assert sentences_queues.distance(departures(rng, 1000, 20, 4.0)[:, -1], 20) < 1
    assert sentences_queues.distance(departures(rng, 1000, 20, 4.0)[:, -1], 23) > 1
    assert sentences_queues.distance(departures(rng, 1000, 20, 1.1, steady=False)[:, -1], 20) > 1
    assert (departures(rng, 100, 3, steady=False)[:, 0] > 0).all()


def test_lengths_of_queues() -> None:
    first, second = sentences_queues.lengths(np.random.default_rng(5), 3.0, (1, 2))
    assert first == pytest.approx(1 / 4, abs=0.05)  # an arrival has the probability 1/(1 + ν)
    assert second == pytest.approx(2 / 16 + 3 / 16 + 0 / 16, abs=0.05)


def test_expected_times() -> None:
    assert sentences_epochs.expected(7, 1e3) == pytest.approx(7 + slowest_mean(7, 1000), rel=1e-6)
    assert sentences_epochs.expected(1, 1e6) == pytest.approx(1 + math.log(1e6) + 0.57722, rel=1e-4)
    assert sentences_epochs.expected(200, 1e4) == pytest.approx(200 + slowest_mean(200, 10_000), rel=1e-5)


def test_gumbel() -> None:
    assert sentences_epochs.apart(1, 2) == pytest.approx(0.27 / 100, rel=0.1)  # 2e^(−2)/k
    assert sentences_epochs.apart(20, 8) < sentences_epochs.apart(20, 4) / 1.5


# ── risks, distances, orders ──


def test_the_true_risk() -> None:
    rng = np.random.default_rng(6)
    far = sentences_risks.farthest(rng, 400_000, sentences_risks.true_risk())
    assert 0 < far < 0.02
    assert sentences_risks.farthest(rng, 400_000, sentences_risks.true_risk() + 0.1) > 0.08


def test_a_slower_rate_of_risks_is_seen() -> None:
    rng = np.random.default_rng(7)
    each = [np.abs(rng.standard_normal(4000)) for _ in sentences_risks.SAMPLES]
    found = sentences_risks.spread(each)
    assert found[sentences_risks.MEAN] < sentences_risks.MEAN.most
    assert found[sentences_risks.QUANTILES] < sentences_risks.QUANTILES.most
    slower = [one * n**0.1 for one, n in zip(each, sentences_risks.SAMPLES, strict=True)]  # n^(−0.4)
    found = sentences_risks.spread(slower)
    assert found[sentences_risks.MEAN] > sentences_risks.MEAN.most
    assert found[sentences_risks.QUANTILES] > sentences_risks.QUANTILES.most


def test_distances() -> None:
    rng = np.random.default_rng(8)
    points = rng.standard_normal((10, sentences_distances.WIDE))
    apart = [float(np.square(a - b).sum()) for i, a in enumerate(points) for b in points[i + 1 :]]
    np.testing.assert_allclose(sentences_distances._squares(points), apart)
    assert sentences_distances.dimensions(20, 0.5) == 144
    assert sentences_distances.best(rng, points, 20_000, enough=0.0) < 0.05
    assert sentences_distances.best(rng, points, 3, enough=0.0) > 0.5
    assert 20 < np.median([sentences_distances.needed(rng, 20, 0.5) for _ in range(21)]) < 144


def test_orders_of_both_costs() -> None:
    found = sentences_limits._theorem_3()
    assert max(found.values()) < 0.005  # so that ⅔ or 0.8 for ¾ would be seen
    small = [sentences_limits.Constants(phi=phi).cost() for phi in (1e-6, 1e-3)]
    assert math.log(small[1] / small[0]) / math.log(1e3) < 0.9  # where φ is small the order is another
    order, ratio = sentences_limits.both_costs(0.5, 1, 1.0, 0.5, 6, 10)
    assert 0 < ratio < math.inf
    assert order == pytest.approx(ratio * 8 * (10 / (1e8) ** -0.5) ** 0.25, rel=1e-6)
