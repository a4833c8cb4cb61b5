"""DKRR in kernel space against feature space and the library, and its counts by hand."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from fedsolve.algorithms import FedNewton
from fedsolve.federation.client import Client
from fedsolve.losses import Squared
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import kernel_costs, kernel_space
from fedsolve.reproduce.fednewton.multiply_adds import counting
from fedsolve.reproduce.iterates import iterates


def test_dkrr_cm_is_fednewton_on_the_features_of_its_kernel() -> None:
    """With the kernel φ(x)ᵀφ(x') both make the same predictions in every round; DKRR is the start."""
    rng = np.random.default_rng(3)
    phi, y = rng.standard_normal((120, 7)), rng.standard_normal(120)
    clients = [Client(f"client-{j}", phi[30 * j : 30 * j + 30], y[30 * j : 30 * j + 30]) for j in range(4)]
    found = kernel_space.Communicating.of(phi @ phi.T, y, 4, 0.1).path(kernel_space.Messages())
    theirs = iterates(FedNewton(Squared(l2=0.1)), clients)
    for alpha, one in islice(zip(found, theirs, strict=False), 5):
        assert phi @ (phi.T @ alpha) == pytest.approx(phi @ one.state.w, rel=1e-8, abs=1e-9)


def test_stochastic_steps_are_those_in_feature_space() -> None:
    rng = np.random.default_rng(4)
    phi, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
    alpha = kernel_space.descended(phi @ phi.T, y, 50, 0.05, np.random.default_rng(1))
    w = np.zeros(5)
    for i in np.random.default_rng(1).integers(20, size=50):
        w -= 0.05 * (phi[i] @ w - y[i]) * phi[i]
    assert phi.T @ alpha == pytest.approx(w)


def test_counts_by_hand() -> None:
    """A factor, a solution, a kernel of 10 columns; and of DKRR-CM two products with the own rows and a solution."""
    X, y = kernel_costs.drawn(40)
    with counting() as counted:
        K = kernel_space.kernel(X, X)
    assert counted.clients == 40 * 40 * 10
    with counting() as counted:
        kernel_space.coefficients(K, y, 0.1)
    assert counted.clients == 40**3 // 6 + 40**2
    messages = kernel_space.Messages()
    path = kernel_space.Communicating.of(K, y, 4, 0.1).path(messages)
    next(path)
    with counting() as counted:
        next(path)
    assert counted.clients == 4 * (2 * 10 * 40 + 10**2)
    assert messages.by_round == [2 * 10 + 2 * 40]
    assert messages.all_up == 3 * 40


def test_the_kernel_is_gaussian_and_its_solution_ridge_regression() -> None:
    X, y = kernel_costs.drawn(30)
    K = kernel_space.kernel(X, X)
    assert K[3, 8] == pytest.approx(np.exp(-np.sum((X[3] - X[8]) ** 2) / 20))
    alpha = kernel_space.coefficients(K, y, 0.1)
    assert K @ alpha + 3.0 * alpha == pytest.approx(y)


def test_kernel_costs_quick() -> None:
    found = dict(perform(find("fednewton-kernel-costs"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
    assert found["DKRR sends O(|D|) numbers: coefficients and inputs"].said.startswith("11 |D|")
