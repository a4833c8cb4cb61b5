"""What every local solver has in common: a client's own work on a model, between receiving it and sending it back."""

from __future__ import annotations

from typing import Protocol

from fedsolve.federation.client import Client
from fedsolve.losses import LinearLoss, Loss
from fedsolve.typing import Array


class LocalSolver(Protocol):
    """Improves a model on one client's own samples. Solvers are frozen dataclasses; algorithms hold one as a field."""

    def run(
        self,
        loss: Loss,
        client: Client,
        w: Array,
        step_size: float,
        correction: Array | None = None,
        pull: float = 0.0,
    ) -> Array:
        """The model after the client's own work.

        Args:
            loss: The objective.
            client: Whose samples to work on.
            w: Where to begin.
            step_size: How far to go along each direction.
            correction: Added to every gradient, such as Scaffold's c − c_i.
            pull: Adds (pull/2) ‖· − w‖² to the objective, so that the result stays near w.

        Returns:
            The model to send back, or to compute an update from.
        """
        ...

    def count(self, client: Client) -> int:
        """How many steps `run` takes at this client."""
        ...


def as_linear(loss: Loss, who: str) -> LinearLoss:
    """A loss whose Hessian can be multiplied with. Raises TypeError for another, which `needs` should have excluded."""
    if not isinstance(loss, LinearLoss):
        raise TypeError(f"{who} multiplies with Hessians, which {type(loss).__name__} does not have")
    return loss
