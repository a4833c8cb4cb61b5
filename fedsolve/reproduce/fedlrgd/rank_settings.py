"""The settings of Figures 1 and 2 of Jadbabaie et al. (2023), and what the paper says of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsolve.reproduce.fedlrgd.networks import Training, cnn, mlp

BEYOND = "beyond the paper"
SMALLEST = 0.005  # |θ*_q| of a weight that is "non-trivial"
COORDINATES = 500  # "around 500 randomly and uniformly chosen"

BASE = Training("mnist", mlp(784))
# The paper makes 15 epochs of 50,000 images, 3,750 steps; of the 10,000 images at hand that takes 75 epochs.
COLOUR = Training("cifar10", cnn(), epochs=75)


@dataclass(frozen=True)
class Setting:
    """One histogram.

    training   the network whose gradients are looked at
    about      the network, in words
    said       what the paper says of the ranks
    k          samples, and perturbed parameters
    every      whether all weights are looked at, not only the non-trivial ones
    wider      by what equation 75's perturbations are multiplied
    equal      whether the gradients of all samples are scaled to one norm
    bound      the rank that the paper says is not exceeded, but for few
    least      the share of ranks within the bound that we take this to mean; None: the paper has no such histogram
    """

    training: Training
    about: str
    said: str
    k: int = 60
    every: bool = False
    wider: float = 1.0
    equal: bool = False
    bound: int = 10
    least: float | None = 0.95


_FIRST = Setting(BASE, "784 sigmoid, Adam", "almost all ≤ 10, about half ≤ 5")
_SECOND = Setting(COLOUR, "CNN sigmoid, Adam", "almost all ≤ 6", bound=6)

SETTINGS = {
    "1a": replace(_FIRST, k=30, said="as 1b"),
    "1b": _FIRST,
    "1c": replace(_FIRST, k=90, said="as 1b"),
    "1b-wider": replace(_FIRST, wider=2.0, about="784 sigmoid, Adam; perturbations doubled", said=BEYOND, least=None),
    "1b-equal": replace(_FIRST, equal=True, about="784 sigmoid, Adam; samples of one norm", said=BEYOND, least=None),
    "1d": replace(_FIRST, every=True, said="all reasonably small"),
    "1e": replace(_FIRST, training=replace(BASE, architecture=mlp(500)), about="500 sigmoid, Adam", said="as 1b"),
    "1f": replace(_FIRST, training=replace(BASE, architecture=mlp(1000)), about="1000 sigmoid, Adam", said="as 1b"),
    "1g": replace(_FIRST, training=replace(BASE, optimiser="RMSprop"), about="784 sigmoid, RMSprop", said="as 1b"),
    "1h": replace(
        _FIRST,
        training=replace(BASE, architecture=mlp(784, 784)),
        about="784, 784 sigmoid, Adam",
        said="the bulk ≤ 10",
        least=0.8,
    ),
    "1i": replace(
        _FIRST,
        training=replace(BASE, architecture=mlp(784, activation="relu")),
        about="784 ReLU, Adam",
        said="as 1b",
    ),
    "2a": replace(_SECOND, k=30, said="as 2b"),
    "2b": _SECOND,
    "2c": replace(_SECOND, training=replace(COLOUR, optimiser="RMSprop"), about="CNN sigmoid, RMSprop", said="as 2b"),
    "2d": replace(_SECOND, training=replace(COLOUR, architecture=cnn("relu")), about="CNN ReLU, Adam", said="as 2b"),
}
USUAL = ("1a", "1b", "1b-wider", "1b-equal", "1c", "1d")  # one network, on a CPU


def shortened(setting: Setting) -> Setting:
    """A setting to try the experiment with: one epoch, and few samples."""
    return replace(setting, training=replace(setting.training, epochs=1), k=8)
