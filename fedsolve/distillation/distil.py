"""Distillation: one network that puts out what others put out together, fitted at the server on unlabelled rows.

Model compression
    Cristian Buciluă, Rich Caruana, and Alexandru Niculescu-Mizil. KDD 2006.
Distilling the Knowledge in a Neural Network
    Geoffrey Hinton, Oriol Vinyals, and Jeff Dean. 2015. https://arxiv.org/abs/1503.02531
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from fedsolve.distillation.matching import Probabilities
from fedsolve.distillation.rows import with_targets
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.local import Adam
from fedsolve.local.gradient_steps import Steps
from fedsolve.losses import Squared
from fedsolve.losses.network import Network
from fedsolve.losses.recorded import recorded
from fedsolve.numerics.scalars import positive
from fedsolve.typing import Array

Match = Literal["outputs", "probabilities"]


def check_steps(who: str, local: object) -> None:
    """Raise ConfigError for a local solver that has no step size: a network has no bound to find one by."""
    if isinstance(local, type) or not isinstance(local, Steps):
        raise ConfigError(f"{who}'s local is a solver of steps such as Adam(epochs=100, batch_size=64), got {local!r}")
    if local.step_size is None:
        raise ConfigError(f"{who}'s local needs a step size: a network has no bound on its smoothness to find one by")


def adam_epochs() -> Adam:
    """Adam as Shen et al. run it at clients and server alike: 100 epochs, batches of 64, step size 0.001."""
    return Adam(epochs=100, batch_size=64)


@dataclass(frozen=True)
class Distil:
    """Fits a network to given outputs on rows without targets.

    Args:
        match: "outputs" (default) minimises the squares of the differences of outputs (Shen et al., equation 17), for
            any loss; "probabilities" the Kullback-Leibler divergence from the teacher's class probabilities to the
            network's (Lin et al. 2020), for classes.
        local: The steps: `Adam(epochs=100, batch_size=64)` by default, the paper's, or others with a step size.
        temperature: With "probabilities": both sides' outputs are divided by it. Default 1.
    """

    match: Match = "outputs"
    local: Steps = field(default_factory=adam_epochs)
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.match not in ("outputs", "probabilities"):
            raise ConfigError(f"match is 'outputs' or 'probabilities', got {self.match!r}")
        check_steps("Distil", self.local)
        positive("temperature", self.temperature)

    def fit(self, loss: Network, client: Client, teacher: Array, w: Array, round: int = 1) -> Array:
        """The weights of a network that puts out about what `teacher` says, a row for each row of the client.

        Args:
            loss: Whose architecture, precision and device the network has.
            client: The rows, as tensors (`public_rows`).
            teacher: The outputs to match.
            w: Where to begin.
            round: The round, for solvers with a schedule.
        """
        step_size = self.local.step_size
        assert step_size is not None
        if self.local.schedule is not None:
            step_size *= self.local.schedule.factor(round)
        if self.match == "outputs":
            student, rows = replace(loss, loss=Squared(), l2=0.0), with_targets(client, teacher)
        else:
            matching = Probabilities(self.temperature)
            student = replace(loss, loss=matching, l2=0.0)
            rows = with_targets(client, matching.softened(client.xp, teacher))
        return self.local.run(recorded(student, rows), rows, w, step_size)
