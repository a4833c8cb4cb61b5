"""Cross-validation by Newton's method: against scikit-learn on the pooled data, and what travels."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.losses import LinearLoss
from fedsolve.selection.batches import triangle
from tests.faults.faulty import FaultyRoad
from tests.selection.pooled import judged

N, P = 240, 5
PENALTIES = (1e-4, 1e-2, 3e-2, 1e-1, 1.0)
# A fit is done when its squared Newton decrement λ² = gᵀH⁻¹g is below 2e-18 (1 + |f|), |f| < 3 here: its w is within
# 3e-9 of the minimiser in the norm of H. The error h on a fold then differs by at most ‖∇h‖ in the norm of H⁻¹ times
# that, to first order; ∇h ~ 1 and H⁻¹ ≤ 1/l2 = 1e4 make it 3e-7 at most, on errors of about 1.
TOLERANCE = 3e-7


def drawn(kind: str, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and exposures: few samples for the noise, so that a penalty helps."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P))
    eta = X @ rng.standard_normal((P, 3)) * (0.2 if kind == "poisson" else 0.4) + 0.3
    exposure = rng.uniform(0.3, 3.0, N)
    if kind == "poisson":
        return X, rng.poisson(exposure * np.exp(eta[:, 0])).astype(float), exposure
    if kind == "softmax":
        return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(float), exposure
    return X, (rng.random(N) < 1 / (1 + np.exp(-eta[:, 0]))).astype(float), exposure


LOSSES: dict[str, LinearLoss] = {
    "logistic": fs.Logistic(intercept="free"),
    "softmax": fs.Softmax(classes=3, intercept="free"),
    "poisson": fs.Poisson(),
}


def clients(kind: str, how: str = "dense") -> list[fs.Client]:
    """Unequal clients; the smallest has a single sample, which is in one fold and so outside none of the others."""
    X, y, exposure = drawn(kind)
    weights = np.random.default_rng(9).uniform(0.5, 2.0, N) if how == "weighted" else None
    rows = sp.csr_array(np.where(np.abs(X) > 0.6, X, 0.0)) if how == "sparse" else X
    offset = np.log(exposure) if kind == "poisson" and how != "sparse" else None
    parts = np.split(np.arange(N), [1, 9, 60, 130])
    return fs.data.partition(rows, y, fs.data.Given(parts), sample_weight=weights, offset=offset)


def errors(found: fs.selection.Selection) -> dict[LinearLoss, tuple[float, ...]]:
    return {each.loss: each.errors for each in found.candidates}


@pytest.mark.parametrize("how", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize("kind", LOSSES)
def test_errors_and_choice_are_those_of_pooled_cross_validation(kind: str, how: str) -> None:
    grid, parties = fs.loss_grid(LOSSES[kind], l2=PENALTIES), clients(kind, how)
    found = fs.cross_validate(grid, parties, folds=4, seed=2)
    pooled = {loss: judged(parties, loss, 4, 2) for loss in grid}
    for candidate in found.candidates:
        expected = pooled[candidate.loss]
        np.testing.assert_allclose(candidate.errors, [error for error, _ in expected], rtol=TOLERANCE)
        if kind != "poisson":
            np.testing.assert_allclose(candidate.accuracies, [hits for _, hits in expected], rtol=1e-12)
    means = {loss: np.mean([error for error, _ in one]) for loss, one in pooled.items()}
    assert found.best == min(means, key=lambda loss: means[loss])
    assert found.best not in (grid[0], grid[-1])  # a choice that an end of the grid would not tell
    assert [each.error for each in found.candidates] == sorted(each.error for each in found.candidates)


def test_all_fits_travel_together_and_the_done_ones_drop_out() -> None:
    grid = fs.loss_grid(LOSSES["logistic"], l2=PENALTIES)
    together = fs.cross_validate(grid, clients("logistic"), folds=4).ledger
    alone = [fs.cross_validate([loss], clients("logistic"), folds=4).ledger.total().exchanges for loss in grid]
    assert min(alone) < max(alone)
    assert together.total().exchanges == max(alone)
    asked = [int(record.scalars_up.sum()) for record in together.records if "algorithm" in record.purposes]
    # Per client and fit: a triangle, a gradient and three sums; in the first exchange the weights of the folds too.
    each = triangle(P + 1) + P + 1 + 3
    assert asked[0] == 5 * (20 * each + 4)
    assert asked[1] == 5 * 20 * each
    assert asked[1:] == sorted(asked[1:], reverse=True)
    assert asked[-1] < asked[1]
    assert together.total("setup").exchanges == 1  # joining; everything else is accounted as the work itself


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_a_reply_keeps_within_its_bytes_and_the_rest_waits(kind: str) -> None:
    loss = fs.Squared(features=fs.RandomFourier(8, 1.0)) if kind == "squared" else LOSSES[kind]
    grid = fs.loss_grid(loss, l2=PENALTIES, features={"gamma": [0.1, 1.0]} if kind == "squared" else None)
    parties = clients("logistic")
    whole = fs.cross_validate(grid, parties, folds=4)
    limit = 1000 if kind == "squared" else 3000
    parts = fs.cross_validate(grid, parties, folds=4, reply_bytes=limit)
    one = fs.cross_validate(grid, parties, folds=4, reply_bytes=1)
    assert errors(whole) == errors(parts) == errors(one)
    sizes = [
        record.scalars_up.sum(axis=0).max() * 8 for record in parts.ledger.records if "algorithm" in record.purposes
    ]
    assert limit / 2 < max(sizes) <= limit + 8 * 4
    exchanges = [each.ledger.total().exchanges for each in (whole, parts, one)]
    assert exchanges[0] < exchanges[1] < exchanges[2]


@pytest.mark.parametrize("kind", LOSSES)
def test_both_roads_and_other_array_libraries_agree(kind: str) -> None:
    grid = fs.loss_grid(LOSSES[kind], l2=PENALTIES[1:3])
    here = fs.cross_validate(grid, InProcess(clients(kind), threads=1), seed=3)
    there = fs.cross_validate(grid, Processes(clients(kind), workers=2, threads=1), seed=3)
    assert errors(here) == errors(there)
    assert here.ledger == there.ledger
    others = [
        fs.Client(
            c.name,
            strict.asarray(c.X),
            strict.asarray(c.y),
            offset=None if c.offset is None else strict.asarray(c.offset),
        )
        for c in clients(kind)
    ]
    for candidate in fs.cross_validate(grid, others, seed=3).candidates:
        np.testing.assert_allclose(candidate.errors, errors(here)[candidate.loss], rtol=TOLERANCE)
    assert errors(here) != errors(fs.cross_validate(grid, clients(kind), seed=4))


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_steps_that_are_too_long_are_shortened(kind: str) -> None:
    """Large counts, and classes that can nearly be separated: Newton's steps overshoot."""
    if kind == "poisson":
        large = [fs.Client(c.name, c.X, 20 * c.y) for c in clients(kind)]
    else:
        data = fs.data.load("breast_cancer")
        large = fs.data.partition((data.X - data.X.mean(axis=0)) / data.X.std(axis=0), data.y, clients=3)
    found = fs.cross_validate(fs.loss_grid(LOSSES[kind], l2=(1e-6, 1.0)), large, folds=4, seed=2)
    searches = [record.calls for record in found.ledger.records if "folds.values_along" in record.calls]
    assert searches
    # In the logistic grid the fits with the larger penalty, or of other folds, go on in the same exchange.
    assert kind == "poisson" or ("folds.evaluate", "folds.values_along") in searches
    for candidate in found.candidates:
        expected = [error for error, _ in judged(large, candidate.loss, 4, 2)]
        np.testing.assert_allclose(candidate.errors, expected, rtol=10 * TOLERANCE)  # 1/√l2 is ten times that above


