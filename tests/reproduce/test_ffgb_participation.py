"""Appendix G of Shen et al. by γ and N, and the end of a round's sum in Appendix F: wrong formulas are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedsolve.reproduce.ffgb import (
    participation_errors,
    participation_orders,
    participation_paths,
    proof_runs,
    square_problems,
    square_split,
)
from fedsolve.reproduce.ffgb.judging import Found
from fedsolve.reproduce.ffgb.participation_orders import COPIES, GAMMAS, Path, Varied, share
from fedsolve.reproduce.ffgb.participation_paths import CLIENTS, copied, copied_square
from fedsolve.typing import Array


def exceeding(scale: float, by_m: Callable[[int], float], clients: int = CLIENTS) -> Path:
    """An excess of 1/T, by m; all clients have none."""

    def path(T: int, m: int, draws: int, local: int) -> Array:
        return np.full((T + 1, draws), 1.0 if m == clients else 1 + scale * by_m(m) / T)

    return path


def test_powers_of_gamma_and_n_are_seen() -> None:
    base = exceeding(1, share)
    assert participation_orders.grows(base, Varied()) == pytest.approx(0)
    for power, grown in ((2, 0), (3, 1)):
        weak = [exceeding(gamma**-power, share) for gamma in GAMMAS]
        assert participation_orders.grows(base, Varied(gammas=weak)) == pytest.approx(grown, abs=1e-9)

    def larger(power: float) -> list[Path]:
        return [
            exceeding(N**power, lambda m, N=N: share(m, N), N)  # type: ignore[misc]
            for N in (times * CLIENTS for times in COPIES)
        ]

    for power, grown in ((0, 0), (1, 1)):
        found = participation_orders.grows(base, Varied(copies=larger(power)))
        assert found == pytest.approx(grown, abs=1e-9)


def test_copies_change_nothing_for_all_clients() -> None:
    rng = np.random.default_rng(0)
    equal, general = (proof_runs.posed(rng, CLIENTS, 12, 0.5, same=same) for same in (True, False))
    squares = square_problems.regression(rng)
    for kind in (participation_orders, participation_errors):
        few = kind.paths(equal, general, squares, 0)
        more = kind.paths(copied(equal, 2), copied(general, 2), copied_square(squares, 2), 0)
        for one, two in zip(few, more, strict=True):
            np.testing.assert_allclose(one(4, CLIENTS, 1, 3), two(4, 2 * CLIENTS, 1, 3), rtol=1e-10)


def test_oracles_of_other_gamma() -> None:
    rng = np.random.default_rng(1)
    one, gamma = proof_runs.posed(rng, CLIENTS, 12, 0.5, same=True), 0.25
    query = rng.standard_normal((CLIENTS, 12))
    np.testing.assert_allclose(participation_paths.plain(gamma)(query, False), gamma * query)
    off = participation_paths.one_point(one, gamma)(query, False) - query
    np.testing.assert_allclose(one.own(off, off), (1 - gamma) ** 2 * one.own(query, query))
    wide = participation_paths.everywhere(one.mass > 0, gamma)(query, True) - query
    np.testing.assert_allclose(np.abs(wide), np.tile(0.75 * np.abs(query).max(axis=1, keepdims=True), 12))
    assert (np.sign(wide[:, 0]) == [1, -1, 1, -1, 1]).all()


def test_the_difference_of_logarithms() -> None:
    """Step sizes 1/(tK + k + 1), K = 4: as printed it is infinite in round 0."""

    def judged(first: int, shift: float = 0.0) -> list[bool | None]:
        found = Found()
        for t in range(first, 6):
            square_split.logarithms(t, 4, 6, sum(1 / (4 * t + k + 1 + shift) for k in (1, 2, 3)), found)
        checks = (square_split.LOG_PRINTED, square_split.LOG, square_split.LOG_LEAST)
        return [one.verdict([found.worst[one.claim]]).holds for one in checks]

    assert judged(0) == [False, True, True]
    assert judged(1) == [True, True, True]
    assert judged(1, -2) == [True, False, True]
    assert judged(0, 4) == [False, True, False]
