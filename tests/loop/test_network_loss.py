"""A loss that is not of a linear model: a small network, built on the ℓ of the logistic loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.data import Transform
from fedsolve.typing import Array

HIDDEN = 5


@dataclass(frozen=True, eq=False)
class TanhModel(fs.Model):
    """x ↦ vᵀ tanh(Ux)."""

    w: Array
    transform: Transform | None = None
    inputs: int | None = None

    kind: ClassVar[str] = "tanh"

    def predict(self, X: Array) -> Array:
        X = self.prepared(X)
        U, v = unpacked(self.w, X.shape[1])
        return np.tanh(X @ U.T) @ v


def unpacked(w: Array, features: int) -> tuple[Array, Array]:
    return w[: HIDDEN * features].reshape(HIDDEN, features), w[HIDDEN * features :]


@dataclass(frozen=True)
class Tanh(fs.Loss):
    """Two layers under any ℓ of one output."""

    of: fs.Pointwise = field(default_factory=fs.Logistic)
    decay: float = 1e-4

    def check(self, client: fs.Client) -> None:
        self.of.check(client)

    def shape(self, features: int, outputs: tuple[int, ...]) -> tuple[int, ...]:
        return (HIDDEN * (features + 1),)

    def start_point(self, features: int, outputs: tuple[int, ...]) -> Array:
        # At zero all hidden units are alike for ever.
        return np.random.default_rng(0).standard_normal(self.shape(features, outputs))

    def penalty(self, w: Array) -> float:
        return 0.5 * self.decay * float(w @ w)

    def penalty_gradient(self, w: Array) -> Array:
        return self.decay * w

    def value(self, client: fs.Client, w: Array) -> float:
        client.count("losses", client.n_samples)
        return float(self.of.pointwise(np, self._forward(client, w)[2], client.y).mean()) + self.penalty(w)

    def gradient(self, client: fs.Client, w: Array) -> Array:
        return self.sample_gradients(client, w).mean(axis=0) + self.penalty_gradient(w)

    def sample_gradients(self, client: fs.Client, w: Array) -> Array:
        client.count("gradients", client.n_samples)
        X, hidden, eta = self._forward(client, w)
        slope = self.of.derivative(np, eta, client.y)
        _, v = unpacked(w, X.shape[1])
        back = slope[:, None] * v * (1 - hidden**2)
        inner = (back[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return np.concatenate([inner, slope[:, None] * hidden], axis=1)

    def _forward(self, client: fs.Client, w: Array) -> tuple[Array, Array, Array]:
        X = client.design.take(slice(None))
        U, v = unpacked(w, X.shape[1])
        hidden = np.tanh(X @ U.T)
        return X, hidden, hidden @ v

    def model(self, w: Array) -> TanhModel:
        return TanhModel(w)


def clients() -> list[fs.Client]:
    """Labels that no linear model can tell apart: a wave along the first column."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.5, 2.5, (240, 2))
    y = (np.sin(2 * X[:, 0]) > 0).astype(float)
    return [fs.Client(name, X[part], y[part]) for name, part in (("a", slice(80)), ("b", slice(80, 240)))]


def algorithm() -> fs.FedAvg:
    return fs.FedAvg(Tanh(), fs.GradientSteps(5, step_size=1.0))


def test_gradients_are_those_of_the_value() -> None:
    client, loss = clients()[0], Tanh()
    w = loss.start_point(2, ())
    step = 6e-6
    eye = step * np.eye(len(w))
    expected = [(loss.value(client, w + e) - loss.value(client, w - e)) / (2 * step) for e in eye]
    np.testing.assert_allclose(loss.gradient(client, w), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("transport", ["in_process", "processes"])
def test_fedavg_trains_it(transport: str) -> None:
    run = fs.run(algorithm(), clients(), rounds=60, transport=transport)
    assert run.history[-1].value < 0.6 * run.history[0].value
    assert run.history[-1].gradient_norm is not None
    assert run.history[-1].relative_gradient is None  # its scale is not known
    assert run.certificate is None  # and neither is its convexity
    X, y = (np.concatenate([getattr(one, name) for one in clients()]) for name in ("X", "y"))
    linear = fs.run(fs.Newton(fs.Logistic(l2=1e-4)), clients()).model.score(X, y)
    assert np.mean((run.model.predict(X) > 0) == y) > linear + 0.15


def test_scaffold_trains_it_too() -> None:
    run = fs.run(fs.Scaffold(Tanh(), fs.GradientSteps(5, step_size=0.5)), clients(), rounds=30)
    assert run.history[-1].value < 0.8 * run.history[0].value


def test_it_is_resumed_saved_and_evaluated(tmp_path: Path) -> None:
    held = fs.data.hold_out(clients(), 0.25)
    whole = fs.run(algorithm(), held, rounds=8)
    fs.run(algorithm(), held, rounds=3, checkpoint=tmp_path / "run")
    again = fs.run(algorithm(), held, rounds=8, checkpoint=tmp_path / "run", resume=True)
    assert again.model.w.tobytes() == whole.model.w.tobytes()
    whole.model.save(tmp_path / "model.npz")
    X = held[0].held.X
    assert fs.load_model(tmp_path / "model.npz").predict(X).tobytes() == whole.model.predict(X).tobytes()
    found = fs.evaluate(whole.model.w, held, Tanh())
    parts = [(one.held.weight, Tanh().value(one.held, whole.model.w) - Tanh().penalty(whole.model.w)) for one in held]
    assert found.value == pytest.approx(np.average([v for _, v in parts], weights=[s for s, _ in parts]), rel=1e-12)
    assert found.error is None
    assert found.accuracy is None


def test_a_warm_start_is_an_array_of_its_shape() -> None:
    first = fs.run(algorithm(), clients(), rounds=2)
    warm = fs.run(algorithm(), clients(), rounds=0, warm_start=first.model.w)
    assert warm.model.w.tobytes() == first.model.w.tobytes()
    with pytest.raises(fs.errors.ConfigError, match=r"shape \(3,\), this problem needs \(15,\)"):
        fs.run(algorithm(), clients(), warm_start=np.zeros(3))


@pytest.mark.parametrize("kind", [fs.Newton, fs.FedNewton, fs.FedProx, fs.GIANT])
def test_what_it_lacks_is_said_before_anything_is_sent(kind: type) -> None:
    with pytest.raises(fs.errors.ConfigError, match="does not have"):
        fs.run(kind(Tanh()), clients())


def test_a_step_size_is_asked_for() -> None:
    with pytest.raises(fs.errors.ConfigError, match="no bound on its smoothness"):
        fs.run(fs.FedAvg(Tanh()), clients())
