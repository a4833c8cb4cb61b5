"""Local solvers behind one interface: the same arguments, the same meaning."""

from __future__ import annotations

import numpy as np
import pytest

from fedsolve.federation.client import Client
from fedsolve.local import CG, GradientSteps, LocalSolver, Richardson
from fedsolve.losses import Logistic, Squared

LOSS = Squared(l2=0.05)
W = np.random.default_rng(1).standard_normal(4)
CORRECTION = np.array([0.3, -0.2, 0.0, 0.5])
# Enough steps for each to solve its problem to rounding.
SOLVERS: dict[str, tuple[LocalSolver, float]] = {
    "gradient steps": (GradientSteps(steps=4000), 0.2),
    "cg": (CG(steps=8), 1.0),
    "richardson": (Richardson(steps=4000), 1.0),
}


def client(weighted: bool = False) -> Client:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.standard_normal(25)
    return Client("a", X, y, rng.integers(1, 4, 25).astype(float) if weighted else None)


@pytest.mark.parametrize(("solver", "step_size"), SOLVERS.values(), ids=SOLVERS.keys())
@pytest.mark.parametrize("pull", [0.0, 0.7])
@pytest.mark.parametrize("correction", [None, CORRECTION], ids=["plain", "corrected"])
def test_all_reach_the_minimum_that_correction_and_pull_define(
    solver: LocalSolver, step_size: float, correction: np.ndarray | None, pull: float
) -> None:
    """argmin f_j(v) + cᵀv + (pull/2) ‖v − w‖², by NumPy's own solver."""
    one = client(weighted=True)
    s = one.sample_weight
    H = (one.X.T * s) @ one.X / s.sum() + (LOSS.l2 + pull) * np.eye(4)
    c = np.zeros(4) if correction is None else correction
    expected = np.linalg.solve(H, (one.X.T * s) @ one.y / s.sum() - c + pull * W)
    found = solver.run(LOSS, one, W, step_size, correction=correction, pull=pull)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("solver", "step_size"), SOLVERS.values(), ids=SOLVERS.keys())
def test_count_is_the_number_of_steps(solver: LocalSolver, step_size: float) -> None:
    assert solver.count(client()) == solver.steps


def test_a_pull_counts_from_where_the_client_began() -> None:
    """Two steps by hand: the anchor is the first w, not the last."""
    one = client()
    v = W - 0.1 * LOSS.gradient(one, W)
    v = v - 0.1 * (LOSS.gradient(one, v) + 2.0 * (v - W))
    np.testing.assert_array_equal(GradientSteps(2).run(LOSS, one, W, 0.1, pull=2.0), v)


def test_without_pull_and_correction_nothing_is_added() -> None:
    """To the bit: 0 · (w − w₀) would turn −0 into 0, and infinities into NaN."""
    one = client()
    v = W - 0.1 * LOSS.gradient(one, W)
    assert GradientSteps(1).run(LOSS, one, W, 0.1).tobytes() == v.tobytes()


@pytest.mark.parametrize("solver", [CG(3), Richardson(3)])
def test_a_loss_without_hessians_is_rejected(solver: LocalSolver) -> None:
    class Bare:
        pass

    with pytest.raises(TypeError, match="Bare does not have"):
        solver.run(Bare(), client(), W, 1.0)


def test_batches_are_counted_for_the_client() -> None:
    one = Client("a", np.eye(10), np.array([0.0, 1.0] * 5))
    GradientSteps(3, batch_size=4).run(Logistic(), one, np.zeros(10), 0.1, pull=0.1)
    assert one.counts == {"gradients": 12}
