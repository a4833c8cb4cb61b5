"""Jadbabaie et al. (2023), Appendix C: two other smooth losses beside the cross-entropy, on the same digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedsolve.diagnose import GradientRanks, gradient_ranks
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fedlrgd.networks import BATCH, Images, Trained, images, train
from fedsolve.reproduce.fedlrgd.rank_claims import ALIKE, NOT_MUCH
from fedsolve.reproduce.fedlrgd.rank_settings import BASE, COORDINATES, SMALLEST
from fedsolve.reproduce.fedlrgd.rank_variants import BOUND, LEARNED, LEAST, gradients
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Measured, Result, Verdict

USUAL = "cross-entropy"
TRAININGS = {
    USUAL: replace(BASE, epochs=6),
    "squared": replace(BASE, epochs=6, loss="squared"),
    "logistic": replace(BASE, epochs=6, loss="logistic"),
}
WORDS = {"squared": "a squared loss", "logistic": "a logistic loss of each class"}
K = 60
Found = dict[str, list[tuple[GradientRanks, Trained]]]


@experiment(
    "fedlrgd-rank-losses",
    paper="FedLRGD",
    place="Appendix C",
    title="Approximate rank with other smooth losses, beside the cross-entropy",
    takes="3 min",
    seeds=3,
)
def losses(seeds: Seeds, quick: bool) -> Result:
    """Three trainings of a seed from the same initial weights, with the same batches, samples and perturbations."""
    given = images("mnist")
    if quick:
        given = Images(given.X[:2000], given.y[:2000], given.X_test[:500], given.y_test[:500])
    found: Found = {name: [] for name in TRAININGS}
    for seed, name in seeds.over(TRAININGS):
        made = train(TRAININGS[name], given, seed)
        source = gradients(TRAININGS[name], given, made)
        ranks = gradient_ranks(source, 8 if quick else K, coordinates=COORDINATES, smallest=SMALLEST, seed=seed)
        found[name].append((ranks, made))
    random = random_ranks(K)
    return Result(
        columns=(
            Column("loss"),
            Column("test accuracy", "{:.3f}".format),
            Column("median rank", "{:.0f}".format),
            Column("largest", "{:.0f}".format),
            Column("≤ 5", "{:.1%}".format),
            Column("≤ 10", "{:.1%}".format),
        ),
        rows=[
            (
                name,
                Measured(tuple(made.test_accuracy for _, made in parts)),
                Measured(tuple(float(ranks.median) for ranks, _ in parts)),
                Measured(tuple(float(ranks.largest) for ranks, _ in parts)),
                *(Measured(tuple(ranks.at_most(most) for ranks, _ in parts)) for most in (5, BOUND)),
            )
            for name, parts in found.items()
        ],
        claims=[*judged(found, quick), by_chance(random)],
        notes=(
            f"MNIST, 784 sigmoid units, Adam, 6 epochs, batches of {BATCH}, k = {K}, {COORDINATES} coordinates with "
            f"|θ*| ≥ {SMALLEST}.",
            "The squared loss is the squared distance of the softmax from the label's unit vector; the logistic one "
            "adds up a logistic regression of each class against the others.",
            "A claim holds if it holds in every seed. Below a test accuracy of 90 % there is no verdict.",
        ),
    )


def judged(found: Found, quick: bool) -> list[tuple[str, Verdict]]:
    """Each loss by itself, then beside the cross-entropy of the same seed."""
    claims, usual = Claims(quick), found[USUAL]
    for name, words in WORDS.items():
        parts = found[name]
        shares = [ranks.at_most(BOUND) for ranks, _ in parts]
        apart = [
            abs(one.at_most(BOUND) - other.at_most(BOUND)) for (one, _), (other, _) in zip(parts, usual, strict=True)
        ]
        medians = [(one.median, other.median) for (one, _), (other, _) in zip(parts, usual, strict=True)]
        claims.add(
            f"{words}: at least 95% of the ranks are at most 10",
            min(shares) >= LEAST,
            ", ".join(f"{one:.1%}" for one in shares),
        )
        claims.add(
            f"{words}: the share of ranks within 10 differs from the cross-entropy's by at most 5 points",
            max(apart) <= ALIKE,
            ", ".join(f"{100 * one:.1f}" for one in apart) + " points",
        )
        claims.add(
            f"{words}: the median rank is at most {NOT_MUCH} times the cross-entropy's, and at least half of it",
            all(max(pair) <= NOT_MUCH * min(pair) for pair in medians),
            ", ".join(f"{one:g} against {other:g}" for one, other in medians),
        )
    worst = min(made.test_accuracy for parts in found.values() for _, made in parts)
    if worst < LEARNED:
        return [(claim, Verdict(None, f"{one.said}, but a network has not learned")) for claim, one in claims.found]
    return claims.found


def random_ranks(k: int, count: int = 200) -> list[int]:
    """The approximate ranks (77) of matrices of independent Gaussian entries."""
    rng, found = np.random.default_rng(0), []
    for _ in range(count):
        squares = np.square(np.linalg.svd(rng.standard_normal((k, k)), compute_uv=False))
        found.append(int(np.searchsorted(np.cumsum(squares), 0.9 * squares.sum())) + 1)
    return found


def by_chance(ranks: list[int]) -> tuple[str, Verdict]:
    """What a rank of at most 10 is worth: matrices without structure do not have it."""
    return "Gaussian matrices, k = 60: none has a rank of at most 10", Verdict(
        min(ranks) > BOUND, f"{min(ranks)} to {max(ranks)}"
    )
