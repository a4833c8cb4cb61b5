"""Training networks through `run`: against plain torch loops, over transports, resumed, and what the ledger shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.typing import Array
from tests.extras import optional
from tests.networks.problems import CLASSES, FEATURES, LOSSES, federation, network, rows, torch

ALGORITHMS = {
    "FedAvg": lambda loss: fs.FedAvg(loss, fs.GradientSteps(epochs=2, step_size=0.2, batch_size=8)),
    "FedProx": lambda loss: fs.FedProx(loss, 0.5, fs.Momentum(epochs=2, step_size=0.05, batch_size=8, clip=5.0)),
    "FedDyn": lambda loss: fs.FedDyn(loss, 0.1, fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8)),
    "Scaffold": lambda loss: fs.Scaffold(loss, fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8)),
    "Scaffold with Adam": lambda loss: fs.Scaffold(loss, fs.Adam(epochs=2, step_size=0.01, batch_size=8)),
}
WEIGHTS = 8 * (FEATURES + 1) + 9 * CLASSES


def torch_loop(client: fs.Client, steps: int, optimiser: Any, dtype: Any, seed: int = 0) -> Array:
    """The same by torch alone: its modules, its losses, its optimisers."""
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    module = fs.MLP((8,), "tanh").build(FEATURES, CLASSES).to(dtype)
    torch.set_rng_state(state)
    made = optimiser(module.parameters())
    X, y = torch.tensor(client.X, dtype=dtype), torch.tensor(client.y, dtype=torch.long)
    for _ in range(steps):
        made.zero_grad()
        torch.nn.functional.cross_entropy(module(X), y).backward()
        made.step()
    return np.concatenate([one.detach().numpy().reshape(-1) for one in module.parameters()])


@pytest.mark.parametrize(
    ("local", "optimiser"),
    [
        (fs.GradientSteps(5, 0.3), lambda of: torch.optim.SGD(of, lr=0.3)),
        (fs.Momentum(15, 0.1), lambda of: torch.optim.SGD(of, lr=0.1, momentum=0.9)),
        (fs.Momentum(15, 0.1, nesterov=True), lambda of: torch.optim.SGD(of, lr=0.1, momentum=0.9, nesterov=True)),
        (fs.Adam(15, 0.01), lambda of: torch.optim.Adam(of, lr=0.01)),
    ],
)
def test_one_client_with_full_batches_is_a_torch_loop(local: fs.LocalSolver, optimiser: Any) -> None:
    client = federation()[1]
    rounds = 3 if isinstance(local, fs.GradientSteps) else 1  # momentum begins anew in every round
    run = fs.run(fs.FedAvg(network(dtype="float64"), local), [client], rounds=rounds)
    expected = torch_loop(client, 15, optimiser, torch.float64)
    np.testing.assert_allclose(run.model.w, expected, rtol=0, atol=1e-12)


def test_weight_decay_and_clipping_are_those_of_torch() -> None:
    client, most = federation()[1], 0.05
    run = fs.run(fs.FedAvg(network(dtype="float64", l2=0.1), fs.GradientSteps(5, 0.5, clip=most)), [client], rounds=1)

    class Clipping(torch.optim.SGD):  # type: ignore[misc, name-defined]
        def step(self) -> None:
            kept = [one for group in self.param_groups for one in group["params"]]
            with torch.no_grad():  # the decay is a part of what is clipped
                for one in kept:
                    one.grad += 0.1 * one
                norm = torch.cat([one.grad.reshape(-1) for one in kept]).norm()
                assert norm > most
                for one in kept:
                    one.grad *= most / norm
            super().step()

    expected = torch_loop(client, 5, lambda of: Clipping(of, lr=0.5), torch.float64)
    np.testing.assert_allclose(run.model.w, expected, rtol=0, atol=1e-12)


def test_a_gradient_within_the_limit_is_not_clipped() -> None:
    client, loss = federation("numbers")[0], fs.Squared(l2=0.1)
    w = np.zeros(FEATURES)
    plain, loose, tight = (fs.GradientSteps(3, 0.1, clip=clip).run(loss, client, w, 0.1) for clip in (None, 1e9, 1e-3))
    np.testing.assert_array_equal(plain, loose)
    assert np.linalg.norm(tight) <= 3 * 0.1 * 1e-3 * (1 + 1e-12)
    with pytest.raises(fs.errors.ConfigError, match="clip"):
        fs.GradientSteps(clip=0.0)


def test_where_it_clips_scaffold_takes_the_gradient_and_feddyn_finds_a_pull() -> None:
    clients, loss = federation(), network()
    for algorithm in (
        fs.Scaffold(loss, fs.GradientSteps(3, 0.1, clip=1.0)),
        fs.FedDyn(loss, local=fs.GradientSteps(3, 0.1, clip=1.0)),
    ):
        run = fs.run(algorithm, clients, rounds=5)
        assert run.history[-1].value < run.history[0].value
    with pytest.raises(fs.errors.ClientError, match="no fixed sum of gradients"):
        fs.run(fs.Scaffold(loss, fs.GradientSteps(3, 0.1, clip=1.0), option="II"), clients, rounds=1)


@pytest.mark.parametrize("as_torch", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_train_it_and_are_resumed_to_the_bit(name: str, as_torch: bool, tmp_path: Path) -> None:
    algorithm, clients = ALGORITHMS[name](network()), federation(as_torch=as_torch)
    whole = fs.run(algorithm, clients, rounds=6, seed=3)
    assert whole.history[-1].value < 0.97 * whole.history[0].value
    fs.run(algorithm, clients, rounds=2, seed=3, checkpoint=tmp_path / "run")
    again = fs.run(algorithm, clients, rounds=6, seed=3, checkpoint=tmp_path / "run", resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
    assert [row.value for row in again.history] == [row.value for row in whole.history]


@pytest.mark.parametrize("name", ["FedAvg", "FedDyn"])
def test_transports_give_the_same_bits_and_ledgers(name: str) -> None:
    algorithm, clients = ALGORITHMS[name](network()), federation()
    here, there = (fs.run(algorithm, clients, rounds=2, transport=kind) for kind in ("in_process", "processes"))
    assert here.model.w.tobytes() == there.model.w.tobytes()
    assert here.ledger.records == there.ledger.records


@pytest.mark.parametrize("name", ["FedAvg", "FedDyn"])
def test_clients_of_another_array_library(name: str) -> None:
    strict = optional("array_api_strict")
    given = federation()
    others = [fs.Client(one.name, strict.asarray(one.X), strict.asarray(one.y)) for one in given]
    here, there = (fs.run(ALGORITHMS[name](network(dtype="float64")), each, rounds=2) for each in (given, others))
    np.testing.assert_allclose(there.model.w, here.model.w, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_a_weight_travels_in_its_own_type(dtype: str, size: int) -> None:
    clients = federation()
    # Two architectures whose weights differ in number: what differs in bytes are those weights, 2 rounds and 3 clients.
    found = []
    for hidden in ((8,), (10,)):
        loss = network(hidden=hidden, dtype=dtype)
        run = fs.run(fs.FedAvg(loss, fs.GradientSteps(1, 0.1)), clients, rounds=2)
        assert run.model.w.dtype == dtype
        found.append((run.history[-1].bytes_up, run.history[-1].bytes_down, run.history[-1].measure_bytes_up))
    more = 2 * (FEATURES + 1 + CLASSES)
    assert found[1][0] - found[0][0] == found[1][1] - found[0][1] == 2 * 3 * more * size
    assert found[1][2] == found[0][2]  # the value alone


def test_a_run_is_measured_by_value_alone_unless_asked() -> None:
    clients = federation()
    run = fs.run(fs.FedAvg(network(), fs.GradientSteps(1, 0.1)), clients, rounds=2)
    assert run.status == "rounds"
    assert all(row.gradient_norm is None and row.value is not None for row in run.history)
    assert run.certificate is None
    assert "gradient" not in run.message + repr(run)
    calls = {name for record in run.ledger.records for name in record.calls}
    assert "measure.value_alone" in calls
    assert "measure.value_and_gradient" not in calls
    asked = fs.run(fs.FedAvg(network(measures_gradient=True), fs.GradientSteps(1, 0.1)), clients, rounds=2)
    assert all(row.gradient_norm is not None for row in asked.history)
    assert asked.model.w.tobytes() == run.model.w.tobytes()
    more = asked.ledger.total("measure").bytes_up - run.ledger.total("measure").bytes_up
    assert more >= 3 * 3 * 4 * WEIGHTS  # three clients, before and after each of two rounds


def test_a_run_that_diverges_says_so() -> None:
    run = fs.run(fs.FedAvg(network("numbers"), fs.GradientSteps(3, 1e3)), federation("numbers"), rounds=30)
    assert run.status == "diverged"


def test_patience_goes_by_the_value() -> None:
    algorithm = fs.FedAvg(network(), fs.GradientSteps(2, 4.0))
    run = fs.run(algorithm, federation(), stopping=[fs.Stopping(200), fs.Patience(3)])
    assert run.rounds < 200
    assert run.model_row.value == min(row.value for row in run.history)


@pytest.mark.parametrize("kind", list(LOSSES))
def test_models_predict_what_the_loss_measures(kind: str, tmp_path: Path) -> None:
    clients = federation(kind)
    run = fs.run(fs.FedAvg(network(kind), fs.GradientSteps(10, 0.2)), clients, rounds=40)
    X, y = (np.concatenate([getattr(one, name) for one in clients]) for name in ("X", "y"))
    model = run.model
    eta = model.decision_function(X)
    assert eta.shape == (len(X), CLASSES) if kind == "classes" else y.shape
    losses = (
        LOSSES[kind].pointwise(np, eta, y)
        if kind != "classes"
        else -np.log(model.predict_proba(X)[np.arange(len(y)), y.astype(int)])
    )
    assert run.history[-1].value == pytest.approx(losses.mean(), rel=1e-5)
    assert model.score(X, y) > (0.7 if kind in ("classes", "labels") else 0.5)
    model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    assert isinstance(again, fs.NetworkModel)
    assert again.w.tobytes() == model.w.tobytes()
    assert again.architecture == model.architecture
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert "network" in again.described().sentences[0]
    if kind in ("classes", "labels"):
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_array_equal(p.argmax(axis=1), model.class_codes(X))
        assert model.n_classes == p.shape[1]
    else:
        with pytest.raises(fs.errors.ConfigError, match="only classifiers"):
            model.predict_proba(X)


def test_named_classes_and_columns_go_with_it() -> None:
    rng = np.random.default_rng(0)
    names = [f"x{place}" for place in range(FEATURES)]
    made = []
    for name in "ab":
        X, y = rows(30, rng, "labels")
        labels = np.where(y > 0, "yes", "no")
        made.append(fs.Client(name, X, labels, feature_names=names, classes=("no", "yes")))
    run = fs.run(fs.FedAvg(network("labels"), fs.GradientSteps(5, 0.2)), made, rounds=5)
    assert set(run.model.predict(made[0].X)) <= {"no", "yes"}
    assert run.model.feature_names == tuple(names)
    warm = fs.run(fs.FedAvg(network("labels"), fs.GradientSteps(5, 0.2)), made, rounds=0, warm_start=run.model)
    assert warm.model.w.tobytes() == run.model.w.tobytes()


def test_a_warm_start_is_a_network_of_the_same_architecture() -> None:
    clients = federation()
    algorithm = fs.FedAvg(network(), fs.GradientSteps(2, 0.1))
    first = fs.run(algorithm, clients, rounds=3)
    split = fs.run(fs.FedDyn(network(), 0.1, fs.GradientSteps(2, 0.1)), clients, rounds=0, warm_start=first.model)
    assert split.model.w.tobytes() == first.model.w.tobytes()
    for wrong, words in (
        (fs.run(fs.FedAvg(network(hidden=(9,)), fs.GradientSteps(2, 0.1)), clients, rounds=0).model, "MLP.*hidden=.8"),
        (fs.run(fs.Newton(fs.Softmax(l2=1, classes=3)), clients).model, "is a linear model"),
    ):
        with pytest.raises(fs.errors.ConfigError, match=words):
            fs.run(algorithm, clients, warm_start=wrong, rounds=1)
    with pytest.raises(fs.errors.ConfigError, match="does not train one"):
        fs.run(fs.Newton(fs.Softmax(l2=1, classes=3)), clients, warm_start=first.model)


@pytest.mark.parametrize("preprocess", [None, fs.data.Preprocess()])
def test_held_out_rows_judge_it(preprocess: Any) -> None:
    clients = fs.data.hold_out(federation(sizes=(60, 80)), 0.25)
    algorithm = fs.FedAvg(network(), fs.GradientSteps(10, 0.3))
    evaluation = fs.Evaluation(network())
    run = fs.run(algorithm, clients, rounds=20, evaluation=evaluation, preprocess=preprocess)
    X, y = (np.concatenate([getattr(one.held, name) for one in clients]) for name in ("X", "y"))
    p = run.model.predict_proba(X)[np.arange(len(y)), y.astype(int)]
    found = run.evaluation
    assert found is not None
    assert found.error_name == "log-loss"
    assert found.value == pytest.approx(-np.log(p).mean(), rel=1e-5)
    assert found.accuracy == pytest.approx(np.mean(run.model.predict(X) == y), rel=1e-12)
    assert run.history[-1].held_out["accuracy"] == pytest.approx(found.accuracy, rel=1e-12)
    assert set(found.clients) == {"c0", "c1"}


@pytest.mark.parametrize("kind", ["labels", "numbers", "pairs"])
def test_other_held_out_figures(kind: str) -> None:
    clients = fs.data.hold_out(federation(kind, sizes=(60, 80)), 0.25)
    run = fs.run(
        fs.FedAvg(network(kind), fs.GradientSteps(5, 0.1)), clients, rounds=10, evaluation=fs.Evaluation(network(kind))
    )
    X, y = (np.concatenate([getattr(one.held, name) for one in clients]) for name in ("X", "y"))
    found = run.evaluation
    assert found is not None
    if kind == "labels":
        p = run.model.positive_probability(X)
        wins = (p[y == 1][:, None] > p[y == 0]) + 0.5 * (p[y == 1][:, None] == p[y == 0])
        assert found.auc == pytest.approx(wins.mean(), abs=found.auc_error + 1e-12)
    else:
        assert found.error == pytest.approx(np.mean((run.model.predict(X) - y) ** 2), rel=1e-5)


def test_a_network_is_judged_by_another_loss_as_a_whole_model() -> None:
    clients = fs.data.hold_out(federation(sizes=(60, 80)), 0.25)
    algorithm = fs.FedAvg(network(), fs.GradientSteps(10, 0.3))
    run = fs.run(algorithm, clients, rounds=2, evaluation=fs.Evaluation(LOSSES["classes"]))
    held = [one.held for one in clients]
    hits = [run.model.predict(one.X) == one.y for one in held]
    assert run.evaluation is not None
    for found in (run.evaluation, fs.evaluate(run.model, clients, LOSSES["classes"])):
        assert found.accuracy == pytest.approx(np.concatenate(hits).mean(), rel=1e-12)
    with pytest.raises(fs.errors.ConfigError, match="this run preprocesses them"):
        fs.run(
            algorithm, clients, rounds=1, evaluation=fs.Evaluation(LOSSES["classes"]), preprocess=fs.data.Preprocess()
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_read_only_rows_are_learned_from_without_a_warning(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch warns of an array that is not writable, once in a process: here it must not get one."""
    given, plain = [], torch.as_tensor

    def watched(array: Any, *args: Any, **options: Any) -> Any:
        given.append(getattr(getattr(array, "flags", None), "writeable", True))
        return plain(array, *args, **options)

    monkeypatch.setattr(torch, "as_tensor", watched)
    clients = federation(weights=True)
    for one in clients:
        for array in (one.X, one.y, one.sample_weight):
            array.flags.writeable = False
    run = fs.run(fs.FedAvg(network(dtype=dtype), fs.GradientSteps(1, 0.1)), clients, rounds=1)
    run.model.predict(clients[0].X)
    assert given
    assert all(given)


