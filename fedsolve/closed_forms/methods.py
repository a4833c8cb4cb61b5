"""What a client does in a round of FedAvg or FedProx on a squared loss, as a function of its curvature alone.

A Non-parametric View of FedAvg and FedProx: Beyond Stationary Points
    Lili Su, Jiaming Xu, and Pengkun Yang. 2021. https://arxiv.org/abs/2106.15216

A client with Hessian H_i and gradient g moves by −η p(H_i) g, with p(h) = Σ_{τ<s} (1 − ηh)^τ for s gradient steps and
p(h) = 1/(1 + ηh) for a proximal step. These p(K_{x_i}) are the blocks of the paper's P (equation 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from fedsolve.algorithms import FedAvg, FedProx
from fedsolve.errors import ConfigError
from fedsolve.local import GradientSteps
from fedsolve.losses import Squared
from fedsolve.numerics.scalars import positive, whole
from fedsolve.typing import Array


@dataclass(frozen=True)
class LocalSteps:
    """FedAvg: gradient steps on all of a client's rows.

    Args:
        step_size: η.
        steps: s, how many. Default 1, which is gradient descent.
    """

    step_size: float
    steps: int = 1

    def __post_init__(self) -> None:
        positive("step_size", self.step_size)
        whole("steps", self.steps, 1)

    def filter(self, h: Array) -> Array:
        """p(h) = (1 − (1 − ηh)^s)/(ηh), which is s at h = 0."""
        x = self.step_size * np.asarray(h, dtype=np.float64)
        small = np.minimum(x, 0.5)
        divisor = np.where(small == 0, 1.0, small)
        near = np.where(small == 0, float(self.steps), -np.expm1(self.steps * np.log1p(-small)) / divisor)
        with np.errstate(over="ignore"):  # of a run that diverges, which callers reject
            far = (1 - (1 - x) ** self.steps) / np.maximum(x, 0.5)
        return np.where(x < 0.5, near, far)

    def kappa(self, gamma: float) -> float:
        """κ = γs/(1 − (1 − γ)^s), the bound on the condition number of P (Su et al., equation 14 and Lemma 29: the
        text's γ^s is a lost product). Raises ConfigError unless γ < 1."""
        if not 0 <= gamma < 1:
            raise ConfigError(f"FedAvg's bounds need γ = η max‖K_i‖ below 1, got {gamma:g}; shorten the step size")
        return self.steps / float(self.filter(gamma / self.step_size))


@dataclass(frozen=True)
class ProximalStep:
    """FedProx: the exact minimiser of ℓ_i(f) + ‖f − f_{t−1}‖²/(2η) (Su et al., equation 6).

    Args:
        step_size: η; `fs.FedProx` calls 1/η the pull.
    """

    step_size: float

    steps: ClassVar[int] = 1  # "we only need to set s = 1" (Su et al., section 6)

    def __post_init__(self) -> None:
        positive("step_size", self.step_size)

    def filter(self, h: Array) -> Array:
        """p(h) = 1/(1 + ηh)."""
        return 1 / (1 + self.step_size * np.asarray(h, dtype=np.float64))

    def kappa(self, gamma: float) -> float:
        """κ = 1 + γ, the bound on the condition number of P (Su et al., equation 14)."""
        if not gamma >= 0:
            raise ConfigError(f"γ = η max‖K_i‖ is at least 0, got {gamma:g}")
        return 1.0 + gamma


Method: TypeAlias = LocalSteps | ProximalStep


def method_of(algorithm: FedAvg | FedProx, step_size: float | None = None) -> Method:
    """The method that an algorithm of the library follows on a squared loss.

    Args:
        algorithm: `fs.FedAvg` with full gradient steps, or `fs.FedProx`.
        step_size: For a FedAvg that leaves it to the run: what the run has chosen, `run.state.step_size`.
    """
    if not isinstance(algorithm, FedAvg | FedProx):
        raise ConfigError(f"closed forms are known for FedAvg and FedProx, got {type(algorithm).__name__}")
    if not isinstance(algorithm.loss, Squared) or algorithm.loss.l1:
        raise ConfigError(f"closed forms are known for the squared loss without l1, got {algorithm.loss!r}")
    # Whatever else an algorithm or its gradient steps may be told to do (batches, for one) has its default here.
    if isinstance(algorithm, FedProx):
        if algorithm != FedProx(algorithm.loss, algorithm.pull):
            raise ConfigError(f"only exact proximal steps on all rows have this closed form, got {algorithm!r}")
        return ProximalStep(1 / algorithm.pull)
    local = algorithm.local
    if not isinstance(local, GradientSteps) or local != GradientSteps(steps=local.steps, step_size=local.step_size):
        raise ConfigError(f"only full gradient steps of one size have this closed form, got {local!r}")
    found = local.step_size if local.step_size is not None else step_size
    if found is None:
        raise ConfigError("this FedAvg has no step size of its own; give the one that its run has chosen")
    return LocalSteps(found, local.steps)
