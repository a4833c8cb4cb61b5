"""Federated cross-validation against the same folds on pooled data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.selection import cross_validate, fold_of_samples
from tests.selection.pooled import judged

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 12)) @ np.diag(np.geomspace(3, 0.03, 12))
Y = X @ RNG.standard_normal(12) + 2.0 + RNG.standard_normal(150)
GRID = [fs.Squared(l2=l2, intercept="free") for l2 in np.geomspace(1e-4, 10, 11)]


def clients(X: object = X, Y: np.ndarray = Y, weights: np.ndarray | None = None) -> list[fs.Client]:
    return fs.data.partition(X, Y, fs.data.QuantitySkew(0.5), clients=6, seed=1, sample_weight=weights)


def pooled_errors(parties: list[fs.Client], loss: fs.Squared, folds: int, seed: int) -> list[float]:
    return [error for error, _ in judged(parties, loss, folds, seed)]


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


def test_offsets_are_part_of_what_is_predicted() -> None:
    offset = np.linspace(-3, 3, 150)
    with_offset = fs.data.partition(X, Y, fs.data.Given((np.arange(90), np.arange(90, 150))), offset=offset)
    without = fs.data.partition(X, Y - offset, fs.data.Given((np.arange(90), np.arange(90, 150))))
    for given, expected in zip(
        cross_validate(GRID, with_offset).candidates, cross_validate(GRID, without).candidates, strict=True
    ):
        np.testing.assert_allclose(given.errors, expected.errors, rtol=1e-12)


def test_an_error_that_the_sums_cannot_tell_is_asked_for() -> None:
    """With a level of 1e7 the squares are 1e14 and the errors 1: as a difference they would have two digits."""
    far, near = clients(X, Y + 1e7), clients(X, Y)
    found = cross_validate(GRID, far)
    assert found.ledger.total().exchanges == 2
    assert cross_validate(GRID, near).ledger.total().exchanges == 1
    for candidate in found.candidates:
        # The targets themselves are rounded to 1e7 · 1e-16 = 1e-9, and so is the intercept; errors are of order 1.
        np.testing.assert_allclose(candidate.errors, pooled_errors(near, candidate.loss, 5, 0), rtol=1e-7)


def test_an_l1_penalty_takes_no_more_exchanges() -> None:
    parties = fs.data.partition(X, Y, clients=4)
    grid = fs.loss_grid(fs.Squared(l2=1e-3, intercept="free"), l1=[0.0, 0.05, 0.5])
    found = cross_validate(grid, parties, folds=3)
    assert found.ledger.total().exchanges == 1
    where = [fold_of_samples(client, 3, 0) for client in parties]
    for candidate in found.candidates:
        for fold, error in enumerate(candidate.errors):
            train = [fs.Client(c.name, c.X[f != fold], c.y[f != fold]) for c, f in zip(parties, where, strict=True)]
            model = fs.run(fs.Newton(candidate.loss), train, tolerance=1e-11).model
            test = np.vstack([c.X[f == fold] for c, f in zip(parties, where, strict=True)])
            y = np.concatenate([c.y[f == fold] for c, f in zip(parties, where, strict=True)])
            assert error == pytest.approx(np.mean((model.predict(test) - y) ** 2), rel=1e-8)
    assert len({each.error for each in found.candidates}) == 3


def test_the_simplest_is_within_a_standard_error() -> None:
    found = cross_validate(GRID, clients())
    best, by_loss = found.candidates[0], {each.loss: each for each in found.candidates}
    assert best.standard_error == pytest.approx(np.std(best.errors, ddof=1) / np.sqrt(5), rel=1e-12)
    assert found.simplest.l2 > found.best.l2
    assert by_loss[found.simplest].error <= best.error + best.standard_error
    larger = [loss for loss in GRID if loss.l2 > found.simplest.l2]
    assert larger  # so that the next line says something
    assert all(by_loss[loss].error > best.error + best.standard_error for loss in larger)


def test_grids_from_lists() -> None:
    loss = fs.Squared(l2=1.0, features=fs.RandomFourier(10, 1.0, seed=3))
    grid = fs.loss_grid(loss, l2=np.array([1e-2, 1e-1]), features={"gamma": [0.1, 0.2], "features": np.array([5, 6])})
    assert len(grid) == len(set(grid)) == 8
    assert grid[0] == fs.Squared(l2=1e-2, features=fs.RandomFourier(5, 0.1, seed=3))
    assert grid[1] == fs.Squared(l2=1e-1, features=fs.RandomFourier(5, 0.1, seed=3))
    assert fs.loss_grid(loss) == [loss]
    for given, message in (
        ({"l2": []}, "the list of values for l2 is empty"),
        ({"l2": 0.1}, "l2 is a list of values to choose from, got 0.1"),
        ({"l2": [-1.0]}, "l2 is a finite penalty of at least 0, got -1.0"),
        ({"features": {"sigma": [1.0]}}, "RandomFourier has no 'sigma' to choose; it has features, gamma"),
    ):
        with pytest.raises(fs.errors.ConfigError, match=message):
            fs.loss_grid(loss, **given)
    with pytest.raises(fs.errors.ConfigError, match="gamma would be of the loss's feature map, and it has none"):
        fs.loss_grid(fs.Squared(), features={"gamma": [1.0]})


def test_a_selection_says_what_it_found_in_a_line() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    found = fs.cross_validate(fs.loss_grid(fs.Squared(), l2=[0.1, 1.0]), [fs.Client("a", X, X[:, 0])], folds=4)
    said = repr(found)
    assert said.startswith("<Selection of 2 losses by 4-fold cross-validation: best Squared(l2=0.1")
    assert "bytes up" in said
    assert len(said) < 300
