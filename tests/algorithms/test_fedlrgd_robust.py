"""FedLRGD on every problem, by every transport, with clients that leave, and on data unlike that of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import DataError
from fedsolve.federation.client_runtime import Runtime, Served
from fedsolve.federation.server_data import counted_at_server
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.models.linear import LinearModel
from fedsolve.typing import Array
from tests.extras import optional
from tests.problems import PROBLEMS, Problem

LOGISTIC = fs.Logistic(l2=0.1)


def divided(problem: Problem) -> tuple[list[fs.Client], fs.Client]:
    """The problem's clients, the largest of which is the server: the pooled solution stays the same."""
    clients = problem.clients()
    own = max(clients, key=lambda one: one.n_samples)
    server = fs.Client("server", own.X, own.y, own.sample_weight, offset=own.offset)
    return [one for one in clients if one is not own], server


QUICK = [
    "squared | fewer samples than features",
    "squared, free intercept | weighted",
    "squared, two outputs | sparse",
    "logistic | one sample at a client",
    "logistic, free intercept | one class at a client",
    "logistic, free intercept | label-skewed",
    "logistic, penalised intercept | sparse",
    "logistic | soft labels",
    "softmax | weighted",
    "softmax, free intercept | balanced",
    "poisson | label-skewed",
    "poisson, free intercept | sparse",
    "poisson | offsets",
]
EVERY = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]


@pytest.mark.parametrize("name", EVERY)
def test_every_problem_is_solved_exactly(name: str) -> None:
    """Several outputs, free intercepts, weights, offsets, sparse rows, clients of one row or one class."""
    problem = PROBLEMS[name]
    clients, server = divided(problem)
    result = fs.run(fs.FedLRGD(problem.loss), clients, server=server, rounds=60, tolerance=1e-12)
    assert result.converged, result.message
    assert problem.distance(result.model.w) <= 1e-8


SOME = [
    "squared, two outputs | weighted",
    "logistic, free intercept | label-skewed",
    "softmax | unbalanced",
    "poisson | offsets",
]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("epochs", [False, True])
def test_worker_processes_change_nothing(name: str, epochs: bool) -> None:
    problem = PROBLEMS[name]
    clients, server = divided(problem)
    algorithm = fs.FedLRGD(problem.loss, epochs=epochs)
    here, there = (
        fs.run(algorithm, transport, server=server, rounds=5, seed=3)
        for transport in (InProcess(clients, threads=1), Processes(clients, workers=2, threads=1, start="fork"))
    )
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger == there.ledger
    assert [row.value for row in here.history] == [row.value for row in there.history]


def test_one_message_and_many_learn_the_same_weights() -> None:
    problem = PROBLEMS["logistic | unbalanced"]
    clients, server = divided(problem)
    runs = [
        fs.run(fs.FedLRGD(problem.loss, epochs=epochs), clients, server=server, rounds=1) for epochs in (False, True)
    ]
    assert np.array_equal(runs[0].model.w, runs[1].model.w)
    assert [run.ledger.total().exchanges for run in runs] == [2, 8]  # r = 7 messages and the exact gradient
    assert runs[0].ledger.total().scalars_up == runs[1].ledger.total().scalars_up


@pytest.mark.parametrize("literal", [False, True])
def test_a_resumed_run_is_the_same_to_the_bit(literal: bool, tmp_path: Path) -> None:
    problem = PROBLEMS["softmax | sparse"] if not literal else PROBLEMS["squared | weighted"]
    clients, server = divided(problem)
    algorithm = fs.FedLRGD.literal(problem.loss, 50, rank=7) if literal else fs.FedLRGD(problem.loss)
    whole = fs.run(algorithm, clients, server=server, rounds=12)
    for rounds in (0, 1, 4, 12):
        clients, server = divided(problem)  # nothing is left of the process before
        run = fs.run(algorithm, clients, server=server, rounds=rounds, checkpoint=tmp_path / "run", resume=rounds > 0)
    assert np.array_equal(run.model.w, whole.model.w)
    assert run.ledger.total() == whole.ledger.total()  # beside that, each process has joined anew


