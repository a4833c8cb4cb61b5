"""`ffgb-settings`, `-settings-capacity` and `-settings-local`: what they measure with, and that claims can fail."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from fedsolve.networks import CNN
from fedsolve.reproduce import find
from fedsolve.reproduce.ffgb import settings_capacity as capacity
from fedsolve.reproduce.ffgb import settings_division as division
from fedsolve.reproduce.ffgb import settings_facts as facts
from fedsolve.reproduce.ffgb import settings_local as local
from fedsolve.reproduce.ffgb import settings_networks as networks
from fedsolve.reproduce.ffgb import settings_others as others
from fedsolve.reproduce.ffgb import settings_rounds as rounds
from fedsolve.reproduce.ffgb import settings_spaces as spaces
from tests.extras import optional

NOT_SO = {
    *(spaces.DEFINITE, spaces.ANY_LOSS, spaces.EXISTS_ALWAYS, spaces.DATA),
    *(others.LOGARITHM, others.START),
    *(networks.CIFAR, networks.EMNIST, networks.DIGITS, networks.CODE, division.ABSENT),
}


def test_every_check_is_measured_and_all_but_these_hold() -> None:
    found = facts.measured(0)
    assert set(found) == {check.claim for check in facts.CHECKS}
    failed = {check for check in facts.CHECKS if not check.verdict([found[check.claim]]).holds}
    assert failed == NOT_SO


@pytest.mark.parametrize(
    ("name", "shape", "classes"), [("CIFAR", (3, 32, 32), 10), ("CIFAR", (3, 32, 32), 100), ("EMNIST", (1, 28, 28), 26)]
)
def test_weights_of_printed_networks_are_those_of_the_library(
    name: str, shape: tuple[int, int, int], classes: int
) -> None:
    optional("torch")
    from fedsolve.networks.modules import initial_weights

    layers = networks.PRINTED[name]
    cnn = CNN(shape, layers.convolutions, layers.hidden)
    assert layers.weights(shape[0], shape[1], classes) == len(initial_weights(cnn, int(np.prod(shape)), classes, 0))


def test_numbers_in_common_by_hand() -> None:
    one = networks.Layers(((64, 5), (32, 3)), (100, 50))
    assert networks.same(one, one) == 6
    assert networks.same(one, networks.Layers(((64, 5),), (50, 50))) == 3
    assert networks.same(one, networks.Layers((), (100,))) == 1


def test_a_clip_by_norms_keeps_short_vectors_and_directions() -> None:
    f = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert np.allclose(spaces.shortened(f, 1.0), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


def test_minimisers_in_closed_form() -> None:
    """Half of the labels: 0. Any: σ(f) + μf = p. All labels 1 and a small μ: about log(1/(μ log(1/μ)))."""
    shares = np.array([0.5, 0.2, 0.9])
    f = spaces.minimiser(shares, 0.3)
    assert abs(f[0]) < 1e-12
    assert np.allclose(1 / (1 + np.exp(-f)) + 0.3 * f, shares, atol=1e-12)
    far = float(spaces.minimiser(np.ones(1), 1e-8)[0])
    assert far == pytest.approx(-log(1e-8 * far), rel=1e-6)


def test_distances_of_two_points() -> None:
    """Each client at a point of its own, 3 apart: half of the mass moves by 3."""
    tv, w1 = spaces.omegas(np.eye(2), np.array([0.0, 3.0]))
    assert tv == pytest.approx(0.5)
    assert w1 == pytest.approx(1.5)


def test_the_bound_of_li_et_al_by_hand() -> None:
    """K = 1: γ = 16, B = 0.6, v the larger of 9.6 and 17 start. K = 21: γ = 21, B = 3,200.6."""
    assert others.theirs(1, 84, 1.0) == pytest.approx(17 / 100)
    assert others.theirs(1, 84, 0.1) == pytest.approx(9.6 / 100)
    assert others.theirs(21, 4, 1.0) == pytest.approx(16 * 3200.6 / 105)


def test_rounds_of_all_clients_by_hand() -> None:
    """One step from 0 with η = 2/(2μ): g_i = −γ(½ − y_i)/μ; the client that is not used has the other sign."""
    f, apart = rounds.everyone(np.array([[0.0], [1.0]]), [[0]], 1)
    assert f[0] == pytest.approx(-rounds.GAMMA / 2 / rounds.MU)
    assert apart == pytest.approx(rounds.GAMMA / rounds.MU)


def test_divisions_by_hand() -> None:
    """Without shared rows: ten clients of each label. A small concentration: one label; a large one: a tenth each."""
    y = np.repeat(np.arange(10), 5000)
    rng = np.random.default_rng(0)
    for table in (division.theirs(y, 0.0, rng), division.ours(y, 0.0, 0)):
        assert np.array_equal(table, 500 * np.repeat(np.eye(10), 10, axis=0))
    assert division.summary(division.dirichlet(1e-3, rng)) == pytest.approx((1.0, 9.0), abs=0.1)
    top, absent = division.summary(division.dirichlet(1e5, rng))
    assert 0.2 < top < 0.26
    assert absent == 0


def test_twice_the_filters_and_units() -> None:
    assert capacity.WIDE.convolutions == ((128, 5), (128, 5))
    assert capacity.WIDE.hidden == (240, 168)
    assert capacity.WIDE.shape == (1, 28, 28)


@pytest.mark.parametrize(("gains", "holds"), [((0.01, 0.02, 0.03), True), ((0.01, -0.02, 0.03), False)])
def test_capacity_is_judged_by_paired_differences(gains: tuple[float, ...], holds: bool) -> None:
    narrow, wide = capacity.NAMES
    every = [{narrow: 0.1 * place, wide: 0.1 * place + gain} for place, gain in enumerate(gains)]
    assert capacity.claim(every, quick=False).holds is holds


def test_what_local_models_decide() -> None:
    def judged(best: float, distilled: float, pooled: float) -> tuple[bool | None, ...]:
        found = {local.BEST: best, local.MEAN: best / 2, local.DISTILLED: distilled, local.POOLED: pooled}
        return tuple(verdict.holds for _, verdict in local.claims([found], quick=False))

    assert judged(0.3, 0.7, 0.8) == (True, False)
    assert judged(0.5, 0.7, 0.8) == (False, True)
    assert judged(0.2, 0.45, 0.8) == (True, True)


def test_they_are_registered() -> None:
    for name in ("ffgb-settings", "ffgb-settings-capacity", "ffgb-settings-capacity-long", "ffgb-settings-local"):
        assert find(name).paper == "FFGB"
