"""FedNewton's bounds for every parameter: operators on orthogonal directions, chances in closed form, any operators."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedsolve.diagnose import upsilon
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import bernstein, lemmas, reached
from fedsolve.reproduce.fednewton.figure4_claims import _apart
from fedsolve.reproduce.fednewton.methods import SHOWN
from fedsolve.reproduce.fednewton.population import Operators
from fedsolve.reproduce.fednewton.spiky import (
    Spiky,
    at_least_once,
    beyond,
    enough,
    first_bound,
    misses,
    misses_corrected,
    reaches_one,
    spread,
)
from fedsolve.reproduce.tally import Tally


@pytest.mark.parametrize(("kappa", "directions"), [(1.0, None), (3.0, None), (1.0, 7)])
def test_a_spiky_distribution_has_the_operators_of_the_library(kappa: float, directions: int | None) -> None:
    of, rng = Spiky(0.1, kappa, directions), np.random.default_rng(0)
    clients = [of.counts(200, rng) for _ in range(3)]
    samples, same = [np.diag(of.seen(one)) for one in clients], [of.value * np.eye(of.many)] * 3
    ops = Operators(samples, same, 0.1)
    assert of.value * of.many == pytest.approx(kappa**2)
    assert of.P(clients[0]) == pytest.approx(ops.P(samples[0], same[0]))
    assert of.R(clients[0]) == pytest.approx(ops.R(samples[0], same[0]))
    assert of.upsilon(clients) == pytest.approx(upsilon(samples, same, same[0], 0.1))
    root = np.linalg.inv(np.sqrt(same[0] + 0.1 * np.eye(of.many)))
    assert of.distance(clients[0]) == pytest.approx(np.linalg.norm(root @ (same[0] - samples[0])))


def test_the_noise_of_lemma_3_has_the_mean_square_of_its_variance() -> None:
    of, rng = Spiky(0.01, 1.0, 30), np.random.default_rng(1)
    squares = [of.noise(of.counts(50, rng), rng) ** 2 for _ in range(4000)]
    assert np.mean(squares) == pytest.approx(of.dimension / 50, rel=0.03)
    assert spread(of, 50) == pytest.approx(lemmas.spread_of(50, 0.01, of.dimension))


def test_bounds_are_those_of_the_lemmas() -> None:
    assert first_bound(200, 0.01, lemmas.LOG) == pytest.approx(lemmas.first_bound(200, 0.01))
    assert enough(0.05, 0.1) == math.ceil(29 * 2 * math.log(10) / 0.05)
    assert enough(0.01, 1 / 3, 10.0) == math.ceil(29 * 101 * math.log(3) / 0.01)


def test_chances_are_those_of_poisson_counts() -> None:
    assert at_least_once(0.1, 10) == pytest.approx(1 - 0.9**10)
    log = 0.02  # so small that both sides can be missed
    limit = 2 * 100 * first_bound(100, 1.0, log)
    above, below = beyond(100.0, log)
    counts = stats.poisson(100).rvs(400_000, random_state=0)
    assert above == pytest.approx((counts > 100 + limit).mean(), rel=0.05)
    assert below == pytest.approx((counts < 100 - limit).mean(), rel=0.05)


def test_what_holds_for_a_few_directions_fails_for_many() -> None:
    assert misses(0.01, 1 / 3, 1e6)[1] < 1e-3
    assert misses(1e-10, 1 / 3, 1e6)[0] > 0.9
    assert misses_corrected(1e-10, 1 / 3, 1e6) < 1e-6
    assert reaches_one(1e-4, 1 / 3) < 0.01
    assert reaches_one(1e-10, 1 / 3) > 0.9


def test_a_count_of_a_third_is_enough_for_one() -> None:
    of = Spiky(0.1)
    counts = np.full(10, 60.0)
    counts[0], counts[1:] = 20.0, counts[1:] + 40 / 9  # the mean is 60
    assert of.P(counts) * of.R(counts) >= 0.5
    counts[0], counts[1:] = 21.0, (600 - 21) / 9
    assert of.P(counts) * of.R(counts) < 0.5


def test_bernsteins_chance_by_hand_and_a_wrong_bound() -> None:
    by_hand = sum(math.comb(10, k) * 0.3**k * 0.7 ** (10 - k) for k in range(11) if abs(k / 10 - 0.3) > 0.25)
    assert bernstein.miss(0.3, 10, 0.25) == pytest.approx(by_hand)
    assert bernstein.worst() <= 1
    assert bernstein.worst(variance=1.5) > 1
    assert bernstein.worst(most=0.0) > 1


def test_steps_hold_for_any_operators_and_wrong_ones_do_not() -> None:
    one = reached.Four.draw(np.random.default_rng(0), 2)
    for step in reached.STEPS:
        assert reached.shares(step, one, step.right).max() <= reached.SLACK
        assert reached.shares(step, one, lambda these, own=step: 0.9 * own.right(these)).max() > 1  # type: ignore[misc]
    A = np.array([[[2.0, 1.0], [1.0, 2.0]]])
    np.testing.assert_allclose(reached.power(A, 0.5) @ reached.power(A, 0.5), A)
    assert reached.norms(A) == pytest.approx([3.0])


def test_proposition_4_in_one_dimension_is_that_of_dkrr() -> None:
    rng = np.random.default_rng(3)
    moments, seen, l2 = rng.standard_normal(3), rng.uniform(0.1, 1, 3), 0.1
    fits, pooled, other = moments / (seen + l2), moments.mean() / (seen.mean() + l2), 0.3
    one = reached.Clients(np.full((1, 3), 0.5), seen[None], (fits - other)[None], np.array([[l2]]))
    assert one.left()[0] == pytest.approx(abs(fits.mean() - pooled))
    many = reached.Clients.draw(rng, 3)
    assert 0.9 < many.most() <= reached.SLACK
    assert min(many.most(part) for part in reached.PARTS) > 1


def test_similar_errors_are_compared_by_their_medians() -> None:
    tally = Tally[tuple[float, float]]()
    tally.add((0.0, 0.1), {name: 1.0 + 0.1 * k for k, name in enumerate(SHOWN)})
    assert _apart(tally, (0.0, 0.1)) == pytest.approx(1.0 + 0.1 * (len(SHOWN) - 1))


@pytest.mark.parametrize("name", ["fednewton-spiky", "fednewton-reached"])
def test_quick_forms_run_and_decide_nothing(name: str) -> None:
    outcome = perform(find(name), quick=True)
    assert outcome.result.status == "ok"
    assert all(verdict.holds is None for _, verdict in outcome.result.claims)
