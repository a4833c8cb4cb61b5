"""FedAvg: each client takes s gradient steps of its own, and the server averages where they end.

    w ← Σ p_j G_j^s(w),     G_j(w) = w − η ∇f_j(w)

Communication-Efficient Learning of Deep Networks from Decentralized Data
    H. Brendan McMahan, Eider Moore, Daniel Ramage, Seth Hampson, and Blaise Agüera y Arcas. AISTATS 2017.
A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points (equation 5)
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216
FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging and Quantization (Algorithm 1)
    Amirhossein Reisizadeh, Aryan Mokhtari, Hamed Hassani, Ali Jadbabaie, and Ramtin Pedarsani. AISTATS 2020.

Cheap rounds of one model each way. With s > 1 and clients that differ it ends near the pooled solution, not at it (Su
et al., section 3): use Newton or Scaffold where that matters. The server sees only sums of the clients' models, and
each client's smoothness where no step size is given.

FedPAQ, called FedAve by Jadbabaie, Makur and Shah ("Federated Optimization of Smooth Loss Functions", Theorem 3), asks
a share τ of the clients in each round (`Participation(fraction=τ)`) for b steps of one sample each, with the step size
4 / (μ (k b + 1)) in rounds k = 0, 1, …, which is
    GradientSteps(b, 4 / μ, batch_size=1, batches="independent", schedule=InverseTime(decay=b))
With `uploads` clients send Q(w_i − w), rounded by chance, and w ← w + Σ p_i Q(w_i − w).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import GradientSteps, LocalSolver, QuantisedUploads, first_step, step_in_round
from fedsolve.local.base import declare_needs
from fedsolve.losses import Loss
from fedsolve.losses.footprint import Footprint, Sizes
from fedsolve.models import Model
from fedsolve.numerics.structured_arrays import Quantised
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    w: Array
    step_size: float


@dataclass(frozen=True)
class FedAvg:
    """Local steps, then the weighted average of the local models.

    loss     the objective, differentiable
    local    the steps between two averages (default GradientSteps(steps=2)), or another local solver; more steps need
             fewer rounds and end farther from the pooled solution. Without a step size it is 1/L of the steepest client
    uploads  None (default) sends the models as they are; QuantisedUploads(bits=8) how far they moved, in an eighth of
             the bytes, rounded by chance
    """

    loss: Loss
    local: LocalSolver = field(default_factory=lambda: GradientSteps(steps=2))
    uploads: QuantisedUploads | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    def __post_init__(self) -> None:
        declare_needs(self, self.local, pull=False)
        if not isinstance(self.uploads, QuantisedUploads | None):
            raise ConfigError(f"uploads is QuantisedUploads(bits=8), or None, got {self.uploads!r}")

    # ── clients ──

    @client_step(sends="a bound on the curvature of its loss")
    def smoothness(self, client: Client) -> float:
        return self.loss.smoothness(client)

    @client_step(together=True, sends="its own model, after some steps on its rows")
    def local_update(self, client: Client, w: Array, step_size: float) -> Array:
        require_positive("step_size", step_size)
        return self.local.run(self.loss, client, w, step_size)

    @client_step(sends="the change of its own model, rounded")
    def quantised_update(self, client: Client, w: Array, step_size: float) -> Quantised:
        return (self.uploads or QuantisedUploads()).of(client, self.local_update(client, w, step_size) - w)

    # ── server ──

    def start(self, fed: Federation) -> State:
        step_size = first_step(fed, self.local, self.smoothness)
        return State(fed.start_point(self.loss), step_size)

    def round(self, fed: Federation, state: State) -> State:
        step_size = step_in_round(fed, self.local, state.step_size)
        if self.uploads is None:
            w = fed.mean(self.local_update, w=state.w, step_size=step_size)
        else:
            w = state.w + fed.mean(self.quantised_update, w=state.w, step_size=step_size)
        return State(w, state.step_size)

    def footprint(self, sizes: Sizes) -> Footprint:
        return Footprint(sent=sizes.weights if self.uploads is None else self.uploads.numbers(sizes.weights))

    def pace(self, state: State) -> tuple[float, int]:
        """η and s, where each of the s steps is a gradient step on all samples (Su et al., equation 5)."""
        local = self.local
        if not isinstance(local, GradientSteps) or local != GradientSteps(local.steps, local.step_size):
            raise ConfigError(f"the theory of early stopping is that of gradient steps on all samples, got {local}")
        if self.uploads is not None:
            raise ConfigError(f"the theory of early stopping is that of models sent as they are, got {self.uploads}")
        return state.step_size, local.steps

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)
