"""Modules of users' own that are unusual: what cannot be trained is rejected, everything else gives torch's answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientInputError, ConfigError, DataError
from fedsolve.federation.transports import InProcess
from fedsolve.networks.modules import flat_module, initial_weights, outputs_of
from tests.networks.problems import FEATURES, federation, torch

STEPS = fs.GradientSteps(epochs=2, step_size=0.1, batch_size=8)
MODULES: dict[str, Any] = {}


def module(make: Any) -> Any:
    MODULES[make.__name__] = make
    return make


@dataclass(frozen=True)
class Unusual(fs.Architecture):
    kind: str

    def build(self, inputs: int, outputs: int) -> Any:
        return MODULES[self.kind](inputs, outputs)


@module
def inplace(inputs: int, outputs: int) -> Any:
    return torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Linear(inputs, outputs))


@module
def inplace_inside(inputs: int, outputs: int) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, 4), nn.ReLU(inplace=True), nn.Linear(4, outputs))


@module
def frozen(inputs: int, outputs: int) -> Any:
    made = torch.nn.Sequential(torch.nn.Linear(inputs, 4), torch.nn.Tanh(), torch.nn.Linear(4, outputs))
    made[0].weight.requires_grad_(False)
    return made


@module
def lazy(inputs: int, outputs: int) -> Any:
    return torch.nn.LazyLinear(outputs)


@module
def brain_float(inputs: int, outputs: int) -> Any:
    return torch.nn.Linear(inputs, outputs).bfloat16()


@module
def wide_head(inputs: int, outputs: int) -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 4 * outputs), torch.nn.Tanh(), torch.nn.Linear(4 * outputs, outputs)
    )


@module
def three_only(inputs: int, outputs: int) -> Any:
    if outputs != 3:
        raise ConfigError("three_only has three outputs")
    return torch.nn.Linear(inputs, outputs)


def tied_class() -> Any:
    class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(inputs, inputs), torch.nn.Linear(inputs, inputs)
            self.b.weight, self.head = self.a.weight, torch.nn.Linear(inputs, outputs)
            self.empty = torch.nn.Parameter(torch.zeros(0, 3))

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))

    return Tied


def recurrent_class() -> Any:
    class Recurrent(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.cells, self.head = torch.nn.LSTM(1, 4, batch_first=True), torch.nn.Linear(4, outputs)

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(x.unsqueeze(-1))[0][:, -1])

    return Recurrent


MODULES["tied"] = lambda inputs, outputs: tied_class()(inputs, outputs)
MODULES["recurrent"] = lambda inputs, outputs: recurrent_class()(inputs, outputs)


def loss_of(kind: str, **options: Any) -> fs.Network:
    return fs.Network(Unusual(kind), fs.Softmax(classes=3), **options)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("inplace", "changes its inputs in place"),
        ("frozen", "parameter 0.weight has requires_grad=False"),
        ("lazy", "parameter weight has no shape before"),
    ],
)
def test_what_cannot_be_trained_is_rejected(kind: str, words: str) -> None:
    with pytest.raises(ClientInputError, match=words):
        fs.run(fs.FedAvg(loss_of(kind), STEPS), federation(), rounds=1)


@pytest.mark.parametrize("kind", ["inplace_inside", "tied", "recurrent", "brain_float", "wide_head", "three_only"])
def test_one_full_batch_step_is_torchs_own(kind: str) -> None:
    client = federation(sizes=(20,))[0]
    loss = loss_of(kind, dtype="float64")
    start = loss.start_point(FEATURES, ())
    found = fs.run(fs.FedAvg(loss, fs.GradientSteps(step_size=0.1)), [client], rounds=1).model
    own = MODULES[kind](FEATURES, 3).double()
    torch.nn.utils.vector_to_parameters(torch.tensor(start), own.parameters())
    X, y = torch.tensor(client.X), torch.tensor(client.y).long()
    torch.nn.functional.cross_entropy(own(X), y).backward()
    with torch.no_grad():
        for one in own.parameters():
            one -= 0.1 * (torch.zeros_like(one) if one.grad is None else one.grad)
    expected = torch.nn.utils.parameters_to_vector(own.parameters()).detach().numpy()
    np.testing.assert_allclose(found.w, expected, atol=1e-12)
    np.testing.assert_allclose(found.decision_function(client.X), own(X).detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["inplace_inside", "tied", "recurrent", "wide_head", "three_only"])
def test_together_as_one_by_one_and_distilled(kind: str) -> None:
    loss, clients = loss_of(kind, dtype="float64"), federation()
    adam = fs.Adam(epochs=1, batch_size=8)
    server = fs.Client("server", np.random.default_rng(9).standard_normal((10, FEATURES)), None)
    for algorithm in (fs.FedAvg(loss, STEPS), fs.FFGBDistill(loss, 5.0, adam, fs.Distil(local=adam))):
        alone = fs.run(algorithm, clients, rounds=2, server=server).model
        together = fs.run(algorithm, InProcess(clients, together=True), rounds=2, server=server).model
        np.testing.assert_allclose(together.w, alone.w, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2, 3, 10, 33])
def test_outputs_follow_from_weights_also_where_each_adds_another_number(outputs: int) -> None:
    architecture = Unusual("wide_head")
    count = flat_module(architecture, 4, outputs).count
    assert outputs_of(architecture, 4, count) == outputs
    with pytest.raises(ConfigError, match="has no"):
        outputs_of(architecture, 4, count + 1)


def test_a_model_for_one_number_of_outputs_is_saved_and_predicts(tmp_path: Path) -> None:
    model = fs.run(fs.FedAvg(loss_of("three_only"), STEPS), federation(), rounds=1).model
    assert model.n_classes == 3
    model.save(tmp_path / "model.npz")
    again = fs.load_model(tmp_path / "model.npz")
    X = federation()[0].X
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(DataError, match="takes 5 columns"):
        again.predict(X[:, :4])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["tied", "recurrent", "wide_head"])
def test_the_torch_module_of_a_model(kind: str, dtype: Any) -> None:
    """It puts out what the model does, and its parameters start the run where that ended."""
    loss, clients = loss_of(kind, dtype=dtype), federation()
    model = fs.run(fs.FedAvg(loss, STEPS), clients, rounds=2).model
    before = torch.get_rng_state()
    own = model.module()
    assert torch.equal(before, torch.get_rng_state())
    X = torch.tensor(clients[0].X, dtype=getattr(torch, dtype))
    np.testing.assert_allclose(own(X).detach().numpy(), model.decision_function(clients[0].X), rtol=1e-6, atol=1e-6)
    w = torch.nn.utils.parameters_to_vector(own.parameters()).detach().numpy()
    assert np.array_equal(fs.run(fs.FedAvg(loss, STEPS), clients, rounds=0, warm_start=w).model.w, model.w)
    with pytest.raises(ConfigError, match="the model of no run"):
        loss.model(model.w).module()


def test_first_weights_of_any_float_type_are_torchs() -> None:
    assert initial_weights(Unusual("brain_float"), 4, 3, seed=1).dtype == np.float64


class Plain(fs.Architecture):
    def __init__(self, width: int) -> None:
        self.width = width

    def build(self, inputs: int, outputs: int) -> Any:
        return torch.nn.Linear(inputs, outputs)


@dataclass
class Thawed(fs.Architecture):
    width: int = 3

    def build(self, inputs: int, outputs: int) -> Any:
        return torch.nn.Linear(inputs, outputs)


@dataclass(frozen=True)
class Listed(fs.Architecture):
    widths: Any

    def build(self, inputs: int, outputs: int) -> Any:
        return torch.nn.Linear(inputs, outputs)


@pytest.mark.parametrize("make", [fs.Network, fs.NetworkLearner])
def test_architectures_that_could_not_be_saved_are_rejected_before_a_run(make: Any) -> None:
    for wrong in (Plain(3), Thawed(), Listed([3]), Listed(torch.nn.ReLU())):
        with pytest.raises(ConfigError, match="frozen=True"):
            make(wrong)
    with pytest.raises(ConfigError, match="write an Architecture whose `build`"):
        make(torch.nn.Linear(3, 2))
    assert make(Listed((3, "wide"))) is not None
