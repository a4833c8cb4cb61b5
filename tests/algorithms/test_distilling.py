"""FFGBDistill and FedAvgDistill through `run`: known answers, accounts, faults, warm starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Reply
from tests.algorithms.test_matrix import ALL
from tests.extras import optional
from tests.faults.faulty import FaultyRoad
from tests.networks.problems import federation, network
from tests.problems import PROBLEMS

torch = optional("torch")

ADAM = fs.Adam(epochs=3, batch_size=8)
LOSS = network("classes")
WEIGHTS = 5 * 8 + 8 + 8 * 3 + 3


def public(n: int = 50) -> fs.Client:
    return fs.Client("server", np.random.default_rng(9).standard_normal((n, 5)), None)


def ffgb(loss: fs.Network = LOSS) -> fs.FFGBDistill:
    return fs.FFGBDistill(loss, 5.0, ADAM, fs.Distil("outputs", ADAM))


def fedavg(loss: fs.Network = LOSS) -> fs.FedAvgDistill:
    return fs.FedAvgDistill(loss, fs.GradientSteps(step_size=0.1, epochs=2, batch_size=8), fs.Distil("outputs", ADAM))


BOTH = pytest.mark.parametrize("make", [ffgb, fedavg], ids=["ffgb", "fedavg"])


# ── known answers ──


@pytest.mark.parametrize("eta", [1.0, 0.25])
def test_one_client_and_exact_fits_take_a_functional_gradient_step(eta: float) -> None:
    """For squares ∇R[f] = f − y. Where y is linear and so are the networks, f¹ = (1 − η) f⁰ + η y everywhere."""
    rng = np.random.default_rng(0)
    true, X = rng.standard_normal((4, 2)), rng.standard_normal((60, 4))
    exact = fs.GradientSteps(steps=1000, step_size=0.4)
    loss = fs.Network(fs.MLP(()), fs.Squared(), dtype="float64")
    algorithm = fs.FFGBDistill(loss, eta, exact, fs.Distil("outputs", exact))
    server = fs.Client("server", rng.standard_normal((50, 4)), None)
    client = fs.Client("one", X, X @ true + 3.0)
    start = loss.seeded_start_point(4, (2,), 0)
    found = fs.run(algorithm, [client], rounds=1, server=server).model
    truth = np.concatenate([true.T.reshape(-1), [3.0, 3.0]])
    np.testing.assert_allclose(found.w, (1 - eta) * start + eta * truth, atol=1e-8)


def test_clients_count_alike_whatever_they_hold() -> None:
    """The objective weights clients uniformly (equation 9): f¹ = f⁰ − η mean_i h_i, with h_i = f⁰ − y_i."""
    rng = np.random.default_rng(1)
    sizes, levels = (30, 80), (1.0, 5.0)
    exact = fs.GradientSteps(steps=1000, step_size=0.4)
    loss = fs.Network(fs.MLP(()), fs.Squared(), dtype="float64")
    clients = [
        fs.Client(f"c{place}", rng.standard_normal((n, 3)), np.full(n, level))
        for place, (n, level) in enumerate(zip(sizes, levels, strict=True))
    ]
    server = fs.Client("server", rng.standard_normal((40, 3)), None)
    algorithm = fs.FFGBDistill(loss, 1.0, exact, fs.Distil("outputs", exact))
    found = fs.run(algorithm, clients, rounds=1, server=server).model
    np.testing.assert_allclose(found.w, [0.0, 0.0, 0.0, 3.0], atol=1e-8)


def test_fedavg_distill_keeps_what_equal_clients_agree_on() -> None:
    """Clients with the same rows end at the same model: the ensemble is that model, and so is their average, which
    therefore is not moved by the distillation. What is left is FedAvg."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 5)), rng.integers(0, 3, 30).astype(float)
    clients = [fs.Client(name, X, y) for name in "ab"]
    loss, local = network("classes", dtype="float64"), fs.GradientSteps(steps=4, step_size=0.3)
    squares = fs.Distil("outputs", fs.GradientSteps(steps=5, step_size=0.1))
    ours = fs.run(fs.FedAvgDistill(loss, local, squares), clients, rounds=3, server=public())
    plain = fs.run(fs.FedAvg(loss, local), clients, rounds=3)
    np.testing.assert_allclose(ours.model.w, plain.model.w, atol=1e-12)


