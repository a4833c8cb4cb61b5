"""FedSplit: each client reflects the model, minimises its own objective near there, and reflects back.

    u_j = argmin f_j(v) + (pull/2) ‖v − (2x − z_j)‖²,     z_j ← z_j + 2 (u_j − x),     x ← Σ p_j z_j

FedSplit: An Algorithmic Framework for Fast Federated Optimization (Algorithm 1, s = 1/pull, clients of any weight)
    Reese Pathak and Martin J. Wainwright. NeurIPS 2020. https://arxiv.org/abs/2005.05238

Each client remembers z_j between rounds; at the fixed point u_j = x and z_j = x − ∇f_j(x)/pull, so Σ p_j ∇f_j(x) = 0: x
is the pooled solution, for every pull. This is Peaceman-Rachford splitting: linear convergence in about half as many
rounds as FedDyn, if every client's objective is strongly convex or the pull suits. Rounds of one model each way.

Clients work from x, with 2x − z_j written as a correction of their gradients: then also a local solver that only takes
some steps stays where it is at the pooled solution, while steps from 2x − z_j would end beside it. Where only some
clients answer, x goes on by their share, so that it is Σ p_j z_j of all clients at all times. The server sees only sums
of the clients' replies, and each client's smoothness where a local solver has no step size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import LocalSolver, ProximalSteps, first_step, step_in_round
from fedsolve.local.base import declare_needs
from fedsolve.local.proximal_steps import proximal_footprint
from fedsolve.local.pulls import begun, check_pull, is_exact, own_pull, renewed
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models import Model
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    x: Array
    origin: Array | None  # where all z_j began; None: at zero
    pull: float
    step_size: float
    objective: float  # the share of the weight whose objective is minimised
    epoch: int = 0  # how often that has changed, and all z_j began anew
    tuned: bool = False  # whether the pull was found in the course of the run

    @property
    def w(self) -> Array:
        return self.x


@dataclass(frozen=True)
class FedSplit:
    """Local proximal steps between two reflections.

    loss   the objective
    pull   1 / the paper's s, the weight of the proximal term; None (default) begins with the mean curvature
           and finds it from the curvature that the clients meet, anew after rounds 2, 4, 8, …; with a local solver it
           stays as it begins. It changes how many rounds it takes, not where they end
    local  how a client solves its problem: None (default) exactly; a local solver such as GradientSteps(steps=10)
           takes any loss, and ends at the same solution. Momentum and Adam overshoot, which a reflection doubles: it
           may diverge or stall with them, and Adam on a loss without Hessians needs a pull
    """

    loss: Loss
    pull: float | None = None
    local: LocalSolver | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"minimise"})

    def __post_init__(self) -> None:
        declare_needs(self, self.local, pull=True)
        check_pull("FedSplit", self.loss, self.pull, self.local)

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step(sends="how strongly its own model is pulled")
    def first_pull(self, client: Client, w: Array, step_size: float) -> float:
        return own_pull(self.loss, self.local, client, w, step_size)

    @client_step(sends="the change of its own model, and how far it moved")
    def local_update(
        self, client: Client, x: Array, origin: Array | None, pull: float, step_size: float, epoch: int
    ) -> tuple[Array, float, float]:
        """The change of z_j, and the squares of how far u_j and the gradient there went since its last round."""
        require_positive("pull", pull)
        require_positive("step_size", step_size)
        memory, known = client.memory, client.memory.get("epoch") == epoch
        first = 0.0 * x if origin is None else origin
        z = before = memory["z"] if known else first
        self.loss.check_weights(client, x=x, origin=first, z=z)
        if known and memory["pull"] != pull:  # x − z_j is a gradient over the pull
            z = x + (memory["pull"] / pull) * (z - x)
        u = (self.local or ProximalSteps()).run(self.loss, client, x, step_size, correction=pull * (z - x), pull=pull)
        z, g = z + 2.0 * (u - x), pull * (2.0 * x - z - u)
        moved, turned = 0.0, 0.0
        if known:
            moved = float(client.xp.sum((u - memory["u"]) ** 2))
            turned = float(client.xp.sum((g - memory["g"]) ** 2))
        memory["z"], memory["u"], memory["g"], memory["pull"], memory["epoch"] = z, u, g, pull, epoch
        return z - before, moved, turned

    # ── server ──

    def start(self, fed: Federation) -> State:
        x, step_size = fed.start_point(self.loss), first_step(fed, self.local, self.smoothness)
        pull = self.pull or begun(fed.mean(self.first_pull, w=x, step_size=step_size))
        return State(x, x if x.any() else None, pull, step_size, fed.objective)

    def round(self, fed: Federation, state: State) -> State:
        if fed.objective != state.objective:  # a client is lost, or back: x is to be the mean of those who count
            state = replace(state, origin=state.x, objective=fed.objective, epoch=state.epoch + 1)
        x, origin, pull, epoch, tuned = state.x, state.origin, state.pull, state.epoch, state.tuned
        step_size = step_in_round(fed, self.local, state.step_size, pull)
        change, moved, turned = fed.mean(
            self.local_update, x=x, origin=origin, pull=pull, step_size=step_size, epoch=epoch
        )
        if self.pull is None and is_exact(self.local):
            pull, tuned = renewed(fed, pull, tuned, moved, turned)
        return replace(state, x=x + fed.cohort.share / state.objective * change, pull=pull, tuned=tuned)

    def footprint(self, sizes: Sizes) -> Footprint:
        return proximal_footprint(self.loss, self.local, sizes, held=3)

    def model(self, state: State) -> Model:
        return self.loss.model(state.x)
