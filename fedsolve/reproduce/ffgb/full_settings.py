"""Table 2 with the paper's networks and budgets, on the subsets of CIFAR and EMNIST that are at hand; for a GPU.

Every method in every setting is a part of its own, saved when it is done, and a run goes on with what is missing.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from math import floor, inf
from pathlib import Path
from typing import Literal

from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.models.base import Model, load_model
from fedsolve.networks import FlipAndCrop
from fedsolve.reproduce.ffgb.images import FULL, Images
from fedsolve.reproduce.ffgb.methods import FEDAVG, FEDAVG_DISTILL, FEDDYN, FFGB, Method
from fedsolve.reproduce.ffgb.parts import Part, Parts
from fedsolve.reproduce.ffgb.traces import Arena
from fedsolve.reproduce.ffgb.tuning import Budget, tuned

CLIENTS = 100
# The most telling first: the most heterogeneous of each data set, and of these the quickest.
SETTINGS = tuple(f"{name}:{s:g}" for s in (0.1, 0.3, 0.2) for name in FULL)
ROUNDS = 5  # of FFGB-Distill; the targets are what it reaches after the first and within all of them
WARM = " from FFGB-Distill"
# FedDyn's clients train one after another, and every round of FedAvg-Distill ends with a distillation: fewer rounds.
BUDGETS = {
    FFGB: Budget(ROUNDS),
    FEDAVG: Budget(100, 5, longer=60),
    FEDDYN: Budget(100, 5, longer=60),
    FEDAVG_DISTILL: Budget(10, 1),
}
# Rounds of these take up to minutes, and their clients remember nothing: they go on from checkpoints within a part.
LONG = frozenset({FFGB, FEDAVG_DISTILL})
# Each method of a setting, in the order in which they are run, and whether it begins with FFGB-Distill's first model.
COLUMNS = ((FFGB, False), (FEDAVG, False), (FEDAVG, True), (FEDDYN, True), (FEDDYN, False), (FEDAVG_DISTILL, False))

Columns = tuple[tuple[Method, bool], ...]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Case:
    """One setting with one seed."""

    setting: str
    seed: int

    def part(self, method: Method, warm: bool) -> str:
        return f"{self.setting} seed {self.seed} {method.name}{WARM if warm else ''}"

    @property
    def images(self) -> Images:
        return FULL[self.setting.split(":")[0]](self.seed)

    @property
    def s(self) -> float:
        return float(self.setting.split(":")[1])


def run_setting(case: Case, columns: Columns, parts: Parts, device: Device, deadline: float) -> None:
    """Run the methods that are missing, until time is up."""
    if all(is_done(parts, case, method, warm) for method, warm in columns):
        return
    images = case.images
    arena = Arena(
        images.clients(case.s, CLIENTS, case.seed, device),
        images.server(device),
        images.X_test,
        images.y_test,
        case.seed,
    )
    loss = _network(images, device)
    first = parts.path(f"{case.setting} seed {case.seed} first model", ".npz")
    target = inf
    for method, warm in columns:
        if time.monotonic() >= deadline:
            return

        def make(method: Method = method, warm: bool = warm, target: float = target) -> Part:
            begin = _first_model(first, arena, loss) if warm else None
            keep = parts.path(case.part(method, warm), ".checkpoints") if method in LONG else None
            part, model = tuned(
                arena, method, loss, BUDGETS[method], target, warm_start=begin, deadline=deadline, keep=keep
            )
            if method is FFGB and model is not None:
                _save(model, first)
            if keep is not None and part.trace.is_whole:
                shutil.rmtree(keep)
            return part

        found = parts.made(case.part(method, warm), make)
        if method is FFGB:
            if not found.trace.is_whole:
                return  # its targets are not known yet
            target = targets(found)[-1]


def _first_model(path: Path, arena: Arena, loss: Network) -> Model:
    """FFGB-Distill's model after its first round; made again where parts came without it."""
    if not path.is_file():
        _, model = tuned(arena, FFGB, loss, replace(BUDGETS[FFGB], rounds=1), inf)
        assert model is not None
        _save(model, path)
    found: Model = load_model(path)
    return found


def _save(model: Model, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)


def is_done(parts: Parts, case: Case, method: Method, warm: bool) -> bool:
    found = parts.find(case.part(method, warm))
    return found is not None and found.trace.is_whole


def _network(images: Images, device: Device) -> Network:
    change = FlipAndCrop() if images.augmented else None
    return Network(images.architecture, Softmax(classes=images.classes), device=device, augmentation=change)


def targets(part: Part) -> tuple[float, float]:
    """What FFGB-Distill reaches after one round, and within all of its rounds, rounded down to hundredths. The paper
    does not say how its moderate targets were chosen."""
    accuracies = part.trace.accuracies
    return _hundredths(accuracies[min(1, part.trace.rounds)]), _hundredths(max(accuracies))


def _hundredths(accuracy: float) -> float:
    return floor(100 * accuracy + 1e-9) / 100
