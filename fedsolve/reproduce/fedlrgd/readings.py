"""Jadbabaie et al. (2023): what sentences on other papers and on practice say that can be computed."""

from __future__ import annotations

from fedsolve.reproduce.fedlrgd import (
    readings_low_rank,
    readings_methods,
    readings_monomials,
    readings_networks,
    readings_stragglers,
    readings_weights,
)
from fedsolve.reproduce.fedlrgd.two_sided import judged_by
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Result

MODULES = (
    readings_networks,
    readings_weights,
    readings_monomials,
    readings_low_rank,
    readings_stragglers,
    readings_methods,
)
CHECKS = tuple(check for module in MODULES for check in module.CHECKS)


@experiment(
    "fedlrgd-readings",
    paper="FedLRGD",
    place="Sections I to III, Appendix C",
    title="What sentences on other papers and on practice say that can be computed",
    takes="65 s",
    seeds=3,
)
def readings(seeds: Seeds, quick: bool) -> Result:
    """Small networks, partitions and methods; the quick form has one seed and shorter training."""
    found = []
    for seed in seeds:
        here: dict[str, float] = {}
        for module in MODULES:
            here |= module.measured(seed, quick)
        found.append(here)
    return judged_by(
        CHECKS,
        found,
        (
            "A claim holds if it holds in every seed.",
            "The networks have 800 to 9,000 parameters and learn scikit-learn's digits of 8 by 8 pixels; what the "
            "paper cites was found for far larger ones.",
        ),
        quick,
    )
