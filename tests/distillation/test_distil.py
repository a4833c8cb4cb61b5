"""Distillation against closed forms: least squares, class probabilities, and derivatives by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr, softmax

import fedsolve as fs
from fedsolve.distillation.matching import Probabilities
from fedsolve.distillation.rows import (
    fresh_weights,
    functional_gradient,
    mean_outputs,
    outputs,
    public_rows,
    with_targets,
)
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Memory
from fedsolve.typing import Array
from tests.extras import optional
from tests.networks.problems import federation, network

torch = optional("torch")

LINEAR = fs.Network(fs.MLP(()), fs.Softmax(classes=3), dtype="float64")
EXACT = fs.GradientSteps(steps=1000, step_size=0.4)  # the Hessian is about the identity: below 0.9^1000 is left


def server(n: int = 40, p: int = 4, seed: int = 0, **given: Any) -> fs.Client:
    """Rows without targets, inside a call."""
    client = fs.Client("server", np.random.default_rng(seed).standard_normal((n, p)), None, **given)
    client.enter(Memory({}), (seed, 1, 0, 0))
    return client


def flat(coef: Array, intercept: Array) -> Array:
    """The weights of MLP(()): a matrix with a row for each output, then the intercepts."""
    return np.concatenate([coef.T.reshape(-1), intercept])


def least_squares(X: Array, targets: Array, weights: Array | None = None) -> Array:
    A = np.column_stack([X, np.ones(len(X))])
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    w = np.linalg.lstsq(A * root[:, None], targets * root[:, None], rcond=None)[0]
    return flat(w[:-1], w[-1])


@pytest.mark.parametrize("weighted", [False, True])
def test_matching_outputs_is_least_squares(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    s = rng.random(40) + 0.2 if weighted else None
    client = server(sample_weight=s)
    teacher = np.sin(client.X[:, :3]) + rng.standard_normal((40, 3))  # nothing that a linear network could put out
    own = public_rows(LINEAR, client)
    begin = torch.zeros(15, dtype=torch.float64)
    w = fs.Distil("outputs", EXACT).fit(LINEAR, own, own.localise(teacher), begin)
    np.testing.assert_allclose(w.numpy(), least_squares(client.X, teacher, s), atol=1e-9)
    assert client.counts == {"gradients": 1000 * 40}


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_matching_probabilities_finds_the_teacher(temperature: float) -> None:
    rng = np.random.default_rng(4)
    client = server(200)
    teacher = 0.5 * client.X @ rng.standard_normal((4, 3)) + rng.standard_normal(3)
    own = public_rows(LINEAR, client)
    solver = fs.GradientSteps(steps=1500, step_size=1.0)
    begin = torch.zeros(15, dtype=torch.float64)
    w = fs.Distil("probabilities", solver, temperature).fit(LINEAR, own, own.localise(teacher), begin)
    found = outputs(LINEAR, own, w).numpy()
    np.testing.assert_allclose(softmax(found, axis=1), softmax(teacher, axis=1), atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_cost_of_probabilities_is_the_divergence(temperature: float) -> None:
    rng = np.random.default_rng(5)
    eta, other, teacher = (3 * rng.standard_normal((6, 4)) for _ in range(3))
    cost, y = Probabilities(temperature), softmax(teacher / temperature, axis=1)
    kl = [temperature**2 * rel_entr(y, softmax(one / temperature, axis=1)).sum(axis=1) for one in (eta, other)]
    ours = [cost.pointwise(np, one, y) for one in (eta, other)]
    np.testing.assert_allclose(ours[0] - ours[1], kl[0] - kl[1], atol=1e-12)  # up to the teacher's own entropy
    h = 1e-6
    for c in range(4):
        step = h * np.eye(4)[c]
        slope = (cost.pointwise(np, eta + step, y) - cost.pointwise(np, eta - step, y)) / (2 * h)
        np.testing.assert_allclose(cost.derivative(np, eta, y)[:, c], slope, atol=1e-8)


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers", "pairs"])
@pytest.mark.parametrize("as_torch", [False, True])
def test_functional_gradients_are_those_of_each_loss(kind: str, as_torch: bool) -> None:
    client = federation(kind, as_torch=as_torch)[0]
    client.enter(Memory({}), (0, 1, 0, 0))
    loss = network(kind, dtype="float64")
    outs = tuple(client.y.shape[1:])
    w = torch.tensor(loss.seeded_start_point(5, outs, 7))
    own = loss.computing(client)
    eta, y = outputs(loss, own, w).numpy(), np.asarray(client.y)
    expected = {
        "classes": lambda: softmax(eta, axis=1) - np.eye(3)[y.astype(int)],
        "labels": lambda: 1 / (1 + np.exp(-eta[:, 0])) - y,
        "numbers": lambda: eta[:, 0] - y,
        "pairs": lambda: eta - y,
    }[kind]()
    np.testing.assert_allclose(functional_gradient(loss, own, w).numpy(), expected, atol=1e-12)


def test_an_offset_counts_in_the_functional_gradient() -> None:
    client = federation("numbers", offset=True)[0]
    client.enter(Memory({}), (0, 1, 0, 0))
    loss = network("numbers", dtype="float64")
    w = torch.tensor(loss.seeded_start_point(5, (), 7))
    own = loss.computing(client)
    expected = outputs(loss, own, w).numpy()[:, 0] + client.offset - client.y
    np.testing.assert_allclose(functional_gradient(loss, own, w).numpy(), expected, atol=1e-12)


def test_outputs_of_many_rows_come_in_blocks_and_are_counted() -> None:
    client = server(5000)
    own = public_rows(LINEAR, client)
    rng = np.random.default_rng(0)
    networks = [torch.tensor(rng.standard_normal(15)) for _ in range(3)]
    each = [client.X @ w.numpy()[:12].reshape(3, 4).T + w.numpy()[12:] for w in networks]
    np.testing.assert_allclose(mean_outputs(LINEAR, own, networks).numpy(), sum(each) / 3, atol=1e-12)
    assert client.counts == {"losses": 15_000}


def test_other_targets_leave_the_client_as_it_is() -> None:
    client = federation("numbers")[0]
    client.enter(Memory({}), (0, 1, 0, 0))
    before = client.y.copy()
    twin = with_targets(client, client.y + 1)
    assert twin.design is client.design
    assert twin.counts is client.counts
    assert np.array_equal(client.y, before)
    assert np.array_equal(twin.subset(np.arange(3)).y, before[:3] + 1)


def test_fresh_weights_are_the_clients_own_and_seeded() -> None:
    def drawn(name: str, round: int) -> Array:
        client = fs.Client(name, np.ones((3, 4)), None)
        client.enter(Memory({}), (5, round, 0, 0))
        return fresh_weights(LINEAR, public_rows(LINEAR, client), 15).numpy()

    assert np.array_equal(drawn("a", 1), drawn("a", 1))
    assert not np.array_equal(drawn("a", 1), drawn("b", 1))
    assert not np.array_equal(drawn("a", 1), drawn("a", 2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fs.Distil("logits"), "'outputs' or 'probabilities'"),
        (lambda: fs.Distil(local=fs.GradientSteps(5)), "needs a step size"),
        (lambda: fs.Distil(local=fs.Adam), "solver of steps"),
        (lambda: fs.Distil(temperature=0.0), "temperature"),
        (lambda: fs.FFGBDistill(fs.Softmax(classes=3)), "fits networks"),
        (lambda: fs.FedAvgDistill(fs.Softmax(classes=3)), "fits networks"),
        (lambda: fs.FFGBDistill(LINEAR, step_size=-1.0), "step_size"),
        (lambda: fs.FFGBDistill(LINEAR, local=fs.GradientSteps(3)), "needs a step size"),
        (lambda: fs.FedAvgDistill(network("numbers")), 'use Distil\\("outputs"\\)'),
        (lambda: fs.FFGBDistill(network("numbers"), distil=fs.Distil("probabilities")), 'use Distil\\("outputs"\\)'),
    ],
)
def test_what_is_rejected(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
