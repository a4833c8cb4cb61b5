"""Shen et al. (2022): facts inside definitions, remarks on other papers and printed settings that can be false."""

from __future__ import annotations

import numpy as np

from fedsolve.reproduce.ffgb import settings_division as division
from fedsolve.reproduce.ffgb import settings_networks as networks
from fedsolve.reproduce.ffgb import settings_others as others
from fedsolve.reproduce.ffgb import settings_rounds as rounds
from fedsolve.reproduce.ffgb import settings_spaces as spaces
from fedsolve.reproduce.ffgb.judging import Found, table
from fedsolve.reproduce.ffgb.methods import PAPER
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

CHECKS = (*spaces.CHECKS, *others.CHECKS, *networks.CHECKS, *rounds.CHECKS, *division.CHECKS)


def measured(seed: int) -> dict[str, float]:
    """The worst of every check."""
    rng, found = np.random.default_rng([seed, 199]), Found()
    spaces.measure(rng, found)
    others.measure(rng, found)
    networks.measure(found)
    rounds.measure(seed, rng, found)
    division.measure(seed, rng, found)
    return found.worst


@experiment(
    "ffgb-settings",
    paper=PAPER,
    place="Sections 2 to 6",
    title="Facts in definitions, in remarks on other papers and in printed settings",
    takes="20 s",
)
def settings(seeds: Seeds, quick: bool) -> Result:
    """Small exact problems, formulas beside formulas, and printed numbers beside those of others' code."""
    return table(
        CHECKS,
        [measured(seed) for seed in seeds],
        (
            f"{spaces.CLIENTS} clients, {spaces.POINTS} points, logistic loss where nothing else is said. A claim "
            "holds if it holds in every seed; comparisons of printed numbers have no seed.",
            "Li et al. (2019), Theorem 1 and Lemma 5, scheme II: L = 1, μ = 0.5, G = 1, Γ = 0.1, no noise.",
            f"Divisions: {division.ROWS:,} rows of {division.LABELS} labels, {division.CLIENTS} clients.",
            "Networks of Acar et al. from their public code (commit be0348b), of McMahan et al. from their Section 3, "
            "the authors' settings from their own repository (commit c841a4d of 27 February 2022).",
        ),
        quick,
    )
