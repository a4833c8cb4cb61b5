"""Local solvers behind one interface: the same arguments, the same meaning."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, Memory
from fedsolve.local import (
    CG,
    Adam,
    Cosine,
    GradientSteps,
    InverseTime,
    LocalSolver,
    Momentum,
    ProximalSteps,
    Richardson,
    StepDecay,
)
from fedsolve.losses import Logistic, Loss, Squared
from tests.extras import optional
from tests.problems import PROBLEMS

LOSS = Squared(l2=0.05)
W = np.random.default_rng(1).standard_normal(4)
CORRECTION = np.array([0.3, -0.2, 0.0, 0.5])
# Enough steps for each to solve its problem to rounding.
SOLVERS: dict[str, tuple[LocalSolver, float]] = {
    "gradient steps": (GradientSteps(steps=4000), 0.2),
    "cg": (CG(steps=8), 1.0),
    "richardson": (Richardson(steps=4000), 1.0),
    "heavy ball": (Momentum(steps=1000, momentum=0.5), 0.2),
    "nesterov": (Momentum(steps=1000, momentum=0.5, nesterov=True), 0.2),
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


# ── momentum and Adam, against torch.optim ──


@pytest.mark.parametrize(
    ("solver", "name", "options"),
    [
        (Momentum(7, momentum=0.8), "SGD", {"momentum": 0.8}),
        (Momentum(7, momentum=0.8, nesterov=True), "SGD", {"momentum": 0.8, "nesterov": True}),
        (Momentum(7, momentum=0.0), "SGD", {}),
        (Adam(7), "Adam", {}),
        (Adam(7, beta1=0.5, beta2=0.9, epsilon=1e-3), "Adam", {"betas": (0.5, 0.9), "eps": 1e-3}),
    ],
    ids=["heavy ball", "nesterov", "none", "adam", "adam, other means"],
)
@pytest.mark.parametrize("pull", [0.0, 0.7])
def test_steps_are_those_of_torch(solver: LocalSolver, name: str, options: dict[str, object], pull: float) -> None:
    torch = optional("torch")
    one = client(weighted=True)
    v = torch.tensor(W, requires_grad=True)
    optimiser = getattr(torch.optim, name)([v], lr=0.05, **options)
    for _ in range(7):
        at = v.detach().numpy()
        v.grad = torch.tensor(LOSS.gradient(one, at) + CORRECTION + pull * (at - W))
        optimiser.step()
    found = solver.run(LOSS, one, W, 0.05, correction=CORRECTION, pull=pull)
    np.testing.assert_allclose(found, v.detach().numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("solver", [Momentum(3), Adam(3)])
def test_what_is_remembered_begins_anew_in_every_run(solver: LocalSolver) -> None:
    one = client()
    first = solver.run(LOSS, one, W, 0.1)
    assert solver.run(LOSS, one, W, 0.1).tobytes() == first.tobytes()


# ── batches ──


def entered(name: str = "a", seed: int = 0, round: int = 1, n: int = 11, weighted: bool = False) -> Client:
    """A client whose rows are known by their first column, in a call of this round."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.arange(n), rng.standard_normal((n, 3))])
    made = Client(name, X, rng.standard_normal(n), rng.random(n) + 0.5 if weighted else None)
    made.enter(Memory({}), (seed, round, 0, 0))
    return made


def rows(solver: GradientSteps, one: Client) -> list[list[int]]:
    return [part.design.take(slice(None))[:, 0].astype(int).tolist() for part, _ in solver.parts(one)]


@pytest.mark.parametrize("batches", ["shuffled", "fixed"])
def test_an_epoch_takes_every_sample_once(batches: str) -> None:
    solver = GradientSteps(epochs=3, batch_size=4, batches=batches)
    taken = rows(solver, entered())
    assert [len(one) for one in taken] == [4, 4, 3] * 3
    assert len(taken) == solver.count(entered())
    for epoch in range(3):
        assert sorted(np.concatenate(taken[3 * epoch : 3 * epoch + 3])) == list(range(11))
    assert (taken[:3] == taken[3:6]) == (batches == "fixed")


def test_fixed_batches_are_a_function_of_seed_and_client() -> None:
    solver = GradientSteps(steps=5, batch_size=4, batches="fixed")
    first = rows(solver, entered())
    assert first[3:] == first[:2]  # in turn
    assert rows(solver, entered(round=2)) == [first[2], first[0], first[1], first[2], first[0]]  # and on
    assert rows(solver, entered(round=7)) == first  # (7 − 1) · 5 is a multiple of 3
    assert rows(solver, entered(seed=1)) != first
    assert rows(solver, entered(name="b")) != first
    one = entered()  # kept, but not for another seed or size
    assert rows(solver, one) == first
    one.enter(Memory({}), (1, 1, 0, 0))
    assert rows(solver, one) == rows(solver, entered(seed=1))
    assert [len(part) for part in rows(GradientSteps(epochs=1, batch_size=6, batches="fixed"), one)] == [6, 5]