def test_a_resumed_run_has_the_servers_data_that_it_began_with(tmp_path: Path) -> None:
    clients, server = divided(PROBLEMS["logistic | unbalanced"])
    algorithm, path = fs.FedLRGD(PROBLEMS["logistic | unbalanced"].loss), tmp_path / "run"
    fs.run(algorithm, clients, server=server, rounds=1, checkpoint=path)
    other = fs.Client("server", server.X, 1 - server.y)
    with pytest.raises(DataError, match=r"the server's data \('server'\) is not what the run began with"):
        fs.run(algorithm, clients, server=other, rounds=5, checkpoint=path, resume=True)
    with pytest.raises(DataError, match=r"began with data of the server's own: give it again"):
        fs.run(algorithm, clients, rounds=5, checkpoint=path, resume=True)
    same = fs.Client("server", server.X.copy(), server.y.copy())
    assert fs.run(algorithm, clients, server=same, rounds=20, checkpoint=path, resume=True).converged
    fs.run(fs.Newton(algorithm.loss), clients, rounds=1, checkpoint=tmp_path / "without")
    with pytest.raises(DataError, match="began without data of the server's own"):
        fs.run(fs.Newton(algorithm.loss), clients, server=same, rounds=5, checkpoint=tmp_path / "without", resume=True)


# ── who is there ──


def parts(count: int = 6, rows: int = 30, p: int = 3, seed: int = 0) -> tuple[list[fs.Client], fs.Client]:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(p)

    def draw(name: str, n: int) -> fs.Client:
        X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal(p)
        return fs.Client(name, X, (rng.random(n) < 1 / (1 + np.exp(-X @ truth))).astype(float))

    return [draw(f"c{j}", rows + 5 * j) for j in range(count)], draw("server", p + 1)


def pooled(clients: list[fs.Client], loss: fs.Logistic = LOGISTIC) -> Array:
    return fs.run(fs.Newton(loss), clients, tolerance=1e-13).model.w


@dataclass(frozen=True)
class Leaves(fs.Participation):
    """A client that does not answer from some exchange of the first round on."""

    name: str = "c2"
    exchange: int = 0
    until: int = 2

    def asked(self, round: int, exchange: int, clients: tuple[str, ...]) -> tuple[str, ...]:
        gone = (round == 1 and self.exchange <= exchange < 2**30) or 1 < round < self.until
        return tuple(one for one in clients if not (gone and one == self.name))


@pytest.mark.parametrize("exchange", [0, 1, 3])
def test_weights_are_sums_over_the_same_clients(exchange: int) -> None:
    """A client that leaves between two epochs takes its weights with it: those who stay send the earlier rows again."""
    clients, server = parts()
    ridge = fs.Squared(l2=0.1)
    algorithm = fs.FedLRGD.literal(ridge, 2000)
    run = fs.run(algorithm, clients, server=server, participation=Leaves(exchange=exchange), measure=0)
    others = [one for one in clients if one.name != "c2"]
    expected = fs.run(fs.Newton(ridge), [*others, server], tolerance=1e-13).model.w  # their n, their objective
    np.testing.assert_allclose(run.model.w, expected, rtol=1e-8, atol=1e-10)
    again = 0 if exchange == 0 else exchange + 1  # rows 0 … exchange − 1 twice, and the one that showed it
    assert run.ledger.total().exchanges == 4 + again
    assert not run.converged
    assert run.ledger.total().counts["gradients"] == 4 * sum(
        one.n_samples for one in (others if exchange == 0 else clients)
    )  # none is computed twice


def test_a_client_that_comes_back_is_part_of_the_objective_again() -> None:
    clients, server = parts()
    for exchange in (0, 1):
        gone = Leaves(exchange=exchange, until=3)
        run = fs.run(fs.FedLRGD(LOGISTIC), clients, server=server, participation=gone, tolerance=1e-12)
        assert run.converged
        np.testing.assert_allclose(run.model.w, pooled([*clients, server]), rtol=1e-8, atol=1e-10)
        assert run.history[1].share < 1.0


def test_replies_that_get_lost() -> None:
    clients, server = parts()
    lossy = fs.Participation(dropout=0.2, retries=1)
    run = fs.run(fs.FedLRGD(LOGISTIC), clients, server=server, participation=lossy, rounds=60, tolerance=1e-8)
    assert run.converged, run.message
    np.testing.assert_allclose(run.model.w, pooled([*clients, server]), rtol=1e-6, atol=1e-8)
    some = fs.run(fs.FedLRGD(LOGISTIC), clients, server=server, participation=fs.Participation(fraction=0.5), rounds=12)
    best = pooled([*clients, server])
    assert np.linalg.norm(some.model.w - best) < 0.5 * np.linalg.norm(best)  # of half of the clients each time