def test_both_learn() -> None:
    clients = federation("classes", sizes=(150, 150, 150))
    many = fs.Adam(epochs=20, batch_size=64, step_size=0.05)
    X, y = np.concatenate([c.X for c in clients]), np.concatenate([c.y for c in clients])
    server = fs.Client("server", np.random.default_rng(3).standard_normal((400, 5)), None)
    loss = network("classes", hidden=(32,))
    local = fs.GradientSteps(step_size=1.0, epochs=20, batch_size=64)
    distilled = {
        "ffgb": fs.FFGBDistill(loss, 5.0, many, fs.Distil("outputs", many)),
        "fedavg": fs.FedAvgDistill(loss, local, fs.Distil("probabilities", many)),
    }
    for name, algorithm in distilled.items():
        assert fs.run(algorithm, clients, rounds=3, server=server).model.score(X, y) > 0.75, name


# ── accounts ──


@BOTH
def test_a_round_sends_one_network_each_way(make: Callable[[], Any]) -> None:
    found = fs.run(make(), federation(), rounds=3, server=public(), measure=0)
    for before, row in zip(found.history[:-1], found.history[1:], strict=True):
        assert row.scalars_up - before.scalars_up == 3 * WEIGHTS
        assert row.scalars_down - before.scalars_down == 3 * (WEIGHTS + 1)  # with a step size
    assert found.history[0].scalars_up == 0


def test_networks_travel_as_float32() -> None:
    single, double = (
        fs.run(ffgb(network("classes", dtype=dtype)), federation(), rounds=1, server=public(), measure=0)
        for dtype in ("float32", "float64")
    )
    saved = double.history[-1].bytes_up - single.history[-1].bytes_up
    assert abs(saved - 3 * 4 * WEIGHTS) <= 3 * 8  # four bytes for each number; messages are padded to eight


def test_the_servers_work_is_counted() -> None:
    found = fs.run(ffgb(), federation(), rounds=2, server=public(), measure=0)
    # f and three directions on 50 rows, then three epochs over them
    assert found.ledger.server_counts == [
        (1, {"losses": 200, "gradients": 150}),
        (2, {"losses": 200, "gradients": 150}),
    ]
    rows = sum((20, 33, 7))
    assert found.ledger.total().counts["gradients"] == 2 * 3 * rows


# ── transports, faults, resuming ──


@BOTH
def test_transports_change_nothing(make: Callable[[], Any]) -> None:
    here = fs.run(make(), InProcess(federation(), threads=1), rounds=2, server=public(), seed=3)
    road = Processes(federation(), workers=2, threads=1, start="fork")
    there = fs.run(make(), road, rounds=2, server=public(), seed=3)
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger == there.ledger


@BOTH
def test_a_resumed_run_is_the_same_to_the_bit(make: Callable[[], Any], tmp_path: Path) -> None:
    whole = fs.run(make(), federation(), rounds=4, server=public(), seed=2)
    given: dict[str, Any] = {"server": public(), "seed": 2, "checkpoint": tmp_path / "run"}
    fs.run(make(), federation(), rounds=2, **given)
    again = fs.run(make(), federation(), rounds=4, resume=True, **given)
    assert np.array_equal(whole.model.w, again.model.w)
    assert [row.value for row in whole.history] == [row.value for row in again.history]


@BOTH
def test_lost_and_repeated_replies_leave_no_trace(make: Callable[[], Any], tmp_path: Path) -> None:
    road = FaultyRoad(federation(), tmp_path, loss=0.3, repeat=True, late=True, seed=4)
    lossy = fs.run(make(), road, rounds=3, server=public(), participation=fs.Participation(quorum=0.01), seed=1)
    cohorts = lossy.ledger.cohorts()
    assert road.lost
    assert any(0 < len(names) < 3 for names in cohorts.values())
    clean = fs.run(make(), federation(), rounds=3, server=public(), participation=fs.Replay(cohorts=cohorts), seed=1)
    assert np.array_equal(lossy.model.w, clean.model.w)


def test_an_absent_client_counts_for_nothing() -> None:
    """With one of two clients silent the round is that of the other alone."""
    alone = fs.run(ffgb(), federation()[:1], rounds=1, server=public(), seed=5)
    away = fs.Replay(cohorts={(1, 0): ("c0",)})
    found = fs.run(ffgb(), federation()[:2], rounds=1, server=public(), participation=away, seed=5)
    assert np.array_equal(found.model.w, alone.model.w)


# ── what is rejected ──