def test_files_that_are_no_network() -> None:
    from fedsolve.models.base import from_parts, to_parts

    text, arrays = to_parts(fs.run(fs.FedAvg(network(), fs.GradientSteps(1, 0.1)), federation(), rounds=0).model)
    for wrong in (text.replace("MLP", "Nothing"), text.replace("softmax", "cosine"), text.replace("tanh", "tan")):
        with pytest.raises(fs.errors.DataError):
            from_parts(wrong, arrays)
    for w in (arrays["w"].astype(np.float16), arrays["w"][None], np.full(75, np.nan, dtype=np.float32)):
        with pytest.raises(fs.errors.DataError):
            from_parts(text, {"w": w})
    short = from_parts(text, {"w": arrays["w"][:-1]})
    with pytest.raises(fs.errors.ConfigError, match="has no 74 weights"):
        short.predict(np.zeros((2, FEATURES)))
    with pytest.raises(fs.errors.DataError, match="takes 5 columns"):
        from_parts(text, arrays).predict(np.zeros((2, 4)))
    with pytest.raises(fs.errors.DataError, match=r"column 1 \(from 0\), row 0"):
        from_parts(text, arrays).predict(np.array([[0, np.nan, 0, 0, 0]]))


def test_text_columns_are_encoded_before_the_network_sees_them() -> None:
    """The same weights as from columns encoded by hand: how many inputs there are is known after preprocessing only."""
    rng = np.random.default_rng(0)
    schema = fs.data.Schema((fs.data.Numeric("age", scaling=None), fs.data.Categorical("sex", ("f", "m"))))
    parts = [
        (rng.normal(50, 10, 40), rng.choice(["f", "m"], 40), rng.integers(0, 2, 40).astype(float)) for _ in range(3)
    ]
    table = [
        fs.Client(str(k), np.array([*zip(age, sex, strict=True)], dtype=object), y, feature_names=("age", "sex"))
        for k, (age, sex, y) in enumerate(parts)
    ]
    preprocess = fs.data.Preprocess(schema)
    loss = fs.Network(fs.MLP((4,)), fs.Logistic())
    local = fs.GradientSteps(epochs=2, step_size=0.01, batch_size=8)
    found = fs.run(fs.FedAvg(loss, local), table, preprocess=preprocess, rounds=2)
    assert found.model.feature_names == ("age", "sex=f", "sex=m", "sex=other")
    by_hand = [
        fs.Client(str(k), np.stack([age, sex == "f", sex == "m", np.zeros(40)], axis=1), y)
        for k, (age, sex, y) in enumerate(parts)
    ]
    expected = fs.run(fs.FedAvg(loss, local), by_hand, rounds=2).model.arrays()
    arrays = found.model.arrays()
    assert any(len(values) for values in arrays.values())
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values)
