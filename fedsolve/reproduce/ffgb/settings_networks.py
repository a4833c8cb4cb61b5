"""Section 6 of Shen et al. (2022): the printed networks and settings beside those of the papers and the code it names.

Numbers of others are typed in from where they stand: Acar et al. (2020) from their public code, McMahan et al. (2017)
from Section 3 of their paper, the authors' own from the repository that Section 6 prints. No run of ours is in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log10

from fedsolve.reproduce.ffgb.judging import Found, Within

PLACE = "Section 6"


@dataclass(frozen=True)
class Layers:
    """Filters and their width, and units of the fully connected layers between them and the outputs."""

    convolutions: tuple[tuple[int, int], ...]
    hidden: tuple[int, ...]

    def weights(self, channels: int, side: int, classes: int) -> int:
        """Of convolutions without padding, each followed by the maximum of 2 × 2 pixels."""
        count = 0
        for filters, width in self.convolutions:
            count += filters * (width * width * channels + 1)
            channels, side = filters, (side - width + 1) // 2
        sizes = (channels * side * side, *self.hidden, classes)
        return count + sum(b * (a + 1) for a, b in pairwise(sizes))


PRINTED = {
    "CIFAR": Layers(((64, 5), (64, 5)), (394, 192)),
    "EMNIST": Layers(((64, 5), (64, 5)), (120, 84)),
}
# github.com/alpemreacar/FedDyn, utils_models.py, commit be0348b: "cifar10" and "cifar100", which are alike, "emnist"
ACAR = {"CIFAR": Layers(((64, 5), (64, 5)), (384, 192)), "EMNIST": Layers((), (100, 100))}
# McMahan et al., Section 3: two convolutions, two fully connected layers and a linear one for CIFAR; two networks for
# MNIST, of 200 and 200 units and of 32 and 64 filters of 5 × 5 and 512 units
MCMAHAN_CIFAR = (2, 2)
MCMAHAN_WEIGHTS = 1e6
MCMAHAN_DIGITS = (Layers((), (200, 200)), Layers(((32, 5), (64, 5)), (512,)))
# What is printed, and what the authors' code has by default or in an example (commit c841a4d of 27 February 2022)
SETTINGS: dict[str, tuple[object, object]] = {
    "clients": (100, 100),
    "local steps K": (1, 1),
    "rate of FFGB-Distill": (10, 10),
    "Adam's step size": (0.001, 0.001),
    "weight decay of the weak learner": (0, 0),
    "norm at which gradients are clipped": (5, 5),
    "units for EMNIST": ((120, 84), (120, 84)),
    "padding of crops": (4, 4),
    "units for CIFAR": ((394, 192), (384, 192)),
    "epochs of the weak learner": (100, 120),
    "batches of the weak learner": (64, 50),
    "epochs of the distillation": (100, 10),
    "local epochs of FedAvg-Distill": (100, 50),
    "local epochs of FedDyn (default, example)": ((10,), (5, 20)),
    "the shared rows": ("at random", "the first of the file"),
}

CIFAR = Within(
    PLACE,
    "of the 6 numbers of the printed network for CIFAR, those of Acar et al.'s code",
    most=6.0,
    give=0.0,
    words="{} of 6",
)
OWN_CODE = Within(
    PLACE,
    "… of the network with the 384 units of the authors' code, those of Acar et al.'s code",
    most=6.0,
    give=0.0,
    words="{} of 6",
)
EMNIST = Within(
    PLACE,
    "of the 6 numbers of the printed network for EMNIST, those of Acar et al.'s code",
    most=6.0,
    give=0.0,
    words="{} of 6",
)
KINDS = Within(
    PLACE,
    "of convolutions and fully connected layers for CIFAR, those numbers that McMahan et al. have",
    most=2.0,
    give=0.0,
    words="{} of 2",
)
WEIGHTS = Within(
    PLACE,
    "McMahan et al.: about 10⁶ weights for CIFAR; the printed network's, as a power of ten",
    most=log10(MCMAHAN_WEIGHTS),
    give=0.5,
    words="10^{}",
)
DIGITS = Within(
    PLACE,
    "of the 6 numbers of the printed network for EMNIST, those of the nearer of McMahan et al.'s two for MNIST",
    most=6.0,
    give=0.0,
    words="{} of 6",
)
CODE = Within(
    PLACE,
    f"of {len(SETTINGS)} printed settings, those that the authors' code has by default or in an example",
    most=float(len(SETTINGS)),
    give=0.0,
    words=f"{{}} of {len(SETTINGS)}",
)
CHECKS = (CIFAR, OWN_CODE, EMNIST, KINDS, WEIGHTS, DIGITS, CODE)


def measure(found: Found) -> None:
    """All comparisons."""
    cifar, emnist = PRINTED["CIFAR"], PRINTED["EMNIST"]
    found.note(CIFAR, same(cifar, ACAR["CIFAR"]))
    found.note(OWN_CODE, same(Layers(cifar.convolutions, (384, 192)), ACAR["CIFAR"]))
    found.note(EMNIST, same(emnist, ACAR["EMNIST"]))
    kinds = (len(cifar.convolutions), len(cifar.hidden))
    found.note(KINDS, float(sum(a == b for a, b in zip(kinds, MCMAHAN_CIFAR, strict=True))))
    found.note(WEIGHTS, log10(cifar.weights(3, 32, 10)))
    found.note(DIGITS, max(same(emnist, other) for other in MCMAHAN_DIGITS))
    found.note(CODE, float(sum(printed == code for printed, code in SETTINGS.values())))


def same(one: Layers, other: Layers) -> float:
    """How many of the first network's numbers the second has at their place."""
    pairs = [
        *zip((n for layer in one.convolutions for n in layer), _flat(other, 2 * len(one.convolutions)), strict=True),
        *zip(one.hidden, (*other.hidden, *(None,) * len(one.hidden)), strict=False),
    ]
    return float(sum(a == b for a, b in pairs))


def _flat(one: Layers, count: int) -> tuple[int | None, ...]:
    """Filters and widths in order, None where there is no such convolution."""
    numbers = tuple(n for layer in one.convolutions for n in layer)
    return (*numbers, *(None,) * count)[:count]
