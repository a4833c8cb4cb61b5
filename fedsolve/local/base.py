"""What every local solver has in common: a client's own work on a model, between receiving it and sending it back."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from fedsolve.errors import ConfigError, WrongType
from fedsolve.federation.client import Client
from fedsolve.federation.stacked import StandIn
from fedsolve.losses import LinearLoss, Loss
from fedsolve.typing import Array


@runtime_checkable
class LocalSolver(Protocol):
    """Improves a model on one client's own samples. Solvers are frozen dataclasses; algorithms hold one as a field.

    What a solver computes on its way (momentum, Adam's averages) begins anew in every run of it: the next round begins
    at another model. Optional beside the methods below:

    needs          what it needs of its loss; a gradient by default
    reach(client)  how many gradients its result is away from w: w − run(w) = step_size · reach · g where every gradient
                   is g. None, and the same as without the method, where that is no fixed number
    """

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


def needs_of(local: LocalSolver | None) -> frozenset[str]:
    """What a local solver needs of its loss; None stands for the exact minimum."""
    if local is None:
        return frozenset({"minimise"})
    found: frozenset[str] = getattr(local, "needs", frozenset({"gradient"}))
    return found


def declare_needs(algorithm: object, local: LocalSolver | None, *, pull: bool) -> None:
    """An algorithm needs of its loss what its local solver needs. Raises ConfigError for what is no local solver, and
    for a solver that needs a pull, in an algorithm that has none."""
    who = type(algorithm).__name__
    if (local is None and not pull) or isinstance(local, type) or not isinstance(local, LocalSolver | None):
        known = "" if not pull else ", or None"
        raise ConfigError(f"{who}'s local is a local solver such as GradientSteps(steps=5){known}, got {local!r}")
    needs = needs_of(local)
    if "minimise" in needs and not pull:
        raise ConfigError(f"{who} has no pull, which {type(local).__name__} needs; use FedProx, FedDyn or FedSplit")
    own: frozenset[str] = getattr(type(algorithm), "needs", frozenset())
    object.__setattr__(algorithm, "needs", own - {"minimise"} | needs)


def reach_of(local: LocalSolver, client: Client) -> float | None:
    """What `LocalSolver.reach` says; None for a solver that does not say."""
    reach = getattr(local, "reach", None)
    if reach is None:
        return None
    found: float | None = client.of_each(reach) if isinstance(client, StandIn) else reach(client)
    return found


def as_linear(loss: Loss, who: str) -> LinearLoss:
    """A loss whose Hessian can be multiplied with. Raises WrongType for another, which `needs` excludes as long as the
    server asks only what its algorithm does."""
    if not isinstance(loss, LinearLoss):
        raise WrongType(f"{who} multiplies with Hessians, which {type(loss).__name__} does not have")
    return loss
