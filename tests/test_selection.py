"""Federated cross-validation against the same folds on pooled data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

import fedsolve as fs
from fedsolve.selection import cross_validate, fold_of_samples
from fedsolve.transports import InProcess, Processes

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 12)) @ np.diag(np.geomspace(3, 0.03, 12))
Y = X @ RNG.standard_normal(12) + 2.0 + RNG.standard_normal(150)
GRID = [fs.Squared(l2=l2, intercept="free") for l2 in np.geomspace(1e-4, 10, 11)]


def clients(X: object = X, Y: np.ndarray = Y, weights: np.ndarray | None = None) -> list[fs.Client]:
    return fs.data.partition(X, Y, fs.data.QuantitySkew(0.5), clients=6, seed=1, sample_weight=weights)


def pooled_errors(parties: list[fs.Client], loss: fs.Squared, folds: int, seed: int) -> list[float]:
    """The same folds, pooled, by scikit-learn: alpha = l2 · Σ weights of the training part."""
    where = np.concatenate([fold_of_samples(client, folds, seed) for client in parties])
    X = np.vstack([client.X.toarray() if sp.issparse(client.X) else client.X for client in parties])
    y = np.concatenate([client.y for client in parties])
    s = np.concatenate([np.ones(c.n_samples) if c.sample_weight is None else c.sample_weight for c in parties])
    errors = []
    for fold in range(folds):
        train, test = where != fold, where == fold
        fit = Ridge(alpha=loss.l2 * s[train].sum(), fit_intercept=loss.intercept == "free", solver="cholesky")
        fit.fit(X[train], y[train], s[train])
        errors.append(float(np.average((fit.predict(X[test]) - y[test]) ** 2, weights=s[test])))
    return errors


@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize("seed", [0, 7])
def test_every_error_and_the_choice_are_those_of_pooled_cross_validation(kind: str, seed: int) -> None:
    weights = RNG.uniform(0.5, 2.0, 150) if kind == "weighted" else None
    parties = clients(sp.csr_array(np.where(np.abs(X) > 0.5, X, 0)) if kind == "sparse" else X, Y, weights)
    found = cross_validate(GRID, parties, folds=5, seed=seed)
    expected = {loss: pooled_errors(parties, loss, 5, seed) for loss in GRID}
    for candidate in found.candidates:
        np.testing.assert_allclose(candidate.errors, expected[candidate.loss], rtol=1e-9)
    assert found.best == min(expected, key=lambda loss: np.mean(expected[loss]))
    errors = [candidate.error for candidate in found.candidates]
    assert errors == sorted(errors)


def test_the_whole_grid_is_one_exchange_of_sums() -> None:
    grid = [*GRID, *(fs.Squared(l2=l2) for l2 in (0.1, 1.0))]
    ledger = cross_validate(grid, clients(), folds=4).ledger
    assert ledger.total("algorithm").exchanges == 1
    # Per client and fold, under each of two designs (13 and 12 columns): a triangle, a vector and two numbers.
    per_fold = sum(p * (p + 1) // 2 + p + 2 for p in (13, 12))
    assert ledger.total("algorithm").scalars_up == 6 * 4 * per_fold


def test_folds_are_seeded_and_the_roads_agree() -> None:
    here = cross_validate(GRID, InProcess(clients(), threads=1), seed=3)
    there = cross_validate(GRID, Processes(clients(), workers=2, threads=1), seed=3)
    assert [c.errors for c in here.candidates] == [c.errors for c in there.candidates]
    assert here.ledger == there.ledger
    other = cross_validate(GRID, clients(), seed=4)
    assert [c.errors for c in here.candidates] != [c.errors for c in other.candidates]


def test_several_targets() -> None:
    both = np.stack([Y, X[:, 0]], axis=1)
    found = cross_validate([fs.Squared(l2=0.1)], clients(X, both)).candidates[0]
    each = [cross_validate([fs.Squared(l2=0.1)], clients(X, both[:, k])).candidates[0] for k in range(2)]
    # Folds depend on the clients' names alone, so they are the same in all three.
    np.testing.assert_allclose(found.errors, np.mean([one.errors for one in each], axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("losses", "folds", "message"),
    [
        ([], 5, "a grid of Squared losses"),
        ([fs.Logistic()], 5, "a grid of Squared losses"),
        ([fs.Squared()], 1, "at least two folds"),
        ([fs.Squared(l2=1.0)], 1000, "have no samples: use fewer folds"),
    ],
)
def test_refusals(losses: list[fs.Squared], folds: int, message: str) -> None:
    with pytest.raises(fs.errors.InputError, match=message):
        cross_validate(losses, clients(), folds=folds)
