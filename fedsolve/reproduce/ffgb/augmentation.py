"""Shen et al. (2022), section 6: what flipping and cropping does where a network is trained long, on pooled images."""

from __future__ import annotations

from fedsolve.algorithms.fedavg import FedAvg
from fedsolve.federation.client import Client
from fedsolve.local import Adam
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.networks import FlipAndCrop
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.ffgb.choices import small_cifar
from fedsolve.reproduce.ffgb.images import tensor
from fedsolve.reproduce.ffgb.methods import BATCH, PAPER
from fedsolve.reproduce.ffgb.traces import Arena
from fedsolve.reproduce.figures import draw_curves, over_rounds
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result

ROUNDS, EPOCHS = 6, 10
NAMES = {"without": None, "with": FlipAndCrop(padding=2)}


def followed(seed: int, quick: bool) -> dict[str, tuple[float, ...]]:
    """The test accuracy after every 10 epochs of Adam on all rows, with and without augmentation."""
    images, found = small_cifar(seed), {}
    pooled = Client("all", tensor(images.X, "cpu"), images.y.astype(float))
    arena = Arena([pooled], images.server(), images.X_test, images.y_test, seed)
    for name, change in NAMES.items():
        loss = Network(images.architecture, Softmax(classes=images.classes), augmentation=change)
        local = Adam(epochs=1 if quick else EPOCHS, batch_size=BATCH)
        found[name] = arena.follow(FedAvg(loss, local), 1 if quick else ROUNDS)[0].accuracies
    return found


@experiment(
    "ffgb-augmentation",
    paper=PAPER,
    place="Section 6",
    title="Flipping and cropping, on pooled images",
    takes="4 min",
    seeds=2,
)
def augmentation(seeds: Seeds, quick: bool) -> Result:
    """One client with all rows; the rule was written before the first run."""
    every = [followed(seed, quick) for seed in seeds]
    gains = [one["with"][-1] - one["without"][-1] for one in every]
    said = "; ".join(f"{name}: " + ", ".join(f"{one[name][-1]:.3f}" for one in every) for name in NAMES)
    claim = f"pooled images: after {ROUNDS * EPOCHS} epochs flipping and cropping gain at least 0.05"
    return Result(
        columns=(Column("augmentation"), Column("best", "{:.3f}".format), Column("at the end", "{:.3f}".format)),
        rows=[
            (
                name,
                Measured(tuple(max(one[name]) for one in every)),
                Measured(tuple(one[name][-1] for one in every)),
            )
            for name in NAMES
        ],
        claims=[(claim, stated(min(gains) >= 0.05, said, quick))],
        notes=("The images and the network of ffgb-choices, at one client; Adam, batches of 64.",),
        draw=lambda figure: draw_curves(
            figure.subplots(), {name: over_rounds([one[name] for one in every]) for name in NAMES}, log=False
        ),
    )
