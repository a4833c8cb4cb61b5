"""What an architecture is: hyper-parameters that both sides know, from which either builds the same torch module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from fedsolve.errors import ConfigError, DataError, InputError
from fedsolve.networks.library import torch_library
from fedsolve.plain import Plain, Reader, to_plain

if TYPE_CHECKING:
    from torch import nn

ACTIVATIONS = {
    "relu": "ReLU",
    "tanh": "Tanh",
    "gelu": "GELU",
    "elu": "ELU",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
}


class Architecture(ABC):
    """A network without its weights. To use a torch module of your own, write a frozen dataclass of plain values:

        @dataclass(frozen=True)
        class Residual(fs.Architecture):
            width: int = 32

            def build(self, inputs, outputs):
                return MyModule(inputs, self.width, outputs)

    The module takes a matrix with `inputs` columns, a row for each sample, and returns one with `outputs` columns. It
    must treat each row by itself and alike: modules with buffers (BatchNorm) and modules that draw by chance (Dropout)
    are rejected. Models are saved under the name of the class; a program that reads them must import it.
    """

    known: ClassVar[dict[str, type[Architecture]]] = {}  # by name, for models that are read back

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        other = Architecture.known.get(cls.__name__)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"there is an architecture {cls.__name__} already: give this one another name")
        if not cls.__name__.startswith("_"):
            Architecture.known[cls.__name__] = cls

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> nn.Module:
        """A torch module for rows of so many numbers. Raises ConfigError for a number that it is not for."""

    def to_plain(self) -> Plain:
        """Name and hyper-parameters as JSON knows them."""
        return to_plain(self)

    @staticmethod
    def from_plain(plain: object) -> Architecture:
        """The architecture that `to_plain` described. Raises DataError for anything else."""
        name = plain.get("name") if isinstance(plain, Mapping) else None
        if not isinstance(plain, Mapping) or name not in Architecture.known:
            known = ", ".join(sorted(Architecture.known))
            raise DataError(f"unknown architecture {name!r}; known: {known}; import the module that defines it first")
        try:
            return Reader().make(Architecture.known[name], plain, name)
        except InputError as error:
            raise DataError(f"not a {name}: {error}") from None


def activation_module(name: str) -> nn.Module:
    """A new module of an activation."""
    module: nn.Module = getattr(torch_library().nn, ACTIVATIONS[name])()
    return module


def checked_activation(who: str, name: str) -> None:
    """Raise ConfigError for an activation of no known name."""
    if name not in ACTIVATIONS:
        raise ConfigError(f"{who}'s activation is one of {', '.join(map(repr, ACTIVATIONS))}, got {name!r}")
