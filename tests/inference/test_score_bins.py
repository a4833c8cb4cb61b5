"""The AUC from bins: rigorous in its bound, exact where scores fall apart, against scikit-learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from fedsolve.inference.score_bins import FIRST, GRID, _key, _number, area, binned, refined, roc, runs_of

RNG = np.random.default_rng(2)


def sample(kind: str, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(kind))
    y = (rng.random(n) < 0.4).astype(float)
    scores = {
        "usual": rng.standard_normal(n) + y,
        "ties": np.round(rng.standard_normal(n) + y),
        "separated": 50 * y + rng.random(n),
        "tiny": 1e-9 * (rng.standard_normal(n) + y),
        "huge": 1e12 * (rng.standard_normal(n) + y),
        "skewed": np.exp(20 * rng.standard_normal(n) + y),
        "constant": np.zeros(n),
    }[kind]
    return scores, y, rng.integers(0, 4, n) + 0.5


KINDS = ("usual", "ties", "separated", "tiny", "huge", "skewed", "constant")


def by_clients(scores: np.ndarray, y: np.ndarray, s: np.ndarray, edges: np.ndarray, least: int) -> np.ndarray:
    parts = np.split(np.arange(len(y)), [150, 300, 390])
    return sum(binned(scores[p], (s * y)[p], (s * (1 - y))[p], edges, least) for p in parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [1, 5, 40])
def test_the_bound_holds_and_shrinks(kind: str, least: int) -> None:
    scores, y, s = sample(kind)
    exact = roc_auc_score(y, scores, sample_weight=s)
    edges, last = FIRST, 1.0
    for _ in range(6):
        masses = by_clients(scores, y, s, edges, least)
        auc, bound = area(masses, edges, least == 1)
        assert abs(auc - exact) <= bound + 1e-12
        assert least > 1 or bound <= last + 1e-12  # joined bins are others each time
        last, edges = bound, refined(masses, edges, 512)
    if least == 1 and kind not in ("ties",):  # equal scores stay open unless a bin holds nothing else
        assert bound <= 1e-4
        assert abs(auc - exact) <= 1e-12 + bound


def test_where_all_scores_fall_apart_it_is_exact() -> None:
    scores, y, s = sample("usual", 100)
    edges = np.unique(scores)
    auc, bound = area(by_clients(scores, y, s, edges, 1)[: len(edges) + 1], edges)
    assert bound == 0.0
    assert auc == pytest.approx(roc_auc_score(y, scores, sample_weight=s), abs=1e-13)


def test_the_bound_is_attained() -> None:
    """A bin in which all positives are above all negatives: the estimate is off by exactly the bound."""
    edges, scores, y = np.array([0.0, 1.0]), np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0.0, 1.0, 1.0])
    assert area(binned(scores, y, 1 - y, edges), edges) == (0.5, 0.5)


@pytest.mark.parametrize("least", [2, 3, 7, 100])
def test_no_run_tells_of_fewer_rows(least: int) -> None:
    counts = RNG.integers(0, 4, 60)
    first, last = runs_of(counts, least)
    occupied = np.flatnonzero(counts)
    runs = sorted({(first[k], last[k]) for k in occupied})
    sizes = [counts[a : b + 1].sum() for a, b in runs]
    assert sum(sizes) == counts.sum()
    assert min(sizes) >= min(least, counts.sum())
    assert all(b < a for (_, b), (a, _) in pairwise(runs))  # they do not overlap


@pytest.mark.parametrize("least", [2, 5, 40, 1000])
def test_the_same_rows_stay_together_whatever_is_asked(least: int) -> None:
    """The differences of any two replies tell of no rows, or of at least so many: here every cumulative count of every
    reply is one of the ends of the same runs."""
    scores, y = RNG.standard_normal(700) * 3, (RNG.random(700) < 0.4).astype(float)
    asked = [FIRST, GRID, np.linspace(-5, 5, 400), np.sort(scores), np.array([0.3]), np.sort(RNG.choice(scores, 90))]
    ends: set[float] = set()
    for edges in asked:
        said = binned(scores, y, 1 - y, edges, least)
        starts, stops = said[:, 0] + said[:, 2], said[:, 1] + said[:, 3]
        ends |= {*np.cumsum(starts).tolist(), *np.cumsum(stops).tolist()}
        exact = roc_auc_score(y, scores)
        auc, bound = area(said, edges, False)  # type: ignore[misc]
        assert abs(auc - exact) <= bound + 1e-12
    gaps = np.diff(sorted(ends | {0.0}))
    assert gaps.min() >= min(least, 700)


def test_the_curve_is_that_of_scikit_learn() -> None:
    scores, y, s = sample("usual", 80)
    edges = np.unique(scores)
    false, true = roc(binned(scores, s * y, s * (1 - y), edges))
    expected = np.array(roc_curve(y, scores, sample_weight=s, drop_intermediate=False)[:2])
    found = np.unique(np.round(np.stack([false, true], axis=1), 12), axis=0)
    np.testing.assert_allclose(found, np.unique(np.round(expected.T, 12), axis=0), atol=1e-12)


def test_one_class_has_no_area() -> None:
    scores, _, s = sample("usual")
    assert area(binned(scores, s, 0 * s, FIRST), FIRST) is None


def test_numbers_are_ordered_as_their_keys() -> None:
    numbers = np.sort(np.r_[RNG.standard_normal(50) * 10.0 ** RNG.integers(-300, 300, 50), 0.0, np.inf, -np.inf])
    keys = [_key(one) for one in numbers]
    assert keys == sorted(keys)
    assert [_number(key) for key in keys] == numbers.tolist()
