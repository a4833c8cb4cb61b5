"""Networks as weak learners: the fit against torch's own Adam, boosting with them, and what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ConfigError, WrongType
from fedsolve.learners.base import Fitting, WeakLearner
from fedsolve.networks.modules import initial_weights
from tests.networks.problems import FEATURES, federation, rows, torch

MLP = fs.MLP((8,), "tanh")


def fitting(kind: str = "pairs", n: int = 50, weight: bool = False, seed: int = 0) -> Fitting:
    rng = np.random.default_rng(2)
    X, y = rows(n, rng, kind)
    return Fitting(X, y, rng.random(n) + 0.1 if weight else None, (), np.random.default_rng(seed))


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("kind", ["numbers", "pairs"])
def test_full_batches_are_torchs_adam(kind: str, weight: bool) -> None:
    given = fitting(kind, weight=weight)
    learner = fs.NetworkLearner(MLP, epochs=20, batch_size=None, step_size=0.01, l2=0.1, dtype="float64")
    found = learner.fit(given)
    outputs = 1 if kind == "numbers" else 2
    begin = initial_weights(MLP, FEATURES, outputs, int(np.random.default_rng(0).integers(2**31)))
    module = MLP.build(FEATURES, outputs).double()
    torch.nn.utils.vector_to_parameters(torch.tensor(begin, dtype=torch.float64), module.parameters())
    adam = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=0.1)
    X, y = torch.tensor(given.X), torch.tensor(given.target).reshape(len(given.X), -1)
    s = torch.ones(len(X)) if given.weight is None else torch.tensor(given.weight)
    for _ in range(20):
        adam.zero_grad()
        (0.5 * (s * ((module(X) - y) ** 2).sum(dim=1)).sum() / s.sum()).backward()
        adam.step()
    expected = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(found.w, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found(given.X).reshape(len(X), -1), module(X).detach().numpy(), rtol=0, atol=1e-12)
    assert found(given.X).shape == given.target.shape


def test_a_fit_is_near_its_target_and_seeded() -> None:
    learner = fs.NetworkLearner(MLP, epochs=200, batch_size=16, step_size=0.02)
    state = torch.get_rng_state()
    first, again, other = (learner.fit(fitting(seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    given = fitting()
    assert np.mean((first(given.X) - given.target) ** 2) < 0.3 * given.target.var(axis=0).sum()
    assert first.w.dtype == np.float32
    assert first.w.tobytes() == again.w.tobytes() != other.w.tobytes()


def test_rows_of_whatever_kind() -> None:
    learner, given = fs.NetworkLearner(MLP, epochs=3, dtype="float64"), fitting()
    dense = learner.fit(given)
    sparse = learner.fit(Fitting(sp.csr_array(given.X), given.target, None, (), np.random.default_rng(0)))
    tensors = learner.fit(
        Fitting(torch.tensor(given.X), torch.tensor(given.target), None, (), np.random.default_rng(0))
    )
    assert dense.w.tobytes() == sparse.w.tobytes() == tensors.w.numpy().tobytes()
    assert torch.is_tensor(tensors(torch.tensor(given.X)))
    np.testing.assert_array_equal(dense(sp.csr_array(given.X)), dense(given.X))


@pytest.mark.parametrize("arrays", [(), (np.zeros(3, np.float32),), (np.zeros(66),), (np.zeros((66, 1), np.float32),)])
def test_arrays_that_are_no_function_of_it(arrays: Any) -> None:
    learner = fs.NetworkLearner(MLP)
    made = learner.fit(fitting())
    assert made.w.shape == (8 * (FEATURES + 1) + 9 * 2,) == (66,)
    np.testing.assert_array_equal(learner.function(made.arrays(), FEATURES, (2,))(fitting().X), made(fitting().X))
    with pytest.raises(WrongType, match=r"one float32 array of shape \(66,\)"):
        learner.function(arrays, FEATURES, (2,))


@pytest.mark.parametrize("as_torch", [False, True])
def test_boosting_with_networks(as_torch: bool, tmp_path: Path) -> None:
    learner = fs.NetworkLearner(MLP, epochs=20, batch_size=16, step_size=0.01)
    clients = federation("classes", as_torch=as_torch)
    run = fs.run(fs.FFGB(fs.Softmax(classes=3), learner, step_size=1.0), clients, rounds=3)
    assert run.history[-1].value < 0.95 * run.history[0].value
    run.model.save(tmp_path / "model.npz")
    X = federation("classes")[0].X
    np.testing.assert_array_equal(fs.load_model(tmp_path / "model.npz").predict(X), run.model.predict(X))


def test_there_and_back() -> None:
    learner = fs.NetworkLearner(fs.CNN((1, 8, 8), ((4, 3),), (5,)), 7, None, 0.01, 1.0, "float64", "cpu")
    assert WeakLearner.from_plain(learner.to_plain()) == learner


@pytest.mark.parametrize(
    "wrong",
    [
        {"architecture": fs.MLP},
        {"architecture": MLP, "epochs": 0},
        {"architecture": MLP, "batch_size": 0},
        {"architecture": MLP, "step_size": 0.0},
        {"architecture": MLP, "l2": -1.0},
        {"architecture": MLP, "dtype": "float16"},
        {"architecture": MLP, "device": "tpu"},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        fs.NetworkLearner(**wrong)
