"""FedAvg-Distill (FedDF): local steps, then the average model learns what all local models say together.

    w_i = w after local steps,     w ← argmin KL(σ(mean_i η(x; w_i)) ‖ σ(η(x; v))) over public rows, from Σ p_i w_i

Ensemble Distillation for Robust Model Fusion in Federated Learning (Algorithm 1)
    Tao Lin, Lingjing Kong, Sebastian U. Stich, and Martin Jaggi. NeurIPS 2020. https://arxiv.org/abs/2006.07242

The baseline of FFGB-Distill: both average functions, this one those of clients that have trained the model itself. It
depends much on the local step size. Rounds of one network each way. The server needs unlabelled rows of its own that
are like the clients' (`server=`), and sees every client's network.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from fedsolve.distillation.distil import Distil, check_steps
from fedsolve.distillation.network_checks import check_classes, check_network, check_weights_sent
from fedsolve.distillation.rows import mean_outputs, public_rows
from fedsolve.federation.calls import Gather
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.local import GradientSteps, step_in_round
from fedsolve.local.gradient_steps import Steps
from fedsolve.losses.network import Network
from fedsolve.models import Model
from fedsolve.numerics.linalg import as_kind_of
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_positive


@dataclass(frozen=True)
class State:
    w: Array


@dataclass(frozen=True)
class FedAvgDistill:
    """Local steps, the weighted average of the local models, and their ensemble distilled into it.

    loss    the objective: a `Network`
    local   the steps between two averages (default GradientSteps(epochs=100, step_size=0.1, batch_size=64)); try step
            sizes from 0.01 to 0.1
    distil  how the server learns from the ensemble (default Distil("probabilities"), as Lin et al. do)
    """

    loss: Network
    local: Steps = field(default_factory=lambda: GradientSteps(epochs=100, step_size=0.1, batch_size=64))
    distil: Distil = field(default_factory=lambda: Distil("probabilities"))

    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})

    def __post_init__(self) -> None:
        check_network("FedAvgDistill", self.loss)
        check_steps("FedAvgDistill", self.local)
        check_classes("FedAvgDistill", self.loss, self.distil)

    # ── clients ──

    @client_step(together=True, sends="its own model, after some steps on its rows")
    def local_update(self, client: Client, w: Array, step_size: float) -> Array:
        require_positive("step_size", step_size)
        return self.local.run(self.loss, client, w, step_size)  # 4, 5

    @client_step(server_only=True)
    def fuse(self, client: Client, w: Array, models: tuple[Array, ...], round: int) -> Array:
        """The model that says what all say together: the mean of their outputs (Lin et al., AvgLogits)."""
        own = public_rows(self.loss, client)
        teacher = mean_outputs(self.loss, own, [own.localise(one) for one in models])
        return as_kind_of(self.distil.fit(self.loss, own, teacher, own.localise(w), round), w)  # 8–11

    # ── server ──

    def start(self, fed: Federation) -> State:
        _ = fed.server  # raises if the server has no rows
        return State(fed.start_point(self.loss))  # 1

    def round(self, fed: Federation, state: State) -> State:
        step_size = step_in_round(fed, self.local, self.local.step_size or 1.0)
        # Gathers models: an ensemble averages what they put out, which no sum of their weights says.
        ask = Gather(self.local_update, w=state.w, step_size=step_size)  # 3–6
        (models,) = fed.exchange(ask.checked(partial(check_weights_sent, state.w.shape)))
        shares = np.array([fed.weights[name] for name in models])
        average = sum(share * np.asarray(w, dtype=np.float64) for share, w in zip(shares, models.values(), strict=True))
        w = fed.here(self.fuse, w=average / shares.sum(), models=tuple(models.values()), round=fed.round)  # 7–11
        return State(np.asarray(w, dtype=np.float64))

    def model(self, state: State) -> Model:
        return self.loss.model(state.w)
