"""Shen et al. (2022), section 6: what is said in passing of rates, capacity, heterogeneity and augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsolve.data import load
from fedsolve.federation.client import Client
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.networks import CNN, MLP, FlipAndCrop
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.images import Images, small_mnist
from fedsolve.reproduce.ffgb.methods import FEDAVG, FFGB, PAPER
from fedsolve.reproduce.ffgb.table2 import CLIENTS, HOMOGENEITY, network, small_arena
from fedsolve.reproduce.ffgb.traces import Arena
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.typing import Array

RATES = (1.0, 3.0, 10.0, 30.0)  # of FFGB-Distill; the paper's is 10
STEPS = (0.1, 1.0, 10.0)  # of FedAvg; the first is in the paper's grid
ROUNDS, LOCAL_ROUNDS = 3, 10
WIDE = MLP((256,))
SHARE = 0.2  # of the paper's epochs, on CIFAR
Found = dict[str, list[float]]


def small_cifar(seed: int) -> Images:
    """5,000 CIFAR-10 images of 16 × 16 pixels, each the mean of four; 5,000 of CIFAR-100 at the server."""
    data, other = load("cifar10"), load("cifar100")
    assert data.X_test is not None
    assert data.y_test is not None
    rows = np.random.default_rng(seed).permutation(len(data.X))[:5000]
    public = np.random.default_rng(seed).permutation(len(other.X))[:5000]
    return Images(
        _halved(data.X[rows]),
        data.y[rows],
        _halved(data.X_test),
        data.y_test,
        _halved(other.X[public]),
        CNN((3, 16, 16), ((16, 5),), (64,)),
        True,
        "5,000 CIFAR-10 images of 16 × 16 pixels; 5,000 of CIFAR-100 at the server; a CNN of 16 filters and 64 units",
    )


def _halved(X: Array) -> Array:
    images = X.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2)
    found: Array = (images.reshape(-1, 768) - 0.5) / 0.25
    return found


def measured(seed: int, quick: bool) -> dict[str, float]:
    """The best accuracy of FFGB-Distill within 3 rounds, and FedAvg's after 10, by setting."""
    images, share = small_mnist(seed), 0.05 if quick else 1.0
    arena, loss, found = small_arena(images, seed), network(images), {}
    for rate in RATES:
        found[f"FFGB-Distill, rate {rate:g}"] = _best(arena, FFGB.make(loss, rate, share))
    wide = Network(WIDE, Softmax(classes=images.classes))
    found["FFGB-Distill, 256 units"] = _best(arena, FFGB.make(wide, 10.0, share))
    labelled = replace(arena, server=Client("server", arena.server.X, np.zeros(len(images.public))))
    found["FFGB-Distill, labels at the server"] = _best(labelled, FFGB.make(loss, 10.0, share))
    alike = replace(arena, clients=images.clients(1.0, len(arena.clients), seed))
    for step in STEPS:
        found[f"FedAvg, step size {step:g}"] = _last(arena, step, loss, share)
    found["FedAvg, s = 1"] = _last(alike, STEPS[0], loss, share)
    colours = small_cifar(seed)
    arena = small_arena(colours, seed)
    for change in (None, FlipAndCrop(padding=2)):
        loss = Network(colours.architecture, Softmax(classes=10), augmentation=change)
        name = "with" if change else "without"
        found[f"CIFAR-10, {name} augmentation"] = _best(arena, FFGB.make(loss, 10.0, 0.01 if quick else SHARE))
    return found


def _best(arena: Arena, algorithm: object) -> float:
    trace, _ = arena.follow(algorithm, ROUNDS)  # type: ignore[arg-type]
    return max(trace.accuracies)


def _last(arena: Arena, step: float, loss: Network, share: float) -> float:
    """0 where weights are no longer finite."""
    trace, _ = arena.follow(FEDAVG.make(loss, step, share), LOCAL_ROUNDS)
    return trace.accuracies[-1] if trace.rounds == LOCAL_ROUNDS else 0.0


def claims(every: Sequence[dict[str, float]], quick: bool) -> list[tuple[str, Verdict]]:
    """The rules were written before the first run; a claim holds if it holds in every seed."""

    def of(*names: str) -> str:
        return "; ".join(f"{name}: " + ", ".join(f"{one[name]:.3f}" for one in every) for name in names)

    rates = [f"FFGB-Distill, rate {rate:g}" for rate in RATES]
    first, wild, alike = f"FedAvg, step size {STEPS[0]:g}", f"FedAvg, step size {STEPS[-1]:g}", "FedAvg, s = 1"
    wide, paper, labels = "FFGB-Distill, 256 units", "FFGB-Distill, rate 10", "FFGB-Distill, labels at the server"
    with_, without = (f"CIFAR-10, {one} augmentation" for one in ("with", "without"))
    best = all(one[paper] == max(one[rate] for rate in rates) for one in every)
    return [
        ("a rate of 10 is the best of 1, 3, 10 and 30, within 3 rounds", stated(best, of(*rates), quick)),
        (
            "256 hidden units reach a higher accuracy than 64",
            stated(all(one[wide] > one[paper] for one in every), of(paper, wide), quick),
        ),
        (
            "FedAvg with step sizes of 10 is at or below 0.2 after 10 rounds, where 0.1 is above 0.5",
            stated(all(one[wild] <= 0.2 and one[first] > 0.5 for one in every), of(first, wild), quick),
        ),
        (
            "FedAvg is better by 0.05 at s = 1 than at s = 0.1, after 10 rounds",
            stated(all(one[alike] >= one[first] + 0.05 for one in every), of(first, alike), quick),
        ),
        (
            "labels at the server change nothing",
            stated(all(one[labels] == one[paper] for one in every), of(paper, labels), quick),
        ),
        (
            "flipping and cropping CIFAR images moves the accuracy by at least 0.05",
            stated(all(abs(one[with_] - one[without]) >= 0.05 for one in every), of(without, with_), quick),
        ),
    ]


@experiment(
    "ffgb-choices",
    paper=PAPER,
    place="Section 6",
    title="Rates, capacity, heterogeneity and augmentation",
    takes="12 min",
    seeds=2,
)
def choices(seeds: Seeds, quick: bool) -> Result:
    """On the small problems; one setting is changed at a time."""
    every = [measured(seed, quick) for seed in seeds]
    rows = [(name, Measured(tuple(one[name] for one in every))) for name in every[0]]
    return Result(
        columns=(Column("setting"), Column("accuracy", "{:.3f}".format)),
        rows=rows,
        claims=claims(every, quick),
        notes=(
            f"{CLIENTS} clients, s = {HOMOGENEITY:g}. MNIST as in ffgb-table2. The best test accuracy of FFGB-Distill "
            f"within {ROUNDS} rounds; FedAvg's after {LOCAL_ROUNDS} rounds of 10 epochs, gradients clipped to norm 5.",
            f"CIFAR: 5,000 images of 16 × 16 pixels, a CNN of 16 filters, 64 units, {SHARE:g} of the paper's epochs.",
        ),
    )
