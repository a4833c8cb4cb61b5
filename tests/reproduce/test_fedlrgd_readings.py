"""`fedlrgd-readings`: what it measures with, against closed forms, hand computations and other means."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.reproduce.fedlrgd import dimensions, readings
from fedsolve.reproduce.fedlrgd import readings_low_rank as low_rank
from fedsolve.reproduce.fedlrgd import readings_methods as methods
from fedsolve.reproduce.fedlrgd import readings_monomials as monomials
from fedsolve.reproduce.fedlrgd import readings_stragglers as stragglers
from fedsolve.reproduce.fedlrgd import readings_weights as weights
from fedsolve.reproduce.fedlrgd import small_nets as networks


def test_claims_have_names_of_their_own() -> None:
    assert len({check.claim for check in readings.CHECKS}) == len(readings.CHECKS)


# ── networks ──


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_of_a_network(relu: bool) -> None:
    """By differences of the loss; the mean of the samples' is that of the mean loss."""
    rng = np.random.default_rng(0)
    net, X, Y = networks.Net((5, 4, 4, 3), relu), rng.random((7, 5)), np.eye(3)[rng.integers(3, size=7)]
    theta = net.start(rng) + 0.1 * rng.standard_normal(24 + 20 + 15)

    def loss(at: np.ndarray) -> float:
        out = net.values(at, X)[-1]
        return float((np.log(np.exp(out).sum(axis=1)) - (out * Y).sum(axis=1)).mean())

    slope = net.gradient(theta, X, Y)
    for k in range(len(theta)):
        step = 1e-6 * np.eye(len(theta))[k]
        assert slope[k] == pytest.approx((loss(theta + step) - loss(theta - step)) / 2e-6, abs=1e-7)
    np.testing.assert_allclose(net.gradients(theta, X, Y).mean(axis=0), slope, atol=1e-14)


def test_the_hessian_of_softmax_regression() -> None:
    """In closed form: the mean of (diag(s) − ssᵀ) ⊗ xxᵀ."""
    rng = np.random.default_rng(1)
    net, X, Y = networks.Net((4, 3), relu=False), rng.random((20, 4)), np.eye(3)[rng.integers(3, size=20)]
    theta = net.start(rng)
    expected = np.zeros((15, 15))
    for x in np.hstack([X, np.ones((20, 1))]):
        share = np.exp(x @ theta.reshape(5, 3))
        share /= share.sum()
        expected += np.kron(np.outer(x, x), np.diag(share) - np.outer(share, share)) / 20
    np.testing.assert_allclose(net.hessian(theta, X, Y), expected, atol=1e-8)


def test_energy_at_a_rank() -> None:
    assert networks.held(np.diag([3.0, 2.0, 1.0]), 2) == pytest.approx(13 / 14)


def test_scatter_by_hand() -> None:
    """Means −1 and 1, samples ½ from them: ¼ over 1; opposite, as −1/(K − 1) has it for two classes."""
    found = weights.scatter(np.array([[-1.5], [-0.5], [0.5], [1.5]]), np.repeat(np.eye(2), 2, axis=0))
    assert found == pytest.approx((0.25, 0.0))


# ── partitions ──


def test_coverings() -> None:
    """d = 1: the least number of intervals of length 1 in [0, 1] is one, of length ½ two. No ball can be left out."""
    rng = np.random.default_rng(2)
    assert [len(monomials.covering(rng, d, 0.5 / d)) for d in (1, 2, 3)] == [1, 1, 1]
    assert 2 <= len(monomials.covering(rng, 1, 4.0)) <= 4
    for d, q in ((1, 4.0), (2, 2.7), (3, 2.0)):
        centres, points = monomials.covering(rng, d, q), monomials.grid(d)
        covers = np.abs(centres[:, None] - points).sum(axis=2) <= 1 / q + 1e-12
        assert covers.any(axis=0).all()
        assert all(not np.delete(covers, j, axis=0).any(axis=0).all() for j in range(len(centres)))


