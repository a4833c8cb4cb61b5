"""The pull of methods whose limit does not depend on it: where it begins, and how it is found in the course of a run.

A splitting method is fastest with a pull of about √(μL), between the least and the largest curvature that its iterates
meet (Pathak and Wainwright 2020). Nobody knows them beforehand. It begins with the mean curvature at the first model,
which has the units of the problem. Then each client that minimises exactly sees how far its own minimiser went and how
much its gradient turned on the way. The root of their ratio, over all clients, is a curvature between the two, in the
directions in which the method is slow at present; Xu, Figueiredo, and Goldstein ("Adaptive ADMM with Spectral Penalty
Parameter Selection", AISTATS 2017) choose the penalty of ADMM in this way.

With a local solver that only takes some steps, pull · (w − w_i) is not how much the gradient turned, and the ratio
would fall from one renewal to the next. There the pull stays as it begins, and begins at 1/(2b) or more where the way
of the steps is b times the gradient (K steps of η: b = ηK): a weaker one makes no way longer, and server and clients
swing. For one step on a quadratic of curvature H, FedDyn's round contracts if and only if 3bH + 2b · pull < 4 and
b (H + pull) < 2: with pull = 1/(2b), for all bH < 1.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.federation.federation import Federation
from fedsolve.local.base import LocalSolver, as_linear, reach_of
from fedsolve.local.gradient_steps import Adam, Steps
from fedsolve.local.proximal_steps import ProximalSteps
from fedsolve.losses import LinearLoss, Loss
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


def check_pull(who: str, loss: Loss, pull: float | None, local: LocalSolver | None) -> None:
    """Raise ConfigError for a pull that is no positive number, and for None where nothing says how strong it is."""
    if pull is not None:
        positive("pull, the weight of the proximal term (or None),", pull)
        return
    if local is not None and not isinstance(loss, LinearLoss) and not _adds_gradients(local):
        raise ConfigError(
            f"{who} cannot choose a pull for {type(local).__name__} and {type(loss).__name__}: give one, such as pull=1"
        )


def is_exact(local: LocalSolver | None) -> bool:
    """Whether clients minimise exactly, so that they see how much their gradients turned."""
    return local is None or local == ProximalSteps()


def own_pull(loss: Loss, local: LocalSolver | None, client: Client, w: Array, step_size: float) -> float:
    """The pull to begin with as one client would have it: the mean curvature of its objective at w, and at least 1/(2b)
    where its way is b gradients long."""
    require_positive("step_size", step_size)
    loss.check_weights(client, w=w)
    least = 0.5 / (step_size * _reach(local, client)) if _adds_gradients(local) else 0.0
    if least and not isinstance(loss, LinearLoss):
        return least
    linear = as_linear(loss, "a pull that is not given")
    return max(least, float(client.xp.mean(linear.data_diagonal(client, w))) + linear.l2)


def begun(found: float) -> float:
    """The mean of the clients' pulls as one to begin with; 1 where they have no curvature at all."""
    return found if 0 < found < math.inf else 1.0


def renewed(fed: Federation, pull: float, tuned: bool, moved: float, turned: float) -> tuple[float, bool]:
    """The pull for the next rounds, and whether one was ever found: anew after rounds 2, 4, 8, …, so that it stays for
    longer and longer, which is what the proofs of convergence ask for. The first one that is found replaces the one
    that the run began with; those after it go half of the way, in orders of magnitude.

    Args:
        fed: The federation, which knows the round.
        pull: The one so far.
        tuned: Whether it was found in an earlier round.
        moved: The mean square of how far the clients' models went since their last round.
        turned: The mean square of how much their gradients changed.
    """
    due = fed.round >= 2 and fed.round & (fed.round - 1) == 0
    found = math.sqrt(turned / moved) if due and moved > 0 else 0.0
    if not 0 < found < math.inf:
        return pull, tuned
    return (math.sqrt(pull * found) if tuned else found), True


def _adds_gradients(local: LocalSolver | None) -> TypeGuard[Steps]:
    """Whether its way is a sum of gradients, which Adam's is not."""
    return isinstance(local, Steps) and not isinstance(local, Adam)


def _reach(local: Steps, client: Client) -> float:
    reach = reach_of(local, client)
    if reach is not None:
        return reach
    # The shares of shuffled batches of weighted samples depend on the draw: as many as they are on average. A step that
    # is clipped is no longer than another.
    share = 1.0 if local.scale == "batch" or local.batch_size is None else local.batch_size / client.n_samples
    return local.count(client) * min(1.0, share)
