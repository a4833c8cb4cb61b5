"""`ffgb-motives`: base classes on one machine (Section 1), and a round of Appendix D as printed (Shen et al. 2022)."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.ffgb import rules_classes as classes
from fedsolve.reproduce.ffgb import rules_rounds as rounds
from fedsolve.reproduce.ffgb.judging import Found, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CHECKS = (*classes.CHECKS, *rounds.CHECKS)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    found = Found()
    classes.measure(seed, found)
    rounds.measure(np.random.default_rng([seed, 227]), found)
    return found.worst


@experiment(
    "ffgb-motives",
    paper=PAPER,
    place="Section 1, Appendix D",
    title="Boosting over three base classes on one machine; a round of Appendix D as printed",
    takes="2 min",
)
def motives(seeds: Seeds, quick: bool) -> Result:
    """What a reader asked for beside `ffgb-sentences` and `ffgb-proofs`."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            "Classes: squared loss, one client, K = 1; 200 rows of 3 inputs and 2,000 new ones, noise of 0.3; η = 0.3, "
            "100 stages of stumps and of ridge fits (l2 = 0.001), 15 of networks with 2 hidden units. The best single "
            "member is a fit to the labels, of networks the best of five on new rows.",
            "A round: 5 clients, 12 points, unequal inputs, logistic loss, T = 6, h = γφ and errors as large as (10) "
            "and (11) allow; μ = 4 to 0.05, γ = 0.7 to 0.05, K = 1 to 16, and for the exponent in 1/μ 0.005 to 5e-6.",
        ),
        quick,
    )