@dataclass(frozen=True)
class Broken(fs.FedLRGD):
    """One client's weights are not numbers."""

    @fs.client_step
    def local_weights(self, client: fs.Client, points: Array, bases: Array, rows: int) -> Array:
        found = super().local_weights(client, points=points, bases=bases, rows=rows)
        return np.full_like(found, np.nan) if client.name == "c1" else found


def test_a_client_that_answers_nan() -> None:
    clients, server = parts()
    with pytest.raises(DataError, match=r"NaN or infinite numbers.*Participation\(quorum=0.5\)"):
        fs.run(Broken(LOGISTIC), clients, server=server)
    run = fs.run(Broken(LOGISTIC), clients, server=server, participation=fs.Participation(quorum=0.5), tolerance=1e-10)
    assert "NaN" in dict(run.history[1].missing)["c1"]
    np.testing.assert_allclose(run.model.w, pooled([*clients, server]), rtol=1e-7, atol=1e-9)  # it came back


@dataclass(frozen=True)
class Overflows(fs.FedLRGD):
    """Exact values are not finite, wherever they are asked for."""

    @fs.client_step
    def evaluate(self, client: fs.Client, w: Array) -> tuple[float, Array]:
        value, gradient = super().evaluate(client, w=w)
        return float("inf") if np.abs(w).max() > 0 else value, gradient


def test_values_that_are_never_finite_end_the_run() -> None:
    clients, server = parts()
    run = fs.run(Overflows(LOGISTIC), clients, server=server)
    assert not run.converged
    assert run.rounds < 40
    assert np.isfinite(run.model.w).all()


# ── data ──


def test_other_units_are_the_same_problem() -> None:
    clients, server = parts(p=4)
    units = np.array([1e-4, 1e3, 1.0, 1e6])
    loss = fs.Logistic(intercept="free")
    rows = [fs.Client("server", *_more(server, 2))]
    plain = fs.run(fs.FedLRGD(loss), clients, server=rows[0], tolerance=1e-9)
    scaled = [fs.Client(one.name, one.X * units, one.y) for one in [*clients, rows[0]]]
    run = fs.run(fs.FedLRGD(loss), scaled[:-1], server=scaled[-1], tolerance=1e-9)
    assert run.converged
    assert run.rounds == plain.rounds
    np.testing.assert_allclose(run.model.w[:-1] * units, plain.model.w[:-1], rtol=1e-6)


@pytest.mark.parametrize("loss", [fs.Logistic(l2=0.6, intercept="free"), fs.Poisson(l2=0.2, intercept="free")])
def test_a_penalty_that_holds_columns_of_small_numbers(loss: fs.Logistic | fs.Poisson) -> None:
    """Their weights hardly move, and the box is wide in their units: the other weights must be found all the same."""
    clients, server = parts(p=4)
    units = np.array([1e-4, 1e3, 1.0, 1e-6])
    scaled = [fs.Client(one.name, one.X * units, one.y) for one in [*clients, fs.Client("server", *_more(server, 2))]]
    run = fs.run(fs.FedLRGD(loss), scaled[:-1], server=scaled[-1])
    assert run.converged, run.message
    assert run.rounds < 15
    best = fs.run(fs.Newton(loss), scaled, tolerance=1e-12, min_rows=0).model.w
    np.testing.assert_allclose(run.model.w[1:3], best[1:3], rtol=1e-6)
    np.testing.assert_allclose(run.model.w, best, rtol=1e-4, atol=1e-12)


def _more(server: fs.Client, rows: int) -> tuple[Array, Array]:
    """The server's samples and some more."""
    rng = np.random.default_rng(9)
    return np.vstack([server.X, rng.standard_normal((rows, server.X.shape[1]))]), np.append(server.y, [1.0, 0.0][:rows])


