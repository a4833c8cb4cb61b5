"""FedNewton, Theorem 3: federated errors by round against the other computation of them, and what counts as linear."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import linear
from fedsolve.reproduce.fednewton.sharp import Sharp, errors


def test_federated_errors_are_those_of_the_rates() -> None:
    of = Sharp(0.5, 0.5, size=20)
    parts = of.parts(200, 4, np.random.default_rng(1))
    found = linear.federated(of, parts, 0.5, 3)
    theirs = errors(of, parts, 0.5, 3)
    assert found[0] == pytest.approx(theirs["federated, DKRR"], rel=1e-6)
    assert found[3] == pytest.approx(theirs["federated, #3"], rel=1e-6)


def test_geometric_errors_are_linear_and_others_not() -> None:
    geometric = linear.rounds_to([0.5**t for t in range(60)])
    assert geometric == [7, 14, 20, 27]
    assert linear.even(geometric)
    assert not linear.even(linear.rounds_to([1 / (1 + t) for t in range(100)]))
    assert not linear.even([10, 100, 1000, 10_000])
    assert linear.rounds_to([1.0, 2.0]) == [math.inf] * 4


def test_linear_quick() -> None:
    found = dict(perform(find("fednewton-linear"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