def test_an_l1_penalty_is_one_more_axis() -> None:
    parties = clients("logistic")
    grid = fs.loss_grid(fs.Logistic(intercept="free"), l2=[1e-3], l1=[0.0, 0.01, 0.3])
    found = fs.cross_validate(grid, parties, folds=4)
    for candidate in found.candidates:
        for fold, error in enumerate(candidate.errors):
            train = [fs.Client(c.name, c.X, c.y, _outside(c, fold)) for c in parties if _outside(c, fold).sum() > 0]
            model = fs.run(fs.Newton(candidate.loss), train, tolerance=1e-11).model
            assert error == pytest.approx(_log_loss(model, parties, fold), rel=TOLERANCE)
    assert len({each.error for each in found.candidates}) == 3


def _outside(client: fs.Client, fold: int) -> np.ndarray:
    return (fs.selection.fold_of_samples(client, 4, 0) != fold).astype(float)


def _log_loss(model: Any, parties: list[fs.Client], fold: int) -> float:
    inside = [_outside(c, fold) == 0 for c in parties]
    X = np.vstack([c.X[rows] for c, rows in zip(parties, inside, strict=True)])
    y = np.concatenate([c.y[rows] for c, rows in zip(parties, inside, strict=True)])
    eta = model.decision_function(X)
    return float(np.mean(np.logaddexp(0, eta) - y * eta))


# ── what can go wrong ──


