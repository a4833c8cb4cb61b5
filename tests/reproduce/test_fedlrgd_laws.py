"""How often (8) holds: the norms, the α and the shares against what can be had by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.reproduce.fedlrgd import laws
from fedsolve.reproduce.fedlrgd.theory_smoothness import MU


def test_a_matrix_of_one_entry_has_the_reciprocal_norm() -> None:
    found = laws.norms(np.random.default_rng(1), 1, laws.normal(1.0), draws=50)
    rng = np.random.default_rng(1)
    x, y, theta = rng.random((50, 1, 2))[:, 0], rng.random((50, 1))[:, 0], rng.standard_normal((50, 1, 2))[:, 0]
    g = (1 / (1 + np.exp(-(x * theta).sum(axis=1))) - y) * x[:, 0] + MU * theta[:, 0]
    assert found == pytest.approx(1 / np.abs(g))


def test_the_exponent_is_the_least_that_95_of_100_keep() -> None:
    found = 4.0 ** np.arange(1, 101)
    assert laws.exponent(found, 4) == pytest.approx(95)
    assert laws.share(found, 4, 95.0) == 0.95
    assert laws.share(found, 4, 94.9) == 0.94


@pytest.mark.parametrize(("r", "power"), [(2, 1), (3, 1), (4, 3)])
def test_norms_grow_as_the_taylor_series_says(r: int, power: int) -> None:
    """The orders 0 and 1 in θ have three terms together, and order 2 none as σ''(0) = 0: a fourth row needs order 3."""
    wide, narrow = (laws.norms(np.random.default_rng(2), r, laws.normal(s), draws=200) for s in (1e-2, 1e-3))
    assert np.median(np.log10(narrow / wide)) == pytest.approx(power, abs=0.05)


def test_where_all_parameters_agree_no_draw_keeps_it() -> None:
    found = laws.norms(np.random.default_rng(3), 4, lambda rng, shape: np.ones(shape), draws=50)
    assert laws.share(found, 4, 20.0) == 0.0


def test_every_check_is_measured() -> None:
    assert set(laws.measured(0)) == {check.claim for check in laws.CHECKS}