@BOTH
def test_the_server_needs_rows(make: Callable[[], Any]) -> None:
    with pytest.raises(DataError, match="server=Client"):
        fs.run(make(), federation(), rounds=1)
    wrong = fs.Client("server", np.ones((4, 3)), None)
    with pytest.raises(DataError, match="3 features where the clients have 5"):
        fs.run(make(), federation(), rounds=1, server=wrong)


# ── warm starts ──

STARTED = {
    "FedAvg": lambda loss: fs.FedAvg(loss, fs.GradientSteps(step_size=0.1)),
    "FedProx": lambda loss: fs.FedProx(loss, 0.1, fs.GradientSteps(step_size=0.1)),
    "FedDyn": lambda loss: fs.FedDyn(loss, 0.1, fs.GradientSteps(step_size=0.1)),
    "Scaffold": lambda loss: fs.Scaffold(loss, fs.GradientSteps(step_size=0.1)),
    "FFGBDistill": ffgb,
    "FedAvgDistill": fedavg,
}


@pytest.mark.parametrize("name", STARTED)
def test_any_algorithm_on_networks_starts_from_a_model(name: str, tmp_path: Path) -> None:
    first = fs.run(ffgb(), federation(), rounds=1, server=public()).model
    first.save(tmp_path / "first.npz")
    for model in (first, fs.load_model(tmp_path / "first.npz")):
        begun = fs.run(STARTED[name](LOSS), federation(), rounds=0, server=public(), warm_start=model)
        assert np.array_equal(begun.model.w, first.w)
    went_on = fs.run(STARTED[name](LOSS), federation(), rounds=1, server=public(), warm_start=first)
    cold = fs.run(STARTED[name](LOSS), federation(), rounds=1, server=public())
    assert not np.array_equal(went_on.model.w, cold.model.w)


@pytest.mark.parametrize("name", sorted(set(ALL) - {"DKRR"}))
def test_any_algorithm_on_linear_models_starts_from_a_model(name: str) -> None:
    problem = PROBLEMS["squared, two outputs | sparse"]
    model = fs.run(fs.FedAvg(problem.loss), problem.clients(), rounds=2).model
    begun = fs.run(ALL[name][0](problem), problem.clients(), rounds=0, warm_start=model)
    assert np.array_equal(begun.model.w, model.w)


def test_an_algorithm_that_begins_nowhere_takes_no_model() -> None:
    problem = PROBLEMS["squared, two outputs | sparse"]
    model = fs.run(fs.FedAvg(problem.loss), problem.clients(), rounds=1).model
    with pytest.raises(ConfigError, match="leave warm_start out"):
        fs.run(fs.DKRR(problem.loss), problem.clients(), warm_start=model)


def _named(names: tuple[str, ...], classes: tuple[str, ...] = ("a", "b", "c")) -> list[fs.Client]:
    rng = np.random.default_rng(0)
    labels = np.array(classes)[rng.integers(0, 3, 20)]
    return [fs.Client("one", rng.standard_normal((20, 5)), labels, feature_names=names, classes=classes)]


NAMES = ("u", "v", "x", "y", "z")


@pytest.mark.parametrize(
    ("clients", "loss", "words"),
    [
        (_named(NAMES), network("classes", hidden=(9,)), "same architecture"),
        (_named(("t", *NAMES[1:])), LOSS, "columns"),
        (_named(NAMES, ("a", "b", "d")), LOSS, "classes"),
        (_named(NAMES), fs.Softmax(classes=3), "does not train one"),
    ],
    ids=["architecture", "columns", "classes", "linear"],
)
def test_models_that_do_not_fit_are_rejected(clients: list[fs.Client], loss: Any, words: str) -> None:
    server = fs.Client("server", np.random.default_rng(1).standard_normal((20, 5)), None, feature_names=NAMES)
    model = fs.run(ffgb(), _named(NAMES), rounds=1, server=server).model
    with pytest.raises(ConfigError, match=words):
        fs.run(fs.FedAvg(loss, fs.GradientSteps(step_size=0.1)), clients, rounds=1, warm_start=model)


def test_a_linear_model_does_not_start_a_network() -> None:
    model = fs.run(fs.FedAvg(fs.Softmax(classes=3)), federation(), rounds=1).model
    with pytest.raises(ConfigError, match="is a linear model, and this run trains a MLP"):
        fs.run(fs.FedAvg(LOSS, fs.GradientSteps(step_size=0.1)), federation(), rounds=1, warm_start=model)


