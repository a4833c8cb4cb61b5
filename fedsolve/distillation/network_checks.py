"""What algorithms that distil check of their parts, before anything is sent."""

from __future__ import annotations

from fedsolve.distillation.distil import Distil
from fedsolve.errors import ConfigError
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network


def check_network(who: str, loss: object) -> None:
    """Raise ConfigError for a loss that is no network."""
    if not isinstance(loss, Network):
        raise ConfigError(f"{who} fits networks: give it loss=Network(MLP((64,)), Softmax(classes=10)), got {loss!r}")


def check_classes(who: str, loss: Network, distil: Distil) -> None:
    """Raise ConfigError for probabilities of a network that has none."""
    if distil.match == "probabilities" and not isinstance(loss.loss, Softmax):
        raise ConfigError(
            f"{who} matches class probabilities, which a network with {type(loss.loss).__name__} does not put out; use "
            'Distil("outputs")'
        )