def test_classes_that_can_be_separated_are_said_and_not_chosen() -> None:
    X = np.random.default_rng(0).standard_normal((60, 2))
    parties = fs.data.partition(X, (X[:, 0] > 0).astype(float), clients=3)
    found = fs.cross_validate([fs.Logistic(), fs.Logistic(l2=0.1)], parties, folds=3)
    assert found.best.l2 == 0.1
    last = found.candidates[-1]
    assert last.error == np.inf
    assert "no finite minimum" in str(last.trouble)
    assert found.candidates[0].trouble is None
    with pytest.raises(
        fs.errors.DataError, match=r"no point of the grid could be judged.*fold 0.*penalise all weights"
    ):
        fs.cross_validate([fs.Logistic()], parties, folds=3)


def test_a_class_that_is_in_one_fold_alone_has_no_intercept() -> None:
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = np.zeros(40)
    y[7] = 1.0
    parties = [fs.Client("a", X, y)]
    with pytest.raises(fs.errors.DataError, match="one that is in this fold alone"):
        fs.cross_validate([fs.Logistic(l2=0.1, intercept="free")], parties)
    assert fs.cross_validate([fs.Logistic(l2=0.1, intercept="penalised")], parties).candidates[0].error < 1.0


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_everyone_must_answer(kind: str) -> None:
    grid = [fs.Squared(l2=0.1)] if kind == "squared" else [fs.Logistic(l2=0.1)]
    silent = FaultyRoad(clients("logistic"), None, loss=0.3, seed=1)
    with pytest.raises(fs.errors.QuorumNotReached, match=r"everyone must answer, and client-\d.* did not"):
        fs.cross_validate(grid, silent)
    again = FaultyRoad(clients("logistic"), None, loss=0.3, late=True, seed=1)
    found = fs.cross_validate(grid, again, participation=fs.Participation(retries=20, fraction=0.5))
    assert again.lost > 0
    assert errors(found) == errors(fs.cross_validate(grid, clients("logistic")))


def test_a_link_has_its_bytes_anew_in_every_exchange() -> None:
    """Small replies get through a link that is too narrow for all fits at once."""
    X, y, _ = drawn("logistic")
    narrow = [
        fs.Client("narrow", X[:100], y[:100], link=fs.Link(bytes_per_round=5000)),
        fs.Client("b", X[100:], y[100:]),
    ]
    grid = fs.loss_grid(LOSSES["logistic"], l2=PENALTIES)
    with pytest.raises(fs.errors.LinkExceeded, match="client 'narrow'"):
        fs.cross_validate(grid, narrow)
    assert len(fs.cross_validate(grid, narrow, reply_bytes=3000).candidates) == len(PENALTIES)


@pytest.mark.parametrize(
    ("losses", "named", "message"),
    [
        ([], {}, "takes a grid of losses"),
        (["Logistic"], {}, "takes a grid of losses"),
        ([fs.Logistic(), fs.Squared()], {}, "one kind of loss, got Logistic, Squared"),
        ([fs.Softmax(classes=3), fs.Softmax(classes=4)], {}, r"got Softmax\(classes=3\), Softmax\(classes=4\)"),
        ([fs.Logistic()], {"folds": 1}, "at least two, got 1"),
        ([fs.Logistic()], {"folds": 2.5}, "whole number of at least two, got 2.5"),
        ([fs.Logistic()], {"reply_bytes": 0}, "reply_bytes is a whole number of bytes, got 0"),
        (
            [fs.Logistic(l2=1.0)],
            {"folds": 241},
            "241 folds of 240 samples: some would have no samples, use fewer folds",
        ),
        ([fs.Softmax(classes=2)], {}, r"labels of Softmax\(classes=2\) are 0 … 1, got 2 … 2"),
    ],
)
def test_refusals(losses: Any, named: dict[str, Any], message: str) -> None:
    parties = clients("softmax" if losses and isinstance(losses[0], fs.Softmax) else "logistic")
    with pytest.raises(fs.errors.InputError, match=message):
        fs.cross_validate(losses, parties, **named)


@pytest.mark.parametrize("loss", [fs.Logistic(l2=1.0), fs.Squared(l2=1.0)])
def test_a_fold_that_has_nothing_is_refused(loss: LinearLoss) -> None:
    """Each of twelve clients has one sample, in a fold it draws for itself: of twelve folds some go without."""
    X, y = np.ones((12, 1)), np.arange(12.0) % 2
    parties = [fs.Client(f"c{j}", X[j : j + 1], y[j : j + 1]) for j in range(12)]
    with pytest.raises(fs.errors.DataError, match="some of 12 folds have no samples: use fewer folds"):
        fs.cross_validate([loss], parties, folds=12)