# ── training together ──


@BOTH
@pytest.mark.parametrize("as_torch", [False, True])
def test_clients_fit_together_as_they_do_one_by_one(make: Callable[..., Any], as_torch: bool) -> None:
    """Clients of unequal size, in float64, where nothing hides behind rounding."""
    algorithm = make(network("classes", dtype="float64"))
    road = InProcess(federation(as_torch=as_torch), together=True)
    together = fs.run(algorithm, road, rounds=2, server=public(), seed=3)
    assert road.one_by_one == {}
    alone = fs.run(algorithm, federation(as_torch=as_torch), rounds=2, server=public(), seed=3)
    np.testing.assert_allclose(together.model.w, alone.model.w, rtol=0, atol=1e-9)
    assert together.ledger == alone.ledger


def test_many_clients_train_together_in_float32() -> None:
    clients = federation("labels", sizes=(12,) * 6, weights=True)
    road = InProcess(clients, together=True)
    found = fs.run(ffgb(network("labels")), road, rounds=1, server=public())
    assert road.one_by_one == {}
    alone = fs.run(ffgb(network("labels")), clients, rounds=1, server=public())
    np.testing.assert_allclose(found.model.w, alone.model.w, atol=1e-3)


# ── unusual clients ──


def _unusual(kind: str) -> tuple[list[fs.Client], fs.Client]:
    """Clients and server's rows that are not dense NumPy arrays of many samples."""
    clients, rows = federation(), np.random.default_rng(9).standard_normal((50, 5))
    one = clients[0]
    if kind == "one row":
        clients[0] = fs.Client("c0", one.X[:1], one.y[:1])
    elif kind == "one class":
        clients[0] = fs.Client("c0", one.X, np.zeros(20))
    elif kind == "sparse":
        clients[0] = fs.Client("c0", csr_array(one.X), one.y)
        return clients, fs.Client("server", csr_array(rows), None)
    elif kind == "torch server":
        return clients, fs.Client("server", torch.tensor(rows), None)
    elif kind == "labelled server":
        return clients, fs.Client("server", rows, np.zeros(50))
    elif kind == "weights":
        return federation(weights=True), fs.Client("server", rows, None, np.linspace(0.0, 1.0, 50))
    return clients, fs.Client("server", rows, None)


@BOTH
@pytest.mark.parametrize("kind", ["one row", "one class", "sparse", "torch server", "labelled server", "weights"])
def test_unusual_clients(make: Callable[..., Any], kind: str) -> None:
    clients, server = _unusual(kind)
    road = InProcess(clients, together=True)
    algorithm = make(network("classes", dtype="float64"))
    together = fs.run(algorithm, road, rounds=2, server=server)
    clients, server = _unusual(kind)
    alone = fs.run(algorithm, clients, rounds=2, server=server)
    assert np.isfinite(alone.model.w).all()
    np.testing.assert_allclose(together.model.w, alone.model.w, atol=1e-9)


@pytest.mark.parametrize("kind", ["torch server", "labelled server", "sparse"])
def test_what_the_servers_rows_are_kept_in_changes_nothing(kind: str) -> None:
    usual = fs.run(ffgb(), federation(), rounds=1, server=public())
    found = fs.run(ffgb(), federation(), rounds=1, server=_unusual(kind)[1])
    np.testing.assert_allclose(found.model.w, usual.model.w, atol=1e-6)


def test_images_that_are_augmented_train_together() -> None:
    rng = np.random.default_rng(0)
    clients = [fs.Client(f"c{k}", rng.standard_normal((9, 36)), rng.integers(0, 2, 9).astype(float)) for k in range(3)]
    architecture = fs.CNN((1, 6, 6), ((2, 3),), hidden=())
    loss = fs.Network(architecture, fs.Softmax(classes=2), dtype="float64", augmentation=fs.FlipAndCrop(padding=1))
    plain = fs.Network(architecture, fs.Softmax(classes=2), dtype="float64")
    server = fs.Client("server", rng.standard_normal((20, 36)), None)
    road = InProcess(clients, together=True)
    together = fs.run(ffgb(loss), road, rounds=1, server=server)
    assert road.one_by_one == {}
    alone = fs.run(ffgb(loss), clients, rounds=1, server=server)
    np.testing.assert_allclose(together.model.w, alone.model.w, atol=1e-9)
    assert not np.allclose(alone.model.w, fs.run(ffgb(plain), clients, rounds=1, server=server).model.w)


