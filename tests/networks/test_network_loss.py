"""The loss of a network: values and gradients against other ways to compute them, seeds, and what is rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, DataError, InputError, WrongType
from fedsolve.networks.modules import flat_module, outputs_of
from fedsolve.typing import Array
from tests.networks.problems import CLASSES, FEATURES, LOSSES, federation, network, torch

KINDS = list(LOSSES)
DOUBLE: dict[str, Any] = {"dtype": "float64", "l2": 0.01}


def point(loss: fs.Network, client: fs.Client) -> Array:
    return loss.seeded_start_point(client.design.shape[1], tuple(client.y.shape[1:]), 1)


# ── values and gradients ──


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_value(kind: str, weights: bool) -> None:
    client, loss = federation(kind, weights=weights)[0], network(kind, **DOUBLE)
    w, step = point(loss, client), 6e-6
    eye = step * np.eye(len(w))
    expected = [(loss.value(client, w + e) - loss.value(client, w - e)) / (2 * step) for e in eye]
    np.testing.assert_allclose(loss.gradient(client, w), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_samples_have_the_gradient_as_their_mean(kind: str, weights: bool) -> None:
    client, loss = federation(kind, weights=weights)[1], network(kind, **DOUBLE)
    w = point(loss, client)
    each = loss.sample_gradients(client, w)
    assert each.shape == (client.n_samples, len(w))
    mean = np.average(each, axis=0, weights=client.sample_weight)
    np.testing.assert_allclose(mean + loss.penalty_gradient(w), loss.gradient(client, w), rtol=0, atol=1e-14)
    assert client.counts == {"gradients": 2 * client.n_samples}


def test_an_offset_is_added_to_one_output() -> None:
    client, loss = federation("labels", offset=True)[0], network("labels", **DOUBLE)
    w = point(loss, client)
    eta = loss.model(w).decision_function(client.X, client.offset)
    expected = np.mean(np.logaddexp(0, eta) - client.y * eta) + loss.penalty(w)
    assert loss.value(client, w) == pytest.approx(expected, rel=1e-13)
    shifted = loss.sample_gradients(client, w).mean(axis=0) + loss.penalty_gradient(w)
    np.testing.assert_allclose(loss.gradient(client, w), shifted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("offset", [np.ones((6, 1)), np.ones(5), np.array(["a"] * 6)])
def test_an_offset_of_another_shape_is_rejected(offset: Array) -> None:
    """NumPy would make n² predictions of a column."""
    loss = network("labels", **DOUBLE)
    client = federation("labels")[0]
    model = loss.model(loss.start_point(client.X.shape[1], ()))
    with pytest.raises(DataError, match="offset has shape"):
        model.predict(client.X[:6], offset)


def test_the_value_of_classes_is_the_cross_entropy_of_torch() -> None:
    client, loss = federation()[1], network(dtype="float64")
    w = point(loss, client)
    eta = torch.tensor(loss.model(w).decision_function(client.X))
    expected = torch.nn.functional.cross_entropy(eta, torch.tensor(client.y, dtype=torch.long))
    assert loss.value(client, w) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_many_rows_are_added_up_in_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, loss = federation(kind, weights=True)[1], network(kind, **DOUBLE)
    w = point(loss, client)
    value, gradient = loss.value(client, w), loss.gradient(client, w)
    monkeypatch.setattr("fedsolve.losses.network.ROWS", 10)
    assert loss.value(client, w) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(loss.gradient(client, w), gradient, rtol=0, atol=1e-15)


def test_float32_is_near_float64() -> None:
    client, double = federation()[0], network(dtype="float64")
    single = network()
    w = point(double, client)
    assert single.value(client, w) == pytest.approx(double.value(client, w), rel=1e-6)
    found = single.gradient(client, w.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, double.gradient(client, w), rtol=0, atol=1e-6)


@pytest.mark.parametrize("weights", [False, True])
def test_rows_of_whatever_kind_are_the_same(weights: bool) -> None:
    import scipy.sparse as sp

    loss = network(dtype="float64")
    numpy, tensors = federation(weights=weights)[0], federation(weights=weights, as_torch=True)[0]
    sparse = fs.Client("sparse", sp.csr_array(numpy.X), numpy.y, numpy.sample_weight)
    w = point(loss, numpy)
    found = loss.gradient(tensors, torch.tensor(w))
    assert torch.is_tensor(found)
    assert found.numpy().tobytes() == loss.gradient(numpy, w).tobytes() == loss.gradient(sparse, w).tobytes()


# ── convolutions ──


def test_the_papers_cnn() -> None:
    # 64·(3·25 + 1) + 64·(64·25 + 1) + 1600·394 + 394 + 394·192 + 192 + 192·10 + 10
    assert flat_module(fs.CNN((3, 32, 32)), 3072, 10).count == 4864 + 102464 + 630794 + 75840 + 1930
    emnist = fs.CNN((1, 28, 28), hidden=(120, 84))
    assert flat_module(emnist, 784, 26).count == 64 * 26 + 64 * 1601 + 1024 * 120 + 120 + 120 * 84 + 84 + 84 * 26 + 26
    assert outputs_of(emnist, 784, flat_module(emnist, 784, 26).count) == 26


def test_a_small_cnn_has_the_gradient_of_its_value() -> None:
    rng = np.random.default_rng(0)
    client = fs.Client("a", rng.standard_normal((6, 2 * 8 * 8)), rng.integers(0, 3, 6).astype(float))
    small = fs.CNN((2, 8, 8), ((3, 3),), hidden=(4,), activation="tanh")
    loss = fs.Network(small, fs.Softmax(classes=3), dtype="float64")
    w, direction = point(loss, client), rng.standard_normal(loss.shape(128, ())[0])
    slope = (loss.value(client, w + 1e-6 * direction) - loss.value(client, w - 1e-6 * direction)) / 2e-6
    assert loss.gradient(client, w) @ direction == pytest.approx(slope, rel=1e-7)


# ── seeds ──


def test_the_first_weights_come_from_the_runs_seed() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    runs = [fs.run(fs.FedAvg(network(), fs.GradientSteps(1, 0.1)), federation(), rounds=0, seed=s) for s in (7, 7, 8)]
    assert torch.equal(torch.get_rng_state(), before)
    first, again, other = (run.model.w for run in runs)
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other).max() > 0.1
    assert np.abs(first).min() > 0
    torch.manual_seed(7)
    expected = torch.cat([one.reshape(-1) for one in fs.MLP((8,), "tanh").build(FEATURES, CLASSES).parameters()])
    assert first.tobytes() == expected.detach().numpy().tobytes()


# ── what is rejected ──


@dataclass(frozen=True)
class Normalised(fs.Architecture):
    norm: str = "batch"

    def build(self, inputs: int, outputs: int) -> Any:
        nn = torch.nn
        norms = {
            "batch": lambda: nn.BatchNorm1d(8),
            "untracked": lambda: nn.BatchNorm1d(8, track_running_stats=False),
            "group": lambda: nn.GroupNorm(2, 8),
            "layer": lambda: nn.LayerNorm(8),
            "dropout": lambda: nn.Dropout(0.5),
        }
        return nn.Sequential(nn.Linear(inputs, 8), norms[self.norm](), nn.ReLU(), nn.Linear(8, outputs))


@dataclass(frozen=True)
class Odd(fs.Architecture):
    what: str = "transposed"

    def build(self, inputs: int, outputs: int) -> Any:
        nn = torch.nn
        if self.what == "none":
            return nn.ReLU()
        if self.what == "text":
            return "a module"

        class Changed(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Linear(inputs, outputs)

            def forward(self, X: Any) -> Any:
                return self.inner(X).T

        return Changed()


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        (Normalised("batch"), "buffers 1.running_mean.*GroupNorm or LayerNorm"),
        (Normalised("untracked"), "more than 1 value|depends on the rows beside it"),
        (Normalised("dropout"), "draws by chance.*Dropout"),
        (Odd("transposed"), r"outputs of shape \(3, 1\) of a matrix of shape \(1, 5\), expected \(1, 3\)"),
        (Odd("none"), "no parameters"),
        (Odd("text"), "returns a torch module, got str"),
        (fs.CNN((1, 2, 2), ()), r"takes rows of 4 numbers, an image each; these have 5"),
    ],
)
def test_modules_that_cannot_be_trained(architecture: fs.Architecture, words: str) -> None:
    loss = fs.Network(architecture, fs.Softmax(classes=CLASSES))
    with pytest.raises(InputError, match=words):
        fs.run(fs.FedAvg(loss, fs.GradientSteps(1, 0.1)), federation(), rounds=1)


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_norms_within_a_row_are_trained(norm: str) -> None:
    loss = fs.Network(Normalised(norm), fs.Softmax(classes=CLASSES))
    run = fs.run(fs.FedAvg(loss, fs.GradientSteps(5, 0.2)), federation(), rounds=10)
    assert run.history[-1].value < 0.9 * run.history[0].value


def test_a_module_of_another_number_of_outputs() -> None:
    with pytest.raises(
        ConfigError, match=r"outputs of shape \(3, 5\) of a matrix of shape \(3, 4\), expected \(3, 2\)"
    ):
        flat_module(_Wide(), 4, 2)


@dataclass(frozen=True)
class _Wide(fs.Architecture):
    def build(self, inputs: int, outputs: int) -> Any:
        return torch.nn.Linear(inputs, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fs.MLP([8]),  # type: ignore[arg-type]
        lambda: fs.MLP((0,)),
        lambda: fs.MLP((8,), "swoosh"),
        lambda: fs.CNN((3, 32)),  # type: ignore[arg-type]
        lambda: fs.CNN((3, 8, 8)),
        lambda: fs.CNN((3, 8, 8), (3, 3)),  # type: ignore[arg-type]
        lambda: fs.Network(fs.MLP),  # type: ignore[arg-type]
        lambda: fs.Network(fs.MLP(), 3),  # type: ignore[arg-type]
        lambda: fs.Network(fs.MLP(), fs.Softmax(l2=1, classes=3)),
        lambda: fs.Network(fs.MLP(), fs.Logistic(intercept="free")),
        lambda: fs.Network(fs.MLP(), l2=-1),
        lambda: fs.Network(fs.MLP(), dtype="float16"),  # type: ignore[arg-type]
        lambda: fs.Network(fs.MLP(), device="tpu"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_targets_and_inputs_that_do_not_fit() -> None:
    algorithm = fs.FedAvg(network(), fs.GradientSteps(1, 0.1))
    X = np.random.default_rng(0).standard_normal((8, FEATURES))
    good = federation()[0]
    with pytest.raises(InputError, match="labels of Softmax"):
        fs.run(algorithm, [good, fs.Client("b", X, np.full(8, 3.0))], rounds=1)
    with pytest.raises(InputError, match="4 features where"):
        fs.run(algorithm, [good, fs.Client("b", X[:, :4], np.zeros(8))], rounds=1)
    with pytest.raises(InputError, match=r"text columns or missing values"):
        fs.run(algorithm, [fs.Client("b", np.where(X > 0, np.nan, X), np.zeros(8))], rounds=1)
    with pytest.raises(InputError, match="offset, which a network of 3 outputs"):
        fs.run(algorithm, [fs.Client("b", X, np.zeros(8), offset=np.ones(8))], rounds=1)


@pytest.mark.parametrize("w", [np.zeros(3), np.zeros((4, 5)), np.zeros(75, dtype=np.int64)])
def test_weights_that_do_not_fit(w: Array) -> None:
    client, loss = federation()[0], network()
    assert loss.shape(FEATURES, ()) == (75,)
    with pytest.raises(WrongType, match=r"float32 entries and shape \(75,\)"):
        loss.gradient(client, w)
    with pytest.raises(ConfigError, match="warm start has weights of shape"):
        fs.run(fs.FedAvg(loss, fs.GradientSteps(1, 0.1)), [client], warm_start=w[:2], rounds=1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(InputError, match="torch finds no GPU"):
        fs.run(fs.FedAvg(network(device="cuda"), fs.GradientSteps(1, 0.1)), federation(), rounds=1)
