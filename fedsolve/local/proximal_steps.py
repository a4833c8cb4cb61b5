"""Exact proximal steps of a client's own, on all samples or on one batch after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.local.base import LocalSolver, as_linear
from fedsolve.local.batches import Batched, Batches, Scale
from fedsolve.losses import LinearLoss, Loss
from fedsolve.losses.footprint import Footprint, Sizes, local_fit
from fedsolve.losses.local_fit import newton
from fedsolve.typing import Array


@dataclass(frozen=True)
class ProximalSteps(Batched):
    """w ← argmin f_j(v) + (pull/2) ‖v − w‖², each step from where the last one ended: on all samples, or on a batch of
    them, which is FedProx with minibatches (Su et al. 2021, section 7.1).

    It needs an algorithm that has a pull, such as FedProx, and chooses its steps by itself: no step size is asked for.

    Args:
        steps: How many. Default 1.
        batch_size: Samples in a batch; None, the default, takes all of them in every step.
        epochs, batches: As `GradientSteps` has them.
        scale: "batch", the default, takes f_j of a batch as the mean over its samples, so that every step goes as far
            as one on all samples; "client" as their sum over the number of the client's samples, so that a pass over
            all batches goes about as far as one step on all samples.
    """

    steps: int = 1
    batch_size: int | None = None
    epochs: int | None = field(default=None, kw_only=True)
    batches: Batches = field(default="shuffled", kw_only=True)
    scale: Scale = field(default="batch", kw_only=True)

    needs: ClassVar[frozenset[str]] = frozenset({"minimise"})

    def __post_init__(self) -> None:
        self.check_batches()

    def run(
        self,
        loss: Loss,
        client: Client,
        w: Array,
        step_size: float,
        correction: Array | None = None,
        pull: float = 0.0,
    ) -> Array:
        """w after the steps. `step_size` is not used, and `pull` holds a step to where the last one ended."""
        linear = as_linear(loss, type(self).__name__)
        if not pull > 0:
            raise ConfigError("ProximalSteps needs a pull: use it in FedProx, FedDyn or FedSplit")
        for part, share in self.parts(client):
            # argmin share · (f(v) + correction · v) + (pull/2) ‖v − w‖²; a batch without weight says nothing.
            held = pull / client.number(share) if share else 0.0
            if not held:
                continue
            anchor = w if correction is None else w - correction / held
            if linear.quadratic or correction is None:
                w = linear.minimise(part, anchor, held)
            else:
                # From w: the anchor may be far away, where Newton's method on an exponential takes hundreds of steps.
                w = newton(linear, part, anchor, held, start=w)
        return w


def proximal_footprint(loss: Loss, local: LocalSolver | None, sizes: Sizes, held: int = 0) -> Footprint:
    """For methods whose clients send one model, keep so many, and solve proximal problems: exactly where `local` is
    None or ProximalSteps. A quadratic keeps the Hessian and its factor, those of each fixed batch too."""
    kept = held * sizes.weights
    if not isinstance(loss, LinearLoss) or not isinstance(local, ProximalSteps | None):
        return Footprint(held=kept, sent=sizes.weights)
    fit = local_fit(loss, sizes)
    if local is None or local.batch_size is None:
        return replace(fit, held=kept + fit.held)
    if local.batches == "fixed":
        return replace(fit, held=kept + fit.held * -(-sizes.samples // local.batch_size))
    return replace(fit, held=kept, working=fit.held + fit.working)
