"""Section 6 of Shen et al. (2022): whether the algorithms and networks of our full Table 2 are those it describes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from fedsolve.algorithms import FedAvg, FedDyn
from fedsolve.algorithms.fedavg_distill import FedAvgDistill
from fedsolve.algorithms.ffgb_distill import FFGBDistill
from fedsolve.local import Adam, GradientSteps
from fedsolve.losses import Softmax
from fedsolve.losses.network import Network
from fedsolve.networks import CNN, FlipAndCrop
from fedsolve.networks.modules import initial_weights
from fedsolve.reproduce.ffgb import methods
from fedsolve.reproduce.ffgb.images import FULL, Images
from fedsolve.reproduce.result import Verdict

Claims = dict[str, Verdict]


def budgets() -> Claims:
    """Of the algorithms as the full table makes them: what a client and the server run."""
    loss = Network(CNN((3, 32, 32)), Softmax(classes=10))
    made = {one.name: one.make(loss, 0.1, 1.0) for one in methods.METHODS}
    ours = methods.FFGB.make(loss, methods.FUNCTIONAL[0], 1.0)
    fused, dynamic, plain = made["FedAvg-Distill"], made["FedDyn"], made["FedAvg"]
    assert isinstance(ours, FFGBDistill)
    assert isinstance(fused, FedAvgDistill)
    assert isinstance(dynamic, FedDyn)
    assert isinstance(plain, FedAvg)
    adam, server, sgd = ours.local, ours.distil.local, (dynamic.local, plain.local)
    solvers = (adam, server, fused.local, fused.distil.local, *sgd)
    said = f"{adam}; l2 = {loss.l2:g}"
    return {
        "FFGB-Distill's clients: 100 epochs of Adam, 0.001, batches of 64, no weight decay": Verdict(
            type(adam) is Adam and (adam.epochs, adam.step_size, adam.batch_size) == (100, 0.001, 64) and loss.l2 == 0,
            said,
        ),
        "FFGB-Distill's server: (17) by Adam with the same hyperparameters": Verdict(
            server == adam and ours.distil.match == "outputs",
            f"{server}, {ours.distil.match}",
        ),
        "FFGB-Distill's rate is 10": Verdict(
            ours.step_size == 10 and len(methods.FUNCTIONAL) == 1, f"{ours.step_size:g}"
        ),
        "FedAvg-Distill's clients: 100 epochs, as FFGB-Distill's": Verdict(
            isinstance(fused.local, GradientSteps) and fused.local.epochs == adam.epochs == 100,
            str(fused.local),
        ),
        "FedDyn's and FedAvg's clients: 10 epochs of SGD, batches of 64": Verdict(
            all(type(one) is GradientSteps and (one.epochs, one.batch_size) == (10, 64) for one in sgd),
            f"{sgd[0]}; {sgd[1]}",
        ),
        "step sizes of SGD are chosen from 0, 0.01, 0.05 and 0.1; 0, which learns nothing, is left out": Verdict(
            all({0.0, *one.step_sizes} == {0.0, 0.01, 0.05, 0.1} for one in methods.METHODS if one is not methods.FFGB),
            ", ".join(f"{one:g}" for one in methods.STEP_SIZES),
        ),
        "all clients and servers clip gradients to norm 5": Verdict(
            all(getattr(one, "clip", None) == 5 for one in solvers),
            ", ".join(f"{getattr(one, 'clip', None)}" for one in solvers),
        ),
    }


def networks(every: Mapping[str, Images]) -> Claims:
    """Weights by hand, and what is augmented."""
    wanted = {
        "cifar10": conv(3) + dense((64 * 25, 394, 192, 10)),
        "cifar100": conv(3) + dense((64 * 25, 394, 192, 100)),
        "emnist-d": conv(1) + dense((64 * 16, 120, 84, 10)),
        "emnist-l": conv(1) + dense((64 * 16, 120, 84, 26)),
    }
    counts = {
        name: len(initial_weights(one.architecture, one.X.shape[1], one.classes, 0)) for name, one in every.items()
    }
    change = FlipAndCrop()
    changed = {name: one.augmented for name, one in every.items()}
    return {
        "2 layers of 64 filters of 5 × 5, 394 and 192 units (CIFAR), 120 and 84 (EMNIST): weights by hand": Verdict(
            counts == wanted,
            ", ".join(f"{name} {count:,}" for name, count in counts.items()),
        ),
        "CIFAR images are flipped and cropped with a padding of 4, EMNIST's are not changed": Verdict(
            changed == {name: name.startswith("cifar") for name in FULL} and change.flip and change.padding == 4,
            ", ".join(f"{name}: {one}" for name, one in changed.items()),
        ),
    }


def conv(channels: int) -> int:
    """Weights of both convolutions."""
    return 64 * (25 * channels + 1) + 64 * (25 * 64 + 1)


def dense(sizes: tuple[int, ...]) -> int:
    return sum(b * (a + 1) for a, b in pairwise(sizes))
