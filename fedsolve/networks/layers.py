"""The two usual architectures: fully connected layers, and convolutions before them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from fedsolve.errors import ConfigError
from fedsolve.networks.architecture import Architecture, activation_module, checked_activation
from fedsolve.networks.library import torch_library
from fedsolve.numerics.scalars import whole

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class MLP(Architecture):
    """Fully connected layers.

    Args:
        hidden: The units of each hidden layer. Default (64,); () is a linear model with intercepts.
        activation: Between the layers: "relu" (default), "tanh", "gelu", "elu", "sigmoid" or "softplus".
    """

    hidden: tuple[int, ...] = (64,)
    activation: str = "relu"

    def __post_init__(self) -> None:
        _check_units("MLP", self.hidden)
        checked_activation("MLP", self.activation)

    def build(self, inputs: int, outputs: int) -> nn.Module:
        sequential: nn.Module = torch_library().nn.Sequential(*_dense(inputs, self.hidden, outputs, self.activation))
        return sequential


@dataclass(frozen=True)
class CNN(Architecture):
    """Convolutions, each followed by the activation and 2 × 2 max pooling, then fully connected layers.

    The defaults are those of Shen et al. for CIFAR; for EMNIST they use `CNN((1, 28, 28), hidden=(120, 84))`.

    Args:
        shape: Channels, height and width of an image. A row of the inputs is an image in this order.
        convolutions: For each convolution how many filters it has, and how many pixels wide and high they are; without
            padding. Default ((64, 5), (64, 5)).
        hidden: The units of each fully connected hidden layer. Default (394, 192).
        activation: As `MLP` has it.
    """

    shape: tuple[int, int, int]
    convolutions: tuple[tuple[int, int], ...] = ((64, 5), (64, 5))
    hidden: tuple[int, ...] = (394, 192)
    activation: str = "relu"

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or len(self.shape) != 3:
            raise ConfigError(f"CNN's shape is (channels, height, width), got {self.shape!r}")
        for size in self.shape:
            whole("a size in CNN's shape", size, least=1)
        if not isinstance(self.convolutions, tuple) or not all(
            isinstance(one, tuple) and len(one) == 2 for one in self.convolutions
        ):
            raise ConfigError(f"CNN's convolutions are pairs (filters, size), got {self.convolutions!r}")
        for filters, size in self.convolutions:
            whole("filters of a convolution", filters, least=1)
            whole("the size of a convolution's filters", size, least=1)
        _check_units("CNN", self.hidden)
        checked_activation("CNN", self.activation)
        self._flattened()

    def build(self, inputs: int, outputs: int) -> nn.Module:
        modules = torch_library().nn
        if inputs != prod(self.shape):
            raise ConfigError(
                f"CNN(shape={self.shape}) takes rows of {prod(self.shape)} numbers, an image each; these have {inputs}"
            )
        layers: list[nn.Module] = [modules.Unflatten(1, self.shape)]
        channels = self.shape[0]
        for filters, size in self.convolutions:
            layers += [
                modules.Conv2d(channels, filters, size),
                activation_module(self.activation),
                modules.MaxPool2d(2),
            ]
            channels = filters
        layers += [modules.Flatten(), *_dense(self._flattened(), self.hidden, outputs, self.activation)]
        sequential: nn.Module = modules.Sequential(*layers)
        return sequential

    def _flattened(self) -> int:
        """The numbers that are left of an image after the convolutions."""
        channels, height, width = self.shape
        for filters, size in self.convolutions:
            channels, height, width = filters, (height - size + 1) // 2, (width - size + 1) // 2
            if height < 1 or width < 1:
                raise ConfigError(f"nothing is left of an image of shape {self.shape} after {self.convolutions}")
        return channels * height * width


def _dense(inputs: int, hidden: tuple[int, ...], outputs: int, activation: str) -> list[nn.Module]:
    linear = torch_library().nn.Linear
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [linear(inputs, units), activation_module(activation)]
        inputs = units
    return [*layers, linear(inputs, outputs)]


def _check_units(who: str, hidden: tuple[int, ...]) -> None:
    if not isinstance(hidden, tuple):
        raise ConfigError(f"{who}'s hidden is a tuple of units, such as (64,), got {hidden!r}")
    for units in hidden:
        whole(f"units of a hidden layer of {who}", units, least=1)
