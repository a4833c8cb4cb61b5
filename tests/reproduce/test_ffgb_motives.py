"""`ffgb-motives`: the printed terms and a round by hand, exponents, and boosting over one class by a closed form."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from fedsolve.reproduce.ffgb import rules_classes, rules_rounds
from fedsolve.reproduce.ffgb.proof_runs import Posed


def test_terms_by_hand() -> None:
    """K = 2, t = 0, μ = γ = ½: 16 (4 log 3 + ¼) + ½ · 8 log 2 + 2 · 8ω · 2 · 2."""
    assert rules_rounds.terms(2, 0, 0.5, 0.5, 0.1) == pytest.approx(16 * (4 * log(3) + 0.25) + 4 * log(2) + 6.4)
    assert rules_rounds.terms(1, 3, 0.5, 1.0, 0.0) == pytest.approx(4 * log(5 / 4))


def test_an_increment_by_hand() -> None:
    """One point, label 1, μ = 1, f⁰ = 0, h = φ: η = 4/2, f¹ = 1."""
    one = Posed(np.ones((1, 1)), np.ones((1, 1)), 1.0)
    first = next(rules_rounds.increments(one, np.zeros(1), rules_rounds.scaled(1.0), 1.0, 1))
    f = one.best[0]
    assert 1 / (1 + np.exp(-f)) - 1 + f == pytest.approx(0)
    assert first == pytest.approx((2 * (1 - f) ** 2 - f**2) / log(2))


def test_growth_in_one_quantity_is_seen() -> None:
    worst = np.ones((3, 2, 2)) * np.array([1.0, 2.0, 4.0])[:, None, None]
    assert rules_rounds.power([1, 2, 4], worst, 0) == pytest.approx(1)
    assert rules_rounds.power([1, 2], worst, 1) == pytest.approx(0)


def test_sums_of_ridge_fits_are_a_ridge_fit() -> None:
    """Without noise the fit is exact: a tenth is left after η = 0.9, and a tenth of that after another."""
    data = rules_classes.made(np.random.default_rng(5), False)
    exact = rules_classes.Made(data.X, data.X @ [1.0, 2.0, 3.0], data.new, data.new @ [1.0, 2.0, 3.0])
    learner = rules_classes.RidgeLearner(l2=0.0)
    part = rules_classes.boosted(learner, exact, 1, 0.9)
    assert part == pytest.approx(0.01 * np.mean(exact.truth**2))
    assert rules_classes.boosted(learner, exact, 2, 0.9) == pytest.approx(0.01 * part)
