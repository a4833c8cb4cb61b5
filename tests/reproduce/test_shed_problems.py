"""The problems of the SHED paper: who has which data, and iteration counts beside a reference implementation."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.reproduce.shed import problems as shed
from fedsolve.reproduce.shed.gaps import follow, optimum

pytestmark = pytest.mark.skipif("FEDSOLVE_DATA" not in os.environ, reason="FEDSOLVE_DATA is not set: no real data sets")


def labels_of(problem: shed.Problem, features: int) -> list[list[int]]:
    """The digits of each agent's images, found again by their pixels."""
    X, y = shed.principal("emnist_digits", features)
    known = {row.tobytes(): int(label) for row, label in zip(X, y, strict=True)}
    return [sorted(known[row.tobytes()] for row in client.X) for client in problem.clients]


def test_the_mean_is_kept() -> None:
    """Against scikit-learn's PCA, whose projections are centred, up to the signs of the axes."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = fs.data.load("emnist_digits").X
    pca = decomposition.PCA(10, svd_solver="covariance_eigh").fit(X)
    ours, _ = shed.principal("emnist_digits", 10)
    theirs = X @ pca.components_.T
    theirs *= np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    # What centring would take away: the large eigenvalue that makes the problem ill-conditioned.
    kept, centred = (np.linalg.eigvalsh(A.T @ A / len(A))[-1] for A in (ours, ours - ours.mean(axis=0)))
    assert kept > 5 * centred


@pytest.mark.parametrize("iid", [True, False])
def test_half_of_every_agent_s_images_are_of_the_target_class(iid: bool) -> None:
    problem = shed.images("emnist_digits", 20, iid=iid, seed=3)
    assert len(problem.clients) == 28
    assert {client.n_samples for client in problem.clients} == {70}
    for client, labels in zip(problem.clients, labels_of(problem, 20), strict=True):
        assert client.y.sum() == labels.count(1) == 35
        others = [labels.count(label) for label in (0, *range(2, 10))]
        assert (min(others) >= 3 and max(others) <= 4) if iid else sorted(others) == [0] * 8 + [35]
    rows = np.vstack([client.X for client in problem.clients])
    assert len(np.unique(rows, axis=0)) == len(rows)  # nobody has an image of another's
    assert "70 images (the paper has about 400" in problem.about


def test_another_seed_is_another_split_and_the_same_seed_the_same() -> None:
    one, again, other = (shed.images("emnist_digits", 20, iid=False, seed=seed).clients[0].X for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: shed.principal("emnist_digits", 785), "between 1 and 784 features, got 785"),
        (lambda: shed.images("emnist_digits", 20, iid=True, seed=0, agents=2000), "1000 images of class 1, too few"),
        (lambda: shed.w8a(seed=0, agents=80), "too few rows for 80 agents"),
    ],
)
def test_too_much_is_refused(make: object, said: str) -> None:
    with pytest.raises(fs.errors.ConfigError, match=said):
        make()  # type: ignore[operator]


def test_w8a_has_agents_of_one_class() -> None:
    clients = shed.w8a(seed=1).clients
    assert len(clients) == 60
    assert all(700 <= client.n_samples <= 900 for client in clients)
    assert sum(client.y.sum() == 0 for client in clients) == 30
    assert sum(client.y.sum() for client in clients) == 1479
    assert {client.X.shape[1] for client in clients} == {300}


def test_songs_and_news_are_between_0_and_1() -> None:
    by_year = shed.songs(iid=False, seed=0)
    for problem in (by_year, shed.songs(iid=True, seed=0), shed.news(seed=0)):
        X, y = np.vstack([client.X for client in problem.clients]), np.concatenate([c.y for c in problem.clients])
        assert X.min() == y.min() == 0.0
        assert X.max() == 1.0 >= y.max()
    assert all(len(set(client.y)) == 1 for client in by_year.clients)
    sizes = [client.n_samples for client in by_year.clients]
    assert (sum(sizes), min(sizes)) == (4680, 1)
    assert np.linalg.matrix_rank(np.vstack([client.X for client in by_year.clients])) == 54
    assert [client.n_samples for client in shed.news(seed=0).clients] == [500] * 19


def test_the_optimum_is_one() -> None:
    problem = shed.news(1e-3, seed=0)
    best = optimum(problem.clients, problem.loss)
    X, y = np.vstack([client.X for client in problem.clients]), np.concatenate([c.y for c in problem.clients])
    H = X.T @ X / len(y) + 1e-3 * np.eye(58)
    w = np.linalg.solve(H, X.T @ y / len(y))
    np.testing.assert_allclose(best.w, w, atol=1e-13)
    assert best.gradient_norm <= 1e-15
    assert best.value == pytest.approx(0.5 * np.mean((X @ w - y) ** 2) + 5e-4 * w @ w, rel=1e-13)
    away = w + 1e-3
    value = 0.5 * np.mean((X @ away - y) ** 2) + 5e-4 * away @ away
    assert best.gap(away) == pytest.approx(value - best.value, rel=1e-9)
    assert best.gap(best.w) == 0.0


def test_a_trace_counts_what_the_paper_counts() -> None:
    problem = shed.images("emnist_digits", 20, 1e-3, iid=True, seed=0)
    best = optimum(problem.clients, problem.loss)
    assert best.gradient_norm <= 1e-14
    giant = follow(fs.GIANT(problem.loss), best, gap=1e-10, iterations=500)
    last = len(giant.gaps) - 1
    assert giant.iterations(1e-10) == last
    assert giant.rounds(1e-10) == giant.exchanges[-1] == 1 + 3 * last
    # Up go f and g at the start; then a direction, the losses of 32 steps, f and g.
    assert giant.vectors[-1] == pytest.approx(((20 + 1) + last * (20 + 32 + 20 + 1)) / 20)
    assert giant.hessians[-1] == last
    assert all(after < before for before, after in pairwise(giant.gaps))
    assert giant.iterations(0.0) == giant.rounds(0.0) == np.inf
    newton = follow(fs.Newton(problem.loss), best, gap=1e-10, iterations=3)
    assert len(newton.gaps) == 4  # it was not given more


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reference_counts_on_fashion_mnist(seed: int) -> None:
    """Exact Newton about 11 iterations, GIANT about 370, moving with the split by a quarter; far fewer if iid."""
    counts = {}
    for iid in (False, True):
        problem = shed.images("fashion_mnist", 100, 1e-5, iid=iid, seed=seed)
        best = optimum(problem.clients, problem.loss)
        counts[iid] = follow(fs.GIANT(problem.loss), best, gap=1e-10, iterations=1000).iterations(1e-10)
        newton = follow(fs.Newton(problem.loss), best, gap=1e-10, iterations=30).iterations(1e-10)
        assert 9 <= newton <= 12
    assert 0.75 * 370 <= counts[False] <= 1.25 * 370
    assert counts[True] < counts[False] / 3


@pytest.mark.slow
def test_giant_degrades_on_songs_by_year() -> None:
    """For the labels, and for the sizes: agents as unequal as the years but filled at random are in between."""
    even, by_year = shed.songs(iid=True, seed=0), shed.songs(iid=False, seed=0)
    X, y = np.vstack([client.X for client in by_year.clients]), np.concatenate([one.y for one in by_year.clients])
    cuts = np.cumsum([client.n_samples for client in by_year.clients])[:-1]

    def iterations(clients: list[fs.Client]) -> float:
        giant = fs.GIANT(even.loss, search=fs.Armijo(alpha=0.25))
        return follow(giant, optimum(clients, even.loss), gap=1e-10, iterations=500).iterations(1e-10)

    few, many = iterations(even.clients), iterations(by_year.clients)
    assert 15 <= few <= 21  # reference: 18
    assert many > 2 * few
    for seed in range(4):
        parts = np.split(np.random.default_rng(seed).permutation(len(y)), cuts)
        uneven = [fs.Client(f"agent-{j}", X[rows], y[rows]) for j, rows in enumerate(parts)]
        assert 2 * few < iterations(uneven) < many
