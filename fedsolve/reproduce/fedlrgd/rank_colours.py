"""Jadbabaie et al. (2023), Appendix C, CIFAR-10: another architecture, batch size and number of epochs, in small.

The paper's network takes 15 to 40 minutes of a core. Here both convolutions have 6 filters for 40, and the hidden layer
30 units for 150, itself a change of the hidden layers; with ReLU units, with which the 10,000 images at hand are
learned.
"""

from __future__ import annotations

from fedsolve.diagnose import GradientRanks, gradient_ranks
from fedsolve.reproduce.claims import stated
from fedsolve.reproduce.fedlrgd.networks import BATCH, CLASSES, Images, Trained, Training, cnn, images, train
from fedsolve.reproduce.fedlrgd.rank_claims import LEARNED, PRINTED
from fedsolve.reproduce.fedlrgd.rank_settings import COORDINATES, SMALLEST
from fedsolve.reproduce.fedlrgd.rank_variants import gradients
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Cell, Column, Measured, Result, Verdict

FILTERS, HIDDEN, EPOCHS, LEAST, BOUND = (6, 6), 30, 16, 0.95, 10
SMALL = cnn("relu", FILTERS, HIDDEN)
TRAININGS = {
    "hidden layers": Training("cifar10", SMALL, epochs=EPOCHS),
    "batches": Training("cifar10", SMALL, epochs=EPOCHS // 2, batch=BATCH // 2),
    "epochs": Training("cifar10", SMALL, epochs=3 * EPOCHS // 2),
}
CLAIMS = {
    "hidden layers": "CIFAR-10, 6 filters and 30 units: at least 95% of the ranks are at most 10, as for 2d",
    "batches": "… and batches of 100 instead of 200",
    "epochs": "… and half as many epochs more",
}
SIZES = "CIFAR-10: images of 32 × 32 × 3 in [0, 1], d = 3082 ≪ 50,000 ≪ p = 1,553,220 (tenfold each)"
IMAGES = 50_000  # n as printed


@experiment(
    "fedlrgd-rank-colours",
    paper="FedLRGD",
    place="Appendix C",
    title="Approximate rank with other hidden layers, batches and epochs, CIFAR-10",
    takes="2 min",
    seeds=1,
)
def colours(seeds: Seeds, quick: bool) -> Result:
    """Three trainings of a small network."""
    given = images("cifar10")
    if quick:
        given = Images(given.X[:400], given.y[:400], given.X_test[:200], given.y_test[:200])
    found: dict[str, list[tuple[GradientRanks, Trained]]] = {name: [] for name in TRAININGS}
    for seed, name in seeds.over(TRAININGS):
        made = train(TRAININGS[name], given, seed)
        source = gradients(TRAININGS[name], given, made)
        ranks = gradient_ranks(source, 8 if quick else 60, coordinates=COORDINATES, smallest=SMALLEST, seed=seed)
        found[name].append((ranks, made))
    return Result(
        columns=(
            Column("what is changed"),
            Column("test accuracy", "{:.3f}".format),
            Column("median rank", "{:.0f}".format),
            Column("largest", "{:.0f}".format),
            Column("≤ 6", "{:.1%}".format),
            Column("≤ 10", "{:.1%}".format),
        ),
        rows=[_row(name, parts) for name, parts in found.items()],
        claims=[*((CLAIMS[name], judged(parts, quick)) for name, parts in found.items()), sizes(given)],
        notes=(
            f"CIFAR-10, two convolutions of {FILTERS[0]} filters, {HIDDEN} units, ReLU, Adam, {EPOCHS} epochs of the "
            f"10,000 images at hand, batches of {BATCH}, k = 60, unless a row says otherwise.",
            f"Below a test accuracy of {LEARNED:.0%} there is no verdict.",
        ),
    )


def _row(name: str, parts: list[tuple[GradientRanks, Trained]]) -> tuple[Cell, ...]:
    return (
        name,
        Measured(tuple(made.test_accuracy for _, made in parts)),
        Measured(tuple(float(ranks.median) for ranks, _ in parts)),
        Measured(tuple(float(ranks.largest) for ranks, _ in parts)),
        *(Measured(tuple(ranks.at_most(most) for ranks, _ in parts)) for most in (6, BOUND)),
    )


def judged(parts: list[tuple[GradientRanks, Trained]], quick: bool) -> Verdict:
    """By the worst seed; open if a network has not learned."""
    shares, worst = [ranks.at_most(BOUND) for ranks, _ in parts], min(made.test_accuracy for _, made in parts)
    said = ", ".join(f"{one:.1%}" for one in shares) + f", test accuracy {worst:.1%}"
    return (
        Verdict(None, f"{said}: it has not learned") if worst < LEARNED else stated(min(shares) >= LEAST, said, quick)
    )


def sizes(given: Images) -> tuple[str, Verdict]:
    """d and p as counted, with the paper's n between them."""
    pixels = given.X.shape[1]
    d = pixels + CLASSES
    p = sum(one.numel() for one in cnn().build(pixels, CLASSES).parameters())
    inside = float(given.X.min()) >= 0 and float(given.X.max()) <= 1
    holds = inside and (d, p) == (3082, PRINTED[3072]) and 10 * d <= IMAGES <= p / 10
    return SIZES, Verdict(holds, f"d = {d}, p = {p:,}")
