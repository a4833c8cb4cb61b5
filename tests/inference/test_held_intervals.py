"""Intervals on held-out rows: Wilson's against SciPy, DeLong's against the definition, and how often both are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fedsolve as fs
from fedsolve.inference.evaluated import Figures
from fedsolve.inference.held_intervals import accuracy_interval, auc_interval


@pytest.mark.parametrize(("hits", "rows"), [(0, 5), (3, 5), (74, 91), (91, 91), (1, 1)])
def test_wilson(hits: int, rows: int) -> None:
    expected = stats.binomtest(hits, rows).proportion_ci(0.95, "wilson")
    found = accuracy_interval(Figures(rows, float(rows), accuracy=hits / rows))
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def evaluated(seed: int, rows: int) -> tuple[fs.Evaluated, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2))
    y = (X[:, 0] + 1.2 * rng.standard_normal(rows) > 0).astype(float)
    client = fs.data.with_test_rows(fs.Client("a", X, y), X, y)
    w = np.array([1.0, 0.2])
    return fs.evaluate(w, [client], fs.Logistic(l2=0.1)), X @ w, y


def delong(score: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Area and standard error by comparing every positive with every negative."""
    wins = (score[y == 1][:, None] > score[y == 0]) + 0.5 * (score[y == 1][:, None] == score[y == 0])
    positive, negative = wins.mean(axis=1), wins.mean(axis=0)
    return float(wins.mean()), float(
        np.sqrt(positive.var(ddof=1) / len(positive) + negative.var(ddof=1) / len(negative))
    )


@pytest.mark.parametrize("seed", range(3))
def test_delong(seed: int) -> None:
    found, score, y = evaluated(seed, 120)
    area, error = delong(score, y)
    half = stats.norm.ppf(0.975) * error / (area * (1 - area))
    expected = 1 / (1 + np.exp(-(np.log(area / (1 - area)) + np.array([-half, half]))))
    interval = auc_interval(found)
    assert interval is not None
    # Scores are counted in bins: the area is right to its stated error, and the interval to little more.
    assert interval == pytest.approx(tuple(expected), abs=2 * (found.auc_error or 0.0) + 2e-3)
    assert interval[0] < area < interval[1]


def test_they_cover() -> None:
    """The true area and accuracy are inside about 95 times in 100, of rows drawn anew; vectorised by hand for speed."""
    rng = np.random.default_rng(0)
    trials, inside, true = 400, 0, float(stats.norm.cdf(1.0 / np.sqrt(2)))
    for _ in range(trials):
        score = np.concatenate([rng.standard_normal(40) + 1.0, rng.standard_normal(50)])
        y = np.repeat([1.0, 0.0], [40, 50])
        order = np.argsort(-score)
        tpr, fpr = np.cumsum(y[order]) / 40, np.cumsum(1 - y[order]) / 50
        curve = tuple(zip(np.append(0.0, fpr).tolist(), np.append(0.0, tpr).tolist(), strict=True))
        one = Figures(
            90, 90.0, auc=delong(score, y)[0], auc_error=0.0, confusion=((50.0, 0.0), (0.0, 40.0)), curve=curve
        )
        low, high = auc_interval(one) or (0.0, 0.0)
        inside += low <= true <= high
    assert stats.binomtest(inside, trials, 0.95).pvalue > 1e-3


def test_where_there_is_none() -> None:
    found, _, _ = evaluated(0, 60)
    assert auc_interval(replace(found, weight=61.0)) is None  # rows that do not count alike
    assert accuracy_interval(replace(found, weight=61.0)) is None
    assert auc_interval(replace(found, auc=1.0)) is None
    assert auc_interval(replace(found, auc=None)) is None
    assert auc_interval(replace(found, confusion=((59.0, 0.0), (0.0, 1.0)))) is None
    assert accuracy_interval(Figures(0, 0.0)) is None
