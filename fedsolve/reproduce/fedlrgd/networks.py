"""The networks of Appendix C of Jadbabaie et al. (2023), trained on all rows at once as Keras trains by default.

The paper used Keras and names batch size (200) and epochs only. What it does not name is as Keras has it: Glorot's
uniform initial weights, biases of zero, Adam and RMSprop with step size 0.001 and ε = 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedsolve.data import load
from fedsolve.errors import ConfigError
from fedsolve.networks import MLP, Architecture
from fedsolve.networks.architecture import activation_module, checked_activation
from fedsolve.networks.library import torch_library
from fedsolve.networks.modules import FlatModule, flat_module
from fedsolve.numerics.scalars import whole
from fedsolve.reproduce.fedlrgd.network_losses import logistic_loss, squared_loss
from fedsolve.typing import Array

if TYPE_CHECKING:
    from torch import nn

BATCH, STEP_SIZE, EPSILON = 200, 0.001, 1e-7
ROWS = 2000  # whose outputs are computed at once
CLASSES = 10


@dataclass(frozen=True)
class _PaddedCNN(Architecture):
    """The paper's network for images of 32 × 32 × 3: convolutions of 3 × 3 that keep the image's size, one 2 × 2
    max-pooling after all of them, and a fully connected hidden layer.

    Args:
        filters: The filters of each convolution. Default (40, 40).
        hidden: The units of the fully connected layer. Default 150.
        activation: After each of these layers. Default "sigmoid".
    """

    filters: tuple[int, ...] = (40, 40)
    hidden: int = 150
    activation: str = "sigmoid"

    def __post_init__(self) -> None:
        for count in (*self.filters, self.hidden):
            whole("filters and units of PaddedCNN", count, least=1)
        checked_activation("PaddedCNN", self.activation)

    def build(self, inputs: int, outputs: int) -> nn.Module:
        modules = torch_library().nn
        if inputs != 3072:
            raise ConfigError(f"PaddedCNN takes rows of 3072 numbers, an image each; these have {inputs}")
        layers: list[nn.Module] = [modules.Unflatten(1, (3, 32, 32))]
        channels = 3
        for count in self.filters:
            layers += [modules.Conv2d(channels, count, 3, padding=1), activation_module(self.activation)]
            channels = count
        layers += [modules.MaxPool2d(2), modules.Flatten(), modules.Linear(channels * 256, self.hidden)]
        layers += [activation_module(self.activation), modules.Linear(self.hidden, outputs)]
        sequential: nn.Module = modules.Sequential(*layers)
        return sequential


@dataclass(frozen=True)
class Training:
    """A network to train: on which images, with which optimiser, for how many epochs, by which loss."""

    data: Literal["mnist", "cifar10"]
    architecture: Architecture
    optimiser: Literal["Adam", "RMSprop"] = "Adam"
    epochs: int = 25
    batch: int = BATCH
    loss: Literal["cross-entropy", "squared", "logistic"] = "cross-entropy"

    @property
    def loss_function(self) -> Callable[[Array, Array], Array]:
        """Of outputs and labels, mean over the rows."""
        usual: Callable[[Array, Array], Array] = torch_library().nn.functional.cross_entropy
        return {"squared": squared_loss, "logistic": logistic_loss}.get(self.loss, usual)


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels in [0, 1], with the digit or class of each image."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True, eq=False)
class Trained:
    """θ*, with the accuracies it reaches."""

    w: Array
    train_accuracy: float
    test_accuracy: float


@lru_cache(maxsize=1)
def images(name: str) -> Images:
    """MNIST, or the 10,000 images of CIFAR-10 at hand with their channels first."""
    data = load(name)
    assert data.X_test is not None
    assert data.y_test is not None
    X, X_test = (one.astype(np.float32) for one in (data.X, data.X_test))
    if name == "cifar10":
        X, X_test = (one.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(-1, 3072) for one in (X, X_test))
    return Images(X, data.y, X_test, data.y_test)


def mlp(*hidden: int, activation: str = "sigmoid") -> Architecture:
    """The paper's networks for MNIST."""
    return MLP(hidden, activation)


def cnn(activation: str = "sigmoid", filters: tuple[int, ...] = (40, 40), hidden: int = 150) -> Architecture:
    """The paper's network for CIFAR-10, or one with other layers."""
    return _PaddedCNN(filters, hidden, activation)


def train(what: Training, given: Images, seed: int, device: str = "cpu") -> Trained:
    """Minimise the loss, epoch by epoch over shuffled batches."""
    torch = torch_library()
    net = flat_module(what.architecture, given.X.shape[1], CLASSES)
    loss = what.loss_function
    rng = np.random.default_rng([seed, 0])
    X, y = (torch.as_tensor(np.ascontiguousarray(one), device=device) for one in (given.X, given.y))
    w = torch.tensor(glorot(net, rng), dtype=torch.float32, device=device, requires_grad=True)
    if what.optimiser == "Adam":
        optimiser = torch.optim.Adam([w], lr=STEP_SIZE, eps=EPSILON)
    else:
        optimiser = torch.optim.RMSprop([w], lr=STEP_SIZE, alpha=0.9, eps=EPSILON)
    for _ in range(what.epochs):
        order = torch.as_tensor(rng.permutation(len(y)), device=device)
        for batch in order.split(what.batch):
            optimiser.zero_grad()
            loss(net(w, X[batch]), y[batch]).backward()
            optimiser.step()
    found = w.detach()
    tested = (torch.as_tensor(np.ascontiguousarray(one), device=device) for one in (given.X_test, given.y_test))
    return Trained(found.cpu().numpy(), _accuracy(net, found, X, y), _accuracy(net, found, *tested))


def glorot(net: FlatModule, rng: np.random.Generator) -> Array:
    """Keras's initial weights: uniform within ±√(6 / (inputs + outputs)), biases zero."""
    parts = []
    for shape in net.shapes.values():
        if len(shape) == 1:
            parts.append(np.zeros(shape))
            continue
        pixels = int(np.prod(shape[2:]))  # of a filter; 1 for a layer without pixels
        bound = sqrt(6.0 / (pixels * (shape[0] + shape[1])))
        parts.append(rng.uniform(-bound, bound, int(np.prod(shape))))
    return np.concatenate([part.reshape(-1) for part in parts])


def _accuracy(net: FlatModule, w: Array, X: Array, y: Array) -> float:
    torch = torch_library()
    with torch.no_grad():
        parts = zip(X.split(ROWS), y.split(ROWS), strict=True)
        hits = sum(int((net(w, rows).argmax(dim=1) == labels).sum()) for rows, labels in parts)
    return hits / len(y)
