"""`ffgb-wider`: statements of Shen et al. (2022) that one favourable setting had left untested."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.ffgb import rules_drift as drift
from fedsolve.reproduce.ffgb import rules_halves as halves
from fedsolve.reproduce.ffgb import rules_unit as unit
from fedsolve.reproduce.ffgb.judging import Found, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CHECKS = (*drift.CHECKS, *unit.CHECKS, *halves.CHECKS)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    found = Found()
    drift.measure(np.random.default_rng([seed, 211]), found)
    unit.measure(np.random.default_rng([seed, 223]), found)
    halves.measure(found)
    return found.worst


@experiment(
    "ffgb-wider",
    paper=PAPER,
    place="Sections 1.1 and 4.2, Appendices E and F",
    title="FedProx and Mime with equal local work; Appendix F in other units; halves of sentences",
    takes="30 s",
)
def wider(seeds: Seeds, quick: bool) -> Result:
    """Settings beyond those of `ffgb-sentences` and `ffgb-square-proof`."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            "FedProx and Mime: least squares, 4 clients, 30 weights, unequal curvatures and solutions, 5 local steps "
            "of 0.1, 20 of 0.1 and 20 of 0.02; for the ratio 2K/(K − 1) 5 and 20 with ηK = 0.01. Where FedAvg and "
            "FedProx end is a closed form. Mime and MimeLite, written out here: momentum of 0.9, 500 rounds.",
            "Units of x: inputs times 1, 10, 100 and 1,000 and L divided by it, γ = 1, f⁰ = 0, T to 4,096; two points, "
            "K = 1, also T = 1e12 in closed form, and 5 clients with 4 points each in the plane, K = 1 and 4.",
        ),
        quick,
    )
