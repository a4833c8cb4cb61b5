"""FedNewton, Table 1, kernels of finite rank: the exact error against a fit in coefficients, sizes by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton.finite_rank import CONSTANT, NOISE, SIZES, features, local_size, squared_error


def test_the_local_size_is_the_one_printed_with_kappa_of_the_features() -> None:
    for rank in (1, 2, 3):
        x = np.linspace(0, 1, 101)
        kappa = math.sqrt(np.square(features(x, rank)).sum(axis=1).max())
        assert local_size(rank, 5000) == math.ceil(CONSTANT * rank**2 * kappa**4 * math.log(5000) - 1e-9)


def test_the_features_are_orthonormal() -> None:
    x = (np.arange(64) + 0.5) / 64
    np.testing.assert_allclose(features(x, 3).T @ features(x, 3) / 64, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("clients", [1, 4])
def test_the_error_is_that_of_the_mean_of_fits_in_kernel_space(clients: int) -> None:
    """The fit is linear in the targets: w = L y, so that E‖w − w*‖² = ‖LΦw* − w*‖² + σ²‖L‖²."""
    Phi, l2, n = features(np.random.default_rng(3).uniform(size=24), 2), 0.05, 24 // clients
    parts = np.split(Phi, clients)
    L = np.hstack([one.T @ np.linalg.inv(one @ one.T + n * l2 * np.eye(n)) / clients for one in parts])
    bias = L @ Phi @ np.ones(2) - 1
    assert squared_error(Phi, clients, l2) == pytest.approx(bias @ bias + NOISE * np.square(L).sum(), rel=1e-10)


def test_the_error_of_rank_one_by_hand() -> None:
    # One sample, ψ = 2, λ = 1: w = 2y/5, bias 4/5 − 1, variance 4/25.
    assert squared_error(np.array([[2.0]]), 1, 1.0) == pytest.approx(0.04 + 0.16)


def test_the_quick_form_has_a_verdict_for_either_size() -> None:
    found = dict(perform(find("fednewton-finite-rank"), quick=True).result.claims)
    assert list(found) == list(SIZES.values())
