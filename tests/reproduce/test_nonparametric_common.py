"""The common f̄ of clients that differ, and Example 2: what they are measured with, and wrong formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from fedsolve.closed_forms.linear_path import linear_path
from fedsolve.closed_forms.methods import LocalSteps, Method, ProximalStep
from fedsolve.reproduce.nonparametric import proof_conditioning, proof_designs, remarks_common, remarks_kernels
from fedsolve.reproduce.nonparametric.quantities import Notes, Quantity
from fedsolve.reproduce.nonparametric.theory_coefficients import SIGMA, D, Rounds
from fedsolve.typing import Array

METHODS = [LocalSteps(0.1), LocalSteps(0.1, 7), ProximalStep(0.1)]


def drawn(seed: int) -> tuple[list[Array], Array]:
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((n, D)) * np.linspace(0.5, 1, D) for n in (30, 5, 20)]
    return X, rng.standard_normal((3, D))


def holds(notes: Notes, quantity: Quantity) -> bool | None:
    return quantity.verdict(*notes.ends[quantity]).holds


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_rounds_by_clients_are_those_of_all_rows(method: Method) -> None:
    X, _ = drawn(0)
    found, expected = proof_designs.by_clients(X, method), Rounds.of(X, method)
    for name in ("A", "C", "G"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-13)
    assert found.kappa == pytest.approx(expected.kappa)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_balance_is_where_rounds_end(method: Method) -> None:
    X, truths = drawn(1)
    targets = [rows @ own for rows, own in zip(X, truths, strict=True)]
    end = linear_path(X, targets, method, 20_000)[-1]
    np.testing.assert_allclose(remarks_common.balanced(X, truths, method), end, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_error_towards_any_f_is_that_of_draws(method: Method) -> None:
    """4,000 draws: within five standard errors, at round 0 exactly."""
    X, truths = drawn(2)
    made, rng = Rounds.of(X, method), np.random.default_rng(3)
    centre, target, pooled = made.centre(truths), truths[1], np.vstack(X)
    noise = SIGMA * rng.standard_normal((len(pooled), 4000))
    targets = np.split(made.means(truths)[:, None] + noise, np.cumsum([len(rows) for rows in X])[:-1])
    ends = linear_path(X, targets, method, 7)[-1] - target[:, None]
    squares = np.square(pooled @ ends).mean(axis=0)
    assert abs(squares.mean() - remarks_common.error(made, 7, centre, target)) <= 5 * squares.std() / math.sqrt(4000)
    assert remarks_common.error(made, 0, centre, target) == pytest.approx(np.square(pooled @ target).mean())


def test_another_f_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """f_t does not end at the mean of the truths, and near f̄ the residual does not fall."""
    monkeypatch.setattr(remarks_common, "SIZES", (12, 3, 9))
    wanted = (remarks_common.ENDS, remarks_common.RESIDUAL, remarks_common.FLOOR)
    remarks_common.measured(0, right := Notes())
    assert [holds(right, one) for one in wanted] == [True, True, True]
    error = remarks_common.error

    def mean(X: Sequence[Array], truths: Array, method: Method) -> Array:
        return np.asarray(truths.mean(axis=0))

    monkeypatch.setattr(remarks_common, "balanced", mean)
    monkeypatch.setattr(remarks_common, "error", lambda made, t, centre, target: error(made, t, centre, target + 0.1))
    remarks_common.measured(0, wrong := Notes())
    assert [holds(wrong, one) for one in wanted[:2]] == [False, False]


def test_equality_is_no_decrease() -> None:
    assert remarks_kernels.SMOOTHER.verdict(0.3, 0.96).holds
    assert not remarks_kernels.SMOOTHER.verdict(0.3, 1.0).holds


def test_eigenvalues_are_those_of_gaussian_rows() -> None:
    """The smallest, the largest and their squares: within five standard errors of 20,000 matrices."""
    rng = np.random.default_rng(4)
    F = rng.standard_normal((20_000, 12, 3))
    direct = np.linalg.eigvalsh(np.swapaxes(F, 1, 2) @ F / 12)
    found = proof_conditioning.eigenvalues(rng, 20_000, 12, 3)
    for power in (1, 2):
        apart = np.abs((found**power).mean(axis=0) - (direct**power).mean(axis=0))
        assert (apart <= 5 * (direct**power).std(axis=0) * math.sqrt(2 / 20_000)).all()


def test_without_the_logarithm_many_clients_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [proof_conditioning.rows(100, r, M) for r, M in ((1, 20), (3, 20), (3, 100_000))] == [300, 300, 1152]
    monkeypatch.setattr(proof_conditioning, "rows", lambda C, r, M: C * r)
    proof_conditioning.measured(0, notes := Notes())
    assert not holds(notes, proof_conditioning.NEAR_ONE)
    monkeypatch.setattr(proof_conditioning, "rows", lambda C, r, M: 100 * max(r, math.ceil(math.log(M))))
    proof_conditioning.measured(0, steady := Notes())
    assert holds(steady, proof_conditioning.NEAR_ONE)
    assert not holds(steady, proof_conditioning.ROOT)
