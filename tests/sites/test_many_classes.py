"""Points of a loss with many classes are judged with as much memory as their probabilities take, not their pairs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.numerics.precise_products import precise_product
from fedsolve.sites import digits
from fedsolve.sites.point_log import PointLog
from fedsolve.sites.policy import Policy
from fedsolve.sites.row_guard import RowGuard
from fedsolve.typing import Array

ROWS, COLUMNS = 1000, 3


def labelled(classes: int, rows: int = ROWS) -> tuple[fs.Client, Array]:
    rng = np.random.default_rng(0)
    client = fs.Client("a", rng.normal(size=(rows, COLUMNS)), rng.integers(classes, size=rows).astype(float))
    return client, 0.1 * rng.normal(size=(COLUMNS, classes))


def test_memory_grows_with_the_classes_and_not_with_their_pairs() -> None:
    classes = 200
    client, w = labelled(classes)
    loss = fs.Softmax(l2=0.1, classes=classes)
    guard = RowGuard(Policy(), client, PointLog(client.n_samples))
    predicted = loss.design(client).matvec(w)
    loss.targets(client)
    tracemalloc.start()
    try:
        guard.begin()
        guard.visit(loss, client, w, predicted)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Probabilities take 1.6 MB; the weights of all pairs of classes would take 161 MB.
    assert peak < 30 * predicted.nbytes < 8 * ROWS * classes * (classes + 1) / 4


def test_the_weights_of_all_pairs_are_those_of_the_hessian() -> None:
    classes = 4
    client, w = labelled(classes, rows=40)
    loss = fs.Softmax(l2=0.1, intercept=None, classes=classes)
    X, eta = np.asarray(client.X), loss.design(client).matvec(w)
    weights = iter(np.concatenate(list(loss.hessian_weights(client.xp, eta, loss.targets(client))), axis=1).T)
    hessian = loss.hessian(client, w).full().reshape(COLUMNS, classes, COLUMNS, classes)
    for a in range(classes):
        for b in range(a, classes):
            block = (X * next(weights)[:, None]).T @ X / len(X) + 0.1 * (a == b) * np.eye(COLUMNS)
            np.testing.assert_allclose(hessian[:, a, :, b], block, rtol=0, atol=1e-14)
    assert next(weights, None) is None


@pytest.mark.parametrize(("spread", "precise"), [(1.0, False), (30.0, True)])
def test_many_columns_that_do_not_cancel_need_no_more_digits(
    spread: float, precise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms of p columns with signs as by chance are √p times as large as their sum; of a sum that is far smaller some
    cancel."""
    used = []
    monkeypatch.setattr(digits, "precise_product", lambda *given: used.append(1) or precise_product(*given))
    rng = np.random.default_rng(0)
    columns, rows = 1600, 200
    X = rng.normal(size=(rows, columns))
    w = rng.choice([-1.0, 1.0], size=columns)
    X[:, 0] -= (X @ w) * w[0] * (1 - 1 / spread)  # leaves a part of every prediction
    client = fs.Client("a", X, rng.integers(2, size=rows).astype(float))
    loss = fs.Logistic(l2=0.1, intercept=None)
    found = loss.design(client).matvec(w)
    digits.product(loss, client, client, w, found, None, direction=True)
    assert bool(used) is precise
