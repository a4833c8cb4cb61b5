"""SHED, Assumption 2: whether the results for convex costs hold with agents of different sizes, weighted by N_i/N."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.checks import Check, checked
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result
from fedsolve.reproduce.shed import proofs_convex as equal
from fedsolve.reproduce.shed import proofs_rates as rates
from fedsolve.reproduce.shed.small_logistic import Agents

SIZES = (3, 5, 8, 12)  # samples of the four agents
LARGER = (12, 20, 36, 52)  # for Theorem 10
# What each result rests on: checks of `shed-proofs` and `shed-proofs-rates`, whose limits are the same here.
PARTS = {
    "Assumption 1": (equal.CONVEX, equal.SMOOTH, equal.LIPSCHITZ, equal.BY_GRADIENT),
    "Theorem 8": (equal.POSITIVE, equal.GRADIENT),
    "Theorem 9": (equal.SCALED, equal.FLOOR, equal.FIRST_9, equal.SECOND_9, equal.THIRD_9, equal.GAP_9),
    "Lemma 11": (equal.DECREMENT, equal.LEMMA_11, equal.OWN_11),
    "Lemma 12": (
        *(equal.DERIVATIVES, equal.ABOVE, equal.FORTY_NINE, equal.FIFTY, equal.FIFTY_ONE, equal.FIFTY_TWO),
        *(equal.FIFTY_THREE, equal.DECREMENT_BOUND, equal.IMPLIED, equal.ARMIJO),
        *(equal.CLOSE, equal.FIFTY_ITSELF),
    ),
    "Theorem 10-1": (rates.REACHED, rates.BELOW_ONE, rates.STAYS, rates.NOT_LATER, rates.ANY_STEP),
    "Theorem 10-2": (
        *(rates.STEP_43, rates.TRIANGLE, rates.GEOMETRIC, rates.DELAYED, rates.FORTY_FIVE, rates.THIRTY_FIVE),
        *(rates.ABOVE, rates.CHAIN, rates.FOURTH, rates.WEYL, rates.ONE, rates.TWO),
        *(rates.SETTLES, rates.SETTLES_1, rates.SETTLES_2),
    ),
}
CLAIMS = {place: f"unequal agents: {place}" for place in PARTS}
SMOOTHNESS = "K-smoothness of f gives K_i = K N/N_i"
CHECKS = (*(Check(place, claim) for place, claim in CLAIMS.items()), Check("Assumption 1", SMOOTHNESS))


def measured(seed: int) -> dict[str, float]:
    """Of every result the largest share that a step takes of its limit."""
    rng, worst, slow = np.random.default_rng((seed, 33)), equal.Worst(), equal.Worst()
    for mu in equal.MUS:
        equal.followed(Agents(seed, equal.N, len(SIZES), SIZES, mu), rng, worst)
    rates.first_part(Agents(seed, rates.N, len(LARGER), LARGER, rates.STRONG), slow)
    of = Agents(seed, rates.N, len(LARGER), LARGER, rates.MU)
    rates.second_part(of, slow)
    rates.below_the_mean(of, slow)
    limits = {one.claim: one.most for one in (*equal.CHECKS, *rates.CHECKS)}
    shares = {name: value / limits[name] for name, value in (worst.found | slow.found).items()}
    found = {CLAIMS[place]: max(shares[name] for name in names) for place, names in PARTS.items()}
    return found | {SMOOTHNESS: shares[equal.FROM_POOLED]}


@experiment(
    "shed-proofs-unequal",
    paper="SHED",
    place="Assumption 2; Theorems 8 to 10, Lemmas 11 and 12",
    title="Convex costs: the proofs of SHED with agents of different sizes",
    takes="5 s",
)
def proofs(seeds: Seeds, quick: bool) -> Result:
    """The steps of `shed-proofs` and `shed-proofs-rates` with weights N_i/N."""
    notes = (
        f"The problems and the steps of shed-proofs with agents of {', '.join(map(str, SIZES))} samples, and those of "
        f"shed-proofs-rates with agents of {', '.join(map(str, LARGER))} samples; weights N_i/N. A line is the largest "
        "share that one of the steps of a result takes of its limit there: left side over right side of an inequality, "
        "and of an equality the error over what it may be.",
    )
    return checked(CHECKS, [measured(seed) for seed in seeds], notes, quick)