@pytest.mark.parametrize("steps", [1, 2])
def test_fixed_batches_are_all_used_where_there_are_fewer_steps(steps: int) -> None:
    solver = GradientSteps(steps, batch_size=4, batches="fixed")
    taken = [sorted(np.concatenate(rows(solver, entered(round=round)))) for round in range(1, 4)]
    assert sorted(np.concatenate(taken)) == sorted(list(range(11)) * steps)  # three rounds are as many passes
    # After whole epochs a round begins at the first batch.
    epoch = GradientSteps(epochs=1, batch_size=4, batches="fixed")
    assert rows(epoch, entered(round=2)) == rows(epoch, entered(round=1))


def test_scaled_by_the_client_a_pass_of_adam_is_about_as_long_as_a_step() -> None:
    """Its steps have the length of the step size however long the gradients are: shares multiply the steps. With one
    row over and over the batches have one gradient, and each of Adam's first steps is step_size · share long."""
    one = Client("a", np.ones((8, 1)), np.full(8, 1e6))
    one.enter(Memory({}), (0, 1, 0, 0))
    for size in (1, 2, 4, 8):
        solver = Adam(epochs=1, batch_size=size, batches="fixed", scale="client", beta1=0.0, beta2=0.0)
        np.testing.assert_allclose(solver.run(Squared(), one, np.zeros(1), 0.1), [0.1], rtol=1e-9)
        plain = Adam(epochs=1, batch_size=size, batches="fixed", beta1=0.0, beta2=0.0)
        np.testing.assert_allclose(plain.run(Squared(), one, np.zeros(1), 0.1), [0.1 * 8 / size], rtol=1e-9)


def test_shuffled_batches_differ_by_round() -> None:
    solver = GradientSteps(epochs=1, batch_size=4)
    assert rows(solver, entered(round=1)) != rows(solver, entered(round=2))
    assert rows(solver, entered(round=1)) == rows(solver, entered(round=1))


@pytest.mark.parametrize("solver", [GradientSteps(epochs=2, batch_size=20), GradientSteps(epochs=2)])
def test_an_epoch_of_a_client_smaller_than_a_batch_is_a_step(solver: GradientSteps) -> None:
    one = client()
    small = Client("small", one.X[:11], one.y[:11])
    assert solver.count(small) == 2
    assert solver.run(LOSS, small, W, 0.1).tobytes() == GradientSteps(2).run(LOSS, small, W, 0.1).tobytes()


