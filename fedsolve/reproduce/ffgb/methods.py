"""The methods of Table 2 with the paper's local budgets, and the step sizes that each may choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedsolve.algorithms.base import Algorithm
from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.algorithms.fedavg_distill import FedAvgDistill
from fedsolve.algorithms.feddyn import FedDyn
from fedsolve.algorithms.ffgb_distill import FFGBDistill
from fedsolve.distillation import Distil
from fedsolve.local import Adam, GradientSteps
from fedsolve.losses.network import Network

PAPER = "FFGB"
STEP_SIZES = (0.01, 0.05, 0.1)  # the paper's grid for local SGD, less its 0
FUNCTIONAL = (10.0,)  # the paper fixes FFGB-Distill's rate
CLIP, BATCH, PULL = 5.0, 64, 0.1
GRIDS = (
    f"Step sizes of local SGD are chosen from {{{', '.join(f'{one:g}' for one in STEP_SIZES)}}}, the paper's grid, for "
    "each method by itself; FFGB-Distill has the paper's functional rate 10 and Adam's 0.001. Batches of "
    f"{BATCH}, gradients clipped to norm {CLIP:g}. FedDyn's pull is {PULL:g}; the paper does not say its own."
)


@dataclass(frozen=True)
class Method:
    """A method, the step sizes it may choose from, and how to make it with one of them."""

    name: str
    step_sizes: tuple[float, ...]
    make: Callable[[Network, float, float], Algorithm]  # the network, the step size, the share of the paper's epochs


def _epochs(of_paper: int, share: float) -> int:
    return max(1, round(of_paper * share))


def _ffgb_distill(loss: Network, step_size: float, share: float) -> Algorithm:
    adam = Adam(epochs=_epochs(100, share), batch_size=BATCH, clip=CLIP)
    return FFGBDistill(loss, step_size, adam, Distil("outputs", adam))


def _fedavg_distill(loss: Network, step_size: float, share: float) -> Algorithm:
    adam = Adam(epochs=_epochs(100, share), batch_size=BATCH, clip=CLIP)
    local = GradientSteps(step_size=step_size, epochs=_epochs(100, share), batch_size=BATCH, clip=CLIP)
    return FedAvgDistill(loss, local, Distil("probabilities", adam))


def _local(step_size: float, share: float) -> GradientSteps:
    return GradientSteps(step_size=step_size, epochs=_epochs(10, share), batch_size=BATCH, clip=CLIP)


FFGB = Method("FFGB-Distill", FUNCTIONAL, _ffgb_distill)
FEDAVG_DISTILL = Method("FedAvg-Distill", STEP_SIZES, _fedavg_distill)
FEDDYN = Method("FedDyn", STEP_SIZES, lambda loss, step, share: FedDyn(loss, PULL, _local(step, share)))
FEDAVG = Method("FedAvg", STEP_SIZES, lambda loss, step, share: FedAvg(loss, _local(step, share)))
METHODS = (FFGB, FEDAVG_DISTILL, FEDDYN, FEDAVG)