def test_collinear_columns() -> None:
    clients, server = parts()
    twice = [fs.Client(one.name, np.hstack([one.X, one.X[:, :1] - one.X[:, 1:2]]), one.y) for one in clients]
    X, y = _more(server, 2)
    own = fs.Client("server", np.hstack([X, X[:, :1] - X[:, 1:2]]), y)
    run = fs.run(fs.FedLRGD(LOGISTIC), twice, server=own, tolerance=1e-11)
    assert run.converged
    np.testing.assert_allclose(run.model.w, pooled([*twice, own]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (30 * X + 100, y),
        lambda X, y: (1e-3 * X, y),
        lambda X, y: (X * np.array([1.0, 0.0, 1.0]), y),
        lambda X, y: (np.repeat(X[:1], len(X), axis=0), np.repeat(y[:1], len(y))),
        lambda X, y: (X, 0 * y),
        lambda X, y: (sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0)), y),
    ],
    ids=["far away", "tiny", "a column of zeros", "one sample many times", "one class", "sparse"],
)
def test_a_server_unlike_its_clients(change: object) -> None:
    clients, server = parts()
    X, y = change(server.X, server.y)  # type: ignore[operator]
    own = fs.Client("server", X, y)
    run = fs.run(fs.FedLRGD(LOGISTIC), clients, server=own, rounds=60, tolerance=1e-11)
    assert run.converged, run.message
    np.testing.assert_allclose(run.model.w, pooled([*clients, own]), rtol=1e-6, atol=1e-8)


def test_a_server_of_zeros_is_rejected() -> None:
    clients, server = parts()
    with pytest.raises(DataError, match=r"'server'\) has only zeros"):
        fs.run(fs.FedLRGD(LOGISTIC), clients, server=fs.Client("server", 0 * server.X, server.y))