@pytest.mark.parametrize("batches", ["shuffled", "fixed"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scaled_by_the_client_the_gradients_of_a_pass_are_the_gradient(batches: str, weighted: bool) -> None:
    """Su et al., section 7.1: steps keep 1/n_i. Penalty and sample weights included."""
    solver, one = GradientSteps(epochs=1, batch_size=4, batches=batches, scale="client"), entered(weighted=weighted)
    total = sum(share * LOSS.gradient(part, W) for part, share in solver.parts(one))
    np.testing.assert_allclose(total, LOSS.gradient(one, W), rtol=1e-13)


def test_a_pass_of_the_paper_by_hand() -> None:
    """Two passes over three fixed batches, η/n_i · X_Bᵀ(X_B w − y_B) each."""
    solver, one, w = GradientSteps(epochs=2, batch_size=4, batches="fixed", scale="client"), entered(), W
    for batch in rows(GradientSteps(epochs=2, batch_size=4, batches="fixed"), one):
        X, y = one.X[batch], one.y[batch]
        w = w - 0.01 / 11 * X.T @ (X @ w - y)
    np.testing.assert_allclose(solver.run(Squared(), one, W, 0.01), w, rtol=1e-12)


@pytest.mark.parametrize("scale", ["batch", "client"])
def test_proximal_steps_by_hand(scale: str) -> None:
    """argmin 1/(2m) ‖X_B v − y_B‖² + cᵀv + (pull/2) ‖v − w‖², m of the batch or, with its cᵀv, of the client."""
    solver, one, w = ProximalSteps(epochs=2, batch_size=4, batches="fixed", scale=scale), entered(), W
    for batch in rows(GradientSteps(epochs=2, batch_size=4, batches="fixed"), one):
        X, y, m = one.X[batch], one.y[batch], len(batch) if scale == "batch" else 11
        H = X.T @ X / m + 0.7 * np.eye(4)
        w = np.linalg.solve(H, X.T @ y / m - len(batch) / m * CORRECTION + 0.7 * w)
    np.testing.assert_allclose(solver.run(Squared(), one, W, 1.0, correction=CORRECTION, pull=0.7), w, rtol=1e-10)


def test_a_batch_without_weight_changes_nothing_where_the_client_is_the_scale() -> None:
    """Also not by its penalty: its share of the client's weight is zero."""
    rng = np.random.default_rng(0)
    one = Client("a", rng.standard_normal((8, 4)), rng.standard_normal(8), np.where(np.arange(8) < 4, 1.0, 0.0))
    for solver in (
        GradientSteps(epochs=1, batch_size=1, scale="client"),
        ProximalSteps(1, 1, epochs=1, scale="client"),
    ):
        shares = [share for _, share in solver.parts(one)]
        assert sorted(shares) == [0.0] * 4 + [0.25] * 4
        assert np.isfinite(solver.run(LOSS, one, W, 0.1, pull=0.5)).all()


# ── how far a run goes ──


class Slope(Loss):
    """A loss whose gradient is the same everywhere, at every batch."""

    def gradient(self, client: Client, w: np.ndarray) -> np.ndarray:
        return np.array([1.0, -2.0, 0.5, 3.0])

    def value(self, client: Client, w: np.ndarray) -> float:
        raise NotImplementedError

    sample_gradients = check = shape = model = value


@pytest.mark.parametrize("kind", [GradientSteps, Momentum])
@pytest.mark.parametrize("batching", [{}, {"batch_size": 4}, {"batch_size": 4, "epochs": 2}])
@pytest.mark.parametrize("batches", ["shuffled", "fixed", "independent"])
@pytest.mark.parametrize("scale", ["batch", "client"])
@pytest.mark.parametrize("weighted", [False, True])
def test_reach_is_how_many_gradients_a_run_goes(kind, batching, batches, scale, weighted: bool) -> None:
    if batches == "independent":
        batching = {name: value for name, value in batching.items() if name != "epochs"}
    solver, one = kind(5, batches=batches, scale=scale, **batching), entered(weighted=weighted)
    reach = solver.reach(one)
    if scale == "client" and weighted and batching and batches == "shuffled":
        assert reach is None  # depends on which samples are drawn
        return
    slope = Slope()
    way = W - solver.run(slope, one, W, 0.1)
    np.testing.assert_allclose(way, 0.1 * reach * slope.gradient(one, W), rtol=1e-12)


# ── independent batches ──


@pytest.mark.parametrize("weighted", [False, True])
def test_independent_samples_are_drawn_by_their_weights_and_then_count_the_same(weighted: bool) -> None:
    """How often each comes, against the binomial distribution, six standard deviations wide."""
    one, steps = client(weighted), 20_000
    weights = np.ones(25) if one.sample_weight is None else one.sample_weight
    solver = GradientSteps(steps, batch_size=1, batches="independent")
    which = {float(y): place for place, y in enumerate(one.y)}
    drawn = [(which[float(part.y[0])], part.sample_weight) for part, _ in solver.parts(one)]
    expected = steps * weights / weights.sum()
    counts = np.bincount([place for place, _ in drawn], minlength=25)
    assert (np.abs(counts - expected) <= 6 * np.sqrt(expected)).all()
    assert all(weight is None or weight[0] == weights.mean() for _, weight in drawn)
    # Whatever came before: the same sample twice in a row as often as by chance, where shuffled ones never are.
    again = sum(a == b for (a, _), (b, _) in pairwise(drawn))
    chance = steps * ((weights / weights.sum()) ** 2).sum()
    assert abs(again - chance) <= 6 * np.sqrt(chance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", ["batch", "client"])
def test_independent_gradients_are_unbiased(weighted: bool, scale: str) -> None:
    """The mean over all batches of two samples that there are, each by its chance, is the client's own gradient."""
    one = client(weighted)
    weights = np.ones(25) if one.sample_weight is None else one.sample_weight
    chances = weights / weights.sum()

    class Script:
        def __init__(self, batch: tuple[int, int]) -> None:
            self.batch = np.array([batch])

        def integers(self, high: int, size: tuple[int, int]) -> np.ndarray:
            return self.batch

        def choice(self, high: int, size: tuple[int, int], p: np.ndarray) -> np.ndarray:
            np.testing.assert_array_equal(p, chances)
            return self.batch

    total = np.zeros(4)
    for i in range(25):
        for j in range(25):
            one._generator = Script((i, j))
            moved = GradientSteps(1, batch_size=2, batches="independent", scale=scale).run(LOSS, one, W, 1.0)
            total += chances[i] * chances[j] * (W - moved)
    np.testing.assert_allclose(total, (2 / 25 if scale == "client" else 1.0) * LOSS.gradient(one, W), rtol=1e-12)


def test_an_independent_batch_as_large_as_all_samples_is_all_of_them() -> None:
    one = client()
    found = GradientSteps(2, batch_size=25, batches="independent").run(LOSS, one, W, 0.1)
    assert np.array_equal(found, GradientSteps(2).run(LOSS, one, W, 0.1))


# ── schedules ──


def test_schedules() -> None:
    assert [InverseTime(0.5).factor(t) for t in (1, 2, 3)] == [1.0, 1 / 1.5, 0.5]
    assert [StepDecay(2, by=0.1).factor(t) for t in (1, 2, 3, 4, 5)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    assert StepDecay(1).factor(10**6) > 0
    # FedPAQ, Theorem 1: η_k = 4 / (μ (k b + 1)) in rounds k = 0, 1, …
    assert [4 / 0.3 * InverseTime(decay=7).factor(k + 1) for k in range(5)] == pytest.approx(
        [4 / (0.3 * (7 * k + 1)) for k in range(5)], rel=1e-15
    )
    cosine = Cosine(4, last=0.2)
    assert [cosine.factor(t) for t in (1, 3, 5, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


@pytest.mark.parametrize("kind", [fs.FedAvg, fs.Scaffold])
def test_a_schedule_counts_rounds(kind: type) -> None:
    """Round by round with the step size that the schedule has for it; Scaffold's memory would show another one."""
    problem = PROBLEMS["logistic | unbalanced"]
    found = fs.run(kind(problem.loss, GradientSteps(3, 0.4, schedule=StepDecay(2))), problem.clients(), rounds=2)
    plain = fs.run(kind(problem.loss, GradientSteps(3, 0.4)), problem.clients(), rounds=2)
    assert np.array_equal(found.model.w, plain.model.w)
    if kind is fs.FedAvg:
        found = fs.run(kind(problem.loss, GradientSteps(3, 0.4, schedule=StepDecay(2))), problem.clients(), rounds=4)
        half = kind(problem.loss, GradientSteps(3, 0.2))
        after = fs.run(half, problem.clients(), rounds=2, warm_start=plain.model.w)
        assert np.array_equal(found.model.w, after.model.w)


# ── what makes no sense ──


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GradientSteps(epochs=0), "epochs is a whole number of at least 1"),
        (lambda: GradientSteps(batches="random"), "'shuffled', 'fixed' or 'independent'"),
        (lambda: GradientSteps(epochs=2, batch_size=3, batches="independent"), "give steps instead of epochs"),
        (lambda: GradientSteps(scale="sum"), "'batch' or 'client'"),
        (lambda: GradientSteps(schedule=0.5), "schedule is a schedule"),
        (lambda: ProximalSteps(steps=0), "steps is a whole number of at least 1, got 0"),
        (lambda: GradientSteps(2.5), "steps is a whole number"),
        (lambda: GradientSteps(True), "steps is a whole number"),
        (lambda: GradientSteps(batch_size=2.5), "batch_size is a whole number"),
        (lambda: GradientSteps(2, float("inf")), "step_size is a positive number, got inf"),
        (lambda: Adam(epsilon=float("inf")), "epsilon is a positive number, got inf"),
        (lambda: CG(2.5), "steps is a whole number"),
        (lambda: Richardson(2, float("inf")), "step_size is a positive number, got inf"),
        (lambda: fs.FedAvg(LOSS, "sgd"), "FedAvg's local is a local solver such as .* got 'sgd'"),
        (lambda: fs.FedAvg(LOSS, None), "FedAvg's local is a local solver"),
        (lambda: fs.Scaffold(LOSS, GradientSteps), "Scaffold's local is a local solver"),
        (lambda: fs.FedProx(LOSS, local=0.1), "FedProx's local is a local solver .* or None, got 0.1"),
        (lambda: fs.FedProx(LOSS, pull="1"), "is a positive number, got '1'"),
        (lambda: fs.FedDyn(LOSS, pull="1"), "is a positive number, got '1'"),
        (lambda: fs.Scaffold(LOSS, Adam(2), option="II"), "no sum of gradients; take option 'I' or None"),
        (lambda: Momentum(momentum=1.0), "below 1"),
        (lambda: Adam(step_size=None), "Adam's step size"),
        (lambda: Adam(beta2=1.0), "below 1"),
        (lambda: Cosine(0), "rounds is a whole number"),
        (lambda: Cosine(5, last=0.0), "above 0"),
        (lambda: StepDecay(3, by=2.0), "at most 1"),
        (lambda: InverseTime(0.0), "positive"),
        (lambda: fs.FedAvg(LOSS, ProximalSteps()), "FedAvg has no pull, which ProximalSteps needs"),
        (lambda: fs.Scaffold(LOSS, ProximalSteps()), "Scaffold has no pull"),
        (lambda: fs.Scaffold(LOSS, option="III"), "option is 'I', 'II' or None"),
        (lambda: ProximalSteps().run(LOSS, client(), W, 1.0), "needs a pull"),
    ],
)
def test_what_makes_no_sense_is_said(make, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
