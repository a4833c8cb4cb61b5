"""Jadbabaie et al. (2023), Appendix C: what is said not to change the low rank, changed.

Batch size, epochs, the share of the norm that a rank captures, the threshold below which a weight is left out, and the
loss. All on MNIST with 784 sigmoid units, k = 60, beside Figure 1b.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedsolve.diagnose import GradientRanks, ModuleGradients, gradient_ranks
from fedsolve.networks.library import torch_library
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.fedlrgd.networks import BATCH, CLASSES, Images, Trained, Training, images, train
from fedsolve.reproduce.fedlrgd.rank_settings import BASE, COORDINATES, SMALLEST
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

FEWER = replace(BASE, epochs=15)
TRAININGS = {
    "15 epochs": FEWER,
    "15 epochs, batches of 400": replace(FEWER, batch=400),
    "15 epochs, squared loss": replace(FEWER, loss="squared"),
}
SHARES, THRESHOLDS = (0.85, 0.95), (0.001, 0.01)  # instead of 90 % and of 0.005
LEAST, BOUND, LEARNED = 0.95, 10, 0.9
CLAIMS = {
    "15 epochs": "15 epochs instead of 25: at least 95% of the ranks are at most 10",
    "15 epochs, batches of 400": "batches of 400 instead of 200: at least 95% of the ranks are at most 10",
    "share 85 %": "ranks that capture 85 % of the squared norm: at least 95% are at most 10",
    "share 95 %": "ranks that capture 95 % of the squared norm: at least 95% are at most 10",
    "|θ*| ≥ 0.001": "weights from 0.001 on: at least 95% of the ranks are at most 10",
    "|θ*| ≥ 0.01": "weights from 0.01 on: at least 95% of the ranks are at most 10",
    "15 epochs, squared loss": "a squared loss instead of the cross-entropy: at least 95% of the ranks are at most 10",
}
SIZES = "MNIST: n = 60,000, 10,000 test images of 28 × 28 pixels in [0, 1]; d = 794 ≪ n ≪ p = 623,290 (tenfold each)"


@experiment(
    "fedlrgd-rank-variants",
    paper="FedLRGD",
    place="Appendix C",
    title="Approximate rank with other batches, epochs, thresholds and losses",
    takes="5 min",
    seeds=1,
)
def variants(seeds: Seeds, quick: bool) -> Result:
    """Three networks; on the gradients of the first also other shares and thresholds."""
    given = images("mnist")
    if quick:
        given = Images(given.X[:2000], given.y[:2000], given.X_test[:500], given.y_test[:500])
    found: dict[str, list[tuple[GradientRanks, Trained]]] = {}
    for seed, name in seeds.over(TRAININGS):
        what = replace(TRAININGS[name], epochs=1) if quick else TRAININGS[name]
        made = train(what, given, seed)
        for variant, ranks in _ranks(name, what, given, made, 8 if quick else 60, seed):
            found.setdefault(variant, []).append((ranks, made))
    return Result(
        columns=(
            Column("what is changed"),
            Column("test accuracy", "{:.3f}".format),
            Column("median rank", "{:.0f}".format),
            Column("largest", "{:.0f}".format),
            Column("≤ 5", "{:.1%}".format),
            Column("≤ 10", "{:.1%}".format),
        ),
        rows=[_row(name, found[name]) for name in CLAIMS],
        claims=[*((said, _verdict(found[name], quick)) for name, said in CLAIMS.items()), _sizes(given, quick)],
        notes=(
            f"MNIST, 784 sigmoid units, Adam, batches of {BATCH}, k = 60, {COORDINATES} coordinates with |θ*| ≥ "
            f"{SMALLEST}, unless a row says otherwise. Shares and thresholds are those of the network with 15 epochs.",
            "The squared loss is the squared distance of the softmax from the label's unit vector.",
            "“Almost all ranks are at most 10” is read as 95 %, as for Figure 1b. Below a test accuracy of 90 % there "
            "is no verdict.",
        ),
    )


def _ranks(
    name: str, what: Training, given: Images, made: Trained, k: int, seed: int
) -> Iterator[tuple[str, GradientRanks]]:
    """Of a network; of the first one with all shares and thresholds."""
    options: dict[str, dict[str, float]] = {name: {"smallest": SMALLEST}}
    if name == "15 epochs":
        options |= {f"share {100 * share:.0f} %": {"smallest": SMALLEST, "share": share} for share in SHARES}
        options |= {f"|θ*| ≥ {least}": {"smallest": least} for least in THRESHOLDS}
    source = gradients(what, given, made)
    for variant, chosen in options.items():
        yield variant, gradient_ranks(source, k, coordinates=COORDINATES, seed=seed, **chosen)  # type: ignore[arg-type]


def gradients(what: Training, given: Images, made: Trained) -> ModuleGradients:
    """The test images under the trained network, with the loss that it was trained with."""
    torch = torch_library()
    module = what.architecture.build(given.X.shape[1], CLASSES)
    torch.nn.utils.vector_to_parameters(torch.as_tensor(made.w), module.parameters())
    return ModuleGradients(module, what.loss_function, given.X_test, given.y_test)


def _row(name: str, parts: list[tuple[GradientRanks, Trained]]) -> tuple[Cell, ...]:
    def each(measure: object) -> Measured:
        assert callable(measure)
        return Measured(tuple(float(measure(ranks)) for ranks, _ in parts))

    return (
        name,
        Measured(tuple(made.test_accuracy for _, made in parts)),
        each(lambda one: one.median),
        each(lambda one: one.largest),
        each(lambda one: one.at_most(5)),
        each(lambda one: one.at_most(BOUND)),
    )


def _verdict(parts: list[tuple[GradientRanks, Trained]], quick: bool) -> Verdict:
    shares = [ranks.at_most(BOUND) for ranks, _ in parts]
    worst = min(made.test_accuracy for _, made in parts)
    said = ", ".join(f"{one:.1%}" for one in shares) + f" (largest rank {max(ranks.largest for ranks, _ in parts)})"
    if worst < LEARNED:
        return Verdict(None, f"{said}, but the network has not learned: test accuracy {worst:.1%}")
    return stated(min(shares) >= LEAST, said, quick)


def _sizes(given: Images, quick: bool) -> tuple[str, Verdict]:
    n, d = len(given.y), given.X.shape[1] + CLASSES
    p = sum(one.numel() for one in BASE.architecture.build(given.X.shape[1], CLASSES).parameters())
    inside = float(np.min(given.X)) >= 0 and float(np.max(given.X)) <= 1
    holds = inside and (n, len(given.y_test), d, p) == (60_000, 10_000, 794, 623_290) and 10 * d <= n <= p / 10
    return SIZES, stated(holds, f"d = {d}, n = {n:,} and {len(given.y_test):,} test images, p = {p:,}", quick)
