"""FedNewton, Remark 1: quasi-Newton steps against conjugate gradients, the sketch against the Hessian, hand counts."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.losses import Squared
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import inexact, inverse, work
from fedsolve.reproduce.fednewton.multiply_adds import counting


def test_quasi_newton_steps_with_exact_line_search_are_conjugate_gradients() -> None:
    """On a quadratic, from the identity (Nazareth): after every number of steps."""
    (client,) = work.drawn(1, 80, 9)
    g = np.arange(1.0, 10.0)
    for steps in (1, 2, 4):
        theirs = inexact.inexact_solution(client, g, steps)
        assert inverse.bfgs_solution(client, g, inexact.LOSS, steps) == pytest.approx(theirs, rel=1e-8)
        assert inverse.lbfgs_solution(client, g, inexact.LOSS, steps) == pytest.approx(theirs, rel=1e-8)


def test_a_sketch_of_many_rows_is_near_the_hessian() -> None:
    """With as many buckets as make collisions rare the sketched Hessian is the Hessian, nearly."""
    (client,) = work.drawn(1, 60, 5)
    g = np.ones(5)
    exact = np.linalg.solve(Squared(l2=0.1).hessian(client, g).full(), g)
    with counting() as counted:
        found = inverse.Sketched(1_000_000, 0.1, counted)(client, g)
    assert found == pytest.approx(exact, rel=1e-3)
    with counting() as counted:
        rough = inverse.Sketched(20, 0.1, counted)(client, g)
    assert counted.clients == 60 * 5 + 20 * 25 + 5**3 // 6 + 25
    assert rough != pytest.approx(exact, rel=1e-2)


def test_counts_of_a_step_by_hand() -> None:
    """BFGS: two passes over the rows and four times M²; L-BFGS: four times M a pair."""
    (client,) = work.drawn(1, 40, 8)
    loss, g = Squared(l2=0.1), np.ones(8)
    with counting() as counted:
        inverse.bfgs_solution(client, g, loss, 1)
    assert counted.clients == 2 * 40 * 8 + 4 * 8 * 8
    with counting() as counted:
        inverse.lbfgs_solution(client, g, loss, 3)
    assert counted.clients == 3 * 2 * 40 * 8 + (1 + 2) * 4 * 8


def test_the_jacobian_of_linear_residuals() -> None:
    (client,) = work.drawn(1, 20, 3)
    J = inverse.jacobian(client, np.ones(3), 0.25)
    assert J[:20] == pytest.approx(client.X / np.sqrt(20))
    assert J[20:] == pytest.approx(0.5 * np.eye(3))


def test_inverse_quick() -> None:
    found = dict(perform(find("fednewton-inverse"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
