"""FedNewton, (4) and Remark 4: the step's error against a round of the library, labels by their shares."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from fedsolve.algorithms import FedNewton
from fedsolve.losses import Squared
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton import settings
from fedsolve.reproduce.fednewton.synthetic import L2, problem
from fedsolve.reproduce.iterates import iterates


def test_the_error_of_the_step_is_what_a_round_leaves() -> None:
    """Newton's step ends at the pooled solution, so that the step's error is the federated error after a round."""
    posed = problem(5, 400, 0.0, 0)
    path = [one.state.w for one in islice(iterates(FedNewton(Squared(l2=L2)), posed.clients), 2)]
    assert settings.step_error(posed) == pytest.approx(posed.error(path[1]) / posed.error(path[0]), rel=1e-3)


def test_labels_have_their_shares_and_the_gradient_vanishes_for_one_client() -> None:
    clients = settings.labelled((0.9, 0.1), 0)
    means = [float(np.mean(one.y)) for one in clients]
    assert means == pytest.approx([0.9, 0.1, 0.9, 0.1], abs=0.08)
    assert settings.gradient_left(clients[:1], 0.1) < 1e-12


def test_settings_quick() -> None:
    found = dict(perform(find("fednewton-settings"), quick=True).result.claims)
    assert all(verdict.holds is None for verdict in found.values())
