"""Shen et al. (2022), section 6.1: whether distillation needs local models that are good by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedsolve.algorithms.fedavg_distill import FedAvgDistill
from fedsolve.distillation import Distil
from fedsolve.federation.client import Client
from fedsolve.local import Adam, GradientSteps
from fedsolve.networks.modules import initial_weights
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.distilling import CLIENTS, ROWS
from fedsolve.reproduce.ffgb.images import small_mnist, tensor
from fedsolve.reproduce.ffgb.methods import BATCH, CLIP, PAPER
from fedsolve.reproduce.ffgb.table2 import HOMOGENEITY, network
from fedsolve.reproduce.ffgb.traces import accuracy
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict
from fedsolve.typing import Array

EPOCHS, POOLED_EPOCHS, STEP = 100, 20, 0.1
SUCCESS = 0.5  # the accuracy from which distillation has succeeded, five times that of a guess
BEST, MEAN, DISTILLED, POOLED = "best local model", "mean of the local models", "distilled network", "pooled rows"
Found = Mapping[str, float]


def measured(seed: int, quick: bool) -> dict[str, float]:
    """Test accuracies after the first round of FedAvg-Distill, and of a network trained on all rows."""
    whole, share = small_mnist(seed), 0.05 if quick else 1.0
    images = replace(whole, X=whole.X[:ROWS], y=whole.y[:ROWS], public=whole.public[:ROWS])
    loss, begin = network(images), initial_weights(network(images).architecture, images.X.shape[1], 10, seed)
    local = GradientSteps(step_size=STEP, epochs=max(1, round(share * EPOCHS)), batch_size=BATCH, clip=CLIP)
    adam = Adam(epochs=local.epochs, batch_size=BATCH, clip=CLIP)
    method = FedAvgDistill(loss, local, Distil("probabilities", adam))

    def trained(steps: GradientSteps, client: Client) -> Array:
        return np.asarray(replace(method, local=steps).local_update(client, w=begin, step_size=STEP))

    def tested(w: Array) -> float:
        return accuracy(loss.model(np.asarray(w, dtype=np.float64)), images.X_test, images.y_test)

    models = tuple(trained(local, client) for client in images.clients(HOMOGENEITY, CLIENTS, seed))
    fused = method.fuse(images.server(), w=np.mean(models, axis=0), models=models, round=1)
    pooled = Client("all", tensor(images.X, "cpu"), images.y.astype(float))
    each = [tested(w) for w in models]
    return {
        BEST: max(each),
        MEAN: float(np.mean(each)),
        DISTILLED: tested(fused),
        POOLED: tested(trained(replace(local, epochs=1 if quick else POOLED_EPOCHS), pooled)),
    }


def claims(every: Sequence[Found], quick: bool) -> list[tuple[str, Verdict]]:
    """The rules were written before the first run; a claim holds if it holds in every seed."""

    def of(*names: str) -> str:
        return "; ".join(f"{name}: " + ", ".join(f"{one[name]:.3f}" for one in every) for name in names)

    poor = all(one[BEST] <= one[POOLED] / 2 for one in every)
    needed = all(one[DISTILLED] < SUCCESS or one[DISTILLED] <= 2 * one[BEST] for one in every)
    return [
        (
            "FedAvg's local models after the first round: the best is at most half as accurate as one of pooled rows",
            stated(poor, of(BEST, MEAN, POOLED), quick),
        ),
        (
            "no network distilled from local models has 0.5 and more than twice the accuracy of the best of them",
            stated(needed, of(BEST, DISTILLED), quick),
        ),
    ]


@experiment(
    "ffgb-settings-local",
    paper=PAPER,
    place="Section 6.1",
    title="Local models, and the network that is distilled from them",
    takes="1 min",
    seeds=5,
)
def local_models(seeds: Seeds, quick: bool) -> Result:
    """The problem of ffgb-distilling, one round of FedAvg-Distill."""
    every = [measured(seed, quick) for seed in seeds]
    return Result(
        columns=(Column("network"), Column("accuracy", "{:.3f}".format)),
        rows=[(name, Measured(tuple(one[name] for one in every))) for name in every[0]],
        claims=claims(every, quick),
        notes=(
            f"{CLIENTS} clients of 100 MNIST digits, s = {HOMOGENEITY:g}, {ROWS:,} public rows, an MLP with 64 units, "
            f"as in ffgb-distilling; {EPOCHS} local epochs of SGD with {STEP:g}, batches of {BATCH}, distillation by "
            f"Lin et al.'s loss. Pooled: {POOLED_EPOCHS} epochs of the same SGD on all rows.",
        ),
    )