def test_sample_weights_of_the_server_count() -> None:
    """A sample of weight 2 is a sample that is there twice, at the server too, and in the literal algorithm."""
    clients, server = parts()
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, server.n_samples)
    weighted = fs.Client("server", server.X, server.y, weights.astype(float))
    repeated = fs.Client("all", np.repeat(server.X, weights, axis=0), np.repeat(server.y, weights))
    for loss in (LOGISTIC, fs.Squared(l2=0.1)):
        expected = fs.run(fs.Newton(loss), [*clients, repeated], tolerance=1e-13).model.w
        run = fs.run(fs.FedLRGD(loss), clients, server=weighted, tolerance=1e-11)
        np.testing.assert_allclose(run.model.w, expected, rtol=1e-7, atol=1e-9)
    literal = fs.run(fs.FedLRGD.literal(fs.Squared(l2=0.1), 2000), clients, server=weighted)
    np.testing.assert_allclose(literal.model.w, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("where", ["clients", "server"])
def test_torch(where: str) -> None:
    torch = optional("torch")
    problem = PROBLEMS["logistic, free intercept | weighted"]
    clients, server = divided(problem)

    def tensors(one: fs.Client) -> fs.Client:
        arrays = [None if array is None else torch.tensor(array) for array in (one.X, one.y, one.sample_weight)]
        return fs.Client(one.name, *arrays)

    if where == "clients":
        clients = [tensors(one) for one in clients]
    else:
        server = tensors(server)
    run = fs.run(fs.FedLRGD(problem.loss), clients, server=server, tolerance=1e-12, rounds=30)
    assert problem.distance(run.model.w) <= 1e-8


@dataclass(frozen=True)
class Cosh(fs.Loss):
    """A loss with nothing but values and gradients: log cosh(xᵀw − y), and no bound on its smoothness given."""

    l2: float = 0.1

    def value(self, client: fs.Client, w: Array) -> float:
        t = client.X @ w - client.y
        return float(np.mean(np.logaddexp(t, -t)) - np.log(2)) + self.penalty(w)

    def gradient(self, client: fs.Client, w: Array) -> Array:
        return self.sample_gradients(client, w).mean(axis=0) + self.penalty_gradient(w)

    def sample_gradients(self, client: fs.Client, w: Array) -> Array:
        client.count("gradients", client.n_samples)
        return client.X * np.tanh(client.X @ w - client.y)[:, None]

    def check(self, client: fs.Client) -> None:
        pass

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        return (features,)

    def penalty(self, w: Array) -> float:
        return 0.5 * self.l2 * float(w @ w)

    def penalty_gradient(self, w: Array) -> Array:
        return self.l2 * w

    def strong_convexity(self) -> float:
        return self.l2

    def model(self, w: Array) -> LinearModel:
        return LinearModel(w, False, "identity")


def test_any_loss_with_sample_gradients() -> None:
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{j}", rng.random((30, 3)), rng.random(30) + j) for j in range(4)]
    server = fs.Client("server", rng.random((12, 3)), rng.random(12) + 2)
    run = fs.run(fs.FedLRGD(Cosh(), box=0.2), clients, server=server, tolerance=1e-11)
    assert run.converged
    everyone = [*clients, server]
    g = sum(one.n_samples * Cosh().gradient(one, run.model.w) for one in everyone) / 132
    assert np.linalg.norm(g) < 1e-10
    # As published: with one weight, and a minimum inside the box.
    one = [fs.Client(each.name, each.X[:, :1], 0.5 * each.X[:, 0] + 0.2 * rng.random(len(each.y))) for each in everyone]
    exact, literal = (
        fs.run(algorithm, one[:-1], server=one[-1], tolerance=1e-11).model.w
        for algorithm in (fs.FedLRGD(Cosh()), fs.FedLRGD.literal(Cosh(), 500, step_size=0.5, rank=4))
    )
    np.testing.assert_allclose(literal, exact, rtol=1e-3)


# ── when it fails ──


def test_steps_that_run_away_stay_finite_and_the_message_says_what_to_try() -> None:
    """Four samples cannot stand in for a model of four weights: the steps run away, and NumPy warns of nothing."""
    clients, server = parts()
    run = fs.run(fs.FedLRGD.literal(fs.Squared(l2=0.1, intercept="free"), 5000, rank=4), clients, server=server)
    assert run.status == "diverged"
    assert "a rank of one more than the model has weights" in run.message
    assert "local steps" not in run.message
    assert np.isfinite(run.model.w).all()
    assert counted_at_server(run.ledger.server_counts)["gradients"] == 4 * (4 + 5000)  # Γ stays r² + rs + rS + φmr


def test_a_result_above_the_start_is_named() -> None:
    clients, server = parts()
    counts = [fs.Client(one.name, one.X, 1 + one.y) for one in [*clients, server]]
    loss = fs.Poisson(l2=0.1)
    run = fs.run(fs.FedLRGD.literal(loss, 1, step_size=1.0, rank=4), counts[:-1], server=counts[-1])
    first, last = run.history[0].value, run.history[-1].value
    assert first is not None
    assert last is not None
    assert last > first
    assert run.status == "finished"
    assert f"the value is {last:g}, above the {first:g} that it began with: try a rank of" in run.message
    good = fs.run(fs.FedLRGD.literal(fs.Squared(l2=0.1), 200), counts[:-1], server=counts[-1], tolerance=0)
    assert good.message == "FedLRGD is done after 1 round"


@pytest.mark.parametrize("step_size", [10.0, 1e4])
def test_steps_that_are_too_long_stay_within_reach(step_size: float) -> None:
    """Of each round the steps go less far after one that led up, so the run comes near, and ends by itself."""
    clients, server = parts()
    algorithm = fs.FedLRGD(LOGISTIC, steps=50, step_size=step_size)
    run = fs.run(algorithm, clients, server=server, rounds=300, tolerance=1e-12)
    assert run.rounds < 300
    assert not run.converged
    assert "neither value nor gradient gets better any more" in run.message
    np.testing.assert_allclose(run.model.w, pooled([*clients, server]), atol=1e-5)


# ── what a client answers ──


@pytest.mark.parametrize(
    ("points", "bases", "words"),
    [
        (np.zeros((4, 2)), np.zeros((3, 4, 4)), "points should be float64 of shape"),
        (np.zeros((4, 3)), np.zeros((3, 5, 4)), "bases should be float64 of shape"),
        (np.zeros((4, 3)), np.zeros((3, 4, 5)), "bases should be float64 of shape"),
        (np.zeros((4, 3), dtype=np.float32), np.zeros((3, 4, 4)), "points should be float64 of shape"),
    ],
)
def test_a_client_rejects_arrays_that_do_not_fit(points: Array, bases: Array, words: str) -> None:
    clients, _ = parts()
    algorithm = fs.FedLRGD(LOGISTIC)
    with pytest.raises(TypeError, match=words):
        algorithm.local_weights(clients[0], points=points, bases=bases, rows=1)


def test_clients_do_not_answer_what_is_the_servers() -> None:
    clients, _ = parts()
    runtime = Runtime(clients[0], Served({"algorithm": fs.FedLRGD(LOGISTIC)}))
    assert {("algorithm", "own_probes"), ("algorithm", "own_partials")}.isdisjoint(runtime.steps)
