"""What algorithms that distil check of their parts, before anything is sent."""

from __future__ import annotations

from fedsolve.distillation.distil import Distil
from fedsolve.errors import ConfigError, WrongType
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.typing import Array


def check_network(who: str, loss: object) -> None:
    """Raise ConfigError for a loss that is no network."""
    if not isinstance(loss, Network):
        raise ConfigError(f"{who} fits networks: give it loss=Network(MLP((64,)), Softmax(classes=10)), got {loss!r}")


def check_weights_sent(shape: tuple[int, ...], w: Array) -> None:
    """Raise WrongType for weights that no client of this network sends."""
    if w.shape != shape:
        raise WrongType(f"weights of shape {w.shape}, expected {shape}, as many as the network has")


def check_classes(who: str, loss: Network, distil: Distil) -> None:
    """Raise ConfigError for probabilities of a network that has none."""
    if distil.match == "probabilities" and not isinstance(loss.loss, Softmax):
        raise ConfigError(
            f"{who} matches class probabilities, which a network with {type(loss.loss).__name__} does not put out; use "
            'Distil("outputs")'
        )
