"""Jadbabaie et al. (2023): sentences between the theorems, in sections I to III."""

from __future__ import annotations

from fedsolve.reproduce.fedlrgd import (
    remarks_algorithm,
    remarks_clients,
    remarks_counts,
    remarks_descent,
    remarks_learning,
    remarks_matrices,
    remarks_minimum,
    remarks_nets,
    remarks_scaling,
    remarks_secrets,
    remarks_smoothness,
    remarks_times,
    remarks_units,
    remarks_wide,
)
from fedsolve.reproduce.fedlrgd.two_sided import judged_by
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

MODULES = (
    remarks_learning,
    remarks_secrets,
    remarks_descent,
    remarks_minimum,
    remarks_smoothness,
    remarks_units,
    remarks_matrices,
    remarks_times,
    remarks_algorithm,
    remarks_clients,
    remarks_counts,
    remarks_wide,
    remarks_scaling,
    remarks_nets,
)
CHECKS = tuple(check for module in MODULES for check in module.CHECKS)


@experiment(
    "fedlrgd-remarks",
    paper="FedLRGD",
    place="Sections I to III",
    title="Sentences between the theorems",
    takes="20 s",
)
def remarks(seeds: Seeds, quick: bool) -> Result:
    """On draws, small runs and counts; the quick form is the same with one seed."""
    found = []
    for seed in seeds:
        here: dict[str, float] = {}
        for module in MODULES:
            here |= module.measured(seed)
        found.append(here)
    return judged_by(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed. “Of the bound” is the largest share of a bound that was found.",
            "c(ϑ)|x − ϑ|^η, c = ±1 at random, is exactly as smooth in x as η says and not continuous in ϑ.",
            "Algorithm 1 is run by the library where messages are counted, and by (35) and (41) in NumPy where many "
            "probes and starts are drawn.",
        ),
        quick,
    )