def test_some_clients_are_asked_in_each_round() -> None:
    some = fs.Participation(fraction=0.4)
    found = fs.run(ffgb(), federation(), rounds=3, server=public(), participation=some, measure=0)
    assert [row.cohort for row in found.history[1:]] == [1, 1, 1]
    assert found.history[-1].scalars_up == 3 * WEIGHTS


# ── steps that are known exactly ──


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("name", ["labels", "counts", "numbers"])
def test_offsets_are_no_part_of_the_functions_that_clients_fit(name: str, weights: bool, together: bool) -> None:
    """f¹ = f⁰ − η mean_i h_i with h_i the weighted least squares fit of dℓ/dη at f⁰ + offset."""
    rng = np.random.default_rng(3)
    inner: dict[str, Any] = {"labels": fs.Logistic(), "counts": fs.Poisson(), "numbers": fs.Squared()}
    loss = fs.Network(fs.MLP(()), inner[name], dtype="float64")
    start, clients, drop = loss.seeded_start_point(3, (), 0), [], np.zeros(4)
    for place in range(2):
        X, offset = rng.standard_normal((40, 3)), rng.standard_normal(40)
        s = rng.uniform(0.5, 2.0, 40) if weights else np.ones(40)
        y = rng.integers(0, 2, 40).astype(float)
        eta, own = np.c_[X, np.ones(40)] @ start + offset, np.sqrt(s)[:, None]
        mean = {"labels": 1 / (1 + np.exp(-eta)), "counts": np.exp(eta), "numbers": eta}[name]
        drop += np.linalg.lstsq(own * np.c_[X, np.ones(40)], own[:, 0] * (mean - y), rcond=None)[0] / 2
        clients.append(fs.Client(f"c{place}", X, y, s if weights else None, offset=offset))
    exact = fs.GradientSteps(steps=200, step_size=0.6)
    algorithm = fs.FFGBDistill(loss, 2.0, exact, fs.Distil("outputs", exact))
    server = fs.Client("server", rng.standard_normal((50, 3)), None)
    found = fs.run(algorithm, InProcess(clients, together=together), rounds=1, server=server).model
    np.testing.assert_allclose(found.w, start - 2.0 * drop, atol=1e-8)


@pytest.mark.parametrize("factor", [2.0**180, 2.0**-180])
def test_a_common_factor_of_all_sample_weights_changes_no_bit(factor: float) -> None:
    """Also in float32, which has no number as large."""
    learner = fs.NetworkLearner(fs.MLP((4,)), epochs=2, batch_size=8)
    for algorithm in (fs.FedAvg(LOSS, fs.GradientSteps(step_size=0.1, epochs=2, batch_size=8)), ffgb()):
        plain, scaled = (
            [fs.Client(one.name, one.X, one.y, one.sample_weight * by) for one in federation(weights=True)]
            for by in (1.0, factor)
        )
        first, second = (fs.run(algorithm, one, rounds=2, server=public()).model.w for one in (plain, scaled))
        assert np.array_equal(first, second)
    first, second = (fs.run(fs.FFGB(fs.Squared(), learner), one, rounds=1).model for one in (plain, scaled))
    X = federation()[0].X
    np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=1e-12)


@BOTH
def test_a_client_that_sends_another_network_is_left_out(make: Callable[..., Any]) -> None:
    """Its reply has the declared type and too many numbers: the others' round counts, and says why it is missing."""

    class Longer(InProcess):
        def deliver(self, requests: Any, deadline: float | None) -> Any:
            for name, answer in super().deliver(requests, deadline):
                sent = answer.results[0].value if isinstance(answer, Reply) else None
                if name == "c1" and getattr(sent, "shape", None) == (WEIGHTS,):
                    longer = [Part(np.zeros(WEIGHTS + 1, np.float32)), *answer.results[1:]]
                    answer = Reply(answer.preamble, answer.seconds, answer.counts, longer)
                yield name, answer

    given: dict[str, Any] = {"rounds": 1, "server": public(), "seed": 5, "measure": 0}
    with pytest.raises(fs.errors.FedsolveError, match="as many as the network has"):
        fs.run(make(), Longer(federation()), **given)
    found = fs.run(make(), Longer(federation()), participation=fs.Participation(quorum=0.1), **given)
    away = fs.run(make(), federation(), participation=fs.Replay(cohorts={(1, 0): ("c0", "c2")}), **given)
    assert np.array_equal(found.model.w, away.model.w)