def test_points_of_a_piece_are_in_its_ball_and_in_none_before() -> None:
    rng = np.random.default_rng(3)
    centres, q = monomials.covering(rng, 2, 2.0), 2.0
    for j in range(len(centres)):
        far = np.abs(monomials.inside(rng, centres, j, q)[:, None] - centres).sum(axis=2)
        assert len(far)
        assert (far[:, j] <= 1 / q).all()
        assert (far[:, :j] > 1 / q).all()
    assert len(monomials.inside(rng, np.vstack([centres, centres[0]]), len(centres), q)) == 0


def test_independent_columns() -> None:
    line = np.linspace(0, 1, 50)[:, None] * np.array([1.0, 2.0])  # the points are on a line: x_2 = 2x_1
    assert monomials.independent(monomials.monomials(line, 1))[1] == 2
    assert monomials.independent(monomials.monomials(np.random.default_rng(4).random((50, 2)), 1))[1] == 3


# ── low rank, methods ──


def test_weights_of_samples_that_the_server_has() -> None:
    """Clients with the server's samples, twice: weights of 1 + 2."""
    rng = np.random.default_rng(5)
    u, y = np.tile(rng.random((4, 3)), (3, 1)), np.tile(rng.random(4), 3)
    problem = low_rank.Rough(u, y)
    np.testing.assert_allclose(low_rank.weights(problem, rng.uniform(-1, 1, (4, 3))), 3, rtol=1e-8)
    np.testing.assert_allclose(problem.each(problem.best[None])[:, 0].mean(axis=0), 0, atol=1e-12)


def test_averaging_ends_where_one_more_round_does_not_move_it() -> None:
    """One client: at its minimum, which is that of FedSplit, too."""
    rng = np.random.default_rng(6)
    H, c = (one[:1] for one in methods.clients(rng, apart=True))
    best = np.linalg.solve(H[0], c[0])
    np.testing.assert_allclose(methods.averaged(H, c, rng, until=1e-16)[0], best, rtol=1e-5)
    np.testing.assert_allclose(methods._split(H, c), best, rtol=1e-8)


def test_rounding_has_no_bias() -> None:
    rng = np.random.default_rng(7)
    moves = np.array([[1.0, 0.3, -0.55]])
    found = methods.rounded(np.tile(moves, (20_000, 1)), 3, rng)
    np.testing.assert_allclose(found.mean(axis=0), moves[0], atol=0.01)
    assert len(np.unique(found[:, 1].round(9))) == 2


def test_operations_by_hand() -> None:
    """Linear regression, 10 inputs and a bias: 11 products forward, 11 for the derivative, 11 to move."""
    assert methods._operations((10, 1), 1) == 2
    assert methods._operations((10, 1), 400) == 800


def test_slow_clients_first_take_longer() -> None:
    first, last, all_of = stragglers._times(np.random.default_rng(8))
    assert 0 < first < last
    assert all_of > 0


# ── dimensions ──


def test_the_rank_that_leaves_a_share() -> None:
    """Left of 3, 2, 1: by rank 0 all, by 1 √5/√14, by 2 1/√14, by 3 nothing."""
    M = np.diag([3.0, 2.0, 1.0])
    assert [dimensions.needed(M, left) for left in (1.0, 0.6, 0.3, 0.2)] == [0, 1, 2, 3]


def test_monomials_on_two_pieces_of_the_square() -> None:
    """Three samples on each piece, not on a line: Φ can be inverted; with two and four, or on a line, it cannot."""
    x = np.array([[0.1, 0.1], [0.2, 0.4], [0.3, 0.2], [0.7, 0.6], [0.8, 0.9], [0.9, 0.7]])
    half = np.array([0, 0, 0, 1, 1, 1])
    assert dimensions._inverted(x, half, 2, 1)
    assert not dimensions._inverted(x, np.array([0, 0, 1, 1, 1, 1]), 2, 1)
    line = x.copy()
    line[:3, 1] = line[:3, 0]
    assert not dimensions._inverted(line, half, 2, 1)


def test_polynomials_instead_of_constants() -> None:
    """η = 1 has l = 0, the constants; η = 4 has l = 3, with an error of the fourth order."""
    rng = np.random.default_rng(9)
    assert dimensions._constants(rng, 2, 4.0, cells=3) > 10
    assert dimensions._constants(rng, 2, 1.0, cells=3) == 1
