"""The methods of the FedNewton paper, against recurrences written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedsolve.federation.client import Client
from fedsolve.numerics.design import DenseDesign
from fedsolve.reproduce import Measured
from fedsolve.reproduce.claims import all_smaller, among_seeds
from fedsolve.reproduce.fednewton.figure4_claims import crossing
from fedsolve.reproduce.fednewton.methods import SHOWN, Setting, models, scores, shown_scores
from fedsolve.reproduce.fednewton.synthetic import L2, problem
from fedsolve.reproduce.tally import Tally
from fedsolve.typing import Array

SETTING = Setting(l2=0.05, pull=0.3, step_size=0.2)


@pytest.fixture
def clients() -> list[Client]:
    """Clients of different sizes, so that weights matter, and with two outputs."""
    rng = np.random.default_rng(5)
    return [
        Client(f"client-{j}", rng.standard_normal((n, 6)) + 0.3 * j, rng.standard_normal((n, 2)))
        for j, n in enumerate((15, 40, 25))
    ]


def by_hand(clients: list[Client], rounds: int) -> dict[tuple[str, int], Array]:
    """Algorithm 1, FedAvg and FedProx with dense matrices and explicit inverses."""
    n = np.array([len(client.y) for client in clients])
    p = n / n.sum()
    H = [one.X.T @ one.X / len(one.X) + SETTING.l2 * np.eye(6) for one in clients]
    b = [one.X.T @ one.y / len(one.X) for one in clients]
    inverses = [np.linalg.inv(one) for one in H]
    pulled = [np.linalg.inv(one + SETTING.pull * np.eye(6)) for one in H]

    def mean(parts: list[Array]) -> Array:
        return np.tensordot(p, np.array(parts), axes=1)

    dkrr = mean([inverse @ one for inverse, one in zip(inverses, b, strict=True)])
    found = {("KRR", 0): np.linalg.solve(mean(H), mean(b)), ("DKRR", 0): dkrr}
    newton = prox = average = dkrr
    for t in range(rounds + 1):
        found |= {("FedNewton", t): newton, ("FedProx", t): prox, ("FedAvg", t): average}
        newton = newton - mean(inverses) @ (mean(H) @ newton - mean(b))
        prox = mean([inverse @ (one + SETTING.pull * prox) for inverse, one in zip(pulled, b, strict=True)])
        ends = []
        for hessian, one in zip(H, b, strict=True):
            w = average
            for _ in range(2):
                w = w - SETTING.step_size * (hessian @ w - one)
            ends.append(w)
        average = mean(ends)
    return found


def test_every_method_is_its_recurrence(clients: list[Client]) -> None:
    expected = by_hand(clients, 5)
    found = {(method, round): w for method, round, w in models(clients, SETTING, 6)}
    for place, w in expected.items():
        np.testing.assert_allclose(found[place], w, rtol=1e-9, atol=1e-12, err_msg=str(place))
    # Conjugate gradients end after as many iterations as there are unknowns.
    np.testing.assert_allclose(found["FedNewtonCG", 6], expected["KRR", 0], rtol=1e-9, atol=1e-12)


def test_a_gram_matrix_is_computed_once_for_all_methods(clients: list[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = DenseDesign.gram

    def counted(self: DenseDesign, weights: Array | None = None) -> object:
        calls.append(len(self.X))
        return original(self, weights)

    monkeypatch.setattr(DenseDesign, "gram", counted)
    for _ in models(clients, SETTING, 3):
        pass
    assert sorted(calls) == [15, 25, 40]


def test_what_is_shown_are_those_scores(clients: list[Client]) -> None:
    def size(w: Array) -> float:
        return float(np.abs(w).sum())

    every = scores(clients, SETTING, size, 8)
    assert shown_scores(clients, SETTING, size) == {
        heading: every[method][round] for heading, (method, round) in SHOWN.items()
    }


def test_what_a_simulation_knows() -> None:
    posed = problem(4, 60, 0.5, 2, beta=0.2)
    C = posed.features.T @ posed.features / len(posed.features)
    assert posed.dimension == pytest.approx(np.trace(np.linalg.solve(C + L2 * np.eye(len(C)), C)), rel=1e-6)
    gaps = [np.abs(np.linalg.eigvalsh(C - one.X.T @ one.X / len(one.X))).max() for one in posed.clients]
    assert posed.data_shift == pytest.approx(np.mean(gaps), rel=1e-9)
    H = C + L2 * np.eye(len(C))
    A = np.mean([np.linalg.inv(one.X.T @ one.X / len(one.X) + L2 * np.eye(len(C))) for one in posed.clients], axis=0)
    assert posed.rho == pytest.approx(np.linalg.eigvals(A @ H).real.max() - 1, rel=1e-6)
    assert posed.model_shift > 0
    assert problem(4, 60, 0.5, 2).model_shift == 0.0


def test_where_a_ratio_stays_above_one() -> None:
    assert crossing([0.0, 1.0, 2.0], [0.5, 0.5, 2.0]) == pytest.approx(1.5)
    assert crossing([0.0, 1.0, 2.0, 3.0], [1.1, 0.9, 1 / 0.9, 7.0]) == pytest.approx(1.5)  # what comes before is past
    assert crossing([0.0, 1.0], [2.0, 3.0]) == 0.0
    assert crossing([0.0, 1.0], [0.5, 1.0]) == math.inf


def test_rules_for_claims() -> None:
    ours = Measured((0.25, 0.28, 0.30, 0.31, 0.33))
    assert among_seeds(ours, 0.335, 0.01).holds is True
    assert among_seeds(ours, 0.34, 0.01).holds is False
    assert among_seeds(Measured((0.30,)), 0.30, 0.01).holds is None  # one seed cannot say
    low, high = Measured((1.0, 2.0, 2.0, 9.0, 9.0)), Measured((3.0,) * 5)
    assert all_smaller({"a": (low, high)}).holds is True
    assert all_smaller({"a": (low, high), "b": (high, low)}).holds is False


def test_a_tally_keeps_the_order_of_the_seeds() -> None:
    tally = Tally[str]()
    for value in (1.0, 2.0):
        tally.add("a", {"x": value})
        tally.add("b", {"x": 10 * value})
        for case in ("a", "b"):
            tally.add(case, {"unit": 2 * value})
    assert tally.measured("b", "x", 7) == Measured((10.0, 20.0), 7)
    positions, values = tally.relative(["a", "b"], [0.1, 0.2], ["x"], to="unit")["x"].points()
    assert positions.tolist() == [0.1, 0.2]
    assert values.tolist() == [[0.5, 5.0], [0.5, 5.0]]
